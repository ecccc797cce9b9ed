//! Claims and volumes: the decisions of kube-controller-manager's volume controllers and of CSI drivers' provisioners.
//! This module writes nothing; the caller applies the [`Changes`].
//!
//! Reading order: [`Volumes`] (objects and pending changes), `claiming` (binding claims), `reclaiming` (volumes without
//! a claim), `provision` (new volumes and their topology), [`pod_claims`] (claims that belong to pods), `index`
//! (volumes by class and claim).
//!
//! The simulation is simpler than the original controllers: storage operations never fail and take no time, and
//! volumes are neither resized nor recycled. Claims in use are not protected from deletion.
//!
//! Invariant: calling [`Volumes::settle`] a second time changes no claim and no volume.

mod claiming;
mod index;
pub mod pod_claims;
mod provision;
mod reclaiming;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use harbormaster_api::{Labels, Str};
use harbormaster_framework::resource::{Custom, CustomKey, RawObject, Resource, ResourceKind, ResourceName};
use harbormaster_plugins::storage::{CsiNode, PersistentVolume, PersistentVolumeClaim, StorageClass, claim};
use harbormaster_validation::value::{name, namespace, text, uid};
use serde::Serialize;
use serde_json::{Value, json};

use self::index::Index;

/// Name of the claim resource in the API server's store.
pub const CLAIMS: &str = "persistentvolumeclaims";
/// Name of the volume resource.
pub const VOLUMES: &str = "persistentvolumes";
/// API version of classes and drivers.
const STORAGE: &str = "storage.k8s.io/v1";

/// Namespace and name of a claim.
pub type ClaimKey = (String, String);

/// Provisioners that create volumes for claims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Provisioners {
    /// No provisioners: only kube-controller-manager's part is simulated.
    #[default]
    Elsewhere,
    /// Provisioners of all classes. If a claim does not wait for a pod, its name determines the topology of its volume:
    /// the number at the end of the name spreads a StatefulSet's volumes over all topologies.
    Ready,
    /// Provisioners of all classes. Volumes for claims that do not wait for a pod may be anywhere that the class
    /// allows, until [`Volumes::land`] decides their topology.
    Floating,
}

/// Claims, volumes and the objects that they depend on.
#[derive(Clone, Debug, Default)]
pub struct Volumes {
    provisioners: Provisioners,
    claims: BTreeMap<ClaimKey, DecodedObject<PersistentVolumeClaim>>,
    volumes: BTreeMap<String, DecodedObject<PersistentVolume>>,
    classes: BTreeMap<String, DecodedObject<StorageClass>>,
    /// CSINodes by node.
    drivers: BTreeMap<String, DecodedObject<CsiNode>>,
    nodes: BTreeMap<Str, Labels>,
    index: Index,
    /// Volumes whose topology is still open.
    floating: BTreeSet<String>,
    /// Volumes that this simulation bound. The value is true if the simulation also provisioned the volume.
    given: BTreeMap<String, bool>,
    pending: PendingChanges,
}

/// An object as JSON, and in the decoded form that plugins read.
#[derive(Debug)]
struct DecodedObject<R> {
    value: Arc<Value>,
    read: Arc<Custom<R>>,
}

/// Changes since the last [`Volumes::take_changes`].
#[derive(Clone, Debug, Default)]
struct PendingChanges {
    created: BTreeSet<String>,
    volumes: BTreeSet<String>,
    claims: BTreeSet<ClaimKey>,
    deleted: Vec<Value>,
    events: Vec<ClaimEvent>,
}

/// Changes to write, in the order of the fields: a claim is bound only after its volume.
#[derive(Debug, Default)]
pub struct Changes {
    /// New volumes.
    pub created: Vec<Value>,
    /// Changed volumes with their status.
    pub volumes: Vec<Value>,
    /// Changed claims with their status.
    pub claims: Vec<Value>,
    /// Deleted volumes.
    pub deleted: Vec<Value>,
    /// Events about claims.
    pub events: Vec<ClaimEvent>,
}

