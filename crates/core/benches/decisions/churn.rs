//! The cost per pod after thousands of pods have come and gone. This cost must not grow.
//!
//! Every case is a stream of pods. Each pod is scheduled and confirmed; when the number of pods exceeds the case's
//! maximum, the oldest pod is deleted. The table shows the cost per pod, including all event handling, in each quarter
//! of the stream. On a busy machine, ratios within one run are more reliable than absolute times. For exact numbers,
//! count instructions: `valgrind --tool=callgrind BENCHMARK 'NAME OF THE CASE'`.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use harbormaster_api::{
    Labels, Pod, PodSpec, Str, Timestamp,
    node::Image,
    pod::{PodAffinity, PodAffinityTerm, TopologySpreadConstraint},
    selector::LabelSelector,
};
use harbormaster_core::{BindOutcome, Effect, Engine, EngineConfig, Input};

use super::{node, pod, profile};

const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";
/// Name that selects every case.
const ALL: &str = "streams";
/// Number of workloads, which are assigned to the pods in turn.
const WORKLOADS: usize = 4000;

struct Case {
    name: &'static str,
    nodes: usize,
    /// Number of images on every node.
    images: usize,
    /// Number of pods in the stream.
    pods: usize,
    /// Maximum number of pods at any time.
    max_pods: usize,
    /// Turns a plain pod into a pod of this case, given the pod's number.
    change: fn(usize, &mut Pod, &mut PodSpec),
}

const CASES: [Case; 7] = [
    Case { name: "no images", nodes: 1000, images: 0, pods: 4000, max_pods: 4000, change: |_, _, _| {} },
    Case {
        name: "50 images on every node",
        nodes: 1000,
        images: 50,
        pods: 4000,
        max_pods: 4000,
        change: |_, _, _| {},
    },
    Case {
        name: "StatefulSet, spread",
        nodes: 1000,
        images: 0,
        pods: 5000,
        max_pods: 5000,
        change: |at, pod, spec| {
            pod.labels = member(at);
            spec.topology_spread = vec![spread(labels(&[("app", "db")]))];
        },
    },
    Case {
        name: "StatefulSet, anti-affinity",
        nodes: 5500,
        images: 0,
        pods: 5000,
        max_pods: 5000,
        change: |at, pod, spec| {
            pod.labels = member(at);
            spec.pod_anti_affinity = Some(avoid(labels(&[("app", "db")])));
        },
    },
    Case {
        name: "4,000 selectors in rotation",
        nodes: 300,
        images: 0,
        pods: 2 * WORKLOADS,
        max_pods: 2 * WORKLOADS,
        change: |at, pod, spec| {
            pod.labels = labels(&[("app", &format!("app-{}", at % WORKLOADS))]);
            spec.topology_spread = vec![spread(pod.labels.clone())];
        },
    },
    Case {
        name: "labels that never repeat",
        nodes: 300,
        images: 0,
        pods: 16_000,
        max_pods: 2400,
        change: |at, pod, _| pod.labels = member(at),
    },
    Case {
        name: "labels and selectors that never repeat",
        nodes: 300,
        images: 0,
        pods: 16_000,
        max_pods: 2400,
        change: |at, pod, spec| {
            pod.labels = member(at);
            if at.is_multiple_of(10) {
                spec.pod_anti_affinity = Some(avoid(labels(&[("member", &format!("db-{at}"))])));
            }
        },
    },
];

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().copied().collect()
}

/// Labels of a StatefulSet's pod, some of which are unique.
fn member(at: usize) -> Labels {
    labels(&[("app", "db"), ("member", &format!("db-{at}")), ("index", &at.to_string())])
}

fn select(labels: Labels) -> LabelSelector {
    LabelSelector { match_labels: labels, match_expressions: Vec::new() }
}

fn spread(over: Labels) -> TopologySpreadConstraint {
    TopologySpreadConstraint {
        max_skew: 5,
        topology_key: ZONE.into(),
        hard: true,
        label_selector: Some(select(over)),
        ..TopologySpreadConstraint::default()
    }
}

fn avoid(others: Labels) -> PodAffinity {
    let term = PodAffinityTerm {
        label_selector: Some(select(others)),
        topology_key: HOSTNAME.into(),
        ..PodAffinityTerm::default()
    };
    PodAffinity { required: vec![term], preferred: Vec::new() }
}

/// Images as the kubelet reports them, each with its digest and its tag.
fn images(count: usize, of_node: usize) -> Vec<Image> {
    let image = |at: usize| {
        let name = format!("registry.example/team-{}/image-{at}", at % 7);
        let digest = format!("{name}@sha256:{:064x}", at * 2_654_435_761);
        Image { names: vec![digest.into(), format!("{name}:v{at}").into()], size_bytes: 100 << 20 }
    };
    (0..count).map(|at| image((of_node + at * 3) % 200)).collect()
}

impl Case {
    fn pod(&self, at: usize) -> Pod {
        let mut pod = pod(at, 0);
        let mut spec = PodSpec::clone(&pod.spec);
        spec.containers[0].requests[0].1 = 20;
        (self.change)(at, &mut pod, &mut spec);
        pod.spec = Arc::new(spec);
        pod
    }

    /// Measures the cost per pod in each quarter of the stream.
    fn run(&self) -> [Duration; 4] {
        let mut now = Timestamp::from_secs(1_000_000);
        let mut engine = Engine::new(EngineConfig::new(vec![profile()]));
        for at in 0..self.nodes {
            let node = harbormaster_api::Node { images: images(self.images, at).into(), ..node(at) };
            engine.handle(Input::Node(node), now);
        }
        let mut there: VecDeque<Str> = VecDeque::new();
        let mut spent = [Duration::ZERO; 4];
        for at in 0..self.pods {
            now.0 += 25_000_000;
            let pod = self.pod(at);
            there.push_back(pod.uid.clone());
            let start = Instant::now();
            decide(&mut engine, pod, now);
            if there.len() > self.max_pods {
                there.pop_front().into_iter().for_each(|uid| engine.handle(Input::PodGone(uid), now));
            }
            engine.tick(now);
            spent[at * 4 / self.pods] += start.elapsed();
        }
        assert_eq!(engine.cache().pod_counts().0, there.len(), "{}: every pod has room", self.name);
        spent.map(|all| all * 4 / self.pods as u32)
    }
}

fn decide(engine: &mut Engine, pod: Pod, now: Timestamp) {
    engine.handle(Input::Pod(pod.clone()), now);
    engine.schedule_one(now);
    for effect in engine.take_effects() {
        if let Effect::Bind(task) = effect {
            let bound = Pod { node_name: Some(task.node().clone()), ..pod.clone() };
            engine.handle(Input::Pod(bound), now);
            engine.handle(Input::BindFinished { uid: pod.uid.clone(), outcome: BindOutcome::Bound }, now);
        }
    }
}

/// Prints a table of the named cases, or of all cases.
pub(crate) fn compare(selected: &[String]) {
    println!(
        "\n{:<40}  {:>6}  {:>30}  {:>11}",
        "a stream of pods", "nodes", "us per pod, by quarter", "last/second"
    );
    for case in CASES.iter().filter(|case| {
        selected.iter().all(|name| name == ALL) || selected.iter().any(|name| name == case.name)
    }) {
        let us = case.run().map(|each| each.as_secs_f64() * 1e6);
        let quarters = us.map(|us| format!("{us:>6.1}")).join("  ");
        println!("{:<40}  {:>6}  {quarters}  {:>11.2}", case.name, case.nodes, us[3] / us[1]);
    }
}
