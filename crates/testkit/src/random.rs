//! Small random clusters and pods, determined by a seed.

use std::sync::Arc;

use harbormaster_api::{
    Node, Pod, PodSpec,
    node::{LABEL_HOSTNAME, LABEL_ZONE},
    pod::{PodAffinityTerm, TopologySpreadConstraint},
    selector::LabelSelector,
    taint::{TaintEffect, Toleration, TolerationOperator},
};
use harbormaster_framework::{cluster::Cluster, pod::PodInfo};

use crate::{
    clusters::cluster,
    happenings::Happening,
    nodes::{NodeBuilder, node},
    pods::{PodBuilder, labels, pod},
    variants,
    words::{WordKind, Words},
};

/// A pseudo-random number generator (splitmix64), which is good enough for fixtures and gives the same numbers on all
/// platforms.
#[derive(Clone, Debug)]
pub struct Dice {
    state: u64,
    words: Words,
}

const KEYS: [&str; 3] = ["a", "b", "node.kubernetes.io/unschedulable"];
const VALUES: [&str; 3] = ["", "x", "y"];
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
const IMAGES: [&str; 4] = ["one:1", "two:latest", "repo/three:3", "four:4"];
const SCALARS: [&str; 3] = ["example.com/gpu", "hugepages-2Mi", "ignored.example.com/x"];
const MIB: i64 = 1 << 20;
/// Node fields whose changes cause no event.
const WITHOUT_EVENTS: [&str; 3] = ["metadata.uid", "metadata.resourceVersion", "status.images"];

impl Dice {
    /// Returns a generator with the given seed.
    pub fn new(seed: u64) -> Self {
        Self::knowing(seed, Words::default())
    }

    /// Returns a generator with the given seed, for clusters that contain the given words.
    pub fn knowing(seed: u64, words: Words) -> Self {
        Self { state: seed, words }
    }