/// An event about a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimEvent {
    /// Claim that the event is about.
    pub claim: Value,
    /// Component that reports the event.
    pub component: String,
    /// Meaning of the event for the claim.
    pub severity: Severity,
    /// For example `ProvisioningSucceeded`.
    pub reason: &'static str,
    /// Message for users.
    pub message: String,
}

/// Claims and volumes that differ between two states.
#[derive(Debug, Default)]
pub struct Difference {
    /// New and changed volumes.
    pub volumes: Vec<Value>,
    /// New and changed claims.
    pub claims: Vec<Value>,
    /// Volumes that no longer exist.
    pub lost_volumes: Vec<Value>,
    /// Claims that no longer exist.
    pub lost_claims: Vec<Value>,
}

/// Volume that a claim is bound to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ClaimedVolume {
    /// Name of an existing volume.
    Volume(String),
    /// A volume that would be provisioned. Contains the labels of the nodes that can use it; without labels, all nodes
    /// can.
    Provisioned(BTreeMap<String, String>),
}

/// Meaning of an event for the claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// All is well.
    Normal,
    /// The claim gets no volume for now, although the event's type is `Normal`.
    Stuck,
    /// The claim gets no volume for now. The event's type is `Warning`.
    Warning,
}

impl<R> Clone for DecodedObject<R> {
    fn clone(&self) -> Self {
        Self { value: self.value.clone(), read: self.read.clone() }
    }
}

impl<R: Resource> DecodedObject<R> {
    /// Returns `None` for objects that plugins cannot read.
    fn of(value: Value) -> Option<Self> {
        let resource = ResourceName::of::<R>().to_string().into();
        let key = CustomKey { resource, namespace: namespace(&value).into(), name: name(&value).into() };
        let raw = RawObject::from_json(key, value.to_string());
        let read = ResourceKind::of::<R>().decode(&raw).ok()?.downcast().ok()?;
        Some(Self { value: Arc::new(value), read })
    }
}

impl Volumes {
    /// Creates an empty simulation.
    pub fn new(provisioners: Provisioners) -> Self {
        Self { provisioners, ..Self::default() }
    }

    /// Sets the current version of a claim, volume, class or CSINode. Objects of other kinds are ignored.
    pub fn put(&mut self, object: &Value) {
        match (text(object, "/apiVersion"), text(object, "/kind")) {
            ("v1", PersistentVolumeClaim::KIND) => self.put_claim(object),
            ("v1", PersistentVolume::KIND) => self.put_volume(object),
            (STORAGE, StorageClass::KIND) => put(&mut self.classes, name(object).to_owned(), object),
            (STORAGE, CsiNode::KIND) => put(&mut self.drivers, name(object).to_owned(), object),
            _ => {}
        }
    }

    /// Removes an object, unless a different object now has its name.
    pub fn remove(&mut self, object: &Value) {
        let own = name(object);
        match (text(object, "/apiVersion"), text(object, "/kind")) {
            ("v1", PersistentVolumeClaim::KIND) => remove(&mut self.claims, &claim_key(object), object),
            ("v1", PersistentVolume::KIND)
                if self.volume(own).is_some_and(|kept| uid(kept) == uid(object)) =>
            {
                self.take_volume(own);
            }
            (STORAGE, StorageClass::KIND) => remove(&mut self.classes, own, object),
            (STORAGE, CsiNode::KIND) => remove(&mut self.drivers, own, object),
            _ => {}
        }
    }

    /// Replaces all nodes and their labels.
    pub fn set_nodes(&mut self, nodes: impl Iterator<Item = (Str, Labels)>) {
        self.nodes = nodes.collect();
    }

    /// Returns the current version of a claim.
    pub fn claim(&self, key: &ClaimKey) -> Option<&Value> {
        self.claims.get(key).map(|kept| &*kept.value)
    }

    /// Returns the current version of a volume.
    pub fn volume(&self, name: &str) -> Option<&Value> {
        self.volumes.get(name).map(|kept| &*kept.value)
    }

