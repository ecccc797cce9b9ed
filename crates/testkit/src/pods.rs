//! A builder for pods.

use std::sync::Arc;

use harbormaster_api::{
    Labels, Pod, PodSpec, Quantity, Str, Timestamp,
    node::LABEL_ZONE,
    pod::{
        Container, HostPort, OwnerReference, PodAffinity, PodAffinityTerm, ResourceList, Volume, VolumeSource,
    },
    selector::{
        LabelSelector, NodeAffinity, NodeSelector, NodeSelectorTerm, Operator, PreferredTerm, Requirement,
    },
    taint::{TaintEffect, Toleration, TolerationOperator},
};
use harbormaster_framework::{
    group::GroupId,
    pod::{PodInfo, SpecTable},
};

/// Builds a pod. A new pod has one container without requests and is in the `default` namespace.
#[derive(Clone, Debug)]
pub struct PodBuilder {
    pod: Pod,
    spec: PodSpec,
}

/// Returns a builder for a pod with the given name and the UID `uid-<name>`.
pub fn pod(name: &str) -> PodBuilder {
    let pod = Pod {
        uid: format!("uid-{name}").into(),
        namespace: "default".into(),
        name: name.into(),
        ..Pod::default()
    };
    let first = Container { name: "c0".into(), image: "image".into(), ..Container::default() };
    let spec =
        PodSpec { scheduler_name: "default-scheduler".into(), containers: vec![first], ..PodSpec::default() };
    PodBuilder { pod, spec }
}

/// Returns labels from pairs.
pub fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().copied().collect()
}

/// Returns a toleration of `key` with any value. `effect` is spelled as in manifests; empty means all effects.
pub fn tolerates(key: &str, effect: &str) -> Toleration {
    Toleration {
        key: key.into(),
        operator: TolerationOperator::Exists,
        value: Str::default(),
        effect: TaintEffect::parse(effect),
    }
}

/// Returns a toleration of every taint.
pub fn tolerates_all() -> Toleration {
    tolerates("", "")
}

/// Parses an amount of the resource `name`: millicores for cpu, units for all others.
///
/// # Panics
/// If `text` is not a quantity.
pub fn amount(name: &str, text: &str) -> i64 {
    let quantity: Quantity = text.parse().unwrap_or_else(|e| panic!("{e}"));
    if name == "cpu" { quantity.milli_value() } else { quantity.value() }
}

pub(crate) fn set(list: &mut ResourceList, name: &str, text: &str) {
    let amount = amount(name, text);
    match list.binary_search_by(|(n, _)| n.as_str().cmp(name)) {
        Ok(at) => list[at].1 = amount,
        Err(gap) => list.insert(gap, (name.into(), amount)),
    }
}

