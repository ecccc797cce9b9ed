//! Many templates in turn, as in a cluster of many Deployments. Answers that the templates share are cached once.

use std::{hint::black_box, sync::Arc, time::Duration, time::Instant};

use harbormaster_api::{
    Labels, Pod, PodSpec, Timestamp,
    pod::{PodAffinity, PodAffinityTerm},
    selector::LabelSelector,
};
use harbormaster_core::{BindOutcome, Effect, Engine, EngineConfig, Input};

use super::{node, pod, profile};

const NODES: usize = 5000;
const TEMPLATES: usize = 500;
/// Number of decisions before the measurement: two for every template.
const WARM: usize = 2 * TEMPLATES;
const MEASURED: usize = 4 * TEMPLATES;

/// Differences between the templates.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Differences {
    templates: usize,
    requests: bool,
    /// Different labels, and an anti-affinity to pods with the same labels on the same node.
    groups: bool,
}

fn pod_of(at: usize, differ: Differences) -> Pod {
    let template = at % differ.templates;
    let mut pod = pod(at, 0);
    let mut spec = PodSpec::clone(&pod.spec);
    spec.containers[0].requests[0].1 = 20 + if differ.requests { template as i64 % 100 } else { 0 };
    spec.containers[0].requests[1].1 += if differ.requests { template as i64 } else { 0 };
    if differ.groups {
        pod.labels = [("app", format!("app-{template}"))].into_iter().collect::<Labels>();
        let alike = LabelSelector { match_labels: pod.labels.clone(), match_expressions: Vec::new() };
        let term = PodAffinityTerm {
            label_selector: Some(alike),
            topology_key: "kubernetes.io/hostname".into(),
            ..PodAffinityTerm::default()
        };
        spec.pod_anti_affinity = Some(PodAffinity { required: vec![term], preferred: Vec::new() });
    }
    pod.spec = Arc::new(spec);
    pod
}

/// Measures the time per decision.
fn run(differ: Differences) -> Duration {
    let mut engine = Engine::new(EngineConfig::new(vec![profile()]));
    let mut now = Timestamp::from_secs(1_000_000);
    (0..NODES).for_each(|at| engine.handle(Input::Node(node(at)), now));
    let mut deciding = Duration::ZERO;
    for at in 0..WARM + MEASURED {
        now.0 += 1_000_000;
        let pod = pod_of(at, differ);
        engine.handle(Input::Pod(pod.clone()), now);
        let start = Instant::now();
        black_box(engine.schedule_one(now));
        deciding += if at < WARM { Duration::ZERO } else { start.elapsed() };
        for effect in engine.take_effects() {
            if let Effect::Bind(task) = effect {
                let there = Pod { node_name: Some(task.node().clone()), ..pod.clone() };
                engine.handle(Input::Pod(there), now);
                engine.handle(Input::BindFinished { uid: pod.uid.clone(), outcome: BindOutcome::Bound }, now);
            }
        }
    }
    assert_eq!(engine.cache().pod_counts().0, WARM + MEASURED, "every pod has room");
    deciding / MEASURED as u32
}

/// Prints a table that compares one template with five hundred in turn, for differences whose label contains `wanted`.
pub(crate) fn compare(wanted: &str) {
    println!("\nat {NODES:>5} nodes, {TEMPLATES} templates in turn       us, one    us, {TEMPLATES}   ratio");
    for (label, groups, requests) in [
        ("differing in labels and anti-affinity", true, false),
        ("also in requests", true, true),
        ("plain pods, differing in requests", false, true),
    ]
    .into_iter()
    .filter(|(label, ..)| label.contains(wanted))
    {
        let us = |templates| 1e6 * run(Differences { templates, requests, groups }).as_secs_f64();
        let (one, many) = (us(1), us(TEMPLATES));
        println!("{label:<40}  {one:>10.2}  {many:>10.2}  {:>6.2}", many / one);
    }
}