    /// Returns the volume that a claim names.
    pub fn volume_of(&self, key: &ClaimKey) -> Option<&str> {
        let volume = &self.claims.get(key)?.read.volume_name;
        (!volume.is_empty()).then_some(volume)
    }

    /// Returns the class that a claim names: an empty string if it names none, and `None` if there is no such claim.
    pub fn class_of(&self, key: &ClaimKey) -> Option<&str> {
        Some(&self.claims.get(key)?.read.class)
    }

    /// Returns the volume that this simulation bound to a claim. Returns `None` if the claim is unbound, or if it was
    /// already bound when it was put into the simulation.
    pub fn claimed_volume(&self, key: &ClaimKey) -> Option<ClaimedVolume> {
        let claim = self.claims.get(key).filter(|claim| claim::is_fully_bound(&claim.read))?;
        let volume = claim.read.volume_name.as_str();
        Some(match self.given.get(volume)? {
            false => ClaimedVolume::Volume(volume.to_owned()),
            true => ClaimedVolume::Provisioned(
                self.volume(volume).map(provision::topology_of).unwrap_or_default(),
            ),
        })
    }

    /// Removes the claim of a deleted pod, and releases the claim's volume.
    pub fn remove_claim(&mut self, key: &ClaimKey) -> Option<Value> {
        let claim = self.claims.remove(key)?;
        self.release(claim.read.volume_name.as_str());
        Some(Arc::unwrap_or_clone(claim.value))
    }

    /// Returns the changes that turn this state into another, which descends from the same state.
    pub fn difference(&self, to: &Self) -> Difference {
        Difference {
            volumes: changed(&self.volumes, &to.volumes),
            claims: changed(&self.claims, &to.claims),
            lost_volumes: lost(&self.volumes, &to.volumes),
            lost_claims: lost(&self.claims, &to.claims),
        }
    }

    /// Settles all volumes and claims: binds, provisions, releases and deletes volumes as the controllers would.
    pub fn settle(&mut self) {
        for name in self.volumes.keys().cloned().collect::<Vec<_>>() {
            self.settle_volume(&name);
        }
        for key in self.claims.keys().cloned().collect::<Vec<_>>() {
            self.settle_claim(&key);
        }
    }

    /// Returns the changes since the last call.
    pub fn take_changes(&mut self) -> Changes {
        let PendingChanges { created, mut volumes, claims, deleted, events } =
            std::mem::take(&mut self.pending);
        volumes.retain(|name| !created.contains(name));
        let of =
            |names: BTreeSet<String>| names.iter().filter_map(|name| self.volume(name)).cloned().collect();
        Changes {
            created: of(created),
            volumes: of(volumes),
            claims: claims.iter().filter_map(|key| self.claim(key)).cloned().collect(),
            deleted,
            events,
        }
    }

    /// Reserves a volume for a claim, as a scheduler does.
    pub fn set_aside(&mut self, volume: &str, key: &ClaimKey) {
        let Some(claim) = self.claims.get(key) else { return };
        let reference = claim_reference(&claim.value);
        self.change_volume(volume, |volume| volume["spec"]["claimRef"] = reference);
    }

    /// Selects the node for which the claim's volume is provisioned, as a scheduler does.
    pub fn select_node(&mut self, key: &ClaimKey, node: &str) {
        self.change_claim(key, |it| it["metadata"]["annotations"][claim::SELECTED_NODE] = node.into());
    }

    fn put_claim(&mut self, object: &Value) {
        put(&mut self.claims, claim_key(object), object);
    }

    fn put_volume(&mut self, object: &Value) {
        if self.volumes.get(name(object)).is_some_and(|kept| is_known(&kept.value, object)) {
            return;
        }
        self.take_volume(name(object));
        if let Some(kept) = DecodedObject::of(object.clone()) {
            self.index.add(&kept.read);
            self.volumes.insert(name(object).to_owned(), kept);
        }
    }

    fn take_volume(&mut self, name: &str) -> Option<Value> {
        let kept = self.volumes.remove(name)?;
        self.index.remove(&kept.read);
        Some(Arc::unwrap_or_clone(kept.value))
    }

