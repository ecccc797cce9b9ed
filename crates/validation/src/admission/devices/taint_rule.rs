//! Rules that taint devices.

use harbormaster_api::Timestamp;
use serde_json::Value;

use super::{super::Errors, names, selector::check_taint, status::check_conditions};
use crate::value::{default, present, text};

pub(super) fn defaults(rule: &mut Value, now: Timestamp) {
    if let Some(taint) = rule.pointer_mut("/spec/taint") {
        default(taint, "timeAdded", now.to_rfc3339());
    }
}

/// Sets the time of a taint whose effect has changed, unless the client has changed the time.
pub(super) fn admit_update(old: &Value, rule: &mut Value, now: Timestamp) {
    let before = &old["spec"]["taint"];
    if let Some(taint) = rule.pointer_mut("/spec/taint").filter(|taint| taint["effect"] != before["effect"])
        && taint["timeAdded"] == before["timeAdded"]
    {
        taint["timeAdded"] = now.to_rfc3339().into();
    }
}

pub(super) fn check(rule: &Value, errors: &mut Errors) {
    let spec = &rule["spec"];
    let checks: [(&str, fn(&str, &str, &mut Errors)); 3] =
        [("driver", names::check_driver), ("pool", names::check_pool), ("device", names::check_label)];
    for (name, check) in checks {
        let path = format!("/deviceSelector/{name}");
        if present(spec, &path).is_some() {
            check(text(spec, &path), &format!("spec.deviceSelector.{name}"), errors);
        }
    }
    check_taint(&spec["taint"], "spec.taint", errors);
}

pub(super) fn check_status(rule: &Value, errors: &mut Errors) {
    check_conditions(&rule["status"]["conditions"], "status.conditions", errors);
}
