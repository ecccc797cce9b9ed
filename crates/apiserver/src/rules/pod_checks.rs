//! Checks of new pods, as far as scheduling depends on them.

use std::collections::BTreeSet;

use harbormaster_api::{
    Quantity, Str,
    labels::{label_value_errors, qualified_name_errors, subdomain_errors},
    selector::{Operator, Requirement},
};
use serde_json::Value;

use super::{
    Errors, list,
    meta::{check_labels, label_errors},
    pod::resource_names,
};
use crate::{kinds::text, status::FieldError};

pub(super) const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
/// How a pod answers a constraint that cannot be met.
const WHEN_UNSATISFIABLE: [&str; 2] = ["DoNotSchedule", "ScheduleAnyway"];

/// Checks a new pod.
pub(super) fn check_new(pod: &Value, errors: &mut Errors) {
    check(pod, errors);
    if !list(pod, "/spec/ephemeralContainers").is_empty() {
        errors.push(FieldError::forbidden("spec.ephemeralContainers", "cannot be set on create"));
    }
}

/// Checks a pod, new or not.
pub(super) fn check(pod: &Value, errors: &mut Errors) {
    let empty = Value::Null;
    let spec = pod.get("spec").unwrap_or(&empty);
    check_containers(spec, errors);
    one_of(spec, "restartPolicy", "spec.restartPolicy", &["Always", "OnFailure", "Never"], errors);
    one_of(
        spec,
        "dnsPolicy",
        "spec.dnsPolicy",
        &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
        errors,
    );
    let deadline = spec.get("activeDeadlineSeconds").and_then(Value::as_i64);
    if deadline.is_some_and(|seconds| !(1..=i64::from(i32::MAX)).contains(&seconds)) {
        let why = "must be between 1 and 2147483647, inclusive";
        errors.push(FieldError::invalid("spec.activeDeadlineSeconds", deadline, why));
    }
    for (field, name) in
        [("nodeName", text(spec, "/nodeName")), ("schedulerName", text(spec, "/schedulerName"))]
    {
        if !name.is_empty() {
            let wrong = subdomain_errors(name).into_iter().filter(|_| field == "nodeName");
            errors.extend(wrong.map(|why| FieldError::invalid(format!("spec.{field}"), name, why)));
        }
    }
    let gates = list(spec, "/schedulingGates");
    check_gates(gates, errors);
    if !gates.is_empty() && !text(spec, "/nodeName").is_empty() {
        errors.push(FieldError::forbidden(
            "spec.nodeName",
            "cannot be set until all schedulingGates have been cleared",
        ));
    }
    check_labels(spec.get("nodeSelector"), "spec.nodeSelector", errors);
    check_affinity(spec, errors);
    check_tolerations(list(spec, "/tolerations"), errors);
    check_spread(list(spec, "/topologySpreadConstraints"), errors);
}

fn one_of(value: &Value, name: &str, field: &str, supported: &[&'static str], errors: &mut Errors) {
    match value.get(name).and_then(Value::as_str) {
        None | Some("") => errors.push(FieldError::required(field, "")),
        Some(given) if !supported.contains(&given) => {
            errors.push(FieldError::unsupported(field, given, supported));
        }
        Some(_) => {}
    }
}

fn check_gates(gates: &[Value], errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (i, gate) in gates.iter().enumerate() {
        let (name, field) = (text(gate, "/name"), format!("spec.schedulingGates[{i}]"));
        let wrong = qualified_name_errors(name).into_iter().next();
        errors.extend(wrong.map(|why| FieldError::invalid(&*field, name, why)));
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(format!("spec.schedulingGates[{i}]"), name));
        }
    }
}

fn check_containers(spec: &Value, errors: &mut Errors) {
    if list(spec, "/containers").is_empty() {
        errors.push(FieldError::required("spec.containers", ""));
    }
    let mut names = BTreeSet::new();
    for containers in ["containers", "initContainers"] {
        for (i, container) in list(spec, &format!("/{containers}")).iter().enumerate() {
            let field = format!("spec.{containers}[{i}]");
            let name = text(container, "/name");
            if name.is_empty() {
                errors.push(FieldError::required(format!("{field}.name"), ""));
            } else {
                let wrong = label_errors(name).into_iter();
                errors.extend(wrong.map(|why| FieldError::invalid(format!("{field}.name"), name, why)));
                if !names.insert(name) {
                    errors.push(FieldError::duplicate(format!("{field}.name"), name));
                }
            }
            if text(container, "/image").trim().is_empty() {
                errors.push(FieldError::required(format!("{field}.image"), ""));
            }
            check_ports(container, &field, errors);
            check_resources(container, &format!("{field}.resources"), errors);
        }
    }
}

