//! What becomes of claims and volumes: what the volume controllers of kube-controller-manager and the provisioners of CSI
//! drivers would do next. Nothing is written here: the sandbox carries it out, and [`mod@crate::simulate`] plays with it.
//!
//! Reading order: [`Volumes`] (what there is, and what is to be changed), `claiming` (what a claim gets), `reclaiming`
//! (what becomes of a volume that nobody claims), `provision` (volumes that are made, and where), [`brought`] (the claims
//! that pods bring along), `index` (volumes by what they are looked for).
//!
//! Simpler than the originals: nothing fails, nothing takes time, and volumes are neither resized nor recycled. Claims in
//! use are not protected from being deleted.
//!
//! Invariant: settling what has been settled changes nothing.

pub mod brought;
mod claiming;
mod index;
mod provision;
mod reclaiming;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use harbormaster_api::{Labels, Str};
use harbormaster_framework::resource::{Custom, CustomKey, RawObject, Resource, ResourceKind, ResourceName};
use harbormaster_objects::value::{name, namespace, text, uid};
use harbormaster_plugins::storage::{CsiNode, PersistentVolume, PersistentVolumeClaim, StorageClass, claim};
use serde::Serialize;
use serde_json::{Value, json};

use self::index::Index;

/// The resource of claims, as the API server's store names it.
pub const CLAIMS: &str = "persistentvolumeclaims";
/// The resource of volumes.
pub const VOLUMES: &str = "persistentvolumes";
/// The API of classes and drivers.
const STORAGE: &str = "storage.k8s.io/v1";

/// Namespace and name of a claim.
pub type ClaimKey = (String, String);

/// Who makes volumes for claims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Provisioners {
    /// Nobody, or somebody else: kube-controller-manager alone.
    #[default]
    Elsewhere,
    /// Those of all classes are there. For claims that do not wait for a pod they make volumes somewhere: for claims with
    /// numbers at their end one place after the other.
    Ready,
    /// They make such volumes wherever the class allows, until [`Volumes::land`] says where.
    Floating,
}

/// Claims, volumes and what they depend on.
#[derive(Clone, Debug, Default)]
pub struct Volumes {
    provisioners: Provisioners,
    claims: BTreeMap<ClaimKey, Kept<PersistentVolumeClaim>>,
    volumes: BTreeMap<String, Kept<PersistentVolume>>,
    classes: BTreeMap<String, Kept<StorageClass>>,
    /// By node.
    drivers: BTreeMap<String, Kept<CsiNode>>,
    nodes: BTreeMap<Str, Labels>,
    index: Index,
    /// Volumes whose place is not decided yet.
    floating: BTreeSet<String>,
    /// Volumes that claims have got here, and whether these were made.
    given: BTreeMap<String, bool>,
    open: Open,
}

/// An object, and what plugins read of it.
#[derive(Debug)]
struct Kept<R> {
    value: Value,
    read: Arc<Custom<R>>,
}

/// What has changed since it was told.
#[derive(Clone, Debug, Default)]
struct Open {
    made: BTreeSet<String>,
    volumes: BTreeSet<String>,
    claims: BTreeSet<ClaimKey>,
    deleted: Vec<Value>,
    said: Vec<Said>,
}

/// What is to be written, in this order: a claim has its volume only when the volume says so.
#[derive(Debug, Default)]
pub struct Changes {
    /// New volumes.
    pub made: Vec<Value>,
    /// Volumes as they are to be, with their status.
    pub volumes: Vec<Value>,
    /// Claims as they are to be, with their status.
    pub claims: Vec<Value>,
    /// Volumes that go.
    pub deleted: Vec<Value>,
    /// What is said of claims.
    pub said: Vec<Said>,
}

/// What is said of a claim: an event.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    /// The claim.
    pub claim: Value,
    /// Who says it.
    pub component: String,
    /// Whether something is wrong.
    pub tone: Tone,
    /// For example `ProvisioningSucceeded`.
    pub reason: &'static str,
    /// For people.
    pub message: String,
}

