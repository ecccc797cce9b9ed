//! Variants of a pod or a node that differ in one field, to find out which fields an answer depends on.

use std::sync::Arc;

use harbormaster_api::{
    Labels, Node, Pod, PodSpec, Str, Timestamp,
    pod::{
        Container, HostPort, PodAffinity, PodAffinityTerm, PodClaim, ResourceList, TopologySpreadConstraint,
        Volume, VolumeSource,
    },
    selector::LabelSelector,
};

use crate::{
    nodes::NodeBuilder,
    pods::{PodBuilder, amount, labels, tolerates, tolerates_all, with},
    words::{WordKind, Words},
};

/// Amounts of common resources.
const AMOUNTS: [(&str, &[&str]); 5] = [
    ("cpu", &["1m", "500m", "1", "3", "100"]),
    ("memory", &["1Mi", "512Mi", "1Gi", "3Gi", "100Gi"]),
    ("ephemeral-storage", &["1Mi", "1Gi", "100Gi"]),
    ("example.com/gpu", &["1", "4", "100"]),
    ("hugepages-2Mi", &["2Mi", "64Mi"]),
];

/// Priorities around the limits that plugins use.
const PRIORITIES: [i32; 9] = [-1, 0, 1, 10, 100, 1000, 1_000_000, 1_000_000_000, 2_000_001_000];

/// Returns variants of the pod that differ in one spec field, or in two that belong together, each with the field's
/// name. Varies every field, in ways that may make a difference.
pub(crate) fn of_spec(pod: &Pod, words: &Words) -> Vec<(&'static str, Pod)> {
    let mut all = Variants { pod, variants: Vec::new() };
    // There is no `..` in the pattern, so that a new field causes a compile error. Vary the new field below.
    let PodSpec {
        scheduler_name: _,
        priority: _,
        priority_class: _,
        never_preempts: _,
        node_selector: _,
        node_affinity: _,
        pod_affinity: _,
        pod_anti_affinity: _,
        tolerations: _,
        topology_spread: _,
        containers: _,
        init_containers: _,
        overhead: _,
        pod_level_requests: _,
        pod_level_limits: _,
        volumes: _,
        resource_claims: _,
        pod_group: _,
        host_network: _,
        host_users: _,
        seccomp_profiles: _,
        restarts_all_containers: _,
        has_mount_options: _,
    } = &*pod.spec;
    all.scalars();
    all.node_selection(words);
    all.pod_relations();
    all.containers(words);
    all.volumes();
    all.variants
}

struct Variants<'a> {
    pod: &'a Pod,
    variants: Vec<(&'static str, Pod)>,
}

