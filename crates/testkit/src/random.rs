//! Small random clusters and pods, the same for the same seed.

use harbormaster_api::taint::{TaintEffect, Toleration, TolerationOperator};
use harbormaster_framework::cluster::Cluster;

use crate::{
    clusters::cluster,
    nodes::{NodeBuilder, node},
    pods::{PodBuilder, pod},
};

/// A source of numbers (splitmix64): good enough for fixtures, and the same everywhere.
#[derive(Clone, Debug)]
pub struct Dice(u64);

const KEYS: [&str; 3] = ["a", "b", "node.kubernetes.io/unschedulable"];
const VALUES: [&str; 3] = ["", "x", "y"];
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
const IMAGES: [&str; 4] = ["one:1", "two:latest", "repo/three:3", "four:4"];
const SCALARS: [&str; 3] = ["example.com/gpu", "hugepages-2Mi", "ignored.example.com/x"];
const MIB: i64 = 1 << 20;

impl Dice {
    /// Starts the sequence of that seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is not zero.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next_u64() % end
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of `choices`.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// A node with up to everything that the builders know.
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
        built
    }

    /// A pod with up to everything that row-scoped plugins look at.
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

    /// A cluster of `size` nodes, some of them with pods, some of those on a node that is not known.
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