fn check_ports(container: &Value, field: &str, errors: &mut Errors) {
    for (i, port) in list(container, "/ports").iter().enumerate() {
        let field = format!("{field}.ports[{i}]");
        for name in ["containerPort", "hostPort"] {
            let number = port.get(name).and_then(Value::as_i64).unwrap_or(0);
            if number == 0 && name == "containerPort" {
                errors.push(FieldError::required(format!("{field}.{name}"), ""));
            } else if number != 0 && !(1..=65535).contains(&number) {
                let why = "must be between 1 and 65535, inclusive";
                errors.push(FieldError::invalid(format!("{field}.{name}"), number, why));
            }
        }
        one_of(port, "protocol", &format!("{field}.protocol"), &["SCTP", "TCP", "UDP"], errors);
    }
}

fn check_resources(container: &Value, field: &str, errors: &mut Errors) {
    let Some(resources) = container.get("resources").and_then(Value::as_object) else { return };
    let amount = |part: &str, name: &str| -> Option<Quantity> {
        resources.get(part)?.get(name)?.as_str()?.parse().ok()
    };
    for part in ["limits", "requests"] {
        for name in resource_names(resources, part) {
            let field = format!("{field}.{part}[{name}]");
            errors.extend(
                resource_name_errors(&name).into_iter().map(|why| FieldError::invalid(&*field, &*name, why)),
            );
            let Some(quantity) = amount(part, &name) else { continue };
            if quantity < Quantity::default() {
                let why = "must be greater than or equal to 0";
                errors.push(FieldError::invalid(&*field, quantity.to_string(), why));
            }
            if is_extended(&name) && quantity.milli_value() % 1000 != 0 {
                errors.push(FieldError::invalid(&*field, quantity.to_string(), "must be an integer"));
            }
        }
    }
    let named = |wanted: fn(&str) -> bool| {
        ["limits", "requests"]
            .iter()
            .any(|part| resource_names(resources, part).iter().any(|name| wanted(name)))
    };
    if named(|name| name.starts_with("hugepages-")) && !named(|name| matches!(name, "cpu" | "memory")) {
        errors.push(FieldError::forbidden(field, "HugePages require cpu or memory"));
    }
    for name in resource_names(resources, "requests") {
        let Some(request) = amount("requests", &name) else { continue };
        let overcommit = !is_extended(&name) && !name.starts_with("hugepages-");
        match amount("limits", &name) {
            Some(limit) if request != limit && !overcommit => errors.push(FieldError::invalid(
                format!("{field}.requests"),
                request.to_string(),
                format!("must be equal to {name} limit of {limit}"),
            )),
            Some(limit) if request > limit => errors.push(FieldError::invalid(
                format!("{field}.requests"),
                request.to_string(),
                format!("must be less than or equal to {name} limit of {limit}"),
            )),
            None if !overcommit => {
                let why = "Limit must be set for non overcommitable resources";
                errors.push(FieldError::required(format!("{field}.limits"), why));
            }
            _ => {}
        }
    }
}

/// Whether a resource is one that Kubernetes does not know.
fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/")
}

fn resource_name_errors(name: &str) -> Vec<String> {
    let errors = qualified_name_errors(name);
    if !errors.is_empty() {
        return errors;
    }
    let standard = matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
    if !name.contains('/') && !standard {
        let mut errors = Vec::new();
        // Some names are resources, though not of containers.
        if !matches!(name, "storage" | "pods" | "services") {
            errors.push("must be a standard resource type or fully qualified".to_owned());
        }
        errors.push("must be a standard resource for containers".to_owned());
        return errors;
    }
    Vec::new()
}

