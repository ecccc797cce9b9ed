//! Runtime classes, and the fields that they set in pods.

use serde_json::{Value, json};

use super::{Context, Errors, Refusal, forbidden, meta::check_declared_label};
use crate::{
    FieldError,
    value::{default, entries, list, map, present, text},
};

const CLASSES: &str = "runtimeclasses.node.k8s.io";

pub(super) fn check(class: &Value, old: Option<&Value>, errors: &mut Errors) {
    if let Some(old) = old {
        if old.get("handler") != class.get("handler") {
            // Errors about declared rules do not show the value.
            let shown = class.get("handler").filter(|_| !errors.has_declarations()).cloned();
            let error = FieldError::invalid("handler", shown.unwrap_or_default(), "field is immutable");
            errors.declared(|errors| errors.push(error));
        }
        return;
    }
    match text(class, "/handler") {
        "" => errors.declared(|errors| errors.push(FieldError::required("handler", ""))),
        handler => check_declared_label(handler, "handler", errors),
    }
}

/// Adds to a new pod the overhead, node selector and tolerations of its class.
pub(super) fn admit_pod(context: &Context<'_>, spec: &mut Value) -> Result<(), Refusal> {
    let name = text(spec, "/runtimeClassName").to_owned();
    let class = if name.is_empty() {
        None
    } else {
        let why = || format!("pod rejected: RuntimeClass \"{name}\" not found");
        Some(context.others.get(CLASSES, &name).ok_or_else(|| forbidden("spec.runtimeClassName", why()))?)
    };
    let overhead = class.as_ref().and_then(|class| present(class, "/overhead/podFixed"));
    match (overhead, present(spec, "/overhead")) {
        (None, None) => {}
        (None, Some(_)) => {
            let why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
            return Err(forbidden("spec.overhead", why));
        }
        (Some(of_class), Some(given)) if of_class != given => {
            let why = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";
            return Err(forbidden("spec.overhead", why));
        }
        (Some(of_class), _) => spec["overhead"] = of_class.clone(),
    }
    let scheduling = class.as_ref().and_then(|class| present(class, "/scheduling"));
    scheduling.map_or(Ok(()), |scheduling| add_scheduling(spec, scheduling))
}

fn add_scheduling(spec: &mut Value, scheduling: &Value) -> Result<(), Refusal> {
    let wanted: Vec<(&String, &Value)> = entries(scheduling, "/nodeSelector").collect();
    if !wanted.is_empty()
        && let Some(selector) = map(spec, "nodeSelector")
    {
        for (key, value) in wanted {
            let given = selector.entry(key.clone()).or_insert_with(|| value.clone());
            if given != value {
                let (value, given) = (text(value, ""), text(given, ""));
                let why = format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = \
                     {given}"
                );
                return Err(forbidden("spec.nodeSelector", why));
            }
        }
    }
    let added = list(scheduling, "/tolerations");
    if !added.is_empty() {
        default(spec, "tolerations", json!([]));
        let all: Vec<Value> = list(spec, "/tolerations").iter().chain(added).cloned().collect();
        spec["tolerations"] = merged(all).into();
    }
    Ok(())
}

/// Returns the tolerations without those that other tolerations cover.
fn merged(all: Vec<Value>) -> Vec<Value> {
    let mut kept: Vec<Value> = Vec::new();
    for (at, toleration) in all.iter().enumerate() {
        let by_earlier = kept.iter().any(|other| covers(other, toleration));
        // Of two equal tolerations, the first is kept.
        let by_later = all[at + 1..].iter().any(|other| other != toleration && covers(other, toleration));
        if !by_earlier && !by_later {
            kept.push(toleration.clone());
        }
    }
    kept
}

/// Returns true if a toleration covers another toleration.
fn covers(wide: &Value, narrow: &Value) -> bool {
    if wide == narrow {
        return true;
    }
    let (key, operator) = (text(wide, "/key"), text(wide, "/operator"));
    if text(narrow, "/key") != key && !(key.is_empty() && operator == "Exists") {
        return false;
    }
    if !matches!(text(wide, "/effect"), effect if effect.is_empty() || effect == text(narrow, "/effect")) {
        return false;
    }
    let seconds = |toleration: &Value| toleration.get("tolerationSeconds").and_then(Value::as_i64);
    if text(wide, "/effect") == "NoExecute"
        && let Some(of_wide) = seconds(wide)
        && seconds(narrow).is_none_or(|of_narrow| of_wide < of_narrow)
    {
        return false;
    }
    match operator {
        "Exists" => true,
        "Equal" | "" => {
            text(narrow, "/operator") == "Equal" && text(wide, "/value") == text(narrow, "/value")
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerations_covered_by_others_are_dropped() {
        let exists = json!({"key": "a", "operator": "Exists"});
        let equal = json!({"key": "a", "operator": "Equal", "value": "x", "effect": "NoSchedule"});
        let other = json!({"key": "b", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5});
        let longer = json!({"key": "b", "operator": "Exists", "effect": "NoExecute"});
        for (all, expected) in [
            (vec![&equal, &exists], vec![&exists]),
            (vec![&exists, &equal], vec![&exists]),
            (vec![&equal, &equal], vec![&equal]),
            (vec![&other, &longer], vec![&longer]),
            (vec![&equal, &other], vec![&equal, &other]),
        ] {
            let all = all.into_iter().cloned().collect();
            assert_eq!(merged(all).iter().collect::<Vec<_>>(), expected);
        }
    }
}
