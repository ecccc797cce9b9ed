//! Status of custom resource definitions: acceptance of names, and termination.

use std::collections::BTreeSet;

use harbormaster_api::Timestamp;
use serde_json::{Value, json};

use super::definition::{Approval, approval};
use crate::value::{has_condition, list, map, present, text};

/// Finalizer that keeps a definition until its objects are gone.
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Writes the status of a definition as kube-apiserver's controllers would. `others` contains the other definitions,
/// which may already use its names.
pub fn settle(definition: &mut Value, others: &[Value], now: Timestamp) {
    let group = text(definition, "/spec/group");
    let others: Vec<&Value> = others.iter().filter(|other| text(other, "/spec/group") == group).collect();
    let taken = |singles: [&str; 2], lists: &str| -> BTreeSet<String> {
        let names = others.iter().filter_map(|other| other.pointer("/status/acceptedNames"));
        names
            .flat_map(|names| {
                let many = list(names, lists).iter().filter_map(Value::as_str);
                singles.map(|single| text(names, single)).into_iter().chain(many).map(str::to_owned)
            })
            .filter(|name| !name.is_empty())
            .collect()
    };
    let resources = taken(["/plural", "/singular"], "/shortNames");
    let kinds = taken(["/kind", "/listKind"], "/nothing");
    let wanted = definition.pointer("/spec/names").cloned().unwrap_or_default();
    let mut accepted = present(definition, "/status/acceptedNames").cloned().unwrap_or_else(|| json!({}));
    let mut conflict = None;
    for (field, taken, reason) in [
        ("plural", &resources, "PluralConflict"),
        ("singular", &resources, "SingularConflict"),
        ("shortNames", &resources, "ShortNamesConflict"),
        ("kind", &kinds, "KindConflict"),
        ("listKind", &kinds, "ListKindConflict"),
    ] {
        let names: Vec<&str> = match &wanted[field] {
            Value::String(one) => vec![one],
            many => list(many, "").iter().filter_map(Value::as_str).collect(),
        };
        let had = &accepted[field];
        let is_own = |name: &str| had == name || list(had, "").iter().any(|had| had == name);
        let used: Vec<String> = names
            .iter()
            .filter(|name| !is_own(name) && taken.contains(**name))
            .map(|name| format!("{name:?} is already in use"))
            .collect();
        if used.is_empty() {
            accepted[field] = wanted[field].clone();
        } else {
            let message = if used.len() > 1 { format!("[{}]", used.join(", ")) } else { used.concat() };
            conflict = Some((reason, message));
        }
    }
    accepted["categories"] = wanted["categories"].clone();
    if let Some(accepted) = accepted.as_object_mut() {
        accepted.retain(|_, names| !names.is_null());
    }
    definition["status"]["acceptedNames"] = accepted;
    let is_accepted = conflict.is_none();
    match conflict {
        None => condition(definition, "NamesAccepted", true, "NoConflicts", "no conflicts found", now),
        Some((reason, why)) => condition(definition, "NamesAccepted", false, reason, &why, now),
    }
    if is_accepted && !is_established(definition) {
        let why = "the initial names have been accepted";
        condition(definition, "Established", true, "InitialNamesAccepted", why, now);
    } else if !is_established(definition) {
        condition(definition, "Established", false, "NotAccepted", "not all names are accepted", now);
    }
    if let Some((approval, why)) = approval(definition) {
        let is_approved = approval != Approval::Bypassed;
        let reason = if is_approved { "ApprovedAnnotation" } else { "UnapprovedAnnotation" };
        condition(definition, "KubernetesAPIApprovalPolicyConformant", is_approved, reason, &why, now);
    }
}

/// Returns true if the kinds of a definition are served.
pub fn is_established(definition: &Value) -> bool {
    has_condition(definition, "Established")
}

/// Marks a definition as terminating, and adds the cleanup finalizer.
pub fn terminate(definition: &mut Value, now: Timestamp) {
    if let Some(metadata) = map(definition, "metadata")
        && let Some(finalizers) = metadata.entry("finalizers").or_insert_with(|| json!([])).as_array_mut()
        && !finalizers.iter().any(|name| name == CLEANUP)
    {
        finalizers.push(CLEANUP.into());
    }
    let why = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    condition(definition, "Terminating", true, "InstanceDeletionPending", why, now);
}

/// Removes the cleanup finalizer of a definition whose objects are gone.
pub fn let_go(definition: &mut Value, now: Timestamp) {
    let finalizers = definition.pointer_mut("/metadata/finalizers").and_then(Value::as_array_mut);
    if let Some(finalizers) = finalizers {
        finalizers.retain(|name| name != CLEANUP);
        if finalizers.is_empty()
            && let Some(metadata) = map(definition, "metadata")
        {
            metadata.remove("finalizers");
        }
    }
    let why = "removed all instances";
    condition(definition, "Terminating", false, "InstanceDeletionCompleted", why, now);
}

/// Sets a condition. The transition time changes only if the condition's status does.
fn condition(definition: &mut Value, kind: &str, holds: bool, reason: &str, message: &str, now: Timestamp) {
    let status = if holds { "True" } else { "False" };
    let mut new = json!({
        "type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": now.to_rfc3339(),
    });
    let Some(of) = map(definition, "status") else { return };
    let conditions = of.entry("conditions").or_insert(Value::Null);
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Some(conditions) = conditions.as_array_mut() else { return };
    match conditions.iter_mut().find(|old| old["type"] == kind) {
        Some(old) => {
            if old["status"] == new["status"] {
                new["lastTransitionTime"] = old["lastTransitionTime"].clone();
            }
            *old = new;
        }
        None => conditions.push(new),
    }
}
