//! Pods with volumes. Each pod has its own claim, which is already bound or waits for the pod.
//!
//! The benchmark acts as the API server and the volume controller. If a claim waits for its pod, the benchmark binds a
//! volume to the claim before it reports the pod as bound.
//!
//! Pass `-- volumes NAME` to run only one case, for example to count instructions with `valgrind --tool=callgrind`.

use std::{
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use harbormaster_api::{
    Pod, PodSpec, Timestamp,
    pod::{Volume, VolumeSource},
    points::ExtensionPoint as P,
};
use harbormaster_core::{BindOutcome, Effect, Engine, EngineConfig, Input};
use harbormaster_framework::{profile::Profile, resource::Resource};
use harbormaster_plugins::storage::{CsiNode, PersistentVolume, PersistentVolumeClaim, StorageClass};
use harbormaster_testkit::custom::raw;
use serde_json::{Value, json};

use super::{node, pod, profile, profile_with};

const NODES: usize = 5000;
/// Number of pods bound before the measured ones.
const BOUND: usize = 5000;
/// Number of decisions before the measurement, which fill the caches.
const WARM: usize = 50;
const MEASURED: usize = 1000;
/// Maximum number of volumes on a node.
const LIMIT: usize = 39;
const DRIVER: &str = "ebs.csi.aws.com";
const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";

/// Volumes of the pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Volumes {
    /// No volumes, and no volume plugins.
    Unknown,
    None,
    /// Volumes that are already bound to claims.
    Bound(Kind),
    /// One volume on each node, and claims that stay unbound until their pods are scheduled.
    Local,
    /// No volumes yet; a volume is created for each claim once the claim's pod is scheduled.
    Provisioned,
}

/// Kind of a volume that is bound to a claim before the pod arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    InTree,
    /// In-tree disks that a CSI driver handles (CSI migration).
    Migrated,
    Csi,
    /// A CSI driver's volume in one of three zones.
    Zonal,
    /// A volume on one node.
    Local,
}

const SHAPES: [(&str, Volumes); 9] = [
    ("plain, without the volume plugins", Volumes::Unknown),
    ("plain", Volumes::None),
    ("in-tree disks", Volumes::Bound(Kind::InTree)),
    ("migrated in-tree disks", Volumes::Bound(Kind::Migrated)),
    ("CSI volumes", Volumes::Bound(Kind::Csi)),
    ("CSI volumes in zones", Volumes::Bound(Kind::Zonal)),
    ("local volumes, bound", Volumes::Bound(Kind::Local)),
    ("local volumes, claims that wait", Volumes::Local),
    ("volumes to be made, claims that wait", Volumes::Provisioned),
];

/// Profile with the volume plugins, in the default order.
fn profile_with_volumes() -> Arc<Profile> {
    let list = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), 0)).collect();
    let filters = ["VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"];
    profile_with(|_| {
        vec![
            (P::PreFilter, list(&filters)),
            (P::Filter, list(&filters)),
            (P::PreScore, list(&["VolumeBinding"])),
            (P::Score, vec![("VolumeBinding".to_owned(), 1)]),
            (P::Reserve, list(&["VolumeBinding"])),
            (P::PreBind, list(&["VolumeBinding"])),
        ]
    })
}

impl Volumes {
    /// Objects that come with a node.
    fn of_node(self, at: usize) -> Vec<Input> {
        let name = format!("node-{at}");
        match self {
            Self::Unknown | Self::None | Self::Bound(Kind::InTree) | Self::Provisioned => Vec::new(),
            Self::Bound(kind) => {
                let driver = json!({"name": DRIVER, "nodeID": name, "allocatable": {"count": LIMIT}});
                let mut object = json!({"metadata": {"name": name}, "spec": {"drivers": [driver]}});
                if kind == Kind::Migrated {
                    object["metadata"]["annotations"] =
                        json!({"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs"});
                }
                vec![custom_input::<CsiNode>(&object)]
            }
            Self::Local => vec![custom_input::<PersistentVolume>(&local_volume(at, None))],
        }
    }

