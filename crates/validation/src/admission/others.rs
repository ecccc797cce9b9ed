//! Defaults and checks of kinds without a module of their own, as far as kubectl shows their effects.

use std::cmp::Reverse;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{
    Context, Errors,
    checks::{
        self, AT_LEAST_ZERO,
        Check::{By, Choice, Each, Fields, Number},
        Checks, PORT_NUMBER,
    },
    pod_checks::SELECTOR,
};
use crate::{
    FieldError,
    kinds::{Kind, Rules},
    value::{default, list, list_mut, map, present, remove, text},
};

pub(super) fn defaults(kind: &Kind, object: &mut Value) {
    match kind.rules {
        Rules::Namespace => namespace(object),
        Rules::Workload if kind.kind == "ReplicationController" => replication_controller(object),
        Rules::Job => job(object),
        Rules::Secret => secret(object),
        Rules::Service => {
            for port in list_mut(object, "/spec/ports") {
                let number = port.get("port").cloned().unwrap_or_default();
                if matches!(port.get("targetPort"), None | Some(Value::Null)) || port["targetPort"] == 0 {
                    port["targetPort"] = number;
                }
            }
        }
        _ => {}
    }
}

/// Sets the fields of a new object that admission plugins and strategies set.
pub(super) fn admit(context: &Context<'_>, object: &mut Value) {
    match context.kind.rules {
        Rules::Volume => object["status"]["lastPhaseTransitionTime"] = context.now.to_rfc3339().into(),
        Rules::Claim if object.pointer("/spec/storageClassName").is_none() => {
            if let Some(class) = default_class(context)
                && map(object, "spec").is_some()
            {
                object["spec"]["storageClassName"] = class.into();
            }
        }
        Rules::Lease => lease(object),
        _ => {}
    }
}

/// Removes the fields of coordinated leader election, because the feature gate is off.
fn lease(object: &mut Value) {
    if let Some(spec) = map(object, "spec") {
        spec.remove("strategy");
        spec.remove("preferredHolder");
    }
}

/// Sets the fields of a changed object that strategies set, such as the template generation of a DaemonSet.
pub(super) fn admit_update(kind: &Kind, old: &Value, object: &mut Value) {
    const COUNT: &str = "deprecated.daemonset.template.generation";
    if kind.rules == Rules::Lease {
        lease(object);
    }
    if kind.kind != "DaemonSet" {
        return;
    }
    let annotations = old.pointer("/metadata/annotations");
    let before = annotations.and_then(|all| all.get(COUNT)?.as_str()?.parse::<i64>().ok()).unwrap_or(0);
    let is_same = old.pointer("/spec/template") == object.pointer("/spec/template");
    if map(object, "metadata").is_some()
        && let Some(annotations) = map(&mut object["metadata"], "annotations")
    {
        let count = if is_same { before } else { before.saturating_add(1) };
        annotations.insert(COUNT.to_owned(), count.to_string().into());
    }
}

/// Returns the storage class that is marked as default, or the newest if several are.
fn default_class(context: &Context<'_>) -> Option<String> {
    let marks = ["storageclass.kubernetes.io", "storageclass.beta.kubernetes.io"];
    let is_default = |class: &Value| {
        let annotations = &class["metadata"]["annotations"];
        marks.iter().any(|mark| annotations[format!("{mark}/is-default-class")] == "true")
    };
    let classes = context.others.all("storageclasses.storage.k8s.io").into_iter().filter(is_default);
    let newest = classes.min_by_key(|class| {
        // Ties between equally old classes are broken by name.
        let created = text(class, "/metadata/creationTimestamp").to_owned();
        (Reverse(created), text(class, "/metadata/name").to_owned())
    })?;
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

/// Moves the strings of `stringData` into `data`.
fn secret(object: &mut Value) {
    let Some(Value::Object(texts)) = remove(object, "stringData") else { return };
    if let Some(data) = map(object, "data") {
        for (key, value) in texts {
            data.insert(key, STANDARD.encode(value.as_str().unwrap_or_default()).into());
        }
    }
}

const BUDGET: Checks = &[
    ("spec", By(check_budget)),
    (
        "spec",
        Fields(&[
            ("minAvailable", By(check_amount)),
            ("maxUnavailable", By(check_amount)),
            ("selector", Fields(SELECTOR)),
        ]),
    ),
];

const SERVICE: Checks = &[(
    "spec",
    Fields(&[
        ("type", Choice(&["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"])),
        ("", By(check_ports)),
        ("ports", Each(&[("port", PORT_NUMBER), ("targetPort", PORT_NUMBER)])),
    ]),
)];

const LEASE: Checks = &[(
    "spec",
    Fields(&[
        ("leaseDurationSeconds", Number(1..=i64::MAX, "must be greater than 0")),
        ("leaseTransitions", AT_LEAST_ZERO),
    ]),
)];

pub(super) fn check(kind: &Kind, object: &Value, errors: &mut Errors) {
    match kind.rules {
        Rules::Budget => checks::check(object, "", BUDGET, errors),
        Rules::Service => checks::check(object, "", SERVICE, errors),
        Rules::Lease => checks::check(object, "", LEASE, errors),
        _ => {}
    }
}

/// Checks that a service has ports, unless it is headless or an external name, and that, if there are several ports,
/// each has a distinct name.
fn check_ports(spec: &Value, place: &str, errors: &mut Errors) {
    let ports = list(spec, "/ports");
    if ports.is_empty() && text(spec, "/clusterIP") != "None" && text(spec, "/type") != "ExternalName" {
        errors.push(FieldError::required(format!("{place}.ports"), ""));
    }
    for (i, port) in ports.iter().enumerate().filter(|_| ports.len() > 1) {
        let (place, name) = (format!("{place}.ports[{i}].name"), text(port, "/name"));
        if name.is_empty() {
            errors.push(FieldError::required(place, ""));
        } else if ports[..i].iter().any(|earlier| text(earlier, "/name") == name) {
            errors.push(FieldError::duplicate(place, name));
        }
    }
}

fn check_budget(spec: &Value, place: &str, errors: &mut Errors) {
    if present(spec, "/minAvailable").is_some() && present(spec, "/maxUnavailable").is_some() {
        let why = "minAvailable and maxUnavailable cannot be both set";
        errors.push(FieldError::invalid(place, spec.clone(), why));
    }
}

/// Checks an amount, which is a number or a percentage.
pub(super) fn check_amount(amount: &Value, place: &str, errors: &mut Errors) {
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
    errors.push(FieldError::invalid(place, amount.clone(), why));
}
