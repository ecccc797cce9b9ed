//! Workloads that are scaled, and objects that are deleted.

use std::{collections::BTreeSet, sync::Arc};

use harbormaster_api::similar::did_you_mean;
use harbormaster_validation::{
    Kind,
    kinds::Rules,
    value::{controller, list, text, uid},
};
use serde_json::Value;

use super::{Edited, ObjectName};
use crate::{manifests::Manifest, scaling};

/// Kinds whose pods follow `spec.replicas`.
const SCALED: [&str; 4] = ["Deployment", "ReplicaSet", "StatefulSet", "ReplicationController"];

/// Sets the replicas of a workload.
pub(super) fn scale(
    name: &ObjectName,
    replicas: u32,
    objects: &mut [Manifest],
    kinds: &[Arc<Kind>],
    edited: &mut Edited,
) -> Result<(), String> {
    let at = find(name, objects, kinds)?;
    let kind = objects[at].kind.kind.clone();
    if objects[at].kind.rules != Rules::Workload || !SCALED.contains(&kind.as_str()) {
        let known = SCALED.map(|kind| format!("{kind}s")).join(", ");
        return Err(format!("{} has no replicas; {known} have", objects[at].label()));
    }
    let mut value = objects[at].value();
    if let Some(owner) = controller(&value).map(|owner| reference(owner, &objects[at].namespace))
        && objects.iter().any(|object| object.label() == owner)
    {
        return Err(format!("{} belongs to {owner}; scale that instead", objects[at].label()));
    }
    if kind == "Deployment" {
        scaling::remember_replicas(objects, &objects[at].clone());
        let sets = objects.iter().filter(|object| scaling::is_set_of(object, &objects[at]));
        edited.scaled.extend(sets.map(Manifest::label));
    }
    value["spec"]["replicas"] = replicas.into();
    objects[at] = objects[at].with(&value);
    edited.scaled.push(objects[at].label());
    Ok(())
}

/// Deletes an object, everything that it owns and, for a namespace, everything in it.
pub(super) fn delete(
    name: &ObjectName,
    objects: &mut Vec<Manifest>,
    kinds: &[Arc<Kind>],
    edited: &mut Edited,
) -> Result<(), String> {
    let at = find(name, objects, kinds)?;
    if objects[at].kind.rules == Rules::Node {
        return Err(format!("a node is removed with `remove`, which also says what its pods do: {name}"));
    }
    let first = objects.remove(at);
    let mut gone = vec![first.clone()];
    if first.kind.rules == Rules::Namespace {
        let (inside, rest) = std::mem::take(objects).into_iter().partition(|o| o.namespace == first.name);
        *objects = rest;
        gone.extend::<Vec<Manifest>>(inside);
    } else {
        let mut next = 0;
        while let Some(owner) = gone.get(next).cloned() {
            let owned = |object: &Manifest| object.namespace == owner.namespace && is_owned(object, &owner);
            let (dependents, rest) = std::mem::take(objects).into_iter().partition(owned);
            *objects = rest;
            gone.extend::<Vec<Manifest>>(dependents);
            next += 1;
        }
    }
    gone.iter().filter(|object| object.kind.rules == Rules::Pod).for_each(|pod| edited.leaves(&pod.value()));
    Ok(())
}

/// Returns true if the owner manages the object.
fn is_owned(object: &Manifest, owner: &Manifest) -> bool {
    // No pod owns a pod, and most objects are pods.
    if object.kind.rules == Rules::Pod && owner.kind.rules == Rules::Pod || !object.mentions(&owner.name) {
        return false;
    }
    let (value, owner_value) = (object.value(), owner.value());
    list(&value, "/metadata/ownerReferences").iter().any(|reference| {
        let names = reference["kind"] == owner.kind.kind.as_str() && reference["name"] == owner.name.as_str();
        let uids = [text(reference, "/uid"), uid(&owner_value)];
        names && (uids.contains(&"") || uids[0] == uids[1])
    })
}

/// Returns the label of the owner that a reference names.
fn reference(owner: &Value, namespace: &str) -> String {
    format!("{} {namespace}/{}", text(owner, "/kind"), text(owner, "/name"))
}

/// Returns the position of an object.
fn find(wanted: &ObjectName, objects: &[Manifest], kinds: &[Arc<Kind>]) -> Result<usize, String> {
    let is_kind = |kind: &Kind| is_called(kind, &wanted.kind);
    let Some(kind) = kinds.iter().find(|kind| is_kind(kind)) else {
        let names = kinds.iter().flat_map(|kind| [kind.singular.as_str(), kind.plural.as_str()]);
        return Err(format!("no kind is named {:?}{}", wanted.kind, did_you_mean(&wanted.kind, names)));
    };
    let of_kind = || objects.iter().enumerate().filter(|(_, object)| is_kind(&object.kind));
    let is_wanted = |object: &Manifest| {
        object.name == wanted.name && wanted.namespace.as_ref().is_none_or(|ns| *ns == object.namespace)
    };
    let found: Vec<(usize, &Manifest)> = of_kind().filter(|(_, object)| is_wanted(object)).collect();
    match found[..] {
        [(at, _)] => Ok(at),
        [] => {
            let full = |namespace: &str, name: &str| format!("{namespace}/{name}");
            let (written, known): (String, BTreeSet<String>) = match &wanted.namespace {
                Some(namespace) => (
                    full(namespace, &wanted.name),
                    of_kind().map(|(_, object)| full(&object.namespace, &object.name)).collect(),
                ),
                None => (wanted.name.clone(), of_kind().map(|(_, object)| object.name.clone()).collect()),
            };
            let help = did_you_mean(&written, known.iter().map(String::as_str));
            Err(format!("no {} is named {written:?}{help}", kind.kind))
        }
        [(_, first), ..] => Err(format!(
            "{} objects are named {:?}; add the namespace, as in {}/{}/{}",
            found.len(),
            wanted.name,
            first.kind.singular,
            first.namespace,
            first.name
        )),
    }
}

/// Returns true if a person may call the kind by this name.
fn is_called(kind: &Kind, name: &str) -> bool {
    let qualified = format!("{}.{}", kind.singular, kind.group);
    let names = [&kind.kind, &kind.plural, &kind.singular, &qualified];
    let is_name = |known: &str| known.eq_ignore_ascii_case(name);
    names.into_iter().chain(&kind.short_names).any(|known| is_name(known)) || is_name(&kind.qualified())
}
