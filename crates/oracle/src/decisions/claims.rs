//! A view of the API server's claims and volumes, and of the work on them that the volume controller, the provisioner
//! and a scheduler still have to do.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::paths::path;

const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const STORAGE_PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";

/// The claims, volumes and classes passed to [`Claims::change`].
#[derive(Debug, Default)]
pub(super) struct Claims {
    /// Claims by path.
    claims: BTreeMap<String, Value>,
    /// Volumes by name.
    volumes: BTreeMap<String, Value>,
    /// Names of the classes whose claims are bound only when a pod uses them.
    waiting_classes: BTreeSet<String>,
    /// Provisioners that create volumes.
    drivers: BTreeSet<String>,
}

impl Claims {
    /// Creates a view. `drivers` are the provisioners that create volumes.
    pub(super) fn new(drivers: BTreeSet<String>) -> Self {
        Self { drivers, ..Self::default() }
    }

    /// Updates a claim, a volume or a class.
    pub(super) fn change(&mut self, is_deleted: bool, object: Value) {
        let name = text(&object["metadata"]["name"]);
        let (objects, key) = match object["kind"].as_str() {
            Some("PersistentVolumeClaim") => (&mut self.claims, path(&object)),
            Some("PersistentVolume") => (&mut self.volumes, name),
            Some("StorageClass") => {
                if object["volumeBindingMode"] == "WaitForFirstConsumer" {
                    self.waiting_classes.insert(name);
                }
                return;
            }
            _ => return,
        };
        if is_deleted {
            objects.remove(&key);
        } else {
            objects.insert(key, object);
        }
    }

    /// Describes the work that a controller or scheduler still has to do, if any.
    pub(super) fn unfinished(&self) -> Option<String> {
        let unseen = || {
            let is_unseen =
                |volume: &&Value| matches!(text(&volume["status"]["phase"]).as_str(), "" | "Pending");
            let volume = self.volumes.values().find(is_unseen)?;
            Some(format!("the volume controller has not seen {}", volume["metadata"]["name"]))
        };
        let open = || {
            let named = self.volumes.values().map(|volume| (full_name(&volume["spec"]["claimRef"]), volume));
            let reserved: BTreeMap<_, _> = named.collect();
            let is_open = |claim: &&Value| {
                let volume = reserved.get(&full_name(&claim["metadata"])).copied();
                self.is_being_bound(claim, volume.filter(|volume| is_reserved_for(volume, claim)))
            };
            let claim = self.claims.values().find(is_open)?;
            Some(format!("{} is not bound yet", path(claim)))
        };
        unseen().or_else(open)
    }

    /// Returns true if earlier decisions will cause the claim to be bound. `reserved` is the volume that refers to the
    /// claim.
    fn is_being_bound(&self, claim: &Value, reserved: Option<&Value>) -> bool {
        let (annotations, status) = (&claim["metadata"]["annotations"], &claim["status"]);
        if !claim["metadata"]["deletionTimestamp"].is_null() {
            return false;
        }
        let volume = claim["spec"]["volumeName"].as_str().filter(|name| !name.is_empty());
        if let Some(volume) = volume.and_then(|name| self.volumes.get(name)) {
            let is_bound = status["phase"] == "Bound" && volume["status"]["phase"] == "Bound";
            return !is_bound && (reserved.is_some() || volume["spec"]["claimRef"].is_null());
        }
        let request = if self.waits_for_consumer(claim) { SELECTED_NODE } else { STORAGE_PROVISIONER };
        // The annotation that names the node is written before the annotation that names the provisioner.
        let is_answered =
            annotations[STORAGE_PROVISIONER].as_str().is_none_or(|name| self.drivers.contains(name));
        !annotations[request].is_null() && is_answered || reserved.is_some()
    }

    fn waits_for_consumer(&self, claim: &Value) -> bool {
        self.waiting_classes.contains(&text(&claim["spec"]["storageClassName"]))
    }

    /// Returns true if a scheduler may be binding `pod`, because a volume or a node has been chosen for one of the
    /// pod's claims that wait for a pod.
    pub(super) fn may_be_binding(&self, pod: &Value) -> bool {
        self.claims_of_pod(pod).any(|(_, claim)| {
            let is_chosen = !text(&claim["spec"]["volumeName"]).is_empty()
                || !claim["metadata"]["annotations"][SELECTED_NODE].is_null();
            self.waits_for_consumer(claim) && is_chosen
        })
    }

    /// Describes the claims of a pod and their volumes, without names that differ from run to run.
    pub(super) fn outcome(&self, pod: &Value) -> String {
        let claims: Vec<String> = self
            .claims_of_pod(pod)
            .map(|(name, claim)| format!("{name}: {}", self.bound_to(claim)))
            .collect();
        claims.join(", ")
    }

    fn bound_to(&self, claim: &Value) -> String {
        let phase = text(&claim["status"]["phase"]);
        let name = text(&claim["spec"]["volumeName"]);
        if name.is_empty() {
            let node = text(&claim["metadata"]["annotations"][SELECTED_NODE]);
            return format!("{phase} {node}").trim_end().to_owned();
        }
        let Some(uid) = claim["metadata"]["uid"].as_str().filter(|uid| name == format!("pvc-{uid}")) else {
            return format!("{phase} to {name}");
        };
        let nowhere = Value::Null;
        let spec = self.volumes.get(&format!("pvc-{uid}")).map_or(&nowhere, |volume| &volume["spec"]);
        let terms = &spec["nodeAffinity"]["required"]["nodeSelectorTerms"];
        format!("{phase} to a new one of {} in {}, {terms}", spec["csi"]["driver"], spec["storageClassName"])
    }

    fn claims_of_pod<'a>(&'a self, pod: &'a Value) -> impl Iterator<Item = (String, &'a Value)> {
        let namespace = text(&pod["metadata"]["namespace"]);
        claim_names(pod).filter_map(move |name| {
            let path = format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}");
            Some((name, self.claims.get(&path)?))
        })
    }
}

/// Names of the claims that a pod uses, including those of ephemeral volumes.
pub(super) fn claim_names(pod: &Value) -> impl Iterator<Item = String> {
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    volumes.filter_map(|volume| {
        if volume["ephemeral"].is_null() {
            volume["persistentVolumeClaim"]["claimName"].as_str().map(str::to_owned)
        } else {
            Some(format!("{}-{}", text(&pod["metadata"]["name"]), text(&volume["name"])))
        }
    })
}

/// Returns true if `volume` refers to `claim` itself and not to an earlier claim with the same name. The caller has
/// already compared the names.
fn is_reserved_for(volume: &Value, claim: &Value) -> bool {
    let uid = &volume["spec"]["claimRef"]["uid"];
    uid.is_null() || *uid == claim["metadata"]["uid"]
}

/// Namespace and name of a claim, from the claim's metadata or from a reference to the claim.
fn full_name(of: &Value) -> [Option<&str>; 2] {
    ["namespace", "name"].map(|field| of[field].as_str())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