    /// Objects that exist before the pod with the given number.
    fn of_pod(self, at: usize) -> Vec<Input> {
        let (claim, volume) = (claim_name(at), format!("volume-{at}"));
        match self {
            Self::Unknown | Self::None => Vec::new(),
            Self::Bound(kind) => {
                let mut object = volume_of(&volume, Some(&claim));
                match kind {
                    Kind::InTree | Kind::Migrated => {
                        object["spec"]["awsElasticBlockStore"] = json!({"volumeID": volume});
                    }
                    Kind::Csi => {}
                    Kind::Zonal => {
                        let zone = format!("zone-{}", at % 3);
                        object["metadata"]["labels"] = json!({ZONE: zone});
                        object["spec"]["nodeAffinity"] = only_where(ZONE, &zone);
                    }
                    Kind::Local => {
                        // A pod that is bound before the measurement is on the node with the same number.
                        object["spec"]["nodeAffinity"] =
                            only_where(HOSTNAME, &format!("node-{}", at % NODES));
                    }
                }
                if matches!(kind, Kind::Csi | Kind::Zonal) {
                    object["spec"]["csi"] = json!({"driver": DRIVER, "volumeHandle": volume});
                }
                vec![
                    custom_input::<PersistentVolume>(&object),
                    custom_input::<PersistentVolumeClaim>(&claim_of(&claim, Some(&volume))),
                ]
            }
            Self::Local | Self::Provisioned => {
                vec![custom_input::<PersistentVolumeClaim>(&claim_of(&claim, None))]
            }
        }
    }

    /// Changes that precede the binding of a pod.
    fn binding(self, at: usize, node: &str) -> Vec<Input> {
        let claim = claim_name(at);
        let (name, volume) = match self {
            Self::Unknown | Self::None | Self::Bound(_) => return Vec::new(),
            Self::Local => {
                let at: usize = node.trim_start_matches("node-").parse().expect("a node of ours");
                (format!("local-{at}"), local_volume(at, Some(&claim)))
            }
            Self::Provisioned => {
                let name = format!("volume-{at}");
                let volume = volume_of(&name, Some(&claim));
                (name, volume)
            }
        };
        vec![
            custom_input::<PersistentVolume>(&volume),
            custom_input::<PersistentVolumeClaim>(&claim_of(&claim, Some(&name))),
        ]
    }

    fn pod(self, at: usize) -> Pod {
        let mut pod = pod(at, 0);
        let mut spec = PodSpec::clone(&pod.spec);
        spec.containers[0].requests[0].1 = 20;
        if !matches!(self, Self::Unknown | Self::None) {
            let source = VolumeSource::Claim(claim_name(at).into());
            spec.volumes = vec![Volume { name: "data".into(), source }];
        }
        pod.spec = Arc::new(spec);
        pod
    }
}

fn claim_name(at: usize) -> String {
    format!("claim-{at}")
}

fn custom_input<R: Resource>(object: &Value) -> Input {
    Input::Custom(raw::<R>(object))
}

fn claim_of(name: &str, volume: Option<&str>) -> Value {
    let mut claim = json!({
        "metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "waits",
        },
        "status": {"phase": "Pending"},
    });
    if let Some(volume) = volume {
        claim["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
        claim["spec"]["volumeName"] = volume.into();
        claim["status"]["phase"] = "Bound".into();
    }
    claim
}

fn volume_of(name: &str, claim: Option<&str>) -> Value {
    let mut volume = json!({
        "metadata": {"name": name, "uid": name, "resourceVersion": "1"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "storageClassName": "waits",
        },
        "status": {"phase": if claim.is_some() { "Bound" } else { "Available" }},
    });
    if let Some(claim) = claim {
        volume["spec"]["claimRef"] = json!({"namespace": "default", "name": claim, "uid": claim});
    }
    volume
}

