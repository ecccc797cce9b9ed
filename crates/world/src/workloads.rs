//! Pods of workloads, as their controllers would create them.

use std::{collections::HashSet, fmt};

use harbormaster_api::{Node, wire::Decoder};
use harbormaster_validation::{
    Kind,
    value::{controller, is_true, name, namespace, number, text, uid},
};
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::{Map, Value, json};

use crate::{
    daemons::{NodeFit, fits, target, tie, tolerate},
    volumes::pod_claims,
};

/// Maximum number of pods per workload. A larger number is assumed to be a typo.
const MAX_PODS: i64 = 1_000_000;

/// Label with which a Deployment tells its ReplicaSets and their pods apart.
pub const TEMPLATE_HASH: &str = "pod-template-hash";

/// Returns a short name for a template or another value, in the letters that Kubernetes uses for generated names. Its own
/// controllers choose other names.
pub fn hash(value: &Value) -> String {
    const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    // FNV-1a, 32 bits.
    let hash = value
        .to_string()
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash.to_string().bytes().map(|digit| char::from(LETTERS[usize::from(digit) % LETTERS.len()])).collect()
}

/// A field of a workload that is out of range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadError {
    /// Path of the field.
    pub field: &'static str,
    /// Description of the mistake.
    pub message: String,
}

impl fmt::Display for WorkloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

impl std::error::Error for WorkloadError {}

/// Returns true for the kinds whose pods this module creates.
pub fn is_workload(kind: &Kind) -> bool {
    let known = [
        "apps/Deployment",
        "apps/ReplicaSet",
        "apps/StatefulSet",
        "apps/DaemonSet",
        "batch/Job",
        "batch/CronJob",
        "/ReplicationController",
    ];
    known.contains(&format!("{}/{}", kind.group, kind.kind).as_str())
}

/// Existing pods.
#[derive(Debug, Default)]
pub struct ExistingPods {
    /// `namespace/name` of all pods.
    names: FxHashSet<String>,
    /// Pods by their owner's key.
    by_owner: FxHashMap<String, Vec<OwnedPod>>,
}

/// A pod with an owner.
#[derive(Debug)]
struct OwnedPod {
    name: String,
    /// Node that the pod runs on or is tied to; empty if there is none.
    node: String,
    created: String,
    is_ending: bool,
}

impl ExistingPods {
    /// Adds a pod.
    pub fn add(&mut self, pod: &Value) {
        self.add_like(
            pod,
            name(pod),
            target(pod).unwrap_or_default(),
            text(pod, "/metadata/creationTimestamp"),
        );
    }

    /// Adds a pod that differs from the given one in its name, the node that it runs on or is tied to, and its time of
    /// creation.
    pub fn add_like(&mut self, pod: &Value, name: &str, node: &str, created: &str) {
        self.names.insert([namespace(pod), "/", name].concat());
        let Some(owner) = controller(pod) else { return };
        let owner = [text(owner, "/kind"), "/", namespace(pod), "/", text(owner, "/name")].concat();
        self.by_owner.entry(owner).or_default().push(OwnedPod {
            name: name.to_owned(),
            node: node.to_owned(),
            created: created.to_owned(),
            is_ending: !text(pod, "/metadata/deletionTimestamp").is_empty(),
        });
    }

    /// Returns true if the owner with the given key has pods.
    pub fn any_of(&self, key: &str) -> bool {
        self.by_owner.contains_key(key)
    }

    fn owned_by(&self, key: &str) -> &[OwnedPod] {
        self.by_owner.get(key).map_or(&[], Vec::as_slice)
    }
}

/// A workload whose pods may have to be created.
#[derive(Debug)]
pub struct Workload {
    /// Kind and name as users see them: `Deployment default/web`.
    pub label: String,
    /// [`key`] of the workload: `Deployment/default/web`.
    pub key: String,
    /// True if the workload comes from a cluster.
    pub is_live: bool,
    /// Position of the workload's manifest in the input.
    pub order: usize,
    kind: String,
    value: Value,
    /// Desired number of pods; 0 for a DaemonSet, whose pods depend on the nodes.
    replicas: usize,
}

