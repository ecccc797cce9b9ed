//! A scheduler runs for months, so deleted pods, nodes, workloads and claims must leave nothing behind in the engine.
//!
//! Every object is unique: each pod has its own labels, selectors, preferences, image, host port and claim, each pair
//! of pods has its own workload, and each node has its own name. Caches of these values are bounded, and the bounds
//! are reached before the first measurement. The test is a separate program because it counts the process's
//! allocations.

#![allow(clippy::unwrap_used, reason = "a failing set-up fails the test")]

use std::{
    alloc::System,
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use harbormaster_api::{
    Node, Object, Pod, Service, Str, Timestamp, Workload, WorkloadKind,
    pod::{PodAffinity, PodAffinityTerm, VolumeSource},
    selector::LabelSelector,
};
use harbormaster_core::{BindOutcome, Effect, Engine, Input};
use harbormaster_framework::resource::Resource;
use harbormaster_plugins::storage::{CsiNode, PersistentVolume, PersistentVolumeClaim};
use harbormaster_setup::{Choices, Setup};
use harbormaster_testkit::{custom::raw, labels, node, pod};
use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Memory is counted for the whole process, so only one test runs at a time.
static COUNTING: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    COUNTING.lock().unwrap_or_else(PoisonError::into_inner)
}

const HOSTNAME: &str = "kubernetes.io/hostname";
const NODES: usize = 30;
/// Number of pods at any time.
const LIVE_PODS: usize = 200;
/// After this number of new pods, a node is replaced, together with its pods.
const NODE_PODS: usize = 10;
/// Number of pods before the first measurement and in each of the two measurements.
const STREAM: usize = 8_000;
/// Number of samples in a measurement. Their maximum is used, because caches may be full or may just have been halved.
const SAMPLES: usize = 40;

fn live_bytes() -> usize {
    let stats = INSTRUMENTED_SYSTEM.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

fn selecting(key: &str, value: &str) -> LabelSelector {
    LabelSelector { match_labels: labels(&[(key, value)]), match_expressions: Vec::new() }
}

fn node_of(number: usize) -> Node {
    let (name, zone) = (format!("node-{number}"), format!("zone-{}", number % 3));
    node(&name).zone(&zone).allocatable("4", "32Gi", 110).build()
}

fn drivers_of(number: usize) -> Value {
    let driver = json!({"name": "csi.example.com", "nodeID": "n", "allocatable": {"count": 39}});
    json!({"metadata": {"name": format!("node-{number}")}, "spec": {"drivers": [driver]}})
}

/// A claim and its volume.
fn storage_of(number: usize) -> [Value; 2] {
    let name = format!("claim-{number}");
    let metadata = json!({"name": name, "namespace": "default", "uid": name, "resourceVersion": "1",
        "annotations": {"pv.kubernetes.io/bind-completed": "yes"}});
    let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "volumeName": name});
    let claim = json!({"metadata": metadata, "spec": spec, "status": {"phase": "Bound"}});
    let spec = json!({"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
        "csi": {"driver": "csi.example.com", "volumeHandle": name},
        "claimRef": {"namespace": "default", "name": name, "uid": name}});
    let volume = json!({"metadata": {"name": name, "uid": name, "resourceVersion": "1"}, "spec": spec,
        "status": {"phase": "Bound"}});
    [claim, volume]
}

/// A ReplicaSet and its Service, for an even-numbered pod and the next one.
fn workload_of(number: usize) -> [Object; 2] {
    let name = workload_name(number);
    let service = Service {
        namespace: "default".into(),
        name: name.as_str().into(),
        selector: Some(labels(&[("workload", &name)])),
    };
    let workload = Workload {
        kind: WorkloadKind::ReplicaSet,
        namespace: "default".into(),
        name: name.as_str().into(),
        selector: Some(selecting("workload", &name)),
    };
    [Object::Service(service), Object::Workload(workload)]
}

fn workload_name(number: usize) -> String {
    format!("workload-{}", number / 2)
}

fn pod_of(number: usize) -> Pod {
    let name = format!("pod-{number}");
    let own = |topology_key: &str| PodAffinityTerm {
        label_selector: Some(selecting("own", &name)),
        topology_key: topology_key.into(),
        ..PodAffinityTerm::default()
    };
    let apart = PodAffinity { required: vec![own(HOSTNAME)], preferred: Vec::new() };
    let together = PodAffinity {
        required: Vec::new(),
        preferred: vec![(1, own(HOSTNAME)), (1, own(&format!("example.com/{name}")))],
    };
    pod(&name)
        .label("own", &name)
        .label("workload", &workload_name(number))
        .cpu("10m")
        .image(&format!("registry.example/{name}:v1"))
        .host_port(1 + number as i32)
        .prefers_node_label(1, "example.com/data", &[&name])
        .volume(VolumeSource::Claim(format!("claim-{number}").into()))
        .spec(|spec| {
            spec.pod_anti_affinity = Some(apart);
            spec.pod_affinity = Some(together);
        })
        .build()
}

/// A cluster in which everything is replaced repeatedly.
struct Stream {
    engine: Engine,
    now: Timestamp,
    oldest_node: usize,
    /// Pods with their nodes; `None` if the node was removed.
    pods: VecDeque<(usize, Option<Str>)>,
    next_pod: usize,
}

impl Stream {
    fn without_nodes() -> Self {
        let engine = Engine::new(Setup::read(None, &Choices::default()).unwrap().engine);
        let now = Timestamp::from_secs(1_000_000);
        Self { engine, now, oldest_node: 0, pods: VecDeque::new(), next_pod: 0 }
    }

    fn new() -> Self {
        let mut stream = Self::without_nodes();
        (0..NODES).for_each(|number| stream.add_node(number));
        stream
    }

