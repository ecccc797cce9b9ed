//! Defaults and checks of nodes.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    Errors,
    checks::{Check::Choice, Checks, LABEL_VALUE, QUALIFIED_NAME, check as check_fields, elements},
    pod_checks::EFFECTS,
};
use crate::{
    FieldError,
    value::{default, map, text},
};

const TAINT: Checks = &[("key", QUALIFIED_NAME), ("value", LABEL_VALUE), ("effect", Choice(&EFFECTS))];

pub(super) fn defaults(taint_new_nodes: bool, node: &mut Value) {
    let is_new = node.pointer("/metadata/resourceVersion").is_none();
    let capacity = node.pointer("/status/capacity").cloned();
    if map(node, "spec").is_none() || map(node, "status").is_none() {
        return;
    }
    if let Some(capacity) = capacity {
        default(&mut node["status"], "allocatable", capacity);
    }
    if taint_new_nodes && is_new {
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
    for (place, taint) in elements(&node["spec"]["taints"], "metadata.taints") {
        check_fields(taint, &place, TAINT, errors);
        if !seen.insert((text(taint, "/key"), text(taint, "/effect"))) {
            errors.push(FieldError::duplicate(place, taint.clone()));
        }
    }
}