fn local_volume(at: usize, claim: Option<&str>) -> Value {
    let mut volume = volume_of(&format!("local-{at}"), claim);
    volume["spec"]["nodeAffinity"] = only_where(HOSTNAME, &format!("node-{at}"));
    volume
}

fn only_where(key: &str, value: &str) -> Value {
    let expression = json!({"key": key, "operator": "In", "values": [value]});
    json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}})
}

/// Creates an engine with nodes, the storage class, and bound pods with their volumes.
fn engine(volumes: Volumes, now: Timestamp) -> Engine {
    let profile = if volumes == Volumes::Unknown { profile() } else { profile_with_volumes() };
    let mut engine = Engine::new(EngineConfig::new(vec![profile]));
    let provisioner = if volumes == Volumes::Provisioned { DRIVER } else { "kubernetes.io/no-provisioner" };
    let class = json!({
        "metadata": {"name": "waits"},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
    });
    engine.handle(custom_input::<StorageClass>(&class), now);
    for at in 0..NODES {
        engine.handle(Input::Node(node(at)), now);
        volumes.of_node(at).into_iter().for_each(|input| engine.handle(input, now));
    }
    // With `Local`, every node has only one volume, which is left for a measured pod.
    let before = if volumes == Volumes::Local { Volumes::None } else { volumes };
    for at in 0..BOUND {
        let node = format!("node-{}", at % NODES);
        let there = before.of_pod(at).into_iter().chain(before.binding(at, &node));
        there.for_each(|input| engine.handle(input, now));
        let pod = Pod { node_name: Some(node.as_str().into()), ..before.pod(at) };
        engine.handle(Input::Pod(pod), now);
    }
    engine
}

/// Returns the time per pod for the decisions alone, and the time per pod including all event handling.
fn run(volumes: Volumes) -> [Duration; 2] {
    let mut now = Timestamp::from_secs(1_000_000);
    let mut engine = engine(volumes, now);
    let [mut deciding, mut whole] = [Duration::ZERO; 2];
    for at in BOUND..BOUND + WARM + MEASURED {
        now.0 += 1_000_000;
        let begin = Instant::now();
        let pod = volumes.pod(at);
        volumes.of_pod(at).into_iter().for_each(|input| engine.handle(input, now));
        engine.handle(Input::Pod(pod.clone()), now);
        let start = Instant::now();
        black_box(engine.schedule_one(now));
        let decided = start.elapsed();
        for effect in engine.take_effects() {
            if let Effect::Bind(task) = effect {
                volumes.binding(at, task.node()).into_iter().for_each(|input| engine.handle(input, now));
                let there = Pod { node_name: Some(task.node().clone()), ..pod.clone() };
                engine.handle(Input::Pod(there), now);
                engine.handle(Input::BindFinished { uid: pod.uid.clone(), outcome: BindOutcome::Bound }, now);
            }
        }
        if at >= BOUND + WARM {
            deciding += decided;
            whole += begin.elapsed();
        }
    }
    assert_eq!(engine.cache().pod_counts().0, BOUND + WARM + MEASURED, "every pod has room: {volumes:?}");
    [deciding, whole].map(|time| time / MEASURED as u32)
}

/// Prints a table of the cost of a decision for every shape, or for the named shape.
pub(crate) fn compare(selected: Option<&str>) {
    println!("\n{:<36}  {:>12}  {:>12}", "at 5,000 nodes, with volumes", "us/decision", "us/whole");
    for (name, volumes) in SHAPES.iter().filter(|(name, _)| selected.is_none_or(|selected| selected == *name))
    {
        let [deciding, whole] = run(*volumes).map(|time| time.as_secs_f64() * 1e6);
        println!("{name:<36}  {deciding:>12.2}  {whole:>12.2}");
    }
}