    fn handle(&mut self, input: Input) {
        self.engine.handle(input, self.now);
    }

    fn set<R: Resource>(&mut self, object: &Value) {
        self.handle(Input::Custom(raw::<R>(object)));
    }

    fn remove<R: Resource>(&mut self, object: &Value) {
        self.handle(Input::CustomGone(raw::<R>(object).key));
    }

    fn add_node(&mut self, number: usize) {
        self.handle(Input::Node(node_of(number)));
        self.set::<CsiNode>(&drivers_of(number));
    }

    /// Adds a node, then removes the oldest node and its pods.
    fn replace_node(&mut self) {
        let oldest = self.oldest_node;
        self.oldest_node += 1;
        self.add_node(oldest + NODES);
        let name = Str::from(format!("node-{oldest}"));
        self.handle(Input::NodeGone(name.clone()));
        self.remove::<CsiNode>(&drivers_of(oldest));
        for (pod, node) in &mut self.pods {
            if node.take_if(|node| *node == name).is_some() {
                self.engine.handle(Input::PodGone(pod_of(*pod).uid), self.now);
            }
        }
    }

    /// Adds the next pod with its objects and removes the oldest pod.
    fn step(&mut self) {
        let number = self.next_pod;
        self.next_pod += 1;
        self.now = self.now + Duration::from_millis(25);
        if number.is_multiple_of(2) {
            workload_of(number).into_iter().for_each(|object| self.handle(Input::Object(object)));
        }
        let [claim, volume] = storage_of(number);
        self.set::<PersistentVolume>(&volume);
        self.set::<PersistentVolumeClaim>(&claim);
        if number.is_multiple_of(NODE_PODS) {
            self.replace_node();
        }
        let node = self.bind(pod_of(number));
        self.pods.push_back((number, node));
        if self.pods.len() > LIVE_PODS {
            self.remove_oldest();
        }
        self.engine.tick(self.now);
        drop((self.engine.take_effects(), self.engine.take_notes()));
    }

    /// Schedules a pod and returns its node. Every pod fits.
    fn bind(&mut self, pod: Pod) -> Option<Str> {
        self.handle(Input::Pod(pod.clone()));
        self.engine.schedule_one(self.now).unwrap();
        let node = self.engine.take_effects().into_iter().find_map(|effect| match effect {
            Effect::Bind(task) => Some(task.node().clone()),
            _ => None,
        });
        assert!(node.is_some(), "{} has no node", pod.name);
        self.handle(Input::Pod(Pod { node_name: node.clone(), ..pod.clone() }));
        self.handle(Input::BindFinished { uid: pod.uid, outcome: BindOutcome::Bound });
        node
    }

    fn remove_oldest(&mut self) {
        let Some((number, node)) = self.pods.pop_front() else { return };
        if node.is_some() {
            self.handle(Input::PodGone(pod_of(number).uid));
        }
        let [claim, volume] = storage_of(number);
        self.remove::<PersistentVolumeClaim>(&claim);
        self.remove::<PersistentVolume>(&volume);
        if !number.is_multiple_of(2) {
            workload_of(number).iter().for_each(|object| self.handle(Input::ObjectGone(object.key())));
        }
    }

    /// Runs the stream and returns the maximum number of bytes in use.
    fn max_bytes(&mut self) -> usize {
        let sample = |_| {
            (0..STREAM / SAMPLES).for_each(|_| self.step());
            live_bytes()
        };
        (0..SAMPLES).map(sample).max().unwrap_or_default()
    }
}

#[test]
fn deleted_objects_leave_nothing_behind() {
    let _alone = alone();
    let mut stream = Stream::new();
    (0..STREAM).for_each(|_| stream.step());
    let (first, second) = (stream.max_bytes(), stream.max_bytes());
    assert!(second * 20 <= first * 21, "at most {first} bytes first, and {second} later");
}

/// A larger cluster in which each pod has a unique node preference and is deleted when the next one arrives.
mod preferences {
    use super::*;

    const NODES: usize = 1_000;
    const PODS: usize = 20_000;
    /// Maximum number of bytes that the engine uses.
    const MAX: usize = 60 << 20;
    /// Maximum number of bytes that the pods add: answers that were used once may fill the cache, which has 16 KiB per
    /// node and may exceed them by an eighth.
    const MAX_FOR_PODS: usize = (4 << 20) + NODES * (18 << 10);

    #[test]
    fn terms_that_never_repeat_only_fill_the_cache() {
        let _alone = alone();
        let before = live_bytes();
        let mut stream = Stream::without_nodes();
        (0..NODES).for_each(|number| stream.handle(Input::Node(node_of(number))));
        let bare = live_bytes() - before;
        let quarter = held_after(&mut stream, 0..PODS / 4) - before;
        let whole = held_after(&mut stream, PODS / 4..PODS) - before;
        assert!(whole * 100 <= quarter * 115, "{quarter} bytes after a quarter, {whole} after all pods");
        assert!(whole <= MAX && whole <= bare + MAX_FOR_PODS, "{whole} bytes, {bare} without pods");
    }

    fn held_after(stream: &mut Stream, pods: std::ops::Range<usize>) -> usize {
        for number in pods {
            let name = format!("pod-{number}");
            let pod = pod(&name).cpu("10m").prefers_node_label(1, "example.com/data", &[&name]).build();
            let uid = pod.uid.clone();
            stream.now = stream.now + Duration::from_millis(25);
            stream.bind(pod);
            stream.handle(Input::PodGone(uid));
            stream.engine.tick(stream.now);
            drop((stream.engine.take_effects(), stream.engine.take_notes()));
        }
        live_bytes()
    }
}
