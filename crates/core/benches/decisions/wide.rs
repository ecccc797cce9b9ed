//! A cluster of 100,000 nodes, first without pods and then with 1,000,000: its memory and the cost of a decision.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use harbormaster_api::{Pod, Timestamp};
use harbormaster_core::{BindOutcome, Effect, Engine, EngineConfig, Input};

use super::{memory_in_use, node, pod, profile};

const NODES: usize = 100_000;
/// Number of decisions per template that fill the caches before the measurement.
const WARM: usize = 5;
const MEASURED: usize = 1000;
const PODS_PER_NODE: usize = 10;

/// Prints a table of the cost of decisions and the engine's memory, by the number of templates used in turn.
pub(crate) fn measure(selected: Option<usize>) {
    let nodes = selected.unwrap_or(NODES);
    let (before, now) = (memory_in_use(), Timestamp::from_secs(1_000_000));
    let mut engine = Engine::new(EngineConfig::new(vec![profile()]));
    (0..nodes).for_each(|at| engine.handle(Input::Node(node(at)), now));
    let bare = memory_in_use().saturating_sub(before);
    println!("\n{nodes} nodes: {} MiB, {} bytes per node", bare >> 10, bare * 1024 / nodes as u64);
    let mut decided = 0;
    measure_decisions(&mut engine, &mut decided, before, now);
    let (without, pods) = (memory_in_use(), nodes * PODS_PER_NODE);
    for at in 0..pods {
        let there = Pod { node_name: Some(node(at % nodes).name), ..pod(decided, at % 50) };
        decided += 1;
        engine.handle(Input::Pod(there), now);
    }
    let all = memory_in_use();
    let each = all.saturating_sub(without) * 1024 / pods as u64;
    println!("\nwith {pods} pods: {} MiB, {each} bytes per pod", all.saturating_sub(before) >> 10);
    measure_decisions(&mut engine, &mut decided, before, now);
}

fn measure_decisions(engine: &mut Engine, decided: &mut usize, before: u64, now: Timestamp) {
    println!("{:<12}  {:>12}  {:>12}  {:>24}", "templates", "us/first", "us/decision", "MiB with caches");
    for templates in [1, 10, 50] {
        let first = decide(engine, decided, templates, templates, now) / templates as u32;
        decide(engine, decided, WARM * templates, templates, now);
        let each = decide(engine, decided, MEASURED, templates, now) / MEASURED as u32;
        let [first, each] = [first, each].map(|d| d.as_secs_f64() * 1e6);
        let held = memory_in_use().saturating_sub(before) >> 10;
        println!("{templates:<12}  {first:>12.0}  {each:>12.1}  {held:>24}");
    }
}

/// Schedules some more pods and measures the time for the decisions.
fn decide(
    engine: &mut Engine,
    decided: &mut usize,
    pods: usize,
    templates: usize,
    now: Timestamp,
) -> Duration {
    let mut spent = Duration::ZERO;
    for _ in 0..pods {
        let pod = pod(*decided, *decided % templates);
        *decided += 1;
        engine.handle(Input::Pod(pod.clone()), now);
        let start = Instant::now();
        black_box(engine.schedule_one(now));
        spent += start.elapsed();
        for effect in engine.take_effects() {
            if let Effect::Bind(task) = effect {
                let there = Pod { node_name: Some(task.node().clone()), ..pod.clone() };
                engine.handle(Input::Pod(there), now);
                engine.handle(Input::BindFinished { uid: pod.uid.clone(), outcome: BindOutcome::Bound }, now);
            }
        }
    }
    spent
}
