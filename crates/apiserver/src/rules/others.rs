//! The rules of other kinds, as far as kubectl and tables show them.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{
    Context, Errors, default, list, map,
    pod_checks::{self, check_selector},
    remove,
};
use crate::{
    kinds::{Kind, Rules, text},
    shelf::Range,
    status::FieldError,
    time::now,
};

pub(super) fn defaults(kind: &Kind, object: &mut Value) {
    match kind.rules {
        Rules::Namespace => namespace(object),
        Rules::Workload if kind.kind == "ReplicationController" => replication_controller(object),
        Rules::Job => job(object),
        Rules::Secret => secret(object),
        Rules::Service => {
            for port in super::list_mut(object, "/spec/ports") {
                let number = port.get("port").cloned().unwrap_or_default();
                if matches!(port.get("targetPort"), None | Some(Value::Null)) || port["targetPort"] == 0 {
                    port["targetPort"] = number;
                }
            }
        }
        _ => {}
    }
}

/// What admission plugins and strategies write into a new object.
pub(super) fn admit(context: &Context<'_>, object: &mut Value) {
    match context.kind.rules {
        Rules::Volume => object["status"]["lastPhaseTransitionTime"] = now().to_rfc3339().into(),
        Rules::Claim if object.pointer("/spec/storageClassName").is_none() => {
            if let Some(class) = default_class(context)
                && map(object, "spec").is_some()
            {
                object["spec"]["storageClassName"] = class.into();
            }
        }
        _ => {}
    }
}

/// The storage class that is marked as default; of several the newest.
fn default_class(context: &Context<'_>) -> Option<String> {
    let kind = context.kinds.named("storageclasses.storage.k8s.io")?;
    let page = kind.shelf.list(&Range::ALL, |_| true).unwrap_or_default();
    let marks = ["storageclass.kubernetes.io", "storageclass.beta.kubernetes.io"];
    let classes = page.objects.iter().map(|class| class.value()).filter(|class| {
        marks
            .iter()
            .any(|mark| class["metadata"]["annotations"][format!("{mark}/is-default-class")] == "true")
    });
    let newest = classes.max_by_key(|class| text(class, "/metadata/creationTimestamp").to_owned())?;
    Some(text(&newest, "/metadata/name").to_owned())
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

fn replication_controller(object: &mut Value) {
    if let Some(labels) = object.pointer("/spec/template/metadata/labels").cloned() {
        default(&mut object["spec"], "selector", labels.clone());
        default(&mut object["metadata"], "labels", labels);
    }
}

fn job(object: &mut Value) {
    let (uid, name) = (text(object, "/metadata/uid").to_owned(), text(object, "/metadata/name").to_owned());
    let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) else { return };
    if spec.get("completions").is_none() && spec.get("parallelism") == Some(&json!(1)) {
        default(spec, "completions", 1);
    }
    default(spec, "selector", json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}));
    let labels = [
        ("batch.kubernetes.io/controller-uid", uid.as_str()),
        ("batch.kubernetes.io/job-name", &name),
        ("controller-uid", &uid),
        ("job-name", &name),
    ];
    let Some(template) = spec.get_mut("template").filter(|template| template.is_object()) else { return };
    if map(template, "metadata").is_some()
        && let Some(of_pods) = map(&mut template["metadata"], "labels")
    {
        for (label, value) in labels {
            of_pods.entry(label).or_insert(value.into());
        }
        let of_pods = of_pods.clone();
        default(&mut object["metadata"], "labels", of_pods);
    }
}

/// Texts of `stringData` are data.
fn secret(object: &mut Value) {
    let Some(Value::Object(texts)) = remove(object, "stringData") else { return };
    if let Some(data) = map(object, "data") {
        for (key, value) in texts {
            data.insert(key, STANDARD.encode(value.as_str().unwrap_or_default()).into());
        }
    }
}

pub(super) fn check(kind: &Kind, object: &Value, old: Option<&Value>, errors: &mut Errors) {
    match kind.rules {
        Rules::Workload => {
            at_least_zero(object, "replicas", errors);
            if kind.kind != "ReplicationController" {
                check_template(object, errors);
                check_pods(object, errors);
                let (before, after) =
                    (old.and_then(|old| old.pointer("/spec/selector")), object.pointer("/spec/selector"));
                if let (Some(before), Some(after)) = (before, after)
                    && before != after
                {
                    errors.push(FieldError::invalid("spec.selector", after.clone(), "field is immutable"));
                }
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
            for name in ["minAvailable", "maxUnavailable"] {
                check_amount(object.pointer(&format!("/spec/{name}")), &format!("spec.{name}"), errors);
            }
            check_selector(object.pointer("/spec/selector"), "spec.selector", errors);
        }
        _ => {}
    }
}

/// A number or a percentage.
fn check_amount(amount: Option<&Value>, field: &str, errors: &mut Errors) {
    let Some(amount) = amount else { return };
    let percent = amount.as_str().map(|text| {
        let digits = text.strip_suffix('%').filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
        digits.and_then(|digits| digits.parse::<u64>().ok())
    });
    let why = match (amount.as_i64(), percent) {
        (Some(..0), _) => "must be greater than or equal to 0",
        (_, Some(Some(101..))) => "must not be greater than 100%",
        (_, Some(None)) => {
            "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex \
             used for validation is '[0-9]+%')"
        }
        _ => return,
    };
    errors.push(FieldError::invalid(field, amount.clone(), why));
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

/// What is wrong with the pods of a template.
fn check_pods(object: &Value, errors: &mut Errors) {
    let mut of_pods = Errors::new();
    pod_checks::check(object.pointer("/spec/template").unwrap_or(&Value::Null), &mut of_pods);
    errors.extend(
        of_pods
            .into_iter()
            .map(|error| FieldError { field: format!("spec.template.{}", error.field), ..error }),
    );
}

/// The selector must be there and match the template.
fn check_template(object: &Value, errors: &mut Errors) {
    let selector = object.pointer("/spec/selector").filter(|selector| selector.is_object());
    if selector.is_none() {
        errors.push(FieldError::required("spec.selector", ""));
    }
    check_selector(selector, "spec.selector", errors);
    let known = ["In", "NotIn", "Exists", "DoesNotExist"];
    let expressions = selector.map_or(&[][..], |selector| list(selector, "/matchExpressions"));
    if let Some(selector) = selector
        && expressions.iter().any(|expression| !known.contains(&text(expression, "/operator")))
    {
        errors.push(FieldError::invalid("spec.selector", selector.clone(), "invalid label selector"));
        return;
    }
    let labels = object.pointer("/spec/template/metadata/labels").and_then(Value::as_object);
    let pairs = labels.into_iter().flatten().map(|(k, v)| (k.as_str(), v.as_str().unwrap_or_default()));
    if !crate::selector::label_selector_matches(selector, &pairs.collect()) {
        let labels = object.pointer("/spec/template/metadata/labels").cloned().unwrap_or_default();
        let why = "`selector` does not match template `labels`";
        errors.push(FieldError::invalid("spec.template.metadata.labels", labels, why));
    }
}
