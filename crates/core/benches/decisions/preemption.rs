//! The cost of preemption on full nodes.

use std::{
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use harbormaster_api::{Pod, PodSpec, Timestamp};
use harbormaster_core::{BindOutcome, Effect, Engine, EngineConfig, EvictOutcome, Input};

use super::{node, pod, profile};

const NODES: usize = 5000;
const PREEMPTORS: usize = 200;
/// Priority of the preemptors; all other pods have a lower priority.
const HIGHEST: i32 = 1000;
/// CPU capacity of a node, in millicores.
const WHOLE: usize = 4000;

/// The pods of a full node.
struct Shape {
    name: &'static str,
    /// Number of pods that fill a node.
    pods: usize,
    /// CPU that a preemptor needs, in millicores.
    needs: usize,
    /// Returns the priority of a given pod on a given node.
    priority: fn(node: usize, pod: usize) -> i32,
}

const SHAPES: [Shape; 6] = [
    Shape { name: "one of 4 pods, all alike", pods: 4, needs: 900, priority: |_, _| 0 },
    Shape { name: "3 of 4 pods, all alike", pods: 4, needs: 3000, priority: |_, _| 0 },
    Shape { name: "4 of 4, a third less important", pods: 4, needs: WHOLE, priority: by_node },
    Shape { name: "one of 30 pods, all alike", pods: 30, needs: 130, priority: |_, _| 0 },
    Shape { name: "10 of 30 pods, all alike", pods: 30, needs: 1330, priority: |_, _| 0 },
    Shape { name: "10 of 30 pods, mixed", pods: 30, needs: 1330, priority: mixed },
];

fn by_node(node: usize, _: usize) -> i32 {
    if node % 3 == 2 { 0 } else { 900 }
}

/// Every node has a few pods of low priority; the priorities of the remaining pods vary.
fn mixed(node: usize, pod: usize) -> i32 {
    if pod < 3 { 0 } else { [100, 300, 900][(node * 31 + pod * 7) % 3] }
}

fn sized(at: usize, milli_cpu: usize, change: impl FnOnce(&mut PodSpec)) -> Pod {
    let mut pod = pod(at, 0);
    let mut spec = PodSpec::clone(&pod.spec);
    spec.containers[0].requests[0].1 = milli_cpu as i64;
    change(&mut spec);
    pod.spec = Arc::new(spec);
    pod
}

/// Measures the time of a preemptor's attempts until it gets a node. Every eviction succeeds immediately.
fn run(shape: &Shape) -> Duration {
    let mut now = Timestamp::from_secs(1_000_000);
    let mut engine = Engine::new(EngineConfig::new(vec![profile()]));
    (0..NODES).for_each(|at| engine.handle(Input::Node(node(at)), now));
    let bound = NODES * shape.pods;
    for at in 0..bound {
        let (on, nth) = (at % NODES, at / NODES);
        let mut there = sized(at, WHOLE / shape.pods, |spec| spec.priority = (shape.priority)(on, nth));
        there.node_name = Some(format!("node-{on}").into());
        // The order of the start times is unrelated to the order of the nodes.
        there.status.start_time = Some(Timestamp::from_secs(((at * 7919) % bound) as i64));
        engine.handle(Input::Pod(there), now);
    }
    let mut deciding = Duration::ZERO;
    for at in bound..bound + PREEMPTORS {
        now.0 += 1_000_000;
        let pod = sized(at, shape.needs, |spec| spec.priority = HIGHEST);
        engine.handle(Input::Pod(pod.clone()), now);
        let mut node = None;
        while node.is_none() {
            let start = Instant::now();
            black_box(engine.schedule_one(now));
            deciding += start.elapsed();
            for effect in engine.take_effects() {
                match effect {
                    Effect::Bind(task) => node = Some(task.node().clone()),
                    Effect::Evict(task) => {
                        engine.handle(Input::PodGone(task.victim.uid.clone()), now);
                        engine.handle(Input::EvictFinished { task, outcome: EvictOutcome::Evicted }, now);
                    }
                    Effect::PatchStatus(_)
                    | Effect::Event(_)
                    | Effect::CallOff(_)
                    | Effect::Call(_)
                    | Effect::Group(_)
                    | Effect::Ask(_) => {}
                }
            }
        }
        let there = Pod { node_name: node, ..pod.clone() };
        engine.handle(Input::Pod(there), now);
        engine.handle(Input::BindFinished { uid: pod.uid.clone(), outcome: BindOutcome::Bound }, now);
    }
    deciding / PREEMPTORS as u32
}

/// Prints a table of the cost per preemptor, by kind of full node.
pub(crate) fn compare() {
    println!("\n{:<34}  {:>16}", "preemption at 5,000 full nodes", "us per preemptor");
    for shape in &SHAPES {
        println!("{:<34}  {:>16.0}", shape.name, run(shape).as_secs_f64() * 1e6);
    }
}
