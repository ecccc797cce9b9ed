//! Nodes.

use std::collections::BTreeSet;

use harbormaster_api::{
    labels::{label_value_errors, qualified_name_errors},
    wire::Decoder,
};
use serde_json::{Value, json};

use super::{Errors, default, list, map, pod::canonical, pod_checks::EFFECTS};
use crate::{Options, kinds::text, status::FieldError};

pub(super) fn shape(node: &mut Value) -> Result<(), String> {
    if let Some(status) = node.get_mut("status") {
        canonical(status.get_mut("capacity"))?;
        canonical(status.get_mut("allocatable"))?;
    }
    Decoder::new().node_value(node).map(|_| ()).map_err(|e| format!("{}: {}", e.path, e.problem))
}

pub(super) fn defaults(options: &Options, node: &mut Value) {
    let is_new = node.pointer("/metadata/resourceVersion").is_none();
    let capacity = node.pointer("/status/capacity").cloned();
    if map(node, "spec").is_none() || map(node, "status").is_none() {
        return;
    }
    if let Some(capacity) = capacity {
        default(&mut node["status"], "allocatable", capacity);
    }
    if options.taint_new_nodes && is_new {
        let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
        default(&mut node["spec"], "taints", json!([]));
        if let Some(taints) = node["spec"].get_mut("taints").and_then(Value::as_array_mut)
            && !taints.contains(&taint)
        {
            taints.push(taint);
        }
    }
}

pub(super) fn check(node: &Value, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (i, taint) in list(node, "/spec/taints").iter().enumerate() {
        let field = format!("metadata.taints[{i}]");
        let (key, value, effect) = (text(taint, "/key"), text(taint, "/value"), text(taint, "/effect"));
        let wrong = qualified_name_errors(key).into_iter();
        errors.extend(wrong.map(|why| FieldError::invalid(format!("{field}.key"), key, why)));
        let wrong = label_value_errors(value).into_iter();
        errors.extend(wrong.map(|why| FieldError::invalid(format!("{field}.value"), value, why)));
        match effect {
            "" => errors.push(FieldError::required(format!("{field}.effect"), "")),
            "NoSchedule" | "PreferNoSchedule" | "NoExecute" => {}
            other => {
                errors.push(FieldError::unsupported(format!("{field}.effect"), other, &EFFECTS));
            }
        }
        if !seen.insert((key, effect)) {
            errors.push(FieldError::duplicate(field, taint.clone()));
        }
    }
}
