//! Objects that changes add or replace: what goes with a node, and the claims of the pod.

use harbormaster_api::{Pod, Str, pod::VolumeSource};
use harbormaster_core::EngineConfig;
use harbormaster_framework::resource::{RawObject, ResourceKind};
use harbormaster_manifests::edits::{node_of_part, part_for};
use harbormaster_validation::value::{name, namespace};
use serde_json::Value;

use crate::inventory::{CustomObject, Inventory};

/// Kinds that decide about new volumes.
const ABOUT_VOLUMES: &[&str] = &["StorageClass", "CSIStorageCapacity"];

/// The objects as JSON.
pub(super) struct Objects {
    /// A cluster that consists of the objects.
    cluster: Inventory,
    /// Kinds that plugins read.
    kinds: Vec<ResourceKind>,
}

impl Objects {
    /// Takes the parts of all nodes, and what the pod's claims and volumes depend on.
    pub(super) fn of(config: &EngineConfig, cluster: &Inventory, pod: &Pod) -> Self {
        let (devices, volumes): (Vec<Str>, Vec<Str>) = (device_claims(pod), volume_claims(pod));
        let is_used = |object: &CustomObject| {
            let is_among = |names: &[Str]| {
                namespace(&object.value) == &*pod.namespace
                    && names.iter().any(|known| *known == *name(&object.value))
            };
            match object.kind.as_str() {
                "ResourceClaim" => is_among(&devices),
                "PersistentVolumeClaim" => is_among(&volumes),
                kind => node_of(object).is_some() || ABOUT_VOLUMES.contains(&kind),
            }
        };
        let custom = cluster.custom.iter().filter(|object| is_used(object)).cloned().collect();
        let cluster = Inventory { custom, served: cluster.served.clone(), ..Inventory::default() };
        Self { cluster, kinds: config.resources() }
    }

    /// Returns the parts of a copy of the node `like` that is called `new`.
    pub(super) fn copied(&self, like: &str, new: &str) -> Vec<RawObject> {
        let copy = |object: &CustomObject| CustomObject {
            value: part_for(object.value.clone(), like, new),
            ..object.clone()
        };
        self.raw(self.of_node(like).map(copy).collect())
    }

    /// Returns the objects in each form that plugins read.
    pub(super) fn raw(&self, custom: Vec<CustomObject>) -> Vec<RawObject> {
        let cluster = Inventory { custom, served: self.cluster.served.clone(), ..Inventory::default() };
        cluster.raw_objects(&self.kinds)
    }

    /// Returns the devices of a node as written, for comparison with those of other nodes.
    pub(super) fn devices(&self, node: &str) -> Vec<String> {
        let devices = self.of_node(node).filter_map(|object| object.value.pointer("/spec/devices"));
        devices.map(Value::to_string).collect()
    }

    /// Returns the object of this kind with this name or `namespace/name`.
    pub(super) fn find(&self, kind: &'static str, called: &str) -> Option<&Value> {
        self.all(kind).find(|value| is_called(value, called))
    }

    /// Returns the objects of this kind.
    pub(super) fn all(&self, kind: &'static str) -> impl Iterator<Item = &Value> {
        self.cluster.custom.iter().filter(move |object| object.kind == kind).map(|object| &object.value)
    }

    /// Replaces an object by a changed one. Returns the old object and the new one in each form that plugins read.
    pub(super) fn change(
        &mut self,
        kind: &str,
        called: &str,
        change: impl FnOnce(&mut Value),
    ) -> Option<(CustomObject, Vec<RawObject>)> {
        let is_meant = |object: &&mut CustomObject| object.kind == kind && is_called(&object.value, called);
        let object = self.cluster.custom.iter_mut().find(is_meant)?;
        let old = object.clone();
        change(&mut object.value);
        let new = object.clone();
        Some((old, self.raw(vec![new])))
    }

    /// Takes back the change of an object. Returns the object in each form that plugins read.
    pub(super) fn restore(&mut self, old: CustomObject) -> Vec<RawObject> {
        let is_meant = |object: &&mut CustomObject| {
            object.kind == old.kind
                && name(&object.value) == name(&old.value)
                && namespace(&object.value) == namespace(&old.value)
        };
        if let Some(object) = self.cluster.custom.iter_mut().find(is_meant) {
            *object = old.clone();
        }
        self.raw(vec![old])
    }

    fn of_node(&self, node: &str) -> impl Iterator<Item = &CustomObject> {
        self.cluster.custom.iter().filter(move |object| node_of(object) == Some(node))
    }
}

fn is_called(object: &Value, called: &str) -> bool {
    let own = name(object);
    own == called
        || called.strip_prefix(namespace(object)).and_then(|rest| rest.strip_prefix('/')) == Some(own)
}

/// Returns the name of the resource claim for an entry of the pod.
pub(super) fn device_claim<'a>(pod: &'a Pod, entry: &str) -> Option<&'a Str> {
    let named = pod.spec.resource_claims.iter().find(|claim| claim.name == *entry)?;
    named.claim.as_ref().or_else(|| pod.status.resource_claims.get(entry))
}

fn device_claims(pod: &Pod) -> Vec<Str> {
    let entries = pod.spec.resource_claims.iter();
    entries.filter_map(|entry| device_claim(pod, &entry.name)).cloned().collect()
}

/// Returns the names of the pod's PersistentVolumeClaims.
pub(super) fn volume_claims(pod: &Pod) -> Vec<Str> {
    let claims = pod.spec.volumes.iter().filter_map(|volume| match &volume.source {
        VolumeSource::Claim(name) => Some(name.clone()),
        VolumeSource::Ephemeral => Some(format!("{}-{}", pod.name, volume.name).into()),
        _ => None,
    });
    claims.collect()
}

fn node_of(object: &CustomObject) -> Option<&str> {
    node_of_part(&object.kind, &object.value)
}
