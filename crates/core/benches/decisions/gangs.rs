//! The cost of groups: gangs that fit, compared with as many replicas on their own, and gangs that cannot fit. Gangs are
//! placed on empty nodes, and on a tenth as many nodes half of whose CPU is requested already.
//!
//! Gangs that cannot fit wait on a full cluster on which one pod a second leaves and another takes its place. The table
//! shows the share of one core that the engine needs for all of this, with and without waiting gangs.
//!
//! Pass `-- gangs` to run only this benchmark.

use std::{
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use harbormaster_api::{Pod, Timestamp, points::ExtensionPoint as P};
use harbormaster_core::{BindOutcome, Effect, Engine, EngineConfig, Input};
use harbormaster_framework::{api_call::ObjectPath, resource::RawObject};
use harbormaster_plugins::gang_scheduling::PodGroupObject;

use super::{node, pod, profile_with};

const NODES: usize = 5000;
/// Numbers of nodes, and of the pods on each of them.
const CLUSTERS: [(usize, usize); 2] = [(NODES, 0), (NODES / 10, 20)];
/// Number of pods that are placed.
const PODS: usize = 1024;
/// Sizes of gangs; 1 stands for pods on their own.
const SIZES: [usize; 4] = [1, 8, 64, 1024];
/// Numbers of nodes on which a gang looks for victims, and its size.
const FULL_OF_VICTIMS: [usize; 3] = [100, 1000, 5000];
const EVICTING: usize = 64;
const IMPORTANT: i32 = 9;
/// Number of gangs that cannot fit, and their size. They need all of their members, or two.
const WAITING: (usize, usize) = (200, 64);
/// Number of nodes, which are full, on which they wait.
const FULL: usize = 500;
/// Virtual time for which they wait.
const SECONDS: usize = 600;

fn engine(nodes: usize) -> (Engine, Timestamp) {
    let profile = profile_with(|_| {
        let gangs = vec![("GangScheduling".to_owned(), 0)];
        vec![(P::Permit, gangs), (P::PodGroupPostFilter, vec![("DefaultPreemption".to_owned(), 0)])]
    });
    let now = Timestamp::from_secs(1_000_000);
    let mut engine = Engine::new(EngineConfig::new(vec![profile]));
    (0..nodes).for_each(|at| engine.handle(Input::Node(node(at)), now));
    (engine, now)
}

fn group(name: &str, min_count: usize) -> Input {
    let priority = if name == "important" { IMPORTANT } else { 0 };
    let key = ObjectPath::of::<PodGroupObject>("default", name).key();
    let json = format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"default","uid":"{name}"}},
            "spec":{{"priority":{priority},"schedulingPolicy":{{"gang":{{"minCount":{min_count}}}}}}}}}"#
    );
    Input::Custom(RawObject::from_json(key, json))
}

fn member(at: usize, group: &str, milli_cpu: i64) -> Pod {
    let mut pod = pod(at, 0);
    let spec = Arc::make_mut(&mut pod.spec);
    spec.pod_group = (!group.is_empty()).then(|| group.into());
    spec.containers[0].requests[0].1 = milli_cpu;
    pod
}

/// Confirms all bindings. Returns the bound pods.
fn confirm(engine: &mut Engine, now: Timestamp) -> Vec<Pod> {
    let mut bound = Vec::new();
    for effect in engine.take_effects() {
        if let Effect::Bind(task) = effect {
            let pod = Pod { node_name: Some(task.node().clone()), ..Pod::clone(&task.pod().pod) };
            engine.handle(Input::Pod(pod.clone()), now);
            engine.handle(Input::BindFinished { uid: pod.uid.clone(), outcome: BindOutcome::Bound }, now);
            bound.push(pod);
        }
    }
    bound
}

/// Places [`PODS`] pods in gangs of the given size on nodes with this number of pods. Returns the time for decisions, and
/// for everything.
fn place(size: usize, (nodes, filled): (usize, usize)) -> (Duration, Duration) {
    let (mut engine, mut now) = engine(nodes);
    for at in 0..nodes * filled {
        engine.handle(
            Input::Pod(Pod { node_name: Some(node(at % nodes).name), ..member(PODS + at, "", 100) }),
            now,
        );
    }
    let (begin, mut deciding, mut placed) = (Instant::now(), Duration::ZERO, 0);
    for first in (0..PODS).step_by(size) {
        now.0 += 1_000_000;
        let name = format!("g{first}");
        if size > 1 {
            engine.handle(group(&name, size), now);
        }
        for at in first..first + size {
            let pod = if size > 1 { member(at, &name, 100) } else { member(at, "", 100) };
            engine.handle(Input::Pod(pod), now);
        }
        let start = Instant::now();
        black_box(engine.schedule_one(now));
        deciding += start.elapsed();
        placed += confirm(&mut engine, now).len();
    }
    assert_eq!(placed, PODS, "every pod has room");
    (deciding, begin.elapsed())
}