impl Variants<'_> {
    fn add(&mut self, field: &'static str, change: impl FnOnce(&mut PodSpec)) {
        let mut spec = PodSpec::clone(&self.pod.spec);
        change(&mut spec);
        if spec != *self.pod.spec {
            self.variants.push((field, Pod { spec: Arc::new(spec), ..self.pod.clone() }));
        }
    }

    fn scalars(&mut self) {
        self.add("spec.schedulerName", |s| s.scheduler_name = "another-scheduler".into());
        for priority in PRIORITIES {
            self.add("spec.priority", |s| s.priority = priority);
        }
        for class in [None, Some("one".into()), Some("other".into())] {
            self.add("spec.priorityClassName", |s| s.priority_class = class);
        }
        self.add("spec.preemptionPolicy", |s| s.never_preempts = !s.never_preempts);
        for group in [None, Some("one".into()), Some("other".into())] {
            self.add("spec.schedulingGroup", |s| s.pod_group = group);
        }
        self.add("spec.hostNetwork", |s| s.host_network = !s.host_network);
        for profiles in [vec![], vec!["operator/ns/a.json".into()], vec!["operator/ns/b.json".into()]] {
            self.add("spec.securityContext.seccompProfile", |s| s.seccomp_profiles = profiles);
        }
        for users in [None, Some(false), Some(true)] {
            self.add("spec.hostUsers", |s| s.host_users = users);
        }
        self.add("spec.hostNetwork and spec.hostUsers", |s| {
            (s.host_network, s.host_users) = (true, Some(false));
        });
        self.add("spec.containers[].restartPolicyRules", |s| {
            s.restarts_all_containers = !s.restarts_all_containers;
        });
        self.add("spec.containers[].volumeMounts", |s| s.has_mount_options = !s.has_mount_options);
        let claim = |name: &str| PodClaim { name: name.into(), claim: Some(name.into()), template: None };
        self.add("spec.resourceClaims", |s| s.resource_claims.push(claim("claim")));
        for claims in [Vec::new(), vec![claim("one")]] {
            self.add("spec.resourceClaims", |s| s.resource_claims = claims);
        }
    }

    fn node_selection(&mut self, words: &Words) {
        for selector in [None, Some(Labels::default()), Some(labels(&[("disk", "ssd")]))] {
            self.add("spec.nodeSelector", |s| s.node_selector = selector);
        }
        let known = words.of(WordKind::NodeLabel).map(|(key, values)| (key.to_owned(), values.to_vec()));
        let known = known.chain([("disk".to_owned(), vec!["ssd".to_owned(), "hdd".to_owned()])]);
        for (key, value) in known.flat_map(|(key, all)| all.into_iter().map(move |v| (key.clone(), v))) {
            self.add("spec.nodeSelector", |s| {
                s.node_selector = Some(with(&s.node_selector.clone().unwrap_or_default(), &key, &value));
            });
            let required = spec_of(|pod| pod.requires_node_label(&key, &[&value]));
            self.add("spec.affinity.nodeAffinity.required", |s| {
                s.node_affinity.get_or_insert_default().required = required.and_then(|a| a.required);
            });
            let preferred = spec_of(|pod| pod.prefers_node_label(7, &key, &[&value]));
            self.add("spec.affinity.nodeAffinity.preferred", |s| {
                s.node_affinity.get_or_insert_default().preferred = preferred.and_then(|a| a.preferred);
            });
        }
        self.add("spec.affinity.nodeAffinity", |s| s.node_affinity = None);
        self.add("spec.tolerations", |s| s.tolerations.clear());
        self.add("spec.tolerations", |s| s.tolerations.push(tolerates_all()));
        for key in ["a", "b", "node.kubernetes.io/unschedulable"] {
            self.add("spec.tolerations", |s| s.tolerations.push(tolerates(key, "")));
        }
    }

    fn pod_relations(&mut self) {
        let selector = Some(LabelSelector { match_labels: labels(&[("a", "x")]), ..Default::default() });
        let term = PodAffinityTerm {
            label_selector: selector.clone(),
            topology_key: "kubernetes.io/hostname".into(),
            ..Default::default()
        };
        let terms = PodAffinity { required: vec![term.clone()], preferred: vec![(1, term)] };
        for affinity in [None, Some(PodAffinity::default()), Some(terms)] {
            self.add("spec.affinity.podAffinity", |s| s.pod_affinity.clone_from(&affinity));
            self.add("spec.affinity.podAntiAffinity", |s| s.pod_anti_affinity = affinity);
        }
        let spread = |hard| TopologySpreadConstraint {
            max_skew: 1,
            topology_key: "kubernetes.io/hostname".into(),
            hard,
            label_selector: selector.clone(),
            ..Default::default()
        };
        for constraints in [vec![], vec![spread(true)], vec![spread(false)]] {
            self.add("spec.topologySpreadConstraints", |s| s.topology_spread = constraints);
        }
    }

    fn containers(&mut self, words: &Words) {
        let known = AMOUNTS.iter().map(|(name, all)| ((*name).to_owned(), owned(all)));
        let known: Vec<_> = known
            .chain(words.of(WordKind::Resource).map(|(name, all)| (name.to_owned(), all.to_vec())))
            .collect();
        for (name, texts) in &known {
            let amounts = texts.iter().map(|text| Some(amount(name, text))).chain([None]);
            for amount in amounts {
                self.add("spec.containers[].resources.requests", |s| {
                    s.containers.iter_mut().take(1).for_each(|c| put(&mut c.requests, name, amount));
                });
                self.add("spec.containers[].resources.limits", |s| {
                    s.containers.iter_mut().take(1).for_each(|c| put(&mut c.limits, name, amount));
                });
                self.add("spec.initContainers[].resources.requests", |s| {
                    let mut init = Container { name: "init".into(), ..Container::default() };
                    put(&mut init.requests, name, amount);
                    s.init_containers.push(init);
                });
                self.add("spec.overhead", |s| put(&mut s.overhead, name, amount));
                self.add("spec.resources.requests", |s| put(&mut s.pod_level_requests, name, amount));
                self.add("spec.resources.limits", |s| put(&mut s.pod_level_limits, name, amount));
            }
        }
        for image in ["one:1", "two", "two:latest", "repo/three:3", "four:4", "nowhere"] {
            self.add("spec.containers[].image", |s| {
                s.containers.iter_mut().take(1).for_each(|c| c.image = image.into());
            });
            self.add("spec.initContainers[].image", |s| {
                let init = Container { name: "init".into(), image: image.into(), ..Container::default() };
                s.init_containers.push(init);
            });
        }
        for number in 8000..8003 {
            let port = HostPort { ip: "0.0.0.0".into(), protocol: "TCP".into(), port: number };
            self.add("spec.containers[].ports", |s| {
                s.containers.iter_mut().take(1).for_each(|c| c.host_ports.push(port.clone()));
            });
        }
        self.add("spec.containers[].name", |s| {
            s.containers.iter_mut().take(1).for_each(|c| c.name = "another".into());
        });
        self.add("spec.containers", |s| {
            s.containers.push(Container { name: "one-more".into(), ..Container::default() });
        });
        self.add("spec.initContainers[].restartPolicy", |s| {
            let sidecar = Container { name: "sidecar".into(), restart_always: true, ..Container::default() };
            s.init_containers.push(sidecar);
        });
    }

    fn volumes(&mut self) {
        self.add("spec.volumes", |s| s.volumes.clear());
        for source in [
            VolumeSource::Claim("claim".into()),
            VolumeSource::Ephemeral,
            VolumeSource::Image("four:4".into()),
            VolumeSource::InlineCsi("csi.example.com".into()),
        ] {
            self.add("spec.volumes", |s| s.volumes.push(Volume { name: "one-more".into(), source }));
        }
    }
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn spec_of(with: impl FnOnce(PodBuilder) -> PodBuilder) -> Option<harbormaster_api::selector::NodeAffinity> {
    with(crate::pods::pod("p")).build().spec.node_affinity.clone()
}

