//! The claims and volumes of the API server as they change, and what the volume
//! controller, the provisioner and a scheduler have yet to do for them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::paths::path;

const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const STORAGE_PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";

/// Everything that [`Claims::change`] has been told of.
#[derive(Debug, Default)]
pub(super) struct Claims {
    /// Claims by path.
    claims: BTreeMap<String, Value>,
    /// Volumes by name.
    volumes: BTreeMap<String, Value>,
    /// The names of classes whose claims wait for a pod.
    patient: BTreeSet<String>,
    /// The provisioners that answer.
    drivers: BTreeSet<String>,
}

impl Claims {
    /// `drivers` are the provisioners that answer, sooner or later.
    pub(super) fn new(drivers: BTreeSet<String>) -> Self {
        Self { drivers, ..Self::default() }
    }

    /// Takes note of a claim, a volume or a class.
    pub(super) fn change(&mut self, is_gone: bool, object: Value) {
        let name = text(&object["metadata"]["name"]);
        let (objects, key) = match object["kind"].as_str() {
            Some("PersistentVolumeClaim") => (&mut self.claims, path(&object)),
            Some("PersistentVolume") => (&mut self.volumes, name),
            Some("StorageClass") => {
                if object["volumeBindingMode"] == "WaitForFirstConsumer" {
                    self.patient.insert(name);
                }
                return;
            }
            _ => return,
        };
        if is_gone {
            objects.remove(&key);
        } else {
            objects.insert(key, object);
        }
    }

    /// What somebody must still do, if anything.
    pub(super) fn unfinished(&self) -> Option<String> {
        let unseen = || {
            let is_unseen =
                |volume: &&Value| matches!(text(&volume["status"]["phase"]).as_str(), "" | "Pending");
            let volume = self.volumes.values().find(is_unseen)?;
            Some(format!("the volume controller has not seen {}", volume["metadata"]["name"]))
        };
        let open = || {
            let named = self.volumes.values().map(|volume| (full_name(&volume["spec"]["claimRef"]), volume));
            let set_aside: BTreeMap<_, _> = named.collect();
            let is_open = |claim: &&Value| {
                let volume = set_aside.get(&full_name(&claim["metadata"])).copied();
                self.is_on_its_way(claim, volume.filter(|volume| is_set_aside(volume, claim)))
            };
            let claim = self.claims.values().find(is_open)?;
            Some(format!("{} is not bound yet", path(claim)))
        };
        unseen().or_else(open)
    }

    /// Whether a claim is to be bound by what has been decided already;
    /// `set_aside` is the volume that names it.
    fn is_on_its_way(&self, claim: &Value, set_aside: Option<&Value>) -> bool {
        let (annotations, status) = (&claim["metadata"]["annotations"], &claim["status"]);
        if !claim["metadata"]["deletionTimestamp"].is_null() {
            return false;
        }
        let volume = claim["spec"]["volumeName"].as_str().filter(|name| !name.is_empty());
        if let Some(volume) = volume.and_then(|name| self.volumes.get(name)) {
            let is_bound = status["phase"] == "Bound" && volume["status"]["phase"] == "Bound";
            return !is_bound && (set_aside.is_some() || volume["spec"]["claimRef"].is_null());
        }
        let is_asked = if self.is_patient(claim) { SELECTED_NODE } else { STORAGE_PROVISIONER };
        // The annotation with the provisioner follows that with the node.
        let is_made =
            annotations[STORAGE_PROVISIONER].as_str().is_none_or(|name| self.drivers.contains(name));
        !annotations[is_asked].is_null() && is_made || set_aside.is_some()
    }

    fn is_patient(&self, claim: &Value) -> bool {
        self.patient.contains(&text(&claim["spec"]["storageClassName"]))
    }

    /// Whether somebody may be about to bind `pod`: a volume has been found for a
    /// claim of its, or a node for it, as happens for pods only.
    pub(super) fn may_be_binding(&self, pod: &Value) -> bool {
        self.of_pod(pod).any(|(_, claim)| {
            let is_chosen = !text(&claim["spec"]["volumeName"]).is_empty()
                || !claim["metadata"]["annotations"][SELECTED_NODE].is_null();
            self.is_patient(claim) && is_chosen
        })
    }

    /// The claims of a pod and what they are bound to, without the names that
    /// differ from play to play.
    pub(super) fn outcome(&self, pod: &Value) -> String {
        let told: Vec<String> =
            self.of_pod(pod).map(|(name, claim)| format!("{name}: {}", self.bound_to(claim))).collect();
        told.join(", ")
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

    fn of_pod<'a>(&'a self, pod: &'a Value) -> impl Iterator<Item = (String, &'a Value)> {
        let namespace = text(&pod["metadata"]["namespace"]);
        claim_names(pod).filter_map(move |name| {
            let path = format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}");
            Some((name, self.claims.get(&path)?))
        })
    }
}

/// The names of the claims that a pod uses, those made for it included.
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

/// Whether a volume that has a claim's name in its reference means this one.
fn is_set_aside(volume: &Value, claim: &Value) -> bool {
    let uid = &volume["spec"]["claimRef"]["uid"];
    uid.is_null() || *uid == claim["metadata"]["uid"]
}

/// Namespace and name of a claim, from its metadata or a reference to it.
fn full_name(of: &Value) -> [Option<&str>; 2] {
    ["namespace", "name"].map(|field| of[field].as_str())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
