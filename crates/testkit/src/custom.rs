//! Custom objects for tests.

use harbormaster_api::Str;
use harbormaster_framework::{
    cluster::Cluster,
    resource::{Custom, CustomKey, RawObject, Resource, ResourceKind, ResourceName},
};
use serde_json::Value;

/// Returns an object as plugins receive it. `object` needs `metadata.name` and the fields that the type requires.
///
/// # Panics
/// If the object cannot be decoded.
pub fn custom<R: Resource + Clone>(object: &Value) -> Custom<R> {
    let decoded = ResourceKind::of::<R>().decode(&raw::<R>(object)).unwrap_or_else(|why| panic!("{why}"));
    match decoded.downcast_ref::<Custom<R>>() {
        Some(object) => object.clone(),
        None => unreachable!("{} decodes into another type", R::KIND),
    }
}

/// Adds objects of a kind to the cluster, replacing objects with the same name. An empty list only makes the kind
/// known to the cluster. Without any call, the kind is unknown, as if no plugin named it.
///
/// # Panics
/// If an object cannot be decoded.
pub fn set_custom<R: Resource>(cluster: &mut Cluster, objects: impl IntoIterator<Item = Value>) {
    cluster.add_resource(ResourceKind::of::<R>());
    for object in objects {
        cluster.set_custom(&raw::<R>(&object));
        if let [why, ..] = cluster.take_undecodable().as_slice() {
            panic!("{why}");
        }
    }
}

/// Removes an object from the cluster.
pub fn remove_custom<R: Resource>(cluster: &mut Cluster, namespace: &str, name: &str) {
    cluster.remove_custom(&key::<R>(namespace, name));
}

/// Returns the object in the form in which an engine receives it.
///
/// # Panics
/// If the object has no name.
pub fn raw<R: Resource>(object: &Value) -> RawObject {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    assert!(!text("name").is_empty(), "metadata.name is missing: {object}");
    RawObject::from_json(key::<R>(text("namespace"), text("name")), object.to_string())
}

pub(crate) fn key<R: Resource>(namespace: &str, name: &str) -> CustomKey {
    let resource: Str = ResourceName::of::<R>().to_string().into();
    CustomKey { resource, namespace: namespace.into(), name: name.into() }
}
