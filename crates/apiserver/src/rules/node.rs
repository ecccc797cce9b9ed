//! Nodes.

use std::collections::BTreeSet;

use harbormaster_api::labels::{label_value_errors, qualified_name_errors};
use serde_json::{Value, json};

use super::{Errors, default, list, map, pod_checks::EFFECTS};
use crate::{Options, kinds::text, status::FieldError};

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
    for part in ["capacity", "allocatable"] {
        let amounts = node.pointer(&format!("/status/{part}")).and_then(Value::as_object);
        for (name, amount) in amounts.into_iter().flatten() {
            let amount = amount.as_str().unwrap_or_default();
            if amount.starts_with('-') {
                let why = "must be greater than or equal to 0";
                errors.push(FieldError::invalid(format!("status.{part}.{name}"), amount, why));
            }
        }
    }
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
