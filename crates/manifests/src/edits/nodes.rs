//! Nodes that are drained, removed and added.

use std::collections::HashSet;

use harbormaster_api::{node::LABEL_HOSTNAME, similar::did_you_mean, taint::TAINT_NODE_UNSCHEDULABLE};
use harbormaster_validation::{
    kinds::Rules,
    value::{controller, name, remove as remove_field, text},
};
use serde_json::{Value, json};

use super::{Edited, belongs_to_node, make_pending};
use crate::manifests::Manifest;

/// Maximum number of nodes that one edit adds. A larger number is assumed to be a typo.
const MAX_NODES: usize = 100_000;

/// Cordons a node and makes its pods pending.
pub(super) fn drain(node: &str, objects: &mut Vec<Manifest>, edited: &mut Edited) -> Result<(), String> {
    let at = find(node, objects)?;
    let mut value = objects[at].value();
    value["spec"]["unschedulable"] = true.into();
    objects[at] = objects[at].with(&value);
    vacate(|of| of == node, objects, edited, true);
    Ok(())
}

/// Removes a node, and makes its pods pending.
pub(super) fn remove(node: &str, objects: &mut Vec<Manifest>, edited: &mut Edited) -> Result<(), String> {
    find(node, objects)?;
    vacate(|of| of == node, objects, edited, false);
    objects.retain(|object| {
        let is_node = object.kind.rules == Rules::Node && object.name == node;
        !is_node && !is_part_of(object, node)
    });
    Ok(())
}

/// Adds empty copies of a node.
pub(super) fn add(count: usize, like: &str, objects: &mut Vec<Manifest>) -> Result<(), String> {
    if !(1..=MAX_NODES).contains(&count) {
        return Err(format!("expected a number of nodes from 1 to {MAX_NODES}, got {count}"));
    }
    let at = find(like, objects)?;
    let (original, parts) = (objects[at].clone(), parts_of(objects, like));
    let taken: HashSet<&str> = objects.iter().filter(|o| is_node(o)).map(|o| o.name.as_str()).collect();
    let names = (1_usize..).map(|number| format!("{like}-copy-{number}"));
    let names: Vec<String> = names.filter(|name| !taken.contains(name.as_str())).take(count).collect();
    for name in names {
        objects.push(original.another(&copy_of(&original.value(), &name)));
        objects.extend(parts.iter().map(|part| part.another(&part_for(part.value(), like, &name))));
    }
    Ok(())
}

fn is_node(object: &Manifest) -> bool {
    object.kind.rules == Rules::Node
}

/// Returns the position of a node.
fn find(node: &str, objects: &[Manifest]) -> Result<usize, String> {
    let at = objects.iter().position(|object| is_node(object) && object.name == node);
    at.ok_or_else(|| {
        let names = objects.iter().filter(|object| is_node(object)).map(|object| object.name.as_str());
        format!("no node is named {node:?}{}", did_you_mean(node, names))
    })
}

/// Makes the pods on some nodes pending. Pods that are being deleted anyway go. DaemonSet and static pods stay or go.
pub(super) fn vacate(
    is_meant: impl Fn(&str) -> bool,
    objects: &mut Vec<Manifest>,
    edited: &mut Edited,
    keeps_daemons: bool,
) {
    objects.retain_mut(|object| {
        if !object.node().is_some_and(&is_meant) {
            return true;
        }
        let mut pod = object.value();
        let stays = belongs_to_node(&pod);
        if stays && keeps_daemons {
            return true;
        }
        edited.leaves(&pod);
        if stays || !text(&pod, "/metadata/deletionTimestamp").is_empty() {
            return false;
        }
        if controller(&pod).is_none() {
            edited.orphans.push(format!("{}/{}", object.namespace, object.name));
        }
        make_pending(&mut pod);
        *object = object.with(&pod);
        true
    });
}

/// Returns the objects that describe a node and go with it: its CSINode and the slices of its own devices.
fn parts_of(objects: &[Manifest], node: &str) -> Vec<Manifest> {
    objects.iter().filter(|object| is_part_of(object, node)).cloned().collect()
}

fn is_part_of(object: &Manifest, node: &str) -> bool {
    match object.kind.kind.as_str() {
        "CSINode" => object.name == node,
        "ResourceSlice" => node_of_part("ResourceSlice", &object.value()) == Some(node),
        _ => false,
    }
}

/// Returns the node that an object describes and goes with; `None` for objects that are no part of a node.
pub fn node_of_part<'a>(kind: &str, object: &'a Value) -> Option<&'a str> {
    let node = match kind {
        "CSINode" => name(object),
        "ResourceSlice" => text(object, "/spec/nodeName"),
        _ => "",
    };
    (!node.is_empty()).then_some(node)
}

/// Returns an empty node like this one.
fn copy_of(node: &Value, new: &str) -> Value {
    let mut copy = node.clone();
    rename(&mut copy, new);
    if let Some(hostname) = copy["metadata"].get_mut("labels").and_then(|all| all.get_mut(LABEL_HOSTNAME)) {
        *hostname = new.into();
    }
    for field in ["unschedulable", "providerID", "podCIDR", "podCIDRs"] {
        remove_field(&mut copy["spec"], field);
    }
    if let Some(taints) = copy["spec"].get_mut("taints").and_then(Value::as_array_mut) {
        taints.retain(|taint| taint["key"] != TAINT_NODE_UNSCHEDULABLE);
    }
    for field in ["images", "volumesInUse", "volumesAttached", "addresses"] {
        remove_field(&mut copy["status"], field);
    }
    for field in ["spec", "status"] {
        if copy[field].is_null() {
            remove_field(&mut copy, field);
        }
    }
    copy
}

/// Turns a part of a node into the corresponding part of a new node.
pub fn part_for(mut copy: Value, like: &str, new: &str) -> Value {
    let renamed = |text: &str| match text.contains(like) {
        true => text.replace(like, new),
        false => format!("{text}-{new}"),
    };
    let old = name(&copy).to_owned();
    rename(&mut copy, &renamed(&old));
    if !text(&copy, "/spec/nodeName").is_empty() {
        let pool = renamed(text(&copy, "/spec/pool/name"));
        copy["spec"]["pool"]["name"] = pool.into();
        copy["spec"]["nodeName"] = json!(new);
    }
    copy
}

/// Gives a copy of an object a name of its own.
fn rename(copy: &mut Value, new: &str) {
    copy["metadata"]["name"] = new.into();
    for field in ["uid", "creationTimestamp", "ownerReferences", "generateName"] {
        remove_field(&mut copy["metadata"], field);
    }
}
