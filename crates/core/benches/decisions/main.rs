//! Decisions per second of the engine alone, by cluster size and mix of pods.
//!
//! `cargo bench -p harbormaster-core --bench decisions [-- NODES… | shapes | preemption | templates [LABEL] | volumes [SHAPE] | devices | permit [PODS] | gangs | unused | wide [NODES] | streams | NAME OF A STREAM…]`
//!
//! Each node has 4 CPUs, 32 GiB of memory and capacity for 110 pods. Every pod requests CPU and memory. Each decision
//! is confirmed as the API server would confirm it, so "us/whole" includes the clean-up after a binding. There are
//! three mixes of plain pods: replicas of one template, pods of 50 templates in turn, and pods that are all different.
//! Next come pods for which plugins read other pods; each of these [shapes] is measured on 5,000 nodes with 5,000 and
//! with 50,000 pods already bound. They are followed by [preemption] on full nodes, many [templates] in turn, pods with
//! [volumes] or with claims for [devices], pods that wait on [Permit](permit), [gangs], what plugins cost pods that have
//! no use for them ([unused]), and the decisions and memory of a [wide] cluster of 100,000 nodes. Last come
//! [streams](churn) of pods that come and go.

mod churn;
mod devices;
mod gangs;
mod permit;
mod preemption;
mod shapes;
mod templates;
mod unused;
mod volumes;
mod wide;

use std::{
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use harbormaster_api::{Node, Pod, PodSpec, Resources, Timestamp, points::ExtensionPoint as P};
use harbormaster_core::{BindOutcome, Effect, Engine, EngineConfig, Input};
use harbormaster_framework::{
    profile::{Profile, ProfileSpec},
    registry::{BuildCycle, Registry},
};

/// An extension point and its plugins, with their weights.
type At = (P, Vec<(String, i64)>);

/// The in-tree plugins, except those for volumes, in the default order with the default weights.
fn profile() -> Arc<Profile> {
    profile_with(|_| Vec::new())
}

/// Profile with the plugins of [`profile`] and those that `add` returns for each extension point. `add` first registers
/// the plugins that are not in-tree.
fn profile_with(add: impl FnOnce(&mut Registry) -> Vec<At>) -> Arc<Profile> {
    let mut registry = Registry::default();
    harbormaster_plugins::in_tree(&mut registry);
    let mut points = points();
    points.append(&mut add(&mut registry));
    built(points, &registry)
}

fn built(points: Vec<At>, registry: &Registry) -> Arc<Profile> {
    let spec = ProfileSpec { name: "default-scheduler".into(), points, ..ProfileSpec::default() };
    Arc::new(Profile::build(&spec, registry, &BuildCycle::default()).expect("the default profile"))
}

/// The extension points of [`profile`].
fn points() -> Vec<At> {
    let list = |names: &[(&str, i64)]| names.iter().map(|(name, w)| ((*name).to_owned(), *w)).collect();
    let filters = [
        ("NodeUnschedulable", 0),
        ("NodeName", 0),
        ("TaintToleration", 0),
        ("NodeAffinity", 0),
        ("NodePorts", 0),
        ("NodeResourcesFit", 0),
        ("PodTopologySpread", 0),
        ("InterPodAffinity", 0),
        ("DynamicResources", 0),
        ("NodeDeclaredFeatures", 0),
    ];
    let scores = [
        ("TaintToleration", 3),
        ("NodeAffinity", 2),
        ("NodeResourcesFit", 1),
        ("PodTopologySpread", 2),
        ("InterPodAffinity", 2),
        ("DynamicResources", 2),
        ("NodeResourcesBalancedAllocation", 1),
        ("ImageLocality", 1),
    ];
    vec![
        (P::PreEnqueue, list(&[("SchedulingGates", 0), ("DynamicResources", 0)])),
        (P::QueueSort, list(&[("PrioritySort", 0)])),
        (P::PreFilter, list(&filters[3..])),
        (P::Filter, list(&filters)),
        (P::PostFilter, list(&[("DynamicResources", 0), ("DefaultPreemption", 0)])),
        (P::PreScore, list(&[&scores[..5], &scores[6..7]].concat())),
        (P::Score, list(&scores)),
        (P::Reserve, list(&[("DynamicResources", 0)])),
        (P::PreBind, list(&[("DynamicResources", 0)])),
        (P::Bind, list(&[("DefaultBinder", 0)])),
    ]
}

fn node(at: usize) -> Node {
    let name = format!("node-{at}");
    let labels = [
        ("kubernetes.io/hostname", name.clone()),
        ("topology.kubernetes.io/zone", format!("zone-{}", at % 3)),
    ];
    Node {
        name: name.into(),
        labels: labels.into_iter().collect(),
        allocatable: Resources { milli_cpu: 4000, memory: 32 << 30, pods: 110, ..Resources::default() },
        ..Node::default()
    }
}

fn pod(at: usize, template: usize) -> Pod {
    let name = format!("pod-{at}");
    let requests =
        vec![("cpu".into(), 50 + (template % 50) as i64), ("memory".into(), (100 << 20) + template as i64)];
    let container = harbormaster_api::pod::Container {
        name: "c".into(),
        image: "registry.example/app:v1".into(),
        requests,
        ..Default::default()
    };
    let spec = PodSpec {
        scheduler_name: "default-scheduler".into(),
        containers: vec![container],
        ..PodSpec::default()
    };
    Pod {
        uid: name.as_str().into(),
        namespace: "default".into(),
        name: name.into(),
        spec: Arc::new(spec),
        ..Pod::default()
    }
}

/// Memory of this process in KiB; zero if `/proc` does not report it.
fn memory_in_use() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}

