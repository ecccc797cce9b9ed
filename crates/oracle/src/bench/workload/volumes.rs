//! Volumes used by the workloads, and the volume limits of nodes.

use serde_json::{Value, json};

use super::{Creation, pods};

/// Maximum number of volumes of [`DRIVER`] on a node, as in `scheduler_perf`.
pub(super) const PER_NODE: usize = 39;

const VOLUMES: &str = "/api/v1/persistentvolumes";

const DRIVER: &str = "ebs.csi.aws.com";

/// The in-tree plugin whose volumes are migrated to [`DRIVER`].
const IN_TREE_PLUGIN: &str = "kubernetes.io/aws-ebs";

const LOCAL_CLASS: &str = "local";

/// Kind of volume that the pods of a workload use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Volumes {
    None,
    /// Each pod has a claim that is already bound to a volume.
    Bound {
        source: Source,
        /// True if nodes have a CSINode with the driver's limit.
        limited: bool,
    },
    /// Each measured pod has a claim that waits for it, and each node has a local volume.
    Local,
}

/// Type of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    InTree,
    Csi,
}

impl Volumes {
    /// Returns the storage objects of a node.
    pub(super) fn of_node(self, node: &str) -> Vec<Creation> {
        match self {
            Self::Bound { limited: true, source } => vec![csi_node(node, source)],
            Self::Local => vec![(VOLUMES.to_owned(), local_volume(node))],
            Self::None | Self::Bound { limited: false, .. } => Vec::new(),
        }
    }

    /// Adds the volume, if any, to an init pod. Returns the objects that must exist before the pod.
    pub(super) fn of_init_pod(self, namespace: &str, pod: &mut Value) -> Vec<Creation> {
        match self {
            Self::Bound { source, .. } => bound(source, namespace, pod),
            Self::None | Self::Local => Vec::new(),
        }
    }

    /// Adds the volume, if any, to a measured pod. Returns the objects that must exist before the pod.
    pub(super) fn of_measured_pod(self, namespace: &str, pod: &mut Value) -> Vec<Creation> {
        match self {
            Self::Bound { source, .. } => bound(source, namespace, pod),
            Self::Local => vec![waiting_claim(namespace, pod)],
            Self::None => Vec::new(),
        }
    }
}

/// Storage class for [`Volumes::Local`].
pub(super) fn local_class() -> Value {
    json!({
        "metadata": {"name": LOCAL_CLASS},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    })
}

/// Returns a node's volume with the status that the volume controller writes for an unbound volume.
fn local_volume(node: &str) -> Value {
    let here = json!({"key": pods::HOSTNAME, "operator": "In", "values": [node]});
    let mut volume = volume(&format!("local-{node}"), "ReadWriteOnce");
    volume["spec"]["storageClassName"] = LOCAL_CLASS.into();
    volume["spec"]["local"] = json!({"path": "/mnt/disk"});
    volume["spec"]["nodeAffinity"] =
        json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}});
    volume["status"] = json!({"phase": "Available"});
    volume
}

fn waiting_claim(namespace: &str, pod: &mut Value) -> Creation {
    let mut claim = claim(pod, "ReadWriteOnce");
    claim["spec"]["storageClassName"] = LOCAL_CLASS.into();
    (claims(namespace), claim)
}

/// Returns a volume and a claim that are bound to each other. No controller is needed, because both objects already
/// have the fields that the volume controller would set.
fn bound(source: Source, namespace: &str, pod: &mut Value) -> Vec<Creation> {
    let mut claim = claim(pod, "ReadOnlyMany");
    let name = claim["metadata"]["name"].clone();
    let volume_name = format!("{namespace}-{}", name.as_str().unwrap_or_default());
    let mut volume = volume(&volume_name, "ReadOnlyMany");
    match source {
        Source::InTree => volume["spec"]["awsElasticBlockStore"] = json!({"volumeID": volume_name}),
        Source::Csi => volume["spec"]["csi"] = json!({"driver": DRIVER, "volumeHandle": volume_name}),
    }
    volume["spec"]["claimRef"] =
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": name});
    claim["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
    claim["spec"]["volumeName"] = volume_name.into();
    vec![(VOLUMES.to_owned(), volume), (claims(namespace), claim)]
}

/// Adds a claim with the pod's name to the pod, and returns the claim.
fn claim(pod: &mut Value, mode: &str) -> Value {
    let name = pod["metadata"]["name"].clone();
    pod["spec"]["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": name}}]);
    let resources = json!({"requests": {"storage": "1Gi"}});
    json!({"metadata": {"name": name}, "spec": {"accessModes": [mode], "resources": resources}})
}

fn volume(name: &str, mode: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "accessModes": [mode],
            "capacity": {"storage": "1Gi"},
            "persistentVolumeReclaimPolicy": "Retain",
        },
    })
}

/// Returns a CSINode with the driver and its limit. For in-tree volumes, an annotation declares their migration.
fn csi_node(node: &str, source: Source) -> Creation {
    let driver = json!({"name": DRIVER, "nodeID": node, "allocatable": {"count": PER_NODE}});
    let mut object = json!({"metadata": {"name": node}, "spec": {"drivers": [driver]}});
    if source == Source::InTree {
        object["metadata"]["annotations"] =
            json!({"storage.alpha.kubernetes.io/migrated-plugins": IN_TREE_PLUGIN});
    }
    ("/apis/storage.k8s.io/v1/csinodes".to_owned(), object)
}

fn claims(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims")
}
