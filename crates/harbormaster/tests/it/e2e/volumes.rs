//! Claims and volumes as JSON, and clusters with volume controllers.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde_json::{Value, json};

use super::server::{Cluster, Server};

pub const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
pub const VOLUMES: &str = "/api/v1/persistentvolumes";
pub const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// The provisioner of storage classes without dynamic provisioning.
pub const NOBODY: &str = "kubernetes.io/no-provisioner";

const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";

/// Returns a storage class with the volume binding mode `WaitForFirstConsumer`.
pub fn class(name: &str, provisioner: &str) -> Value {
    json!({"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"})
}

/// Returns a volume of 1Gi that can be used from one node, with `spec` merged in.
pub fn volume(name: &str, class: &str, node: &str, spec: &Value) -> Value {
    let here = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": [node]});
    let mut volume = json!({"metadata": {"name": name}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": class,
        "local": {"path": "/disk"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
    }});
    for (field, value) in spec.as_object().into_iter().flatten() {
        volume["spec"][field] = value.clone();
    }
    volume
}

/// Returns a claim of 1Gi.
pub fn claim(name: &str, class: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": class,
        "resources": {"requests": {"storage": "1Gi"}},
    }})
}

/// Returns the `spec.volumes` of a pod that uses the given claims.
pub fn users_of<T: AsRef<str>>(claims: &[T]) -> Value {
    let volume =
        |name: &str| json!({"name": format!("v-{name}"), "persistentVolumeClaim": {"claimName": name}});
    claims.iter().map(|name| volume(name.as_ref())).collect()
}

/// Returns the UID in the volume's `claimRef`, if there is one.
pub fn claimed_by(volume: &Value) -> Option<&str> {
    volume["spec"]["claimRef"]["uid"].as_str()
}

/// Returns the name of the claim's volume, or an empty string.
pub fn volume_of(claim: &Value) -> &str {
    claim["spec"]["volumeName"].as_str().unwrap_or_default()
}

/// Returns true if the claim names its volume and has the annotation `bind-completed`.
pub fn is_bound(claim: &Value) -> bool {
    !volume_of(claim).is_empty() && claim["metadata"]["annotations"][BIND_COMPLETED].is_string()
}

static REAL: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());
static EMBEDDED: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());

/// Returns the cluster with controllers that the running tests share on this server. It ends with the last test that
/// uses it.
pub fn shared_cluster(server: Server) -> Arc<Cluster> {
    let shared = match server {
        Server::Real => &REAL,
        Server::Embedded => &EMBEDDED,
    };
    let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let cluster = Arc::new(server.own_with_controllers());
        *shared = Arc::downgrade(&cluster);
        cluster
    })
}