/// Returns the time for the decisions alone, and the time including all event handling, for `pods` pods on `nodes`
/// nodes.
fn run(profile: Arc<Profile>, nodes: usize, pods: usize, templates: usize) -> (Duration, Duration) {
    let mut engine = Engine::new(EngineConfig::new(vec![profile]));
    let mut now = Timestamp::from_secs(1_000_000);
    (0..nodes).for_each(|at| engine.handle(Input::Node(node(at)), now));
    // The first decisions fill the caches; they are part of the run.
    let all: Vec<Pod> = (0..pods).map(|at| pod(at, at % templates)).collect();
    let (begin, mut deciding) = (Instant::now(), Duration::ZERO);
    for pod in all {
        now.0 += 1_000_000;
        engine.handle(Input::Pod(pod.clone()), now);
        let start = Instant::now();
        black_box(engine.schedule_one(now));
        deciding += start.elapsed();
        for effect in engine.take_effects() {
            if let Effect::Bind(task) = effect {
                let bound = Pod { node_name: Some(task.node().clone()), ..pod.clone() };
                engine.handle(Input::Pod(bound), now);
                engine.handle(Input::BindFinished { uid: pod.uid.clone(), outcome: BindOutcome::Bound }, now);
            }
        }
    }
    let (placed, _) = engine.cache().pod_counts();
    assert_eq!(placed, pods, "every pod has room");
    (deciding, begin.elapsed())
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let number = words.get(1).and_then(|word| word.parse().ok());
    match words.first().map(String::as_str) {
        Some("devices") => return devices::compare(),
        Some("gangs") => return gangs::compare(),
        Some("permit") => return permit::compare(number),
        Some("preemption") => return preemption::compare(),
        Some("shapes") => return shapes::compare(),
        Some("templates") => return templates::compare(words.get(1).map_or("", String::as_str)),
        Some("unused") => return unused::compare(),
        Some("volumes") => return volumes::compare(words.get(1).map(String::as_str)),
        Some("wide") => return wide::measure(number),
        _ => {}
    }
    if words.iter().any(|word| word.parse::<usize>().is_err()) {
        return churn::compare(&words);
    }
    let selected: Vec<usize> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let sizes = if selected.is_empty() { vec![100, 1000, 5000, 20_000] } else { selected };
    println!(
        "{:>7}  {:<14}  {:>6}  {:>14}  {:>12}  {:>12}",
        "nodes", "pods", "count", "us/decision", "us/whole", "decisions/s"
    );
    for nodes in sizes {
        for (label, templates) in [("one template", 1), ("50 templates", 50), ("all different", usize::MAX)] {
            let count = (nodes * 10).clamp(1000, 5000);
            let (deciding, whole) = run(profile(), nodes, count, templates);
            let each = |d: Duration| d.as_secs_f64() * 1e6 / count as f64;
            println!(
                "{nodes:>7}  {label:<14}  {count:>6}  {:>14.2}  {:>12.2}  {:>12.0}",
                each(deciding),
                each(whole),
                count as f64 / deciding.as_secs_f64()
            );
        }
    }
    shapes::compare();
    preemption::compare();
    templates::compare("");
    volumes::compare(None);
    devices::compare();
    permit::compare(None);
    gangs::compare();
    unused::compare();
    wide::measure(None);
    churn::compare(&[]);
}
