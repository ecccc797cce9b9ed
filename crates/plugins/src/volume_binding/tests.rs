//! Shared helpers: builders of storage objects, and a cluster with storage classes.

mod binding;
mod filter;
mod hints;
mod matching;
mod pre_filter;
mod reserve;
mod scoring;
mod supply;

use harbormaster_api::pod::VolumeSource;
use harbormaster_testkit::{NodeBuilder, PodBuilder, Trial, cluster, pod, set_custom};
use json_patch::merge;
use serde_json::{Value, json};

use super::*;
use crate::storage::CsiStorageCapacity;

const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// A class whose claims wait for a pod.
const LOCAL: &str = "local";

fn plugin() -> VolumeBinding {
    VolumeBinding::build(VolumeBindingArgs::default(), &BuildCycle::default()).unwrap()
}

fn trial() -> Trial {
    Trial::of(plugin())
}

/// A cluster with three classes: `local`, whose claims wait and whose volumes are not provisioned; `made`, whose
/// volumes the `csi` driver provisions; and `now`, whose claims do not wait.
fn world(nodes: impl IntoIterator<Item = NodeBuilder>) -> Cluster {
    let mut cluster = cluster(nodes, []);
    set_custom::<PersistentVolumeClaim>(&mut cluster, []);
    set_custom::<PersistentVolume>(&mut cluster, []);
    set_custom::<CsiNode>(&mut cluster, []);
    set_custom::<CsiDriver>(&mut cluster, []);
    set_custom::<CsiStorageCapacity>(&mut cluster, []);
    let none = "kubernetes.io/no-provisioner";
    let waits = "WaitForFirstConsumer";
    let classes = [(LOCAL, none, waits), ("made", "csi", waits), ("now", "csi", "Immediate")];
    set_custom::<StorageClass>(
        &mut cluster,
        classes.map(|(name, provisioner, mode)| class(name, provisioner, mode)),
    );
    cluster
}

fn class(name: &str, provisioner: &str, mode: &str) -> Value {
    json!({"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode})
}

/// A claim of 1Gi in namespace `default` without a volume, with `change` merged in.
fn claim(name: &str, class: &str, change: &Value) -> Value {
    let mut claim = json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "resourceVersion": "1"},
        "spec": {"storageClassName": class, "accessModes": ["ReadWriteOnce"],
                 "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Pending"},
    });
    merge(&mut claim, change);
    claim
}

/// A claim bound to the given volume.
fn bound_claim(name: &str, volume: &str) -> Value {
    let annotations = json!({"pv.kubernetes.io/bind-completed": "yes"});
    claim(name, LOCAL, &json!({"metadata": {"annotations": annotations}, "spec": {"volumeName": volume}}))
}

/// A free volume of 1Gi of class `local`, with `change` merged in.
fn volume(name: &str, change: &Value) -> Value {
    let mut volume = json!({
        "metadata": {"name": name, "uid": format!("uid-{name}"), "resourceVersion": "7"},
        "spec": {"storageClassName": LOCAL, "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]},
        "status": {"phase": "Available"},
    });
    merge(&mut volume, change);
    volume
}

/// `spec.nodeAffinity` of a volume that requires this label.
fn on(key: &str, value: &str) -> Value {
    let label = json!({"key": key, "operator": "In", "values": [value]});
    json!({"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [label]}]}}}})
}

/// A pod that names these claims.
fn user(claims: &[&str]) -> PodBuilder {
    claims.iter().fold(pod("p"), |pod, claim| pod.volume(VolumeSource::Claim((*claim).into())))
}

/// The message with which the plugin rejects the node; empty if the pod fits.
fn rejection_on(cluster: &Cluster, pod: PodBuilder, node: &str) -> String {
    match trial().verdict(cluster, &pod.info(), node) {
        Ok(()) => String::new(),
        Err(reject) => {
            assert_eq!(reject.fix, Fix::NothingHelps);
            reject.message()
        }
    }
}

const REACH: &str = "node(s) didn't match PersistentVolume's node affinity";
const VOLUME: &str = "node(s) didn't find available persistent volumes to bind";
const CAPACITY: &str = "node(s) did not have enough free storage";
const OBJECT: &str = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";
