//! The few defaults of other kinds that show in tables, and that kubectl relies on.

use serde_json::{Value, json};

use super::{Errors, default, list_mut, map, pod_checks::check_selector};
use crate::{
    kinds::{Kind, Rules, text},
    status::FieldError,
};

pub(super) fn defaults(kind: &Kind, object: &mut Value) {
    match kind.rules {
        Rules::Namespace => namespace(object),
        Rules::Replicated => replicated(&kind.kind, object),
        Rules::Job => job(object),
        Rules::Service => service(object),
        Rules::Claim => status_phase(object, "Pending", Some("volumeMode")),
        Rules::Volume => {
            status_phase(object, "Pending", Some("volumeMode"));
            default(&mut object["spec"], "persistentVolumeReclaimPolicy", "Retain");
        }
        Rules::StorageClass => {
            default(object, "reclaimPolicy", "Delete");
            default(object, "volumeBindingMode", "Immediate");
        }
        _ => {}
    }
}

fn namespace(object: &mut Value) {
    let name = text(object, "/metadata/name").to_owned();
    if map(object, "metadata").is_some() && map(&mut object["metadata"], "labels").is_some() {
        object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name.into();
    }
    if map(object, "spec").is_some() {
        default(&mut object["spec"], "finalizers", json!(["kubernetes"]));
    }
    if map(object, "status").is_some() {
        default(&mut object["status"], "phase", "Active");
    }
}

fn status_phase(object: &mut Value, phase: &str, filesystem: Option<&str>) {
    if map(object, "spec").is_some()
        && let Some(mode) = filesystem
    {
        default(&mut object["spec"], mode, "Filesystem");
    }
    if map(object, "status").is_some() {
        default(&mut object["status"], "phase", phase);
    }
}

fn replicated(kind: &str, object: &mut Value) {
    if map(object, "spec").is_none() {
        return;
    }
    let template = object.pointer("/spec/template/metadata/labels").cloned();
    let spec = &mut object["spec"];
    default(spec, "replicas", 1);
    match kind {
        "Deployment" => {
            default(spec, "revisionHistoryLimit", 10);
            default(spec, "progressDeadlineSeconds", 600);
            default(spec, "strategy", json!({"type": "RollingUpdate"}));
            default(&mut spec["strategy"], "type", "RollingUpdate");
            if text(spec, "/strategy/type") == "RollingUpdate"
                && map(&mut spec["strategy"], "rollingUpdate").is_some()
            {
                default(&mut spec["strategy"]["rollingUpdate"], "maxSurge", "25%");
                default(&mut spec["strategy"]["rollingUpdate"], "maxUnavailable", "25%");
            }
        }
        "StatefulSet" => {
            default(spec, "revisionHistoryLimit", 10);
            default(spec, "podManagementPolicy", "OrderedReady");
            default(
                spec,
                "updateStrategy",
                json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}),
            );
        }
        "ReplicationController" => default(spec, "selector", template.unwrap_or_default()),
        _ => {}
    }
    if map(object, "status").is_some() {
        default(&mut object["status"], "replicas", 0);
    }
}

fn job(object: &mut Value) {
    let uid = text(object, "/metadata/uid").to_owned();
    if map(object, "spec").is_none() {
        return;
    }
    let spec = &mut object["spec"];
    let both = spec.get("completions").is_none() && spec.get("parallelism").is_none();
    if both {
        default(spec, "completions", 1);
    }
    for (name, value) in [
        ("parallelism", json!(1)),
        ("backoffLimit", json!(6)),
        ("completionMode", json!("NonIndexed")),
        ("suspend", json!(false)),
        ("selector", json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}})),
    ] {
        default(spec, name, value);
    }
}

fn service(object: &mut Value) {
    if map(object, "spec").is_none() {
        return;
    }
    let spec = &mut object["spec"];
    default(spec, "type", "ClusterIP");
    default(spec, "sessionAffinity", "None");
    for port in list_mut(spec, "/ports") {
        default(port, "protocol", "TCP");
        if let Some(number) = port.get("port").cloned() {
            default(port, "targetPort", number);
        }
    }
    if map(object, "status").is_some() {
        default(&mut object["status"], "loadBalancer", json!({}));
    }
}

pub(super) fn check(kind: &Kind, object: &Value, errors: &mut Errors) {
    match kind.rules {
        Rules::Replicated => {
            at_least_zero(object, "replicas", errors);
            if kind.kind != "ReplicationController" {
                check_template(object, errors);
            }
        }
        Rules::Job => at_least_zero(object, "parallelism", errors),
        Rules::Budget => {
            let given = |name: &str| object.pointer(&format!("/spec/{name}")).is_some_and(|v| !v.is_null());
            if given("minAvailable") && given("maxUnavailable") {
                let why = "minAvailable and maxUnavailable cannot be both set";
                let spec = object.get("spec").cloned().unwrap_or_default();
                errors.push(FieldError::invalid("spec", spec, why));
            }
            check_selector(object.pointer("/spec/selector"), "spec.selector", errors);
        }
        _ => {}
    }
}

fn at_least_zero(object: &Value, name: &str, errors: &mut Errors) {
    match object.pointer(&format!("/spec/{name}")) {
        Some(Value::Number(number)) if number.as_i64().is_none_or(|n| n < 0) => {
            let why = "must be greater than or equal to 0";
            errors.push(FieldError::invalid(format!("spec.{name}"), number.clone(), why));
        }
        Some(Value::Number(_) | Value::Null) | None => {}
        Some(other) => {
            errors.push(FieldError::invalid(format!("spec.{name}"), other.clone(), "must be an integer"));
        }
    }
}

/// The selector must be there and match the template.
fn check_template(object: &Value, errors: &mut Errors) {
    let Some(selector) = object.pointer("/spec/selector").filter(|selector| selector.is_object()) else {
        errors.push(FieldError::required("spec.selector", ""));
        return;
    };
    check_selector(Some(selector), "spec.selector", errors);
    let labels = object.pointer("/spec/template/metadata/labels").and_then(Value::as_object);
    let pairs = labels.into_iter().flatten().map(|(k, v)| (k.as_str(), v.as_str().unwrap_or_default()));
    if !crate::selector::label_selector_matches(Some(selector), &pairs.collect()) {
        let labels = object.pointer("/spec/template/metadata/labels").cloned().unwrap_or(json!({}));
        let why = "`selector` does not match template `labels`";
        errors.push(FieldError::invalid("spec.template.metadata.labels", labels, why));
    }
}
