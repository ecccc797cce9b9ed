//! Reading and writing of object fields.

use std::{borrow::Cow, time::SystemTime};

use harbormaster_api::{Labels, Timestamp};
pub(crate) use harbormaster_validation::value::{
    controller, entries, list, name, namespace, owned_by, text, uid,
};
use serde_json::{Value, json};

/// Returns the number at a pointer.
pub(crate) fn number(object: &Value, pointer: &str) -> Option<i64> {
    object.pointer(pointer).and_then(Value::as_i64)
}

pub(crate) fn labels(object: &Value) -> Labels {
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
    labels.into_iter().flatten().map(|(k, v)| (k.as_str(), v.as_str().unwrap_or_default())).collect()
}

/// Returns true if an object is being deleted.
pub(crate) fn is_ending(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some_and(|at| !at.is_null())
}

/// Returns true if a pod has finished.
pub(crate) fn is_finished(pod: &Value) -> bool {
    matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}

/// Returns the value of an annotation, if it exists.
pub(crate) fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.pointer("/metadata/annotations")?.get(key)?.as_str()
}

/// Returns true if a pod's `Ready` condition is true.
pub(crate) fn is_ready(pod: &Value) -> bool {
    condition(pod, "Ready").is_some_and(|ready| text(ready, "/status") == "True")
}

pub(crate) fn condition<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    list(object, "/status/conditions").iter().find(|condition| text(condition, "/type") == name)
}

/// Writes a condition into an object's status. The transition time changes only if the condition's status does.
pub(crate) fn set_condition(object: &mut Value, name: &str, holds: bool, reason: &str, message: &str) {
    let status = if holds { "True" } else { "False" };
    let since = condition(object, name)
        .filter(|old| text(old, "/status") == status)
        .and_then(|old| old.get("lastTransitionTime").cloned())
        .unwrap_or_else(|| now().into());
    let mut new = json!({"type": name, "status": status, "lastTransitionTime": since});
    for (field, value) in [("reason", reason), ("message", message)] {
        if !value.is_empty() {
            new[field] = value.into();
        }
    }
    if !object["status"]["conditions"].is_array() {
        object["status"]["conditions"] = json!([]);
    }
    let Some(all) = object["status"]["conditions"].as_array_mut() else { return };
    match all.iter_mut().find(|condition| text(condition, "/type") == name) {
        Some(old) => *old = new,
        None => all.push(new),
    }
}

/// Returns a number as it is, or a percentage as its share of `total`.
pub(crate) fn share(value: &Value, total: i64, round_up: bool) -> Option<i64> {
    let percent = match value {
        Value::Number(number) => return number.as_i64(),
        Value::String(text) => text.strip_suffix('%')?.parse::<i64>().ok()?,
        _ => return None,
    };
    let parts = percent.saturating_mul(total);
    Some(if round_up { parts.saturating_add(99) / 100 } else { parts / 100 })
}

/// Returns the current time in the format of object fields.
pub(crate) fn now() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    (Timestamp::default() + since).truncate_to_second().to_rfc3339()
}

/// Returns `namespace/name`, or only the name of a cluster-scoped object.
pub(crate) fn key(object: &Value) -> Cow<'_, str> {
    match namespace(object) {
        "" => name(object).into(),
        namespace => format!("{namespace}/{}", name(object)).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_number_or_a_percentage_rounded_as_requested() {
        for (value, up, expected) in [
            (json!(3), false, Some(3)),
            (json!("25%"), false, Some(2)),
            (json!("25%"), true, Some(3)),
            (json!("100%"), true, Some(10)),
            (json!("many"), true, None),
            (json!(null), true, None),
        ] {
            assert_eq!(share(&value, 10, up), expected, "{value} {up}");
        }
    }

    #[test]
    fn a_condition_keeps_its_transition_time_until_its_status_changes() {
        let mut pod = json!({"status": {"conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}]}});
        set_condition(&mut pod, "Ready", true, "", "still");
        assert_eq!(text(&pod, "/status/conditions/0/lastTransitionTime"), "2020-01-01T00:00:00Z");
        set_condition(&mut pod, "Ready", false, "Why", "");
        assert_ne!(text(&pod, "/status/conditions/0/lastTransitionTime"), "2020-01-01T00:00:00Z");
        assert!(!is_ready(&pod));
        assert_eq!(list(&pod, "/status/conditions").len(), 1);
    }
}
