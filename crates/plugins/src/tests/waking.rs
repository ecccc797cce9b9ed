//! Tests that every change that makes a rejected pod fit also wakes the pod, whichever plugin rejected it.
//!
//! There are exceptions, which kube-scheduler's plugins share, as `harbormaster-oracle hints` shows:
//! - PodTopologySpread does not count pods that are being deleted. It wakes the waiting pod when another pod is gone,
//!   not when the deletion of that pod begins.
//! - When a node is added or relabeled, InterPodAffinity considers the affinity and anti-affinity terms of the waiting
//!   pod, but not the anti-affinity terms with which other pods keep the waiting pod away. A node that is removed does
//!   not wake the pod either; the removal of the pods on that node does.
//! - A pod that matches its own affinity can go anywhere if no other pod matches that affinity. InterPodAffinity does
//!   not wake the pod when the last other matching pod is removed or relabeled.
//! - VolumeRestrictions does not wake the pod when a pod in another namespace releases a disk that the waiting pod also
//!   names, or when a node is removed together with a pod that uses a `ReadWriteOncePod` claim.
//! - NodeVolumeLimits wakes the pod when a CSINode is added, when a limit rises, when a pod or an attachment is
//!   removed, and when a claim of the waiting pod appears. It ignores all other changes that help: a new node, the
//!   removal of a limit or a CSINode, a claim that gets its volume, the removal of a volume or a class, and a new pod
//!   that shares a volume with the waiting pod.
//! - VolumeBinding does not wake the pod when a CSINode or a driver is removed. When a driver stops reporting its
//!   capacity, VolumeBinding wakes the pod only if the waiting pod has an inline volume of that driver.

use harbormaster_api::features::{Feature, Features};
use harbormaster_testkit::{Words, what_helps_wakes, what_helps_wakes_anywhere};
use serde_json::Value;

use super::{
    storage_world::{Kind, StorageWorld, Update},
    *,
};

fn helped(name: &str, seed: u64) -> usize {
    let features = Features::default().with(Feature::NodeDeclaredFeatures, true);
    let trial = Trial::of_made(registry().build(name, None, &BuildCycle { features }).unwrap());
    let words = match name {
        "PodTopologySpread" => Words::default().fixed("metadata.deletionTimestamp"),
        "InterPodAffinity" => Words::default().fixed("nodes").fixed("spec.affinity.podAffinity"),
        _ => Words::default(),
    };
    what_helps_wakes_anywhere(&trial, &mut Dice::knowing(seed, words), 30, 30)
}

#[test]
fn apart_from_the_exceptions_every_change_that_helps_a_pod_wakes_it() {
    let names = [
        "NodeUnschedulable",
        "TaintToleration",
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
        "NodeDeclaredFeatures",
        "PodTopologySpread",
        "InterPodAffinity",
    ];
    for name in names {
        let helped = helped(name, 1);
        assert!(helped > 10, "{name}: too little variation: {helped}");
    }
}

/// Returns true if the update may be one of the exceptions above.
fn is_exception(name: &str, waiting: &PodInfo, update: &Update<'_>) -> bool {
    let Update { kind, namespace, old, new } = *update;
    let (appears, goes) = (old.is_none(), new.is_none());
    match (name, kind) {
        ("VolumeRestrictions", Kind::NodeGone) => true,
        ("VolumeRestrictions", Kind::PodGone) => waiting.namespace != *namespace,
        ("NodeVolumeLimits", Kind::Node | Kind::Pod) => true,
        ("NodeVolumeLimits", Kind::Class | Kind::Volume) => goes,
        ("NodeVolumeLimits", Kind::Claim) => !appears && !goes,
        ("NodeVolumeLimits", Kind::Drivers) => goes || lifts_a_limit(update),
        ("VolumeBinding", Kind::Driver) => !appears,
        ("VolumeBinding", Kind::Drivers) => goes,
        _ => false,
    }
}

/// Returns true if a driver on a node no longer has a limit.
fn lifts_a_limit(Update { old, new, .. }: &Update<'_>) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return false };
    let limited = |node: &Value| {
        let drivers = node["spec"]["drivers"].as_array().cloned().unwrap_or_default();
        let limited = drivers.into_iter().filter(|driver| !driver["allocatable"]["count"].is_null());
        limited.map(|driver| driver["name"].to_string()).collect::<Vec<_>>()
    };
    let still = limited(new);
    limited(old).iter().any(|driver| !still.contains(driver))
}

fn helped_by_storage(name: &str, seed: u64) -> usize {
    let trial = Trial::of_made(registry().build(name, None, &BuildCycle::default()).unwrap());
    let mut helped = 0;
    for cluster in 0..40 {
        let mut world = StorageWorld::new(seed * 1000 + cluster);
        let mut nodes = world.cluster();
        let mut pod = world.pod().info();
        let rejects = |pod: &PodInfo| {
            nodes.nodes().nodes().any(|node| trial.verdict(&nodes, pod, node.name()).is_err())
        };
        for _ in 0..20 {
            if rejects(&pod) {
                break;
            }
            pod = world.pod().info();
        }
        let is_exception = |update: &Update<'_>| is_exception(name, &pod, update);
        let happenings: Vec<_> = (0..50).filter_map(|_| world.happening(is_exception)).collect();
        helped += what_helps_wakes(&trial, &mut nodes, &pod, happenings);
    }
    helped
}

#[test]
fn apart_from_the_exceptions_every_storage_change_that_helps_a_pod_wakes_it() {
    for name in ["VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"] {
        let helped: usize = (1..5).map(|seed| helped_by_storage(name, seed)).sum();
        assert!(helped > 20, "{name}: too little variation: {helped}");
    }
}