    fn change_claim(&mut self, key: &ClaimKey, change: impl FnOnce(&mut Value)) {
        let Some(old) = self.claims.get(key) else { return };
        let mut new = Value::clone(&old.value);
        change(&mut new);
        if new != *old.value
            && let Some(kept) = DecodedObject::of(new)
        {
            self.claims.insert(key.clone(), kept);
            self.pending.claims.insert(key.clone());
        }
    }

    fn change_volume(&mut self, name: &str, change: impl FnOnce(&mut Value)) {
        let Some(old) = self.volumes.get(name) else { return };
        let mut new = Value::clone(&old.value);
        change(&mut new);
        if new != *old.value
            && let Some(kept) = DecodedObject::of(new)
        {
            self.take_volume(name);
            self.index.add(&kept.read);
            self.volumes.insert(name.to_owned(), kept);
            self.pending.volumes.insert(name.to_owned());
        }
    }

    fn report(
        &mut self,
        key: &ClaimKey,
        component: &str,
        severity: Severity,
        reason: &'static str,
        message: String,
    ) {
        let Some(claim) = self.claim(key).cloned() else { return };
        let component = component.to_owned();
        self.pending.events.push(ClaimEvent { claim, component, severity, reason, message });
    }
}

/// Returns the namespace and name of a claim.
pub fn claim_key(claim: &Value) -> ClaimKey {
    (namespace(claim).to_owned(), name(claim).to_owned())
}

/// Returns true if `object` is the version that is already known. An object without a version counts as unknown.
fn is_known(known: &Value, object: &Value) -> bool {
    let version = text(object, "/metadata/resourceVersion");
    !version.is_empty() && text(known, "/metadata/resourceVersion") == version && uid(known) == uid(object)
}

fn put<K: Ord, R: Resource>(all: &mut BTreeMap<K, DecodedObject<R>>, key: K, object: &Value) {
    if all.get(&key).is_some_and(|kept| is_known(&kept.value, object)) {
        return;
    }
    match DecodedObject::of(object.clone()) {
        Some(kept) => drop(all.insert(key, kept)),
        None => drop(all.remove(&key)),
    }
}

fn remove<K, Q, R>(all: &mut BTreeMap<K, DecodedObject<R>>, key: &Q, object: &Value)
where
    K: Ord + std::borrow::Borrow<Q>,
    Q: Ord + ?Sized,
{
    if all.get(key).is_some_and(|kept| uid(&kept.value) == uid(object)) {
        all.remove(key);
    }
}

/// Returns the objects that are new or changed in `to`.
fn changed<K: Ord, R>(
    from: &BTreeMap<K, DecodedObject<R>>,
    to: &BTreeMap<K, DecodedObject<R>>,
) -> Vec<Value> {
    let is_same = |key: &K, new: &DecodedObject<R>| {
        from.get(key).is_some_and(|old| Arc::ptr_eq(&old.value, &new.value))
    };
    let changed = to.iter().filter(|(key, new)| !is_same(key, new));
    changed.map(|(_, new)| Value::clone(&new.value)).collect()
}

/// Returns the objects that `to` lacks.
fn lost<K: Ord, R>(from: &BTreeMap<K, DecodedObject<R>>, to: &BTreeMap<K, DecodedObject<R>>) -> Vec<Value> {
    let lost = from.iter().filter(|(key, _)| !to.contains_key(key));
    lost.map(|(_, old)| Value::clone(&old.value)).collect()
}

/// Returns a volume's reference to its claim.
fn claim_reference(claim: &Value) -> Value {
    let mut reference = json!({"apiVersion": "v1", "kind": PersistentVolumeClaim::KIND, "namespace": namespace(claim),
        "name": name(claim)});
    for (field, at) in [("uid", "/metadata/uid"), ("resourceVersion", "/metadata/resourceVersion")] {
        if !text(claim, at).is_empty() {
            reference[field] = text(claim, at).into();
        }
    }
    reference
}

#[cfg(test)]
mod tests;