    /// Returns the next number.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`, which must not be zero.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next_u64() % end
    }

    /// Returns true with a probability of 1 in `n`.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Returns one of `choices`.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// Returns a node with random fields.
    pub fn node(&mut self, name: &str) -> NodeBuilder {
        let (cpu, memory) = (self.below(9) * 500, self.below(9) * 512);
        let mut built = node(name)
            .allocatable(&format!("{cpu}m"), &format!("{memory}Mi"), self.below(6) as i64)
            .offers("ephemeral-storage", &format!("{}Mi", self.below(9) * 256))
            .label("disk", self.pick(&["ssd", "hdd"]))
            .zone(self.pick(&["z1", "z2", "z3"]));
        for name in SCALARS {
            if self.one_in(2) {
                built = built.offers(name, &self.below(5).to_string());
            }
        }
        while self.one_in(3) {
            built = built.taint(self.pick(&KEYS), self.pick(&VALUES), self.pick(&EFFECTS));
        }
        while self.one_in(2) {
            built = built.image(self.pick(&IMAGES), self.below(2000) as i64 * MIB);
        }
        if self.one_in(4) {
            built = built.unschedulable();
        }
        if self.one_in(2) {
            built = built.feature("RestartAllContainersOnContainerExits");
        }
        if self.one_in(2) {
            built = built.condition("Ready", self.pick(&["True", "False"]));
        }
        for (key, value) in self.some_of(WordKind::NodeLabel) {
            built = built.label(&key, &value);
        }
        for (key, value) in self.some_of(WordKind::NodeAnnotation) {
            built = built.annotation(&key, &value);
        }
        for (name, amount) in self.some_of(WordKind::Resource) {
            built = built.offers(&name, &amount);
        }
        built
    }

    /// Returns some of the words of one kind, each with a value. For every kind but resources, two common words may be
    /// among them.
    fn some_of(&mut self, place: WordKind) -> Vec<(String, String)> {
        let words: Vec<_> = self.words.of(place).map(|(key, all)| (key.to_owned(), all.to_vec())).collect();
        let known = ["a", "b"].map(|key| (key.to_owned(), vec!["x".to_owned(), "y".to_owned()]));
        let usual = known.into_iter().filter(|_| place != WordKind::Resource);
        let mut some = Vec::new();
        for (key, values) in words.into_iter().chain(usual) {
            if !values.is_empty() && !self.one_in(3) {
                let at = self.below(values.len() as u64) as usize;
                some.push((key, values[at].clone()));
            }
        }
        some
    }

    /// Returns a pod with random fields.
    pub fn pod(&mut self, name: &str) -> PodBuilder {
        let mut built = pod(name).image(self.pick(&["one:1", "two", "repo/three:3", "nowhere"]));
        if self.one_in(2) {
            built = built.cpu(&format!("{}m", self.below(12) * 250));
        }
        if self.one_in(2) {
            built = built.memory(&format!("{}Mi", self.below(12) * 256));
        }
        if self.one_in(4) {
            built = built.request("ephemeral-storage", &format!("{}Mi", self.below(9) * 256));
        }
        for name in SCALARS {
            if self.one_in(4) {
                built = built.request(name, &self.below(4).to_string());
            }
        }
        while self.one_in(3) {
            built = built.host_port_on(
                self.pick(&["TCP", "UDP"]),
                self.pick(&["0.0.0.0", "10.0.0.1"]),
                8000 + self.below(3) as i32,
            );
        }
        while self.one_in(2) {
            built = built.tolerate(self.toleration());
        }
        if self.one_in(4) {
            built = built.node_selector("disk", "ssd");
        }
        if self.one_in(4) {
            built = built.requires_node_label("disk", &["ssd", "nvme"]);
        }
        if self.one_in(4) {
            built = built.prefers_node_label(1 + self.below(100) as i32, "disk", &["hdd"]);
        }
        for (name, amount) in self.some_of(WordKind::Resource) {
            built = built.request(&name, &amount);
        }
        for (key, value) in self.some_of(WordKind::PodLabel) {
            built = built.label(&key, &value);
        }
        for (key, value) in self.some_of(WordKind::PodAnnotation) {
            built = built.annotation(&key, &value);
        }
        if self.one_in(4) {
            built = built.namespace("elsewhere");
        }
        if self.one_in(2) {
            built =
                built.owned_by(self.pick(&["ReplicaSet", "StatefulSet", "Job"]), self.pick(&["one", "two"]));
        }
        let (key, value) = (self.pick(&["a", "b"]), self.pick(&["x", "y"]));
        if self.one_in(6) {
            built = built.avoids(key, value);
        }
        let term = PodAffinityTerm {
            label_selector: Some(LabelSelector {
                match_labels: labels(&[(key, value)]),
                ..Default::default()
            }),
            topology_key: self.pick(&[LABEL_HOSTNAME, LABEL_ZONE]).into(),
            ..Default::default()
        };
        if self.one_in(6) && !self.words.is_fixed("spec.affinity.podAffinity") {
            built = built.spec(|spec| {
                spec.pod_affinity.get_or_insert_default().required.push(term.clone());
            });
        }
        if self.one_in(4) {
            let constraint = TopologySpreadConstraint {
                max_skew: 1,
                topology_key: term.topology_key.clone(),
                hard: self.one_in(2),
                label_selector: term.label_selector.clone(),
                ..Default::default()
            };
            built = built.spec(|spec| spec.topology_spread.push(constraint));
        }
        let priority = self.pick(&[0, 0, 0, -1, 1, 10, 100, 1000, 1_000_000, 2_000_000_000]);
        let built = built.priority(priority);
        built.spec(|spec| spec.restarts_all_containers = name.len().is_multiple_of(2))
    }

    fn toleration(&mut self) -> Toleration {
        Toleration {
            key: self.pick(&["", "a", "b", "node.kubernetes.io/unschedulable"]).into(),
            operator: self.pick(&[TolerationOperator::Exists, TolerationOperator::Equal]),
            value: self.pick(&VALUES).into(),
            effect: self.pick(&[None, Some(TaintEffect::NoSchedule), Some(TaintEffect::PreferNoSchedule)]),
        }
    }

    /// Returns a random change in the cluster while the pod waits.
    pub fn happening(&mut self, cluster: &Cluster, pod: &PodInfo) -> Happening {
        let nodes: Vec<Arc<Node>> =
            cluster.nodes().nodes().filter_map(|node| node.object().cloned()).collect();
        let bound: Vec<Arc<PodInfo>> =
            cluster.nodes().nodes().flat_map(|node| node.pods().to_vec()).collect();
        let name = format!("n{}", self.below(8));
        let first = if self.words.is_fixed("nodes") { 7 } else { 0 };
        match first + self.below(12 - first) {
            0..=4 if !nodes.is_empty() => {
                let node = &nodes[self.below(nodes.len() as u64) as usize];
                let variants = variants::of_node(node, &self.words);
                let with_events =
                    variants.into_iter().filter(|(field, _)| !WITHOUT_EVENTS.contains(field)).collect();
                Happening::Node(self.choose(with_events))
            }
            5 => Happening::Node(self.node(&name).build()),
            6 => Happening::NodeGone(name.into()),
            7 | 8 if !bound.is_empty() => {
                let pod = &bound[self.below(bound.len() as u64) as usize];
                Happening::PodGone(pod.node_name.clone().unwrap_or_default(), pod.uid.clone())
            }
            9 if !bound.is_empty() => {
                let pod = &bound[self.below(bound.len() as u64) as usize];
                Happening::Pod(Box::new(self.changed(&pod.pod)))
            }
            10 => Happening::Own(Box::new(self.changed(&pod.pod))),
            _ => {
                let new = format!("new-{}", self.next_u64());
                Happening::Pod(Box::new(self.pod(&new).on(&name).build()))
            }
        }
    }

    /// Returns the pod after a change that the API server allows: a change to its metadata or status, an additional
    /// toleration, or smaller requests.
    fn changed(&mut self, pod: &Pod) -> Pod {
        match self.below(4) {
            0 => {
                let mut spec = PodSpec::clone(&pod.spec);
                spec.tolerations.push(self.toleration());
                Pod { spec: Arc::new(spec), ..pod.clone() }
            }
            1 => {
                let mut spec = PodSpec::clone(&pod.spec);
                let requests = spec.containers.iter_mut().flat_map(|container| &mut container.requests);
                requests.for_each(|(_, amount)| *amount /= 2);
                Pod { spec: Arc::new(spec), ..pod.clone() }
            }
            _ => {
                let variants = variants::outside_of_spec(pod, &self.words);
                self.choose(variants)
            }
        }
    }

    fn choose<T>(&mut self, mut variants: Vec<(&'static str, T)>) -> T {
        variants.retain(|(field, _)| !self.words.is_fixed(field));
        let at = self.below(variants.len() as u64) as usize;
        variants.swap_remove(at).1
    }

    /// Returns a cluster of `size` nodes and twice as many bound pods. Some pods may be bound to an unknown node.
    pub fn cluster(&mut self, size: usize) -> Cluster {
        let nodes: Vec<NodeBuilder> = (0..size).map(|at| self.node(&format!("n{at}"))).collect();
        let pods: Vec<PodBuilder> = (0..2 * size)
            .map(|at| {
                let node = format!("n{}", self.below(size as u64 + 1));
                self.pod(&format!("bound-{at}")).on(&node)
            })
            .collect();
        cluster(nodes, pods)
    }
}
