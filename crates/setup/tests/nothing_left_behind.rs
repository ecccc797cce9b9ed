//! A scheduler runs for months: pods, nodes, workloads and claims that have come and gone leave nothing behind in the engine.
//!
//! Nothing is like anything before it: every pod has labels, selectors, preferences, an image, a host port and a claim of its
//! own, every other one a workload, every node a name. What the engine keeps of such things has bounds; they are reached before
//! the first look.

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

/// Bytes are those of the whole process, so one test counts at a time.
static COUNTING: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    COUNTING.lock().unwrap_or_else(PoisonError::into_inner)
}

const HOSTNAME: &str = "kubernetes.io/hostname";
const NODES: usize = 30;
/// Pods that are there at a time.
const KEPT: usize = 200;
/// After so many pods a node is replaced, with those that are on it.
const NODE_PODS: usize = 10;
/// Pods before anybody looks, then as many while somebody does, and again as many.
const STREAM: usize = 8_000;
/// Of so many looks the most counts: caches are full, or have just been made half empty.
const LOOKS: usize = 40;

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

/// A ReplicaSet and its Service, for a pod of an even number and the next one.
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

/// A cluster in which everything is replaced again and again.
struct Stream {
    engine: Engine,
    now: Timestamp,
    oldest_node: usize,
    /// With the node of each that has not gone with its node.
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

    fn tell(&mut self, input: Input) {
        self.engine.handle(input, self.now);
    }

    fn made<R: Resource>(&mut self, object: &Value) {
        self.tell(Input::Custom(raw::<R>(object)));
    }

    fn gone<R: Resource>(&mut self, object: &Value) {
        self.tell(Input::CustomGone(raw::<R>(object).key));
    }

    fn add_node(&mut self, number: usize) {
        self.tell(Input::Node(node_of(number)));
        self.made::<CsiNode>(&drivers_of(number));
    }

    /// The oldest node goes, then its pods.
    fn replace_node(&mut self) {
        let oldest = self.oldest_node;
        self.oldest_node += 1;
        self.add_node(oldest + NODES);
        let name = Str::from(format!("node-{oldest}"));
        self.tell(Input::NodeGone(name.clone()));
        self.gone::<CsiNode>(&drivers_of(oldest));
        for (pod, node) in &mut self.pods {
            if node.take_if(|node| *node == name).is_some() {
                self.engine.handle(Input::PodGone(pod_of(*pod).uid), self.now);
            }
        }
    }

    /// The next pod comes with what belongs to it, and the oldest goes.
    fn step(&mut self) {
        let number = self.next_pod;
        self.next_pod += 1;
        self.now = self.now + Duration::from_millis(25);
        if number.is_multiple_of(2) {
            workload_of(number).into_iter().for_each(|object| self.tell(Input::Object(object)));
        }
        let [claim, volume] = storage_of(number);
        self.made::<PersistentVolume>(&volume);
        self.made::<PersistentVolumeClaim>(&claim);
        if number.is_multiple_of(NODE_PODS) {
            self.replace_node();
        }
        let node = self.bind(pod_of(number));
        self.pods.push_back((number, node));
        if self.pods.len() > KEPT {
            self.remove_oldest();
        }
        self.engine.tick(self.now);
        drop((self.engine.take_effects(), self.engine.take_notes()));
    }

    /// Its node: there is room for every pod.
    fn bind(&mut self, pod: Pod) -> Option<Str> {
        self.tell(Input::Pod(pod.clone()));
        self.engine.schedule_one(self.now).unwrap();
        let node = self.engine.take_effects().into_iter().find_map(|effect| match effect {
            Effect::Bind(task) => Some(task.node().clone()),
            _ => None,
        });
        assert!(node.is_some(), "{} has no node", pod.name);
        self.tell(Input::Pod(Pod { node_name: node.clone(), ..pod.clone() }));
        self.tell(Input::BindFinished { uid: pod.uid, outcome: BindOutcome::Bound });
        node
    }

    fn remove_oldest(&mut self) {
        let Some((number, node)) = self.pods.pop_front() else { return };
        if node.is_some() {
            self.tell(Input::PodGone(pod_of(number).uid));
        }
        let [claim, volume] = storage_of(number);
        self.gone::<PersistentVolumeClaim>(&claim);
        self.gone::<PersistentVolume>(&volume);
        if !number.is_multiple_of(2) {
            workload_of(number).iter().for_each(|object| self.tell(Input::ObjectGone(object.key())));
        }
    }

    /// The most that it holds while the stream goes on.
    fn most_held(&mut self) -> usize {
        let look = |_| {
            (0..STREAM / LOOKS).for_each(|_| self.step());
            live_bytes()
        };
        (0..LOOKS).map(look).max().unwrap_or_default()
    }
}

#[test]
fn what_comes_and_goes_leaves_nothing_behind() {
    let _alone = alone();
    let mut stream = Stream::new();
    (0..STREAM).for_each(|_| stream.step());
    let (first, second) = (stream.most_held(), stream.most_held());
    assert!(second * 20 <= first * 21, "{first} bytes at most, and {second} later");
}

/// A larger cluster, in which each pod prefers nodes by a term of its own and goes when the next one has come.
mod preferences {
    use super::*;

    const NODES: usize = 1_000;
    const PODS: usize = 20_000;
    /// The most that the engine may hold, and the most that it may hold for the sake of the pods.
    const MOST: usize = 60 << 20;
    const MOST_FOR_PODS: usize = 4 << 20;

    #[test]
    fn terms_that_never_repeat_are_not_kept() {
        let _alone = alone();
        let before = live_bytes();
        let mut stream = Stream::without_nodes();
        (0..NODES).for_each(|number| stream.tell(Input::Node(node_of(number))));
        let bare = live_bytes() - before;
        let quarter = held_after(&mut stream, 0..PODS / 4) - before;
        let whole = held_after(&mut stream, PODS / 4..PODS) - before;
        assert!(whole * 100 <= quarter * 115, "{quarter} bytes after a quarter, {whole} after all pods");
        assert!(whole <= MOST && whole <= bare + MOST_FOR_PODS, "{whole} bytes, {bare} without pods");
    }

    fn held_after(stream: &mut Stream, pods: std::ops::Range<usize>) -> usize {
        for number in pods {
            let name = format!("pod-{number}");
            let pod = pod(&name).cpu("10m").prefers_node_label(1, "example.com/data", &[&name]).build();
            let uid = pod.uid.clone();
            stream.now = stream.now + Duration::from_millis(25);
            stream.bind(pod);
            stream.tell(Input::PodGone(uid));
            stream.engine.tick(stream.now);
            drop((stream.engine.take_effects(), stream.engine.take_notes()));
        }
        live_bytes()
    }
}
