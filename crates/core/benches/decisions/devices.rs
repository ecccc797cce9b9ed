//! Pods with resource claims, on nodes with eight devices each.
//!
//! The benchmark acts as the API server and the drivers. It compares a small cluster with a large one: what one claim or
//! one slice changes must not cost more because there are more nodes, apart from the search for a node.

use std::{
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use harbormaster_api::{Pod, PodSpec, Timestamp, pod::PodClaim};
use harbormaster_core::{BindOutcome, Effect, Engine, EngineConfig, Input};
use harbormaster_framework::{api_call::ObjectPath, resource::Resource};
use harbormaster_plugins::devices::{DeviceClass, ResourceClaim, ResourceSlice};
use harbormaster_testkit::custom::raw;
use serde_json::{Value, json};

use super::{memory_in_use, node, pod, profile};

const SIZES: [usize; 2] = [500, 5000];
const DEVICES_PER_NODE: usize = 8;
/// Number of decisions before the measurement, which fill the caches.
const WARM: usize = 50;
const MEASURED: usize = 1000;
const DRIVER: &str = "gpu.example.com";

fn input<R: Resource>(object: &Value) -> Input {
    Input::Custom(raw::<R>(object))
}

/// The slice of a node. Each `version` has other attributes.
fn slice(at: usize, version: usize) -> Value {
    let name = format!("node-{at}");
    let device = |device: usize| {
        json!({
            "name": format!("gpu-{device}"),
            "attributes": {
                "model": {"string": "a100"}, "index": {"int": device}, "driverVersion": {"version": "1.2.3"},
                "uuid": {"string": format!("GPU-{at}-{device}")}, "numa": {"int": device / 4},
                "firmware": {"int": version},
            },
            "capacity": {"memory": {"value": "40Gi"}},
        })
    };
    let devices: Vec<_> = (0..DEVICES_PER_NODE).map(device).collect();
    let pool = json!({"name": name, "generation": 1, "resourceSliceCount": 1});
    json!({
        "metadata": {"name": name, "uid": name},
        "spec": {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices},
    })
}

fn claim(at: usize) -> Value {
    let exactly = json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1});
    let name = format!("claim-{at}");
    json!({
        "metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
    })
}

fn user(at: usize) -> Pod {
    let mut pod = pod(at, 0);
    let mut spec = PodSpec::clone(&pod.spec);
    spec.containers[0].requests[0].1 = 20;
    spec.resource_claims =
        vec![PodClaim { name: "gpu".into(), claim: Some(format!("claim-{at}").into()), template: None }];
    pod.spec = Arc::new(spec);
    pod
}

/// A cluster and its engine.
struct World {
    engine: Engine,
    now: Timestamp,
    nodes: usize,
}

