//! Claims and volumes as JSON, and the part of kube-controller-manager that brings them together.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, Weak},
    thread,
    time::Duration,
};

use harbormaster_oracle::components::{ApiClient, Error};
use serde_json::{Value, json};

use super::{
    cluster::name_of,
    server::{Cluster, Server},
};

pub const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
pub const VOLUMES: &str = "/api/v1/persistentvolumes";
pub const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// A provisioner that makes nothing.
pub const NOBODY: &str = "kubernetes.io/no-provisioner";

const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// A class whose claims wait for their pods' nodes.
pub fn class(name: &str, provisioner: &str) -> Value {
    json!({"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"})
}

/// A volume of 1Gi that can be used from one node; `spec` is merged in.
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

/// A claim of 1Gi.
pub fn claim(name: &str, class: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": class,
        "resources": {"requests": {"storage": "1Gi"}},
    }})
}

/// `spec.volumes` of a pod that uses these claims.
pub fn users_of<T: AsRef<str>>(claims: &[T]) -> Value {
    let volume =
        |name: &str| json!({"name": format!("v-{name}"), "persistentVolumeClaim": {"claimName": name}});
    claims.iter().map(|name| volume(name.as_ref())).collect()
}

/// The UID of the claim that the volume is for, if it is for one that has been seen.
pub fn claimed_by(volume: &Value) -> Option<&str> {
    volume["spec"]["claimRef"]["uid"].as_str()
}

/// The volume that the claim names; empty if it names none.
pub fn volume_of(claim: &Value) -> &str {
    claim["spec"]["volumeName"].as_str().unwrap_or_default()
}

/// Whether the claim has its volume, and says so.
pub fn is_bound(claim: &Value) -> bool {
    !volume_of(claim).is_empty() && claim["metadata"]["annotations"][BIND_COMPLETED].is_string()
}

static REAL: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());
static EMBEDDED: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());

/// A cluster of one's own in which claims that wait get the volumes that are for them.
pub fn own_cluster(server: Server) -> Cluster {
    let cluster = server.own_with_controllers();
    if server == Server::Embedded {
        play_controller(cluster.client().clone());
    }
    cluster
}

/// [`own_cluster`] of all tests that run on this server at the moment; it ends with the last of them.
pub fn shared_cluster(server: Server) -> Arc<Cluster> {
    let shared = match server {
        Server::Real => &REAL,
        Server::Embedded => &EMBEDDED,
    };
    let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let cluster = Arc::new(own_cluster(server));
        *shared = Arc::downgrade(&cluster);
        cluster
    })
}

/// Does what the volume controller of kube-controller-manager does for claims that wait, until the API server ends.
fn play_controller(client: ApiClient) {
    const PAUSE: Duration = Duration::from_millis(20);
    thread::spawn(move || {
        while sync(&client).is_ok() {
            thread::sleep(PAUSE);
        }
    });
}

fn sync(client: &ApiClient) -> Result<(), Error> {
    let items = |path: &str| Ok(client.get(path)?["items"].as_array().cloned().unwrap_or_default());
    let (volumes, claims): (Vec<Value>, Vec<Value>) = (items(VOLUMES)?, items(CLAIMS)?);
    let by_uid: BTreeMap<&str, &Value> =
        claims.iter().filter_map(|claim| Some((claim["metadata"]["uid"].as_str()?, claim))).collect();
    for volume in &volumes {
        sync_volume(client, volume, claimed_by(volume).map(|uid| by_uid.get(uid).copied()))?;
    }
    for claim in claims.iter().filter(|claim| is_bound(claim)) {
        let is_there = volumes.iter().any(|volume| name_of(volume) == volume_of(claim));
        if !is_there {
            set_phase(client, &format!("{CLAIMS}/{}", name_of(claim)), claim, "Lost")?;
        }
    }
    Ok(())
}

/// `owner`: the claim that the volume is for, as far as it is there.
fn sync_volume(client: &ApiClient, volume: &Value, owner: Option<Option<&Value>>) -> Result<(), Error> {
    let path = format!("{VOLUMES}/{}", name_of(volume));
    match owner {
        None => set_phase(client, &path, volume, "Available"),
        Some(None) => set_phase(client, &path, volume, "Released"),
        Some(Some(claim)) if volume_of(claim).is_empty() || volume_of(claim) == name_of(volume) => {
            set_phase(client, &path, volume, "Bound")?;
            let path = format!("{CLAIMS}/{}", name_of(claim));
            if !is_bound(claim) {
                let annotations = json!({ BIND_COMPLETED: "yes" });
                let spec = json!({"volumeName": name_of(volume)});
                write(client, &path, claim, json!({"metadata": {"annotations": annotations}, "spec": spec}))?;
            }
            set_phase(client, &path, claim, "Bound")
        }
        // Another has been faster.
        Some(Some(_)) if volume["metadata"]["annotations"][BOUND_BY_CONTROLLER].is_string() => {
            let annotations = json!({ BOUND_BY_CONTROLLER: null });
            let patch = json!({"metadata": {"annotations": annotations}, "spec": {"claimRef": null}});
            write(client, &path, volume, patch)
        }
        Some(Some(_)) => Ok(()),
    }
}

fn set_phase(client: &ApiClient, path: &str, object: &Value, phase: &str) -> Result<(), Error> {
    if object["status"]["phase"] == phase {
        return Ok(());
    }
    write(client, &format!("{path}/status"), object, json!({"status": {"phase": phase}}))
}

/// Changes the object as it was seen. If it has changed meanwhile, or is gone, the next look tells.
fn write(client: &ApiClient, path: &str, seen: &Value, mut patch: Value) -> Result<(), Error> {
    patch["metadata"]["uid"] = seen["metadata"]["uid"].clone();
    if !path.ends_with("/status") {
        patch["metadata"]["resourceVersion"] = seen["metadata"]["resourceVersion"].clone();
    }
    match client.merge_patch(path, &patch) {
        Ok(_) | Err(Error::Refused { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}
