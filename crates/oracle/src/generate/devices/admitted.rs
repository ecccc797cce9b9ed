//! Devices and claims that kube-apiserver accepts on creation, for scripts.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{claims, classes, extended, requests, slices, taint_rules, take_one_instead_of_all};
use crate::generate::{ADMIN_NAMESPACE, Profile, Random, World};

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

/// Removes devices whose name another device of the pool has.
pub(crate) fn remove_namesakes(slices: &mut [Value]) {
    let mut names = BTreeSet::new();
    for slice in slices {
        let pool = format!("{} {}", slice["spec"]["driver"], slice["spec"]["pool"]["name"]);
        let Some(devices) = slice["spec"]["devices"].as_array_mut() else { continue };
        devices.retain(|device| names.insert(format!("{pool} {}", device["name"])));
    }
}

/// Removes the binding conditions of devices.
pub(crate) fn remove_binding_conditions(slices: &mut [Value]) {
    for slice in slices {
        for device in slice["spec"]["devices"].as_array_mut().into_iter().flatten() {
            remove(device, &["bindingConditions", "bindingFailureConditions", "bindsToNode"]);
        }
    }
}

/// Generates a rule that taints devices.
pub(crate) fn taint_rule(random: &mut Random, world: &World, index: usize) -> Value {
    let mut rule = taint_rules::rule(random, world, index);
    make_new(&mut rule);
    rule
}

/// Lets a profile score the extended resources of classes.
pub(crate) fn score_extended_resources(random: &mut Random, profile: &mut Value) {
    let mut varied = Profile::default();
    let known = profile["pluginConfig"].as_array_mut().map(std::mem::take).unwrap_or_default();
    for entry in known {
        let name = entry["name"].as_str().unwrap_or_default().to_owned();
        varied.args.insert(name, entry["args"].clone());
    }
    extended::vary_profile(random, &mut varied);
    let entries: Vec<Value> =
        varied.args.into_iter().map(|(name, args)| json!({"name": name, "args": args})).collect();
    if !entries.is_empty() {
        profile["pluginConfig"] = entries.into();
    }
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

/// Removes everything that kube-apiserver rejects.
fn admit(mut slices: Vec<Value>) -> Vec<Value> {
    for slice in &mut slices {
        make_new(slice);
        let mut names = BTreeSet::new();
        let Some(devices) = slice["spec"]["devices"].as_array_mut() else { continue };
        devices.retain(|device| names.insert(device["name"].to_string()));
        for device in devices {
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