impl World {
    /// Creates a cluster. Prints the memory of its devices.
    fn new(nodes: usize) -> Self {
        let (engine, now) =
            (Engine::new(EngineConfig::new(vec![profile()])), Timestamp::from_secs(1_000_000));
        let mut world = Self { engine, now, nodes };
        let model = format!("device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].model == 'a100'");
        let class =
            json!({"metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": model}}]}});
        world.handle(input::<DeviceClass>(&class));
        (0..nodes).for_each(|at| world.handle(Input::Node(node(at))));
        let before = memory_in_use();
        (0..nodes).for_each(|at| world.handle(input::<ResourceSlice>(&slice(at, 0))));
        let memory = (memory_in_use() - before) * 1024 / (nodes * DEVICES_PER_NODE) as u64;
        println!("  {nodes} nodes: {memory} bytes per device");
        world
    }

    fn handle(&mut self, input: Input) {
        self.engine.handle(input, self.now);
    }

    /// Binds a pod with a claim. Returns the time of the decision and that of everything.
    fn place(&mut self, at: usize) -> [Duration; 2] {
        self.now.0 += 1_000_000;
        let (mut claim, pod) = (claim(at), user(at));
        let (new, begin) = (input::<ResourceClaim>(&claim), Instant::now());
        self.handle(new);
        self.handle(Input::Pod(pod.clone()));
        let start = Instant::now();
        black_box(self.engine.schedule_one(self.now));
        let deciding = start.elapsed();
        let effects = self.engine.take_effects();
        let mut whole = begin.elapsed();
        for effect in effects {
            let Effect::Bind(task) = effect else { continue };
            let name = format!("claim-{at}");
            let claims = self.engine.cache().cluster.watched::<ResourceClaim>();
            let chosen = claims.get("default", &name).and_then(|claim| claim.status.allocation.clone());
            claim["status"]["allocation"] = serde_json::to_value(chosen.as_deref()).unwrap_or_default();
            let written = input::<ResourceClaim>(&claim);
            let begin = Instant::now();
            self.handle(written);
            self.handle(Input::Pod(Pod { node_name: Some(task.node().clone()), ..pod.clone() }));
            self.handle(Input::BindFinished { uid: pod.uid.clone(), outcome: BindOutcome::Bound });
            whole += begin.elapsed();
        }
        [deciding, whole]
    }

    /// Removes a pod and its claim.
    fn remove(&mut self, at: usize) -> Duration {
        let gone =
            Input::CustomGone(ObjectPath::of::<ResourceClaim>("default", &format!("claim-{at}")).key());
        let begin = Instant::now();
        self.handle(Input::PodGone(user(at).uid));
        self.handle(gone);
        begin.elapsed()
    }

    /// Replaces the slice of a node.
    fn change_slice(&mut self, step: usize) -> Duration {
        let changed = input::<ResourceSlice>(&slice(step * 7 % self.nodes, step));
        let begin = Instant::now();
        self.handle(changed);
        begin.elapsed()
    }

    /// Removes the slice of a node and adds it again.
    fn slice_comes_again(&mut self, step: usize) -> Duration {
        let at = step * 7 % self.nodes;
        let gone = Input::CustomGone(ObjectPath::of::<ResourceSlice>("", &format!("node-{at}")).key());
        let new = input::<ResourceSlice>(&slice(at, step));
        let begin = Instant::now();
        self.handle(gone);
        self.handle(new);
        begin.elapsed()
    }
}

/// Number of claims that are bound when the measurement begins: half of the devices of a small cluster.
const BOUND: usize = 2000;

/// Prints the costs for one size of the cluster.
fn run(nodes: usize) {
    let mut world = World::new(nodes);
    for at in 0..BOUND + WARM {
        world.place(at);
    }
    let mut next = BOUND + WARM;
    let mut measure = |what: &str, step: &mut dyn FnMut(&mut World, usize) -> [Duration; 2]| {
        let (mut first, mut second) = (Duration::ZERO, Duration::ZERO);
        for at in next..next + MEASURED {
            let [a, b] = step(&mut world, at);
            first += a;
            second += b;
        }
        next += MEASURED;
        let micros = |time: Duration| time.as_secs_f64() * 1e6 / MEASURED as f64;
        println!("    {what:<52} {:>9.2} {:>9.2}", micros(first), micros(second));
    };
    measure("a pod with a claim comes, another goes", &mut |world, at| {
        let [deciding, whole] = world.place(at);
        [deciding, whole + world.remove(at - BOUND)]
    });
    measure("the same, and a slice changes", &mut |world, at| {
        let slice = world.change_slice(at);
        let [deciding, whole] = world.place(at);
        [deciding, whole + world.remove(at - BOUND) + slice]
    });
    measure("a slice changes (only the event)", &mut |world, at| [Duration::ZERO, world.change_slice(at)]);
    measure("a slice goes and comes (only the events)", &mut |world, at| {
        [Duration::ZERO, world.slice_comes_again(at)]
    });
    assert_eq!(world.engine.cache().pod_counts().0, BOUND + WARM, "every pod has room");
}

/// Prints a table of the costs of claims and slices in a small and in a large cluster.
pub(crate) fn compare() {
    println!("\n{:<56} {:>9} {:>9}", "with eight devices on every node", "decision", "whole, us");
    SIZES.into_iter().for_each(run);
}
