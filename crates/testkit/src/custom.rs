//! Custom resources in a few words.

use harbormaster_api::Str;
use harbormaster_framework::{
    cluster::Cluster,
    resource::{Custom, CustomKey, RawObject, Resource, ResourceKind, ResourceName},
};
use serde_json::Value;

/// An object of that kind, as plugins get it. Only `metadata.name` is needed beside what the type itself asks for.
///
/// # Panics
/// When the type cannot be made of it.
pub fn custom<R: Resource + Clone>(object: &Value) -> Custom<R> {
    let decoded = ResourceKind::of::<R>().decode(&raw::<R>(object)).unwrap_or_else(|why| panic!("{why}"));
    match decoded.downcast_ref::<Custom<R>>() {
        Some(object) => object.clone(),
        None => unreachable!("{} decodes into another type", R::KIND),
    }
}

/// Puts objects of that kind into the cluster, each in place of the one of its name. Without any it is as if the
/// cluster had none, which is something else than a kind that no plugin names.
///
/// # Panics
/// When the type cannot be made of one of them.
pub fn set_custom<R: Resource>(cluster: &mut Cluster, objects: impl IntoIterator<Item = Value>) {
    cluster.add_resource(ResourceKind::of::<R>());
    for object in objects {
        cluster.set_custom(&raw::<R>(&object));
        if let [why, ..] = cluster.take_undecodable().as_slice() {
            panic!("{why}");
        }
    }
}

/// Takes an object of that kind out of the cluster.
pub fn remove_custom<R: Resource>(cluster: &mut Cluster, namespace: &str, name: &str) {
    cluster.remove_custom(&key::<R>(namespace, name));
}

/// The object as an engine is told of it.
///
/// # Panics
/// When it has no name.
pub fn raw<R: Resource>(object: &Value) -> RawObject {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    assert!(!text("name").is_empty(), "metadata.name is missing: {object}");
    RawObject { key: key::<R>(text("namespace"), text("name")), json: object.to_string().into() }
}

pub(crate) fn key<R: Resource>(namespace: &str, name: &str) -> CustomKey {
    let resource: Str = ResourceName::of::<R>().to_string().into();
    CustomKey { resource, namespace: namespace.into(), name: name.into() }
}