fn check_tolerations(tolerations: &[Value], errors: &mut Errors) {
    for (i, toleration) in tolerations.iter().enumerate() {
        let field = format!("spec.tolerations[{i}]");
        let at = |name: &str| text(toleration, &format!("/{name}"));
        let (key, operator, value, effect) = (at("key"), at("operator"), at("value"), at("effect"));
        if !key.is_empty() {
            let wrong = qualified_name_errors(key).into_iter();
            errors.extend(wrong.map(|why| FieldError::invalid(format!("{field}.key"), key, why)));
        }
        if key.is_empty() && operator != "Exists" {
            let why =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.push(FieldError::invalid(format!("{field}.operator"), operator, why));
        }
        if toleration.get("tolerationSeconds").is_some_and(|s| !s.is_null()) && effect != "NoExecute" {
            let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.push(FieldError::invalid(format!("{field}.effect"), effect, why));
        }
        let operator_field = format!("{field}.operator");
        match operator {
            "Equal" | "" => {
                let wrong = label_value_errors(value).into_iter();
                errors.extend(wrong.map(|why| FieldError::invalid(&*operator_field, value, why)));
            }
            "Exists" if !value.is_empty() => {
                let why = "value must be empty when `operator` is 'Exists'";
                errors.push(FieldError::invalid(operator_field, value, why));
            }
            "Exists" => {}
            other => errors.push(FieldError::unsupported(operator_field, other, &["Equal", "Exists"])),
        }
        if !effect.is_empty() && !EFFECTS.contains(&effect) {
            errors.push(FieldError::unsupported(format!("{field}.effect"), effect, &EFFECTS));
        }
    }
}

fn check_spread(constraints: &[Value], errors: &mut Errors) {
    for (i, constraint) in constraints.iter().enumerate() {
        let field = format!("spec.topologySpreadConstraints[{i}]");
        let skew = constraint.get("maxSkew").and_then(Value::as_i64).unwrap_or(0);
        if skew <= 0 {
            errors.push(FieldError::invalid(format!("{field}.maxSkew"), skew, "must be greater than zero"));
        }
        let (key, when) = (text(constraint, "/topologyKey"), text(constraint, "/whenUnsatisfiable"));
        if key.is_empty() {
            errors.push(FieldError::required(format!("{field}.topologyKey"), "can not be empty"));
        } else {
            let wrong = qualified_name_errors(key).into_iter();
            errors.extend(wrong.map(|why| FieldError::invalid(format!("{field}.topologyKey"), key, why)));
        }
        if !WHEN_UNSATISFIABLE.contains(&when) {
            errors.push(FieldError::unsupported(
                format!("{field}.whenUnsatisfiable"),
                when,
                &WHEN_UNSATISFIABLE,
            ));
        }
        let same =
            |other: &Value| text(other, "/topologyKey") == key && text(other, "/whenUnsatisfiable") == when;
        if constraints[i + 1..].iter().any(same) {
            let field = format!("{field}.{{topologyKey, whenUnsatisfiable}}");
            errors.push(FieldError::duplicate(field, format!("{{{key}, {when}}}")));
        }
        if let Some(least) = constraint.get("minDomains").and_then(Value::as_i64) {
            let field = format!("{field}.minDomains");
            if least <= 0 {
                errors.push(FieldError::invalid(&*field, least, "must be greater than zero"));
            }
            if when != "DoNotSchedule" {
                let why = "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway";
                errors.push(FieldError::invalid(field, least, why));
            }
        }
        for name in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            let given = text(constraint, &format!("/{name}"));
            if !given.is_empty() && !matches!(given, "Honor" | "Ignore") {
                errors.push(FieldError::unsupported(format!("{field}.{name}"), given, &["Honor", "Ignore"]));
            }
        }
        check_selector(constraint.get("labelSelector"), &format!("{field}.labelSelector"), errors);
    }
}

fn requirement(expression: &Value) -> Requirement {
    let values = list(expression, "/values").iter().filter_map(Value::as_str);
    Requirement {
        key: text(expression, "/key").into(),
        operator: Operator::parse(text(expression, "/operator")),
        values: values.map(Str::from).collect(),
    }
}

