//! Pods for which plugins read other pods.

use std::{
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use harbormaster_api::{
    Labels, Namespace, Object, Pod, PodSpec, Service, Timestamp,
    pod::{PodAffinity, PodAffinityTerm, TopologySpreadConstraint},
    selector::LabelSelector,
};
use harbormaster_core::{BindOutcome, Effect, Engine, EngineConfig, Input};

use super::{node, pod, profile};

const NODES: usize = 5000;
/// Number of decisions that fill the caches before the measurement.
const WARM: usize = 50;
const MEASURED: usize = 1000;
const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

/// A name, and a function that turns a plain pod into a pod of this shape.
type Shape = (&'static str, fn(&mut Pod, &mut PodSpec));

const SHAPES: [Shape; 9] = [
    ("plain", |_, _| {}),
    ("of a service (default spreading)", |pod, _| pod.labels = app()),
    ("spread over zones", |pod, spec| {
        pod.labels = app();
        spec.topology_spread = vec![spread(ZONE, 5, true)];
    }),
    ("spread over zones and nodes", |pod, spec| {
        pod.labels = app();
        spec.topology_spread = vec![spread(ZONE, 5, true), spread(HOSTNAME, 30, true)];
    }),
    ("preferably spread over zones", |pod, spec| {
        pod.labels = app();
        spec.topology_spread = vec![spread(ZONE, 5, false)];
    }),
    ("pod affinity, same zone", |pod, spec| {
        pod.labels = app();
        spec.pod_affinity = Some(PodAffinity { required: vec![term(ZONE)], preferred: Vec::new() });
    }),
    ("preferred pod affinity, same node", |pod, spec| {
        pod.labels = app();
        spec.pod_affinity = Some(PodAffinity { required: Vec::new(), preferred: vec![(1, term(HOSTNAME))] });
    }),
    ("anti-affinity, one per node", |pod, spec| {
        pod.labels = [("color", "green")].into_iter().collect();
        let alike = PodAffinityTerm { label_selector: Some(select(&pod.labels)), ..term(HOSTNAME) };
        spec.pod_anti_affinity = Some(PodAffinity { required: vec![alike], preferred: Vec::new() });
    }),
    ("anti-affinity across namespaces", |pod, spec| {
        pod.labels = [("color", "green")].into_iter().collect();
        let teams = select(&[("team", "devops")].into_iter().collect());
        let alike = PodAffinityTerm {
            label_selector: Some(select(&pod.labels)),
            namespace_selector: Some(teams),
            ..term(HOSTNAME)
        };
        spec.pod_anti_affinity = Some(PodAffinity { required: vec![alike], preferred: Vec::new() });
    }),
];

fn app() -> Labels {
    [("app", "measured")].into_iter().collect()
}

fn select(labels: &Labels) -> LabelSelector {
    LabelSelector { match_labels: labels.clone(), match_expressions: Vec::new() }
}

fn spread(key: &str, max_skew: i32, hard: bool) -> TopologySpreadConstraint {
    TopologySpreadConstraint {
        max_skew,
        topology_key: key.into(),
        hard,
        label_selector: Some(select(&app())),
        ..TopologySpreadConstraint::default()
    }
}

fn term(key: &str) -> PodAffinityTerm {
    PodAffinityTerm {
        label_selector: Some(select(&app())),
        topology_key: key.into(),
        ..PodAffinityTerm::default()
    }
}

fn shaped(at: usize, change: fn(&mut Pod, &mut PodSpec)) -> Pod {
    let mut pod = pod(at, 0);
    let mut spec = PodSpec::clone(&pod.spec);
    // Small enough for ten bound pods and the measured one to fit on every node.
    spec.containers[0].requests[0].1 = 20;
    change(&mut pod, &mut spec);
    pod.spec = Arc::new(spec);
    pod
}

/// Creates an engine with the nodes, a service for the measured pods, and `bound` pods.
fn engine(change: fn(&mut Pod, &mut PodSpec), bound: usize, now: Timestamp) -> Engine {
    let mut engine = Engine::new(EngineConfig::new(vec![profile()]));
    let labels = [("team", "devops")].into_iter().collect();
    engine.handle(Input::Object(Object::Namespace(Namespace { name: "default".into(), labels })), now);
    let service = Service { namespace: "default".into(), name: "s".into(), selector: Some(app()) };
    engine.handle(Input::Object(Object::Service(service)), now);
    (0..NODES).for_each(|at| engine.handle(Input::Node(node(at)), now));
    for at in 0..bound {
        let shaped = shaped(at, change);
        // Some nodes have one pod with anti-affinity; all other pods are plain.
        let repels = shaped.spec.pod_anti_affinity.is_some();
        let template = if repels && at >= NODES / 4 { self::shaped(at, |_, _| {}) } else { shaped };
        let node = format!("node-{}", at % NODES);
        engine.handle(Input::Pod(Pod { node_name: Some(node.as_str().into()), ..template }), now);
    }
    engine
}

fn run(change: fn(&mut Pod, &mut PodSpec), bound: usize) -> Duration {
    let mut now = Timestamp::from_secs(1_000_000);
    let mut engine = engine(change, bound, now);
    let mut deciding = Duration::ZERO;
    for at in bound..bound + WARM + MEASURED {
        now.0 += 1_000_000;
        let pod = shaped(at, change);
        engine.handle(Input::Pod(pod.clone()), now);
        let start = Instant::now();
        black_box(engine.schedule_one(now));
        if at >= bound + WARM {
            deciding += start.elapsed();
        }
        for effect in engine.take_effects() {
            if let Effect::Bind(task) = effect {
                let there = Pod { node_name: Some(task.node().clone()), ..pod.clone() };
                engine.handle(Input::Pod(there), now);
                engine.handle(Input::BindFinished { uid: pod.uid.clone(), outcome: BindOutcome::Bound }, now);
            }
        }
    }
    assert_eq!(engine.cache().pod_counts().0, bound + WARM + MEASURED, "every pod has room");
    deciding / MEASURED as u32
}

/// Prints a table of the cost of a decision per shape, with few and with many bound pods.
pub(crate) fn compare() {
    println!("\n{:<34}  {:>12}  {:>12}  {:>6}", "at 5,000 nodes", "us at 5,000", "us at 50,000", "ratio");
    for (name, change) in SHAPES {
        let [few, many] = [5_000, 50_000].map(|bound| run(change, bound).as_secs_f64() * 1e6);
        println!("{name:<34}  {few:>12.2}  {many:>12.2}  {:>6.2}", many / few);
    }
}