/// What a claim gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Gets {
    /// A volume that is there: its name.
    Volume(String),
    /// One that would be made: the labels of the nodes from which it could be used. Without any it could from all.
    Provisioned(BTreeMap<String, String>),
}

/// What an event means for the claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// All goes well.
    Well,
    /// The claim gets no volume as things are. A `Normal` event all the same.
    Stuck,
    /// As before; a `Warning`.
    Warning,
}

impl<R> Clone for Kept<R> {
    fn clone(&self) -> Self {
        Self { value: self.value.clone(), read: self.read.clone() }
    }
}

impl<R: Resource> Kept<R> {
    /// `None` for objects that plugins cannot read.
    fn of(value: Value) -> Option<Self> {
        let resource = ResourceName::of::<R>().to_string().into();
        let key = CustomKey { resource, namespace: namespace(&value).into(), name: name(&value).into() };
        let raw = RawObject { key, json: value.to_string().into() };
        let read = ResourceKind::of::<R>().decode(&raw).ok()?.downcast().ok()?;
        Some(Self { value, read })
    }
}

impl Volumes {
    /// Nothing yet.
    pub fn new(provisioners: Provisioners) -> Self {
        Self { provisioners, ..Self::default() }
    }

    /// An object as it is now: a claim, a volume, a class or what a node says of its drivers. Others are of no interest.
    pub fn put(&mut self, object: &Value) {
        match (text(object, "/apiVersion"), text(object, "/kind")) {
            ("v1", PersistentVolumeClaim::KIND) => self.put_claim(object),
            ("v1", PersistentVolume::KIND) => self.put_volume(object),
            (STORAGE, StorageClass::KIND) => put(&mut self.classes, name(object).to_owned(), object),
            (STORAGE, CsiNode::KIND) => put(&mut self.drivers, name(object).to_owned(), object),
            _ => {}
        }
    }

    /// An object is gone. It does not matter if another one has its name by now.
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

    /// All nodes with their labels.
    pub fn set_nodes(&mut self, nodes: impl Iterator<Item = (Str, Labels)>) {
        self.nodes = nodes.collect();
    }

    /// A claim as it is now.
    pub fn claim(&self, key: &ClaimKey) -> Option<&Value> {
        self.claims.get(key).map(|kept| &kept.value)
    }

    /// A volume as it is now.
    pub fn volume(&self, name: &str) -> Option<&Value> {
        self.volumes.get(name).map(|kept| &kept.value)
    }

    /// The volume that a claim names.
    pub fn volume_of(&self, key: &ClaimKey) -> Option<&str> {
        let volume = &self.claims.get(key)?.read.volume_name;
        (!volume.is_empty()).then_some(volume)
    }

    /// The class that a claim names; empty for none.
    pub fn class_of(&self, key: &ClaimKey) -> Option<&str> {
        Some(&self.claims.get(key)?.read.class)
    }

    /// What a claim has got here; `None` if it has nothing, or had it before.
    pub fn gets(&self, key: &ClaimKey) -> Option<Gets> {
        let claim = self.claims.get(key).filter(|claim| claim::is_fully_bound(&claim.read))?;
        let volume = claim.read.volume_name.as_str();
        Some(match self.given.get(volume)? {
            false => Gets::Volume(volume.to_owned()),
            true => Gets::Provisioned(self.volume(volume).map(provision::place_of).unwrap_or_default()),
        })
    }

    /// A claim of a pod that is gone goes with it, and its volume if that is not to be kept.
    pub fn remove_claim(&mut self, key: &ClaimKey) -> Option<Value> {
        let claim = self.claims.remove(key)?;
        self.release(claim.read.volume_name.as_str());
        Some(claim.value)
    }

