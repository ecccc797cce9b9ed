//! Pods: metadata, the parts of `spec` that are not shared, and `status`.

use std::sync::Arc;

use serde::{Deserialize, Deserializer};

use super::{
    defaults,
    json::{Amount, List, Map, Text, Time},
    meta::Metadata,
    spec::{Spec, WireResources},
};
use crate::{
    Labels, Pod, PodSpec,
    pod::{ContainerResources, EXTENDED_CLAIM, Phase, PodCondition, PodStatus},
    strings::Interner,
};

/// Types of the conditions that are decoded; all other conditions are skipped.
pub(crate) const CONDITIONS: [&str; 3] = ["PodScheduled", "DisruptionTarget", "PodResizePending"];

#[derive(Debug, Default, Deserialize, Hash)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct WirePod<'a> {
    pub(super) metadata: Option<Metadata<'a>>,
    spec: Option<Spec<'a>>,
    status: Option<Status<'a>>,
}

#[derive(Debug, Default, Deserialize, Hash)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Status<'a> {
    phase: Text<'a>,
    nominated_node_name: Text<'a>,
    #[serde(deserialize_with = "known_conditions")]
    conditions: List<Condition<'a>>,
    start_time: Option<Time>,
    #[serde(deserialize_with = "resized_containers")]
    container_statuses: List<ContainerStatus<'a>>,
    #[serde(deserialize_with = "resized_containers")]
    init_container_statuses: List<ContainerStatus<'a>>,
    resources: Option<WireResources<'a>>,
    allocated_resources: Map<'a, Amount>,
    resource_claim_statuses: List<ClaimStatus<'a>>,
    extended_resource_claim_status: Option<ClaimStatus<'a>>,
}

#[derive(Debug, Default, Deserialize, Hash)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Condition<'a> {
    #[serde(rename = "type")]
    type_: Text<'a>,
    status: Text<'a>,
    reason: Text<'a>,
    message: Text<'a>,
    last_transition_time: Option<Time>,
}

#[derive(Debug, Default, Deserialize, Hash)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct ContainerStatus<'a> {
    name: Text<'a>,
    resources: Option<WireResources<'a>>,
    allocated_resources: Map<'a, Amount>,
}

#[derive(Debug, Default, Deserialize, Hash)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct ClaimStatus<'a> {
    name: Text<'a>,
    resource_claim_name: Text<'a>,
}

fn known_conditions<'de, D: Deserializer<'de>>(deserializer: D) -> Result<List<Condition<'de>>, D::Error> {
    List::read_only(deserializer, |condition: &Condition<'_>| CONDITIONS.contains(&&*condition.type_))
}

/// Reads the statuses of containers that have resources in their status.
fn resized_containers<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<List<ContainerStatus<'de>>, D::Error> {
    List::read_only(deserializer, |container: &ContainerStatus<'_>| {
        container.resources.is_some() || !container.allocated_resources.0.is_empty()
    })
}

impl WirePod<'_> {
    /// Returns the node; empty if there is none.
    pub(super) fn node_name(&self) -> &str {
        self.spec.as_ref().map_or("", |spec| &spec.node_name)
    }

    pub(super) fn into_pod(mut self, interner: &mut Interner, api_defaults: bool) -> Pod {
        let wire_spec = self.spec.take().unwrap_or_default();
        let spec = Arc::new(wire_spec.intern(interner, api_defaults));
        let mut pod = self.with_spec(spec, interner);
        pod.node_name = wire_spec.node_name.intern_some(interner);
        pod.scheduling_gates = wire_spec.scheduling_gates.0.iter().map(|g| g.name.intern(interner)).collect();
        if api_defaults {
            let spec = Arc::make_mut(&mut pod.spec);
            defaults::fill_requests(spec);
            defaults::merge_label_keys(spec, &pod.labels);
            if pod.namespace.is_empty() {
                pod.namespace = interner.intern(defaults::NAMESPACE);
            }
        }
        pod
    }

    /// Returns a pod with this metadata and status and the given spec, without a node and without scheduling gates.
    pub(super) fn with_spec(self, spec: Arc<PodSpec>, interner: &mut Interner) -> Pod {
        let metadata = self.metadata.unwrap_or_default();
        Pod {
            uid: metadata.uid.unshared(),
            namespace: metadata.namespace.intern(interner),
            name: metadata.name.unshared(),
            resource_version: metadata.resource_version.0.unshared(),
            generation: metadata.generation.unwrap_or_default(),
            labels: metadata.labels.labels(interner),
            annotations: metadata.annotations.labels(interner),
            created: metadata.creation_timestamp.map(|at| at.0),
            deleted: metadata.deletion_timestamp.map(|at| at.0),
            controller: metadata.controller(interner),
            node_name: None,
            scheduling_gates: Vec::new(),
            spec,
            status: self.status.unwrap_or_default().intern(interner),
        }
    }
}

impl Status<'_> {
    fn intern(&self, interner: &mut Interner) -> PodStatus {
        let conditions = self.conditions.0.iter();
        let containers = self.container_statuses.0.iter().chain(&self.init_container_statuses.0);
        PodStatus {
            phase: phase(&self.phase),
            nominated_node_name: self.nominated_node_name.intern_some(interner),
            conditions: conditions.map(|c| c.intern(interner)).collect(),
            start_time: self.start_time.map(|at| at.0),
            container_resources: containers.map(|c| c.intern(interner)).collect(),
            pod_level: self.resources.as_ref().map(|resources| ContainerResources {
                requests: Some(resources.requests.resources(interner)),
                allocated: self.allocated_resources.resources(interner),
                ..ContainerResources::default()
            }),
            resource_claims: self.claims(interner),
        }
    }

    fn claims(&self, interner: &mut Interner) -> Labels {
        let own = self.resource_claim_statuses.0.iter();
        let mut claims: Vec<_> =
            own.map(|c| (c.name.intern(interner), c.resource_claim_name.intern(interner))).collect();
        if let Some(extended) = &self.extended_resource_claim_status {
            claims.push((interner.intern(EXTENDED_CLAIM), extended.resource_claim_name.intern(interner)));
        }
        claims.into_iter().collect()
    }
}

impl Condition<'_> {
    fn intern(&self, interner: &mut Interner) -> PodCondition {
        PodCondition {
            type_: self.type_.intern(interner),
            status: self.status.intern(interner),
            reason: self.reason.intern(interner),
            message: self.message.unshared(),
            last_transition: self.last_transition_time.map(|at| at.0),
        }
    }
}

impl ContainerStatus<'_> {
    fn intern(&self, interner: &mut Interner) -> ContainerResources {
        ContainerResources {
            name: self.name.intern(interner),
            requests: self.resources.as_ref().map(|resources| resources.requests.resources(interner)),
            allocated: self.allocated_resources.resources(interner),
        }
    }
}

fn phase(name: &str) -> Phase {
    match name {
        "Running" => Phase::Running,
        "Succeeded" => Phase::Succeeded,
        "Failed" => Phase::Failed,
        "Unknown" => Phase::Unknown,
        _ => Phase::Pending,
    }
}
