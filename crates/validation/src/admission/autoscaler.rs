//! Horizontal pod autoscalers, which are stored as `autoscaling/v2` and can be read and written as `autoscaling/v1`.

use harbormaster_api::Release;
use serde_json::{Value, json};

use super::{
    Errors,
    checks::{
        self,
        Check::{Fields, Required},
        Checks,
    },
};
use crate::{
    FieldError,
    value::{default, list, map, number, present, remove, text},
};

/// Default target for CPU utilization, in percent.
const USUAL_PERCENT: i64 = 80;

pub(super) fn defaults(scaler: &mut Value) {
    let Some(spec) = scaler.get_mut("spec").filter(|spec| spec.is_object()) else { return };
    default(spec, "minReplicas", 1);
    if list(spec, "/metrics").is_empty() {
        spec["metrics"] = json!([cpu_metric(USUAL_PERCENT)]);
    }
    if !spec.get("behavior").is_some_and(Value::is_object) {
        return;
    }
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    for (direction, window, policies) in
        [("scaleUp", Some(0), json!([pods, percent])), ("scaleDown", None, json!([percent]))]
    {
        if map(&mut spec["behavior"], direction).is_some() {
            let rules = &mut spec["behavior"][direction];
            default(rules, "selectPolicy", "Max");
            default(rules, "policies", policies);
            if let Some(window) = window {
                default(rules, "stabilizationWindowSeconds", window);
            }
        }
    }
}

fn cpu_metric(percent: i64) -> Value {
    let target = json!({"type": "Utilization", "averageUtilization": percent});
    json!({"type": "Resource", "resource": {"name": "cpu", "target": target}})
}

const TARGET: Checks = &[("scaleTargetRef", Fields(&[("kind", Required("")), ("name", Required(""))]))];

pub(super) fn check(scaler: &Value, old: Option<&Value>, errors: &mut Errors) {
    let spec = &scaler["spec"];
    errors.declared(|errors| check_bounds(spec, errors));
    if number(spec, "/maxReplicas") < number(spec, "/minReplicas") {
        let why = "must be greater than or equal to `minReplicas`";
        errors.push(FieldError::invalid("spec.maxReplicas", number(spec, "/maxReplicas"), why));
    }
    checks::check(spec, "spec", TARGET, errors);
    let (kind, version) = (text(spec, "/scaleTargetRef/kind"), text(spec, "/scaleTargetRef/apiVersion"));
    let is_as_before = old.is_some_and(|old| {
        let before = &old["spec"]["scaleTargetRef"];
        (text(before, "/kind"), text(before, "/apiVersion")) == (kind, version)
    });
    // ReplicationController is the only scalable kind in the core group.
    if !is_as_before && kind != "ReplicationController" && !version.contains('/') {
        let why = "apiVersion must specify API group";
        errors.push(FieldError::invalid("spec.scaleTargetRef.apiVersion", version, why));
    }
    let mut metrics = list(spec, "/metrics").iter();
    let from_outside = metrics.any(|metric| matches!(text(metric, "/type"), "Object" | "External"));
    if present(spec, "/minReplicas").is_some() && number(spec, "/minReplicas") == 0 && !from_outside {
        let why = "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.push(FieldError::forbidden("spec.metrics", why));
    }
}

/// Checks the least and the greatest number of replicas.
fn check_bounds(spec: &Value, errors: &mut Errors) {
    const PLACE: &str = "spec.maxReplicas";
    // From 1.37 on, autoscalers can by default scale to zero.
    let (least, if_missing) = match errors.release() >= Release::V1_37 {
        true => (0, ""),
        false => (1, "must be set and greater than 0"),
    };
    let min = present(spec, "/minReplicas").and_then(Value::as_i64);
    if let Some(min) = min.filter(|min| *min < least) {
        let why = format!("must be greater than or equal to {least}");
        errors.push(FieldError::invalid("spec.minReplicas", min, why));
    }
    match number(spec, "/maxReplicas") {
        0 => errors.push(FieldError::required(PLACE, if_missing)),
        most @ ..0 => {
            errors.push(FieldError::invalid(PLACE, most, "must be greater than or equal to 1"));
        }
        _ => {}
    }
}

/// Converts an `autoscaling/v1` autoscaler to `autoscaling/v2`: its CPU percentage becomes a metric.
pub(crate) fn to_new(scaler: &mut Value) {
    let Some(percent) =
        scaler.get_mut("spec").and_then(|spec| remove(spec, "targetCPUUtilizationPercentage"))
    else {
        return;
    };
    if let Some(percent) = percent.as_i64() {
        scaler["spec"]["metrics"] = json!([cpu_metric(percent)]);
    }
}

/// Converts an `autoscaling/v2` autoscaler to `autoscaling/v1`, which has no metric except the CPU percentage, no
/// conditions and no behavior.
pub(crate) fn to_old(scaler: &mut Value) {
    let Some(spec) = scaler.get_mut("spec").filter(|spec| spec.is_object()) else { return };
    let percent = list(spec, "/metrics").iter().find_map(|metric| {
        let is_cpu = text(metric, "/resource/name") == "cpu";
        present(metric, "/resource/target/averageUtilization").filter(|_| is_cpu).cloned()
    });
    remove(spec, "metrics");
    remove(spec, "behavior");
    if let Some(percent) = percent {
        spec["targetCPUUtilizationPercentage"] = percent;
    }
    if let Some(status) = scaler.get_mut("status").filter(|status| status.is_object()) {
        remove(status, "currentMetrics");
        remove(status, "conditions");
        default(status, "currentReplicas", 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_autoscaler_survives_conversion_to_the_new_form_and_back() {
        let old = json!({"spec": {"maxReplicas": 5, "targetCPUUtilizationPercentage": 50}});
        let mut scaler = old.clone();
        to_new(&mut scaler);
        assert_eq!(scaler["spec"]["metrics"], json!([cpu_metric(50)]));
        to_old(&mut scaler);
        assert_eq!(scaler, old);
    }
}