/// Checks a `metav1.LabelSelector`.
pub(super) fn check_selector(selector: Option<&Value>, field: &str, errors: &mut Errors) {
    let Some(selector) = selector else { return };
    check_labels(selector.get("matchLabels"), &format!("{field}.matchLabels"), errors);
    for (i, expression) in list(selector, "/matchExpressions").iter().enumerate() {
        let field = format!("{field}.matchExpressions[{i}]");
        let values = list(expression, "/values").len();
        match text(expression, "/operator") {
            "In" | "NotIn" if values == 0 => {
                let why = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(FieldError::required(format!("{field}.values"), why));
            }
            "Exists" | "DoesNotExist" if values > 0 => {
                let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(FieldError::forbidden(format!("{field}.values"), why));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => errors.push(FieldError::invalid(
                format!("{field}.operator"),
                other,
                "not a valid selector operator",
            )),
        }
        let key = text(expression, "/key");
        let wrong = qualified_name_errors(key).into_iter();
        errors.extend(wrong.map(|why| FieldError::invalid(format!("{field}.key"), key, why)));
    }
}

const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

fn check_affinity(spec: &Value, errors: &mut Errors) {
    let affinity = "spec.affinity";
    if let Some(required) =
        spec.pointer(&format!("/affinity/nodeAffinity/{REQUIRED}")).filter(|r| !r.is_null())
    {
        let field = format!("{affinity}.nodeAffinity.{REQUIRED}.nodeSelectorTerms");
        let terms = list(required, "/nodeSelectorTerms");
        if terms.is_empty() {
            errors.push(FieldError::required(&*field, "must have at least one node selector term"));
        }
        for (i, term) in terms.iter().enumerate() {
            check_node_term(term, &format!("{field}[{i}]"), errors);
        }
    }
    for (i, preferred) in list(spec, &format!("/affinity/nodeAffinity/{PREFERRED}")).iter().enumerate() {
        let field = format!("{affinity}.nodeAffinity.{PREFERRED}[{i}]");
        check_weight(preferred, &field, errors);
        if let Some(term) = preferred.get("preference") {
            check_node_term(term, &format!("{field}.preference"), errors);
        }
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        for (i, term) in list(spec, &format!("/affinity/{kind}/{REQUIRED}")).iter().enumerate() {
            check_pod_term(term, &format!("{affinity}.{kind}.{REQUIRED}[{i}]"), errors);
        }
        for (i, preferred) in list(spec, &format!("/affinity/{kind}/{PREFERRED}")).iter().enumerate() {
            let field = format!("{affinity}.{kind}.{PREFERRED}[{i}]");
            check_weight(preferred, &field, errors);
            let term = preferred.get("podAffinityTerm").unwrap_or(&Value::Null);
            check_pod_term(term, &format!("{field}.podAffinityTerm"), errors);
        }
    }
}

fn check_weight(preferred: &Value, field: &str, errors: &mut Errors) {
    let weight = preferred.get("weight").and_then(Value::as_i64).unwrap_or(0);
    if !(1..=100).contains(&weight) {
        errors.push(FieldError::invalid(format!("{field}.weight"), weight, "must be in the range 1-100"));
    }
}

fn check_pod_term(term: &Value, field: &str, errors: &mut Errors) {
    check_selector(term.get("labelSelector"), &format!("{field}.labelSelector"), errors);
    check_selector(term.get("namespaceSelector"), &format!("{field}.namespaceSelector"), errors);
    let (key, field) = (text(term, "/topologyKey"), format!("{field}.topologyKey"));
    if key.is_empty() {
        errors.push(FieldError::required(&*field, "can not be empty"));
    }
    let wrong = qualified_name_errors(key).into_iter();
    errors.extend(wrong.map(|why| FieldError::invalid(&*field, key, why)));
}

fn check_node_term(term: &Value, field: &str, errors: &mut Errors) {
    for (i, expression) in list(term, "/matchExpressions").iter().enumerate() {
        let field = format!("{field}.matchExpressions[{i}]");
        let requirement = requirement(expression);
        match (&requirement.operator, requirement.values.len()) {
            (Operator::In | Operator::NotIn, 0) => {
                let why = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(FieldError::required(format!("{field}.values"), why));
            }
            (Operator::Exists | Operator::DoesNotExist, 1..) => {
                let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(FieldError::forbidden(format!("{field}.values"), why));
            }
            (Operator::Gt | Operator::Lt, count) if count != 1 => {
                let why = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                errors.push(FieldError::required(format!("{field}.values"), why));
            }
            (Operator::Unknown(name), _) => {
                let why = "not a valid selector operator";
                errors.push(FieldError::invalid(format!("{field}.operator"), name.as_str(), why));
            }
            _ => {}
        }
        let wrong = qualified_name_errors(&requirement.key).into_iter();
        errors.extend(
            wrong.map(|why| FieldError::invalid(format!("{field}.key"), requirement.key.as_str(), why)),
        );
    }
    for (i, expression) in list(term, "/matchFields").iter().enumerate() {
        let field = format!("{field}.matchFields[{i}]");
        let (key, operator) = (text(expression, "/key"), text(expression, "/operator"));
        if !matches!(operator, "In" | "NotIn") {
            errors.push(FieldError::invalid(
                format!("{field}.operator"),
                operator,
                "not a valid selector operator",
            ));
        } else if list(expression, "/values").len() != 1 {
            let why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            errors.push(FieldError::required(format!("{field}.values"), why));
        }
        if key != "metadata.name" {
            errors.push(FieldError::invalid(format!("{field}.key"), key, "not a valid field selector key"));
        }
    }
}