/// Lets a gang look for victims on this number of nodes, which pods of low priority fill. Returns the time of the attempt.
fn evict(nodes: usize) -> Duration {
    let (mut engine, now) = engine(nodes);
    for at in 0..nodes * 4 {
        engine
            .handle(Input::Pod(Pod { node_name: Some(node(at % nodes).name), ..member(at, "", 1000) }), now);
    }
    engine.handle(group("important", EVICTING), now);
    for at in 0..EVICTING {
        let mut pod = member(1_000_000 + at, "important", 4000);
        Arc::make_mut(&mut pod.spec).priority = IMPORTANT;
        engine.handle(Input::Pod(pod), now);
    }
    let begin = Instant::now();
    black_box(engine.schedule_one(now));
    let spent = begin.elapsed();
    let evictions = engine.take_effects().iter().filter(|effect| matches!(effect, Effect::Evict(_))).count();
    assert!(evictions > 0, "there are victims");
    spent
}

/// Lets `gangs` gangs wait that need `needed` nodes and cannot fit, while pods come and go. Returns the time spent and the
/// number of attempts.
fn wait(gangs: usize, needed: usize) -> (Duration, usize) {
    let (mut engine, mut now) = engine(FULL);
    // One pod fills a node.
    let filler = |at: usize| {
        let mut pod = pod(at, 0);
        Arc::make_mut(&mut pod.spec).containers[0].requests[0].1 = 4000;
        pod
    };
    let mut running = Vec::new();
    for at in 0..FULL {
        engine.handle(Input::Pod(filler(at)), now);
        black_box(engine.schedule_one(now));
        running.extend(confirm(&mut engine, now));
    }
    for which in 0..gangs {
        let name = format!("g{which}");
        engine.handle(group(&name, needed), now);
        let first = 1_000_000 + which * WAITING.1;
        (first..first + WAITING.1).for_each(|at| engine.handle(Input::Pod(member(at, &name, 4000)), now));
    }
    let (begin, mut attempts) = (Instant::now(), 0);
    for second in 0..SECONDS {
        now = now + Duration::from_secs(1);
        engine.tick(now);
        let gone = running.remove(0);
        engine.handle(Input::PodGone(gone.uid), now);
        engine.handle(Input::Pod(filler(10_000 + second)), now);
        while engine.schedule_one(now).is_some() {
            attempts += 1;
            running.extend(confirm(&mut engine, now));
        }
        engine.take_notes();
    }
    (begin.elapsed(), attempts)
}

/// Prints both tables.
pub(super) fn compare() {
    println!(
        "\n{:>6}  {:>6}  {:>9}  {:>6}  {:>12}  {:>12}",
        "nodes", "filled", "gangs of", "pods", "us/decision", "us/whole"
    );
    for cluster in CLUSTERS {
        for size in SIZES {
            let (deciding, whole) = place(size, cluster);
            let each = |d: Duration| d.as_secs_f64() * 1e6 / PODS as f64;
            let (nodes, filled) = cluster;
            println!(
                "{nodes:>6}  {filled:>6}  {size:>9}  {PODS:>6}  {:>12.2}  {:>12.2}",
                each(deciding),
                each(whole)
            );
        }
    }
    println!("\n{:>6}  {:>9}  {:>10}", "nodes", "evicts", "ms/attempt");
    for nodes in FULL_OF_VICTIMS {
        println!("{nodes:>6}  {EVICTING:>9}  {:>10.2}", evict(nodes).as_secs_f64() * 1e3);
    }
    println!("\n{:>9}  {:>6}  {:>6}  {:>9}  {:>9}", "waiting", "of", "need", "attempts", "% of core");
    for (gangs, needed) in [(0, 0), (WAITING.0, WAITING.1), (WAITING.0, 2)] {
        let (spent, attempts) = wait(gangs, needed);
        let share = spent.as_secs_f64() * 100.0 / SECONDS as f64;
        println!("{gangs:>9}  {:>6}  {needed:>6}  {attempts:>9}  {share:>9.3}", WAITING.1);
    }
}