    /// Decides what becomes of everything.
    pub fn settle(&mut self) {
        for name in self.volumes.keys().cloned().collect::<Vec<_>>() {
            self.settle_volume(&name);
        }
        for key in self.claims.keys().cloned().collect::<Vec<_>>() {
            self.settle_claim(&key);
        }
    }

    /// What has been decided since the last call.
    pub fn take_changes(&mut self) -> Changes {
        let Open { made, mut volumes, claims, deleted, said } = std::mem::take(&mut self.open);
        volumes.retain(|name| !made.contains(name));
        let of =
            |names: BTreeSet<String>| names.iter().filter_map(|name| self.volume(name)).cloned().collect();
        Changes {
            made: of(made),
            volumes: of(volumes),
            claims: claims.iter().filter_map(|key| self.claim(key)).cloned().collect(),
            deleted,
            said,
        }
    }

    /// Says of a volume that was not there before that it is the claim's, as a scheduler does.
    pub fn set_aside(&mut self, volume: &str, key: &ClaimKey) {
        let Some(claim) = self.claims.get(key) else { return };
        let reference = claim_reference(&claim.value);
        self.change_volume(volume, |volume| volume["spec"]["claimRef"] = reference);
    }

    /// Says for which node a volume is to be made for the claim, as a scheduler does.
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
        if let Some(kept) = Kept::of(object.clone()) {
            self.index.add(&kept.read);
            self.volumes.insert(name(object).to_owned(), kept);
        }
    }

    fn take_volume(&mut self, name: &str) -> Option<Value> {
        let kept = self.volumes.remove(name)?;
        self.index.remove(&kept.read);
        Some(kept.value)
    }

    fn change_claim(&mut self, key: &ClaimKey, change: impl FnOnce(&mut Value)) {
        let Some(old) = self.claims.get(key) else { return };
        let mut new = old.value.clone();
        change(&mut new);
        if new != old.value
            && let Some(kept) = Kept::of(new)
        {
            self.claims.insert(key.clone(), kept);
            self.open.claims.insert(key.clone());
        }
    }

    fn change_volume(&mut self, name: &str, change: impl FnOnce(&mut Value)) {
        let Some(old) = self.volumes.get(name) else { return };
        let mut new = old.value.clone();
        change(&mut new);
        if new != old.value
            && let Some(kept) = Kept::of(new)
        {
            self.take_volume(name);
            self.index.add(&kept.read);
            self.volumes.insert(name.to_owned(), kept);
            self.open.volumes.insert(name.to_owned());
        }
    }

    fn say(&mut self, key: &ClaimKey, component: &str, tone: Tone, reason: &'static str, message: String) {
        let Some(claim) = self.claim(key).cloned() else { return };
        self.open.said.push(Said { claim, component: component.to_owned(), tone, reason, message });
    }
}

/// Namespace and name of a claim.
pub fn claim_key(claim: &Value) -> ClaimKey {
    (namespace(claim).to_owned(), name(claim).to_owned())
}

/// Whether it is the version that is known. What has no version may be anything.
fn is_known(known: &Value, object: &Value) -> bool {
    let version = text(object, "/metadata/resourceVersion");
    !version.is_empty() && text(known, "/metadata/resourceVersion") == version && uid(known) == uid(object)
}

fn put<K: Ord, R: Resource>(all: &mut BTreeMap<K, Kept<R>>, key: K, object: &Value) {
    if all.get(&key).is_some_and(|kept| is_known(&kept.value, object)) {
        return;
    }
    match Kept::of(object.clone()) {
        Some(kept) => drop(all.insert(key, kept)),
        None => drop(all.remove(&key)),
    }
}

fn remove<K, Q, R>(all: &mut BTreeMap<K, Kept<R>>, key: &Q, object: &Value)
where
    K: Ord + std::borrow::Borrow<Q>,
    Q: Ord + ?Sized,
{
    if all.get(key).is_some_and(|kept| uid(&kept.value) == uid(object)) {
        all.remove(key);
    }
}

/// What a volume says of its claim.
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