impl Workload {
    /// Reads a workload.
    ///
    /// # Errors
    /// The field that is out of range.
    pub fn new(label: String, order: usize, value: Value) -> Result<Self, WorkloadError> {
        let kind = text(&value, "/kind").to_owned();
        let replicas = replicas(&kind, &value)?;
        Ok(Self {
            label,
            key: key(&kind, &value),
            is_live: !uid(&value).is_empty(),
            order,
            kind,
            value,
            replicas,
        })
    }

    /// Returns the key of the workload's owner.
    pub fn owner(&self) -> Option<String> {
        let owner = controller(&self.value)?;
        Some(format!("{}/{}/{}", text(owner, "/kind"), namespace(&self.value), text(owner, "/name")))
    }

    /// Returns the ReplicaSet of a Deployment.
    pub fn replica_set(&self) -> Option<Value> {
        let metadata = json!({"name": self.set_name(), "namespace": namespace(&self.value)});
        let spec = json!({"selector": self.value["spec"]["selector"]});
        let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec});
        (self.kind == "Deployment").then_some(set)
    }

    /// Returns the pods that the workload's controller would create in addition to the existing pods.
    pub fn missing_pods(&self, existing: &ExistingPods, nodes: &[Node], decoder: &mut Decoder) -> Vec<Value> {
        match self.kind.as_str() {
            "DaemonSet" => self.daemons(existing, nodes, decoder),
            "StatefulSet" => {
                let first = number(&self.value, "/spec/ordinals/start");
                let all =
                    (first..).take(self.replicas).map(|ordinal| format!("{}-{ordinal}", name(&self.value)));
                all.filter(|name| !self.is_taken(existing, name)).map(|name| self.pod(&name)).collect()
            }
            _ => {
                let lacking = self.replicas.saturating_sub(existing.owned_by(&self.key).len());
                let all = (1_usize..).map(|number| format!("{}-{number}", name(&self.value)));
                let free = all.filter(|name| !self.is_taken(existing, name));
                free.take(lacking).map(|name| self.pod(&name)).collect()
            }
        }
    }

    /// Returns the `namespace/name` of each pod that the workload's controller would delete to scale down: pods without
    /// a node first, then the youngest; for a StatefulSet, the pods with the highest ordinals. Only ReplicaSets,
    /// ReplicationControllers and StatefulSets from a cluster are scaled down.
    pub fn surplus_pods(&self, existing: &ExistingPods) -> Vec<String> {
        let is_scaled = ["ReplicaSet", "ReplicationController", "StatefulSet"].contains(&self.kind.as_str());
        if !self.is_live || !is_scaled {
            return Vec::new();
        }
        let pods = existing.owned_by(&self.key).iter();
        let mut pods: Vec<&OwnedPod> = pods.filter(|pod| !pod.is_ending).collect();
        let surplus = pods.len().saturating_sub(self.replicas);
        let ordinal = |pod: &OwnedPod| pod.name.rsplit('-').next().and_then(|end| end.parse::<u64>().ok());
        if self.kind == "StatefulSet" {
            pods.sort_by_key(|pod| std::cmp::Reverse(ordinal(pod)));
        } else {
            pods.sort_by(|a, b| {
                let with_node = a.node.is_empty().cmp(&b.node.is_empty()).reverse();
                with_node.then_with(|| b.created.cmp(&a.created)).then_with(|| b.name.cmp(&a.name))
            });
        }
        pods.iter().take(surplus).map(|pod| format!("{}/{}", namespace(&self.value), pod.name)).collect()
    }

    /// Returns the desired number of pods.
    pub fn replicas(&self) -> usize {
        self.replicas
    }

    fn is_taken(&self, existing: &ExistingPods, name: &str) -> bool {
        existing.names.contains(&format!("{}/{name}", namespace(&self.value)))
    }

    fn template(&self) -> &Value {
        match self.kind.as_str() {
            "CronJob" => &self.value["spec"]["jobTemplate"]["spec"]["template"],
            _ => &self.value["spec"]["template"],
        }
    }

    /// Returns the name of a Deployment's ReplicaSet.
    fn set_name(&self) -> String {
        format!("{}-{}", name(&self.value), hash(self.template()))
    }

    fn pod(&self, pod_name: &str) -> Value {
        let template = self.template();
        let mut metadata = template.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
        metadata.insert("name".into(), json!(pod_name));
        metadata.insert("namespace".into(), namespace(&self.value).into());
        metadata.remove("generateName");
        // A CronJob owns its pods through a Job of the same name.
        let own = || name(&self.value).to_owned();
        let (version, owner, owner_name) = match self.kind.as_str() {
            "Deployment" => (json!("apps/v1"), "ReplicaSet", self.set_name()),
            "CronJob" => (json!("batch/v1"), "Job", own()),
            kind => (self.value["apiVersion"].clone(), kind, own()),
        };
        if self.kind == "Deployment" {
            label(&mut metadata, TEMPLATE_HASH, &hash(template));
        }
        let of_owner = match uid(&self.value) {
            "" => key(owner, &self.value),
            uid => uid.to_owned(),
        };
        metadata.insert(
            "ownerReferences".into(),
            json!([{
                "apiVersion": version, "kind": owner, "name": owner_name, "uid": of_owner, "controller": true,
            }]),
        );
        let mut spec = template.get("spec").cloned().unwrap_or_else(|| Map::new().into());
        if self.kind == "StatefulSet"
            && let Some(spec) = spec.as_object_mut()
        {
            pod_claims::mount(&self.value, pod_name, spec);
        }
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    }

    /// Returns the claims of one of the workload's pods.
    pub fn claims_of(&self, pod_name: &str) -> Vec<Value> {
        let is_set = self.kind == "StatefulSet";
        pod_claims::of_stateful_set(&self.value, pod_name).filter(|_| is_set).collect()
    }

    /// Returns one pod for each node that the template allows and that does not have a pod of the DaemonSet yet.
    fn daemons(&self, existing: &ExistingPods, nodes: &[Node], decoder: &mut Decoder) -> Vec<Value> {
        let mut general = self.pod(name(&self.value));
        tolerate(&mut general["spec"]);
        let Ok(decoded) = decoder.pod_value(&general) else { return vec![general] };
        let has: HashSet<&str> = existing.owned_by(&self.key).iter().map(|pod| pod.node.as_str()).collect();
        let lacks = |(node, fit): (&Node, NodeFit)| fit == NodeFit::Runs && !has.contains(node.name.as_str());
        let pod = |node: &Node| {
            let mut pod = general.clone();
            pod["metadata"]["name"] = format!("{}-{}", name(&self.value), node.name).into();
            tie(&mut pod["spec"], node.name.as_str());
            pod
        };
        fits(&decoded, nodes).filter(|of| lacks(*of)).map(|(node, _)| pod(node)).collect()
    }
}

