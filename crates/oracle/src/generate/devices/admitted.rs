//! Devices and claims that kube-apiserver accepts on creation, for scripts.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{claims, classes, extended, requests, slices, take_one_instead_of_all};
use crate::generate::{ADMIN_NAMESPACE, Random, World};

/// Finalizer of allocated claims.
pub(crate) const FINALIZER: &str = "resource.kubernetes.io/delete-protection";

/// Generates all classes except for [`late_class`]. Each extended resource is provided by at most one class, because
/// the choice among several classes depends on their creation times, which have a resolution of one second.
pub(crate) fn classes(random: &mut Random, may_fail: bool) -> Vec<Value> {
    let mut resources = BTreeSet::new();
    let mut classes = classes::all(random, may_fail);
    for class in &mut classes {
        make_new(class);
        let resource = class["spec"]["extendedResourceName"].as_str();
        if resource.is_some_and(|name| !resources.insert(name.to_owned())) {
            remove(&mut class["spec"], &["extendedResourceName"]);
        }
    }
    classes
}

/// Returns the class that some requests name although it does not exist at first.
pub(crate) fn late_class() -> Value {
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": classes::MISSING}, "spec": {}})
}

/// Generates the selectors of a class.
pub(crate) fn selectors(random: &mut Random, may_fail: bool) -> Value {
    json!([classes::selector(random, may_fail)])
}

/// Generates the slices of all pools.
pub(crate) fn slices(random: &mut Random, world: &World) -> Vec<Value> {
    admit(slices::all(random, world))
}

/// Generates the slices of a new node. `is_partitioned` is true if its devices may consume counters.
pub(crate) fn slices_of_node(
    random: &mut Random,
    world: &World,
    node: &str,
    is_partitioned: bool,
) -> Vec<Value> {
    admit(slices::of_node(random, world, node, is_partitioned))
}

/// Generates a claim. `asks_for_all` is true if it may request all devices.
pub(crate) fn claim(
    random: &mut Random,
    namespace: &str,
    name: &str,
    may_fail: bool,
    asks_for_all: bool,
) -> Value {
    let mut claim = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"namespace": namespace, "name": name}, "spec": requests::spec(random, may_fail),
    });
    if !asks_for_all {
        take_one_instead_of_all(&mut claim);
    }
    for request in claim["spec"]["devices"]["requests"].as_array_mut().into_iter().flatten() {
        let Some(demand) = request.get_mut("exactly") else { continue };
        remove(demand, &["adminAccess"]);
        if namespace == ADMIN_NAMESPACE && random.chance(40) {
            demand["adminAccess"] = true.into();
        }
    }
    claim
}

/// Allocates devices of `slices` to a claim.
pub(crate) fn allocate(random: &mut Random, slices: &[Value], claim: &mut Value) {
    if let Some(mut allocation) = claims::allocation(random, slices, &claim["spec"]) {
        // Without a time, kube-scheduler adds the current time, which kube-apiserver rejects.
        allocation["allocationTimestamp"] = "2026-01-01T00:00:00Z".into();
        claim["status"] = json!({"allocation": allocation});
        claim["metadata"]["finalizers"] = json!([FINALIZER]);
    }
}

/// Lets some containers of some pods ask for extended resources that classes provide. If `may_fail` is true, a
/// container may ask for more devices than a claim can have, and the attempt then ends with an error.
pub(crate) fn add_extended_resources(random: &mut Random, pod: &mut Value, may_fail: bool) {
    extended::vary_pod(random, pod, may_fail);
}

/// Returns true if the pod asks for extended resources that a class may provide.
pub(crate) fn wants_extended_resources(pod: &Value) -> bool {
    extended::is_wanted(pod)
}

/// Removes everything that kube-apiserver rejects, and binding conditions, which no driver would report.
fn admit(mut slices: Vec<Value>) -> Vec<Value> {
    for slice in &mut slices {
        make_new(slice);
        let mut names = BTreeSet::new();
        let Some(devices) = slice["spec"]["devices"].as_array_mut() else { continue };
        devices.retain(|device| names.insert(device["name"].to_string()));
        for device in devices {
            remove(device, &["bindingConditions", "bindingFailureConditions", "bindsToNode"]);
            if device["allowMultipleAllocations"] != true {
                let capacities = device["capacity"].as_object_mut().into_iter().flatten();
                capacities.for_each(|(_, capacity)| remove(capacity, &["requestPolicy"]));
            }
        }
    }
    slices
}

/// Removes the metadata that only existing objects have.
fn make_new(object: &mut Value) {
    remove(&mut object["metadata"], &["uid", "resourceVersion", "creationTimestamp"]);
}

fn remove(object: &mut Value, fields: &[&str]) {
    if let Some(object) = object.as_object_mut() {
        object.retain(|field, _| !fields.contains(&field.as_str()));
    }
}
