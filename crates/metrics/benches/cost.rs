//! Cost of metrics: schedules the same pods in the same cluster, alternately with and without metrics.
//!
//! `cargo bench -p harbormaster-metrics --bench cost [-- NODES PODS]`
//!
//! Every pod is created, scheduled, and confirmed as the API server would confirm it. Compare the time that metrics add
//! per pod with the total time per pod, including requests to the API server (`docs/benchmarks.md`), which is a few
//! hundred microseconds.

#![allow(clippy::unwrap_used, reason = "a failing set-up ends the benchmark")]

use std::time::{Duration, Instant};

use harbormaster_api::{Pod, Timestamp};
use harbormaster_core::{BindOutcome, Effect, Engine, EngineConfig, Input};
use harbormaster_metrics::Metrics;
use harbormaster_setup::{Choices, Setup};
use harbormaster_testkit::{node, pod};

/// Number of rounds. Each round measures once with and once without metrics; the order alternates.
const ROUNDS: usize = 6;

fn run(nodes: usize, pods: usize, metrics: Option<&Metrics>) -> Duration {
    let config = Setup::read(None, &Choices::default()).unwrap().engine;
    let mut engine = Engine::new(EngineConfig { meter: metrics.map(Metrics::meter), ..config });
    let mut now = Timestamp::from_secs(1_000_000);
    for at in 0..nodes {
        engine.handle(Input::Node(node(&format!("n{at}")).allocatable("4", "32Gi", 110).build()), now);
    }
    let pods: Vec<Pod> = (0..pods).map(|at| pod(&format!("p{at}")).cpu("10m").build()).collect();
    let start = Instant::now();
    for pod in pods {
        now.0 += 1_000_000;
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
    start.elapsed()
}

fn main() {
    let words: Vec<usize> = std::env::args().filter_map(|word| word.parse().ok()).collect();
    let nodes = words.first().copied().unwrap_or(1000);
    let pods = words.get(1).copied().unwrap_or(20_000);
    run(nodes, pods, None);
    let metrics = Metrics::default();
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let order = if round % 2 == 0 { [false, true] } else { [true, false] };
        for measured in order {
            let took = run(nodes, pods, measured.then_some(&metrics));
            if measured { &mut with } else { &mut without }.push(took);
        }
    }
    let each = |times: &[Duration]| {
        let best = times.iter().min().copied().unwrap_or_default();
        best.as_secs_f64() * 1e6 / pods as f64
    };
    let (without, with) = (each(&without), each(&with));
    println!("{nodes} nodes, {pods} pods, best of {ROUNDS} rounds, µs of engine time per pod");
    println!("without metrics  {without:>7.2}");
    println!("with metrics     {with:>7.2}");
    println!("metrics          {:>7.2}", with - without);
}