fn label(metadata: &mut Map<String, Value>, key: &str, value: &str) {
    let labels = metadata.entry("labels").or_insert(Value::Null);
    if labels.is_null() {
        *labels = json!({});
    }
    // Labels of another type are reported when the pod is read.
    if let Some(labels) = labels.as_object_mut() {
        labels.insert(key.to_owned(), value.into());
    }
}

/// Returns the key that identifies a workload: `Kind/namespace/name`.
pub fn key(kind: &str, object: &Value) -> String {
    format!("{kind}/{}/{}", namespace(object), name(object))
}

fn replicas(kind: &str, workload: &Value) -> Result<usize, WorkloadError> {
    let of = |spec: &Value, key: &str, field: &'static str, default| match &spec[key] {
        Value::Null => Ok(default),
        value => match value.as_i64() {
            Some(n @ 0..=MAX_PODS) => Ok(n),
            _ => {
                let message = format!("expected a number from 0 to {MAX_PODS}, got {value}");
                Err(WorkloadError { field, message })
            }
        },
    };
    let spec = &workload["spec"];
    let job = match kind {
        "DaemonSet" => return Ok(0),
        "Job" => spec,
        "CronJob" => &spec["jobTemplate"]["spec"],
        _ => return of(spec, "replicas", "spec.replicas", 1).map(size),
    };
    if is_true(spec, "/suspend") || is_true(job, "/suspend") {
        return Ok(0);
    }
    let parallelism = of(job, "parallelism", "spec.parallelism", 1)?;
    let completions = of(job, "completions", "spec.completions", i64::MAX)?;
    Ok(size(parallelism.min(completions - number(workload, "/status/succeeded")).max(0)))
}

fn size(number: i64) -> usize {
    usize::try_from(number).unwrap_or_default()
}

#[cfg(test)]
mod tests;