impl PodBuilder {
    /// Sets `metadata.namespace`.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.pod.namespace = namespace.into();
        self
    }

    /// Sets `metadata.uid`.
    #[must_use]
    pub fn uid(mut self, uid: &str) -> Self {
        self.pod.uid = uid.into();
        self
    }

    /// Adds a label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.pod.labels = with(&self.pod.labels, key, value);
        self
    }

    /// Adds an annotation.
    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.pod.annotations = with(&self.pod.annotations, key, value);
        self
    }

    /// Sets the owner that controls the pod. Its kind must be in `apps/v1` or `batch/v1`.
    #[must_use]
    pub fn owned_by(mut self, kind: &str, name: &str) -> Self {
        let api_version = if matches!(kind, "Job" | "CronJob") { "batch/v1" } else { "apps/v1" };
        self.pod.controller = Some(OwnerReference {
            api_version: api_version.into(),
            kind: kind.into(),
            name: name.into(),
            uid: format!("uid-{name}").into(),
        });
        self
    }

    /// Sets `spec.nodeName`, which means that the pod is bound.
    #[must_use]
    pub fn on(mut self, node: &str) -> Self {
        self.pod.node_name = Some(node.into());
        self
    }

    /// Adds an entry to `status.resourceClaimStatuses`. An empty `claim` means that the entry needs no claim.
    #[must_use]
    pub fn generated_claim(mut self, entry: &str, claim: &str) -> Self {
        let known = self.pod.status.resource_claims.iter().map(|(name, claim)| (name.clone(), claim.clone()));
        self.pod.status.resource_claims = known.chain([(entry.into(), claim.into())]).collect();
        self
    }

    /// Sets `status.nominatedNodeName`.
    #[must_use]
    pub fn nominated_to(mut self, node: &str) -> Self {
        self.pod.status.nominated_node_name = Some(node.into());
        self
    }

    /// Sets `metadata.deletionTimestamp`.
    #[must_use]
    pub fn terminating(mut self) -> Self {
        self.pod.deleted = Some(Timestamp::from_secs(1));
        self
    }

    /// Adds a scheduling gate.
    #[must_use]
    pub fn gate(mut self, name: &str) -> Self {
        self.pod.scheduling_gates.push(name.into());
        self
    }

    /// Makes the pod a member of a group of its namespace (`spec.schedulingGroup`).
    #[must_use]
    pub fn member_of(self, group: &str) -> Self {
        self.spec(|spec| spec.pod_group = Some(group.into()))
    }

    /// Sets a request of the last container.
    #[must_use]
    pub fn request(mut self, name: &str, quantity: &str) -> Self {
        set(&mut self.last().requests, name, quantity);
        self
    }

    /// Sets the cpu request of the last container.
    #[must_use]
    pub fn cpu(self, quantity: &str) -> Self {
        self.request("cpu", quantity)
    }

    /// Sets the memory request of the last container.
    #[must_use]
    pub fn memory(self, quantity: &str) -> Self {
        self.request("memory", quantity)
    }

    /// Adds a container. Later calls apply to the new container.
    #[must_use]
    pub fn container(mut self) -> Self {
        let name = format!("c{}", self.spec.containers.len()).into();
        self.spec.containers.push(Container { name, image: "image".into(), ..Container::default() });
        self
    }

    /// Adds an init container with the given requests.
    #[must_use]
    pub fn init_container(self, requests: &[(&str, &str)]) -> Self {
        self.add_init(requests, false)
    }

    /// Adds a sidecar (an init container with `restartPolicy: Always`) with the given requests.
    #[must_use]
    pub fn sidecar(self, requests: &[(&str, &str)]) -> Self {
        self.add_init(requests, true)
    }

    fn add_init(mut self, requests: &[(&str, &str)], restart_always: bool) -> Self {
        let name = format!("i{}", self.spec.init_containers.len()).into();
        let mut container = Container { name, image: "image".into(), restart_always, ..Container::default() };
        requests.iter().for_each(|(name, quantity)| set(&mut container.requests, name, quantity));
        self.spec.init_containers.push(container);
        self
    }

    /// Sets an amount in `spec.overhead`.
    #[must_use]
    pub fn overhead(mut self, name: &str, quantity: &str) -> Self {
        set(&mut self.spec.overhead, name, quantity);
        self
    }

    /// Sets an amount in `spec.resources.requests`.
    #[must_use]
    pub fn pod_level(mut self, name: &str, quantity: &str) -> Self {
        set(&mut self.spec.pod_level_requests, name, quantity);
        self
    }

    /// Sets the image of the last container.
    #[must_use]
    pub fn image(mut self, image: &str) -> Self {
        self.last().image = image.into();
        self
    }

    /// Adds a TCP host port on all addresses to the last container.
    #[must_use]
    pub fn host_port(self, port: i32) -> Self {
        self.host_port_on("TCP", "0.0.0.0", port)
    }

    /// Adds a host port to the last container.
    #[must_use]
    pub fn host_port_on(mut self, protocol: &str, ip: &str, port: i32) -> Self {
        let port = HostPort { ip: ip.into(), protocol: protocol.into(), port };
        self.last().host_ports.push(port);
        self
    }

    /// Sets `spec.priority`.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.spec.priority = priority;
        self
    }

    /// Adds a toleration.
    #[must_use]
    pub fn tolerate(mut self, toleration: Toleration) -> Self {
        self.spec.tolerations.push(toleration);
        self
    }

    /// Adds a pair to `spec.nodeSelector`.
    #[must_use]
    pub fn node_selector(mut self, key: &str, value: &str) -> Self {
        self.spec.node_selector = Some(with(&self.spec.node_selector.take().unwrap_or_default(), key, value));
        self
    }

    /// Adds a term to the required node affinity: `key` is one of `values`.
    #[must_use]
    pub fn requires_node_label(self, key: &str, values: &[&str]) -> Self {
        let term = NodeSelectorTerm { match_expressions: vec![one_of(key, values)], ..Default::default() };
        self.requires_node(term)
    }

    /// Adds a term to the required node affinity: the node's name is one of `names`.
    #[must_use]
    pub fn requires_node_name(self, names: &[&str]) -> Self {
        let term =
            NodeSelectorTerm { match_fields: vec![one_of("metadata.name", names)], ..Default::default() };
        self.requires_node(term)
    }

    /// Adds a term to the required node affinity.
    #[must_use]
    pub fn requires_node(mut self, term: NodeSelectorTerm) -> Self {
        let affinity = self.spec.node_affinity.get_or_insert_with(NodeAffinity::default);
        affinity.required.get_or_insert_with(NodeSelector::default).terms.push(term);
        self
    }

    /// Adds a preferred term to the node affinity: `key` is one of `values`.
    #[must_use]
    pub fn prefers_node_label(mut self, weight: i32, key: &str, values: &[&str]) -> Self {
        let preference =
            NodeSelectorTerm { match_expressions: vec![one_of(key, values)], ..Default::default() };
        let affinity = self.spec.node_affinity.get_or_insert_with(NodeAffinity::default);
        affinity.preferred.get_or_insert_default().push(PreferredTerm { weight, preference });
        self
    }

    /// Adds required pod anti-affinity, by zone, to pods with the given label.
    #[must_use]
    pub fn avoids(mut self, key: &str, value: &str) -> Self {
        let anti = self.spec.pod_anti_affinity.get_or_insert_with(PodAffinity::default);
        anti.required.push(PodAffinityTerm {
            label_selector: Some(LabelSelector {
                match_labels: labels(&[(key, value)]),
                ..Default::default()
            }),
            topology_key: LABEL_ZONE.into(),
            ..Default::default()
        });
        self
    }

    /// Adds a volume.
    #[must_use]
    pub fn volume(mut self, source: VolumeSource) -> Self {
        let name = format!("v{}", self.spec.volumes.len()).into();
        self.spec.volumes.push(Volume { name, source });
        self
    }

    /// Changes any field of `spec`.
    #[must_use]
    pub fn spec(mut self, change: impl FnOnce(&mut PodSpec)) -> Self {
        change(&mut self.spec);
        self
    }

    /// Changes any field outside `spec`.
    #[must_use]
    pub fn pod(mut self, change: impl FnOnce(&mut Pod)) -> Self {
        change(&mut self.pod);
        self
    }

    /// Returns the pod.
    pub fn build(self) -> Pod {
        Pod { spec: Arc::new(self.spec), ..self.pod }
    }

    /// Returns the pod as plugins receive it. It belongs to the group that `spec.schedulingGroup` names.
    pub fn info(self) -> Arc<PodInfo> {
        Arc::new(with_group(self.build(), &mut SpecTable::default()))
    }

    fn last(&mut self) -> &mut Container {
        self.spec.containers.last_mut().expect("a pod has a container")
    }
}

/// Returns the pod in the group that `spec.schedulingGroup` names.
pub(crate) fn with_group(pod: Pod, specs: &mut SpecTable) -> PodInfo {
    let name = pod.spec.pod_group.clone();
    let group = name.map(|name| GroupId { namespace: pod.namespace.clone(), name });
    PodInfo::new(pod, specs).in_group(group)
}

/// Returns `labels` with one more pair.
pub(crate) fn with(labels: &Labels, key: &str, value: &str) -> Labels {
    let old = labels.iter().map(|(k, v)| (k.clone(), v.clone()));
    old.chain([(Str::from(key), Str::from(value))]).collect()
}

/// Returns the requirement that `key` is one of `values`.
pub fn one_of(key: &str, values: &[&str]) -> Requirement {
    Requirement {
        key: key.into(),
        operator: Operator::In,
        values: values.iter().copied().map(Str::from).collect(),
    }
}