fn put(list: &mut ResourceList, name: &str, amount: Option<i64>) {
    list.retain(|(known, _)| known.as_str() != name);
    if let Some(amount) = amount {
        list.push((Str::from(name), amount));
        list.sort();
    }
}

/// Returns variants of the node that differ in one field, each with the field's name.
pub(crate) fn of_node(node: &Node, words: &Words) -> Vec<(&'static str, Node)> {
    // There is no `..` in the pattern, so that a new field causes a compile error. Vary the new field below.
    let Node {
        name: _,
        uid: _,
        resource_version: _,
        labels: _,
        annotations: _,
        unschedulable: _,
        taints: _,
        allocatable: _,
        capacity: _,
        images: _,
        declared_features: _,
        conditions: _,
    } = node;
    let mut variants: Vec<(&'static str, Node)> = Vec::new();
    let mut add = |field, change: &dyn Fn(NodeBuilder) -> NodeBuilder| {
        variants.push((field, change(NodeBuilder::of(node.clone())).build()));
    };
    add("metadata.uid", &|n| n.node(|n| n.uid = "another".into()));
    add("metadata.resourceVersion", &|n| n.node(|n| n.resource_version = "4711".into()));
    add("metadata.labels", &|n| n.node(|n| n.labels = Labels::default()));
    add("metadata.annotations", &|n| n.node(|n| n.annotations = Labels::default()));
    for (key, value) in [("disk", "ssd"), ("disk", "hdd"), ("a", "x"), ("topology.kubernetes.io/zone", "z9")]
    {
        add("metadata.labels", &|n| n.label(key, value));
    }
    add("metadata.annotations", &|n| n.annotation("a", "x"));
    for (key, values) in words.of(WordKind::NodeLabel) {
        values.iter().for_each(|value| add("metadata.labels", &|n| n.label(key, value)));
    }
    for (key, values) in words.of(WordKind::NodeAnnotation) {
        values.iter().for_each(|value| add("metadata.annotations", &|n| n.annotation(key, value)));
    }
    for (name, quantity) in [("cpu", "3"), ("memory", "5Gi")] {
        add("status.capacity", &|n| n.capacity(name, quantity));
    }
    add("spec.unschedulable", &|n| n.node(|n| n.unschedulable = !n.unschedulable));
    add("spec.taints", &|n| n.node(|n| n.taints = Arc::new([])));
    for effect in ["NoSchedule", "PreferNoSchedule", "NoExecute"] {
        add("spec.taints", &|n| n.taint("a", "x", effect));
    }
    for (name, texts) in AMOUNTS {
        for text in texts.iter().chain(&["0"]) {
            add("status.allocatable", &|n| n.offers(name, text));
        }
    }
    for (name, texts) in words.of(WordKind::Resource) {
        texts.iter().for_each(|text| add("status.allocatable", &|n| n.offers(name, text)));
    }
    for pods in ["0", "1", "110"] {
        add("status.allocatable", &|n| n.offers("pods", pods));
    }
    add("status.images", &|n| n.node(|n| n.images = Arc::new([])));
    add("status.images", &|n| n.image("one:1", 1 << 30));
    add("status.declaredFeatures", &|n| n.node(|n| n.declared_features = Arc::new([])));
    add("status.declaredFeatures", &|n| n.feature("RestartAllContainersOnContainerExits"));
    for (type_, status) in [("Ready", "True"), ("Ready", "False"), ("MemoryPressure", "True")] {
        add("status.conditions", &|n| n.condition(type_, status));
    }
    variants.retain(|(_, changed)| changed != node);
    variants
}

/// Returns variants of the pod that differ in one field outside the spec, each with the field's name.
pub(crate) fn outside_of_spec(pod: &Pod, words: &Words) -> Vec<(&'static str, Pod)> {
    let mut variants: Vec<(&'static str, Pod)> = Vec::new();
    let mut add = |field, change: &dyn Fn(&mut Pod)| {
        let mut changed = pod.clone();
        change(&mut changed);
        variants.push((field, changed));
    };
    add("metadata.labels", &|p| p.labels = Labels::default());
    add("metadata.labels", &|p| p.labels = with(&p.labels, "a", "x"));
    add("metadata.annotations", &|p| p.annotations = Labels::default());
    add("metadata.annotations", &|p| p.annotations = with(&p.annotations, "a", "x"));
    for (key, values) in words.of(WordKind::PodLabel) {
        values.iter().for_each(|v| add("metadata.labels", &|p| p.labels = with(&p.labels, key, v)));
    }
    for (key, values) in words.of(WordKind::PodAnnotation) {
        values.iter().for_each(|v| {
            add("metadata.annotations", &|p| p.annotations = with(&p.annotations, key, v));
        });
    }
    add("metadata.deletionTimestamp", &|p| p.deleted = Some(Timestamp::from_secs(1)));
    add("status.nominatedNodeName", &|p| p.status.nominated_node_name = Some("n0".into()));
    add("status.startTime", &|p| p.status.start_time = Some(Timestamp::from_secs(1)));
    variants.retain(|(_, changed)| changed != pod);
    variants
}
