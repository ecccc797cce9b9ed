//! Specs of claims, in claims and templates.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    super::Errors,
    each, each_once, names,
    selector::{self, MOST, check_configuration, check_tolerations},
};
use crate::{
    FieldError,
    value::{default, list, list_mut, number, present, text},
};

/// Maximum number of alternatives in a request.
const MOST_ALTERNATIVES: usize = 8;

/// Sets the defaults of the claim spec at the JSON pointer `spec` and, if there is an allocation, the defaults of its
/// results.
pub(super) fn defaults(object: &mut Value, spec: &str) {
    for request in list_mut(object, &format!("{spec}/devices/requests")) {
        if let Some(exactly) = request.get_mut("exactly") {
            request_defaults(exactly);
        }
        list_mut(request, "/firstAvailable").iter_mut().for_each(request_defaults);
    }
    for result in list_mut(object, "/status/allocation/devices/results") {
        toleration_defaults(result);
    }
}

fn request_defaults(request: &mut Value) {
    if text(request, "/allocationMode").is_empty() && request.is_object() {
        request["allocationMode"] = "ExactCount".into();
    }
    if text(request, "/allocationMode") == "ExactCount" && number(request, "/count") == 0 {
        request["count"] = 1.into();
    }
    toleration_defaults(request);
}

fn toleration_defaults(value: &mut Value) {
    for toleration in list_mut(value, "/tolerations") {
        default(toleration, "operator", "Equal");
    }
}

pub(super) fn check_spec(spec: &Value, place: &str, errors: &mut Errors) {
    let (devices, place) = (&spec["devices"], format!("{place}.devices"));
    let requests = Requests::of(devices);
    let name = |request: &Value| text(request, "/name").to_owned();
    let all = (&devices["requests"], "resource.DeviceRequest");
    each_once(all, &format!("{place}.requests"), MOST, errors, name, check_request);
    each(
        &devices["constraints"],
        &format!("{place}.constraints"),
        MOST,
        errors,
        |constraint, place, errors| check_constraint(constraint, place, &requests, errors),
    );
    each(&devices["config"], &format!("{place}.config"), MOST, errors, |config, place, errors| {
        requests.check_all(&config["requests"], &format!("{place}.requests"), errors);
        check_configuration(config, place, errors);
    });
}

fn check_request(request: &Value, place: &str, errors: &mut Errors) {
    names::check_label(text(request, "/name"), &format!("{place}.name"), errors);
    let alternatives = list(request, "/firstAvailable");
    match (present(request, "/exactly"), alternatives) {
        (None, []) => {
            let why = "exactly one of `exactly` or `firstAvailable` is required";
            errors.push(FieldError::required(place, why));
        }
        (Some(exactly), []) => {
            let place = format!("{place}.exactly");
            let class = format!("{place}.deviceClassName");
            names::check_class(text(exactly, "/deviceClassName"), &class, errors);
            check_wish(exactly, &place, errors);
        }
        (None, _) => {
            let name = |request: &Value| text(request, "/name").to_owned();
            let place = format!("{place}.firstAvailable");
            let all = (&request["firstAvailable"], "resource.DeviceSubRequest");
            each_once(all, &place, MOST_ALTERNATIVES, errors, name, |alternative, place, errors| {
                names::check_label(text(alternative, "/name"), &format!("{place}.name"), errors);
                let class = format!("{place}.deviceClassName");
                names::check_declared_class(text(alternative, "/deviceClassName"), &class, errors);
                check_wish(alternative, place, errors);
            });
        }
        (Some(_), _) => {
            let why = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
            errors.push(FieldError::invalid(place, Value::Null, why));
        }
    }
}

/// Checks the fields that requests and their alternatives have in common, except the device class.
fn check_wish(wish: &Value, place: &str, errors: &mut Errors) {
    const MODES: [&str; 2] = ["All", "ExactCount"];
    selector::check(&wish["selectors"], &format!("{place}.selectors"), errors);
    let (mode, count) = (text(wish, "/allocationMode"), number(wish, "/count"));
    match mode {
        "All" if count != 0 => {
            let why = "must not be specified when allocationMode is 'All'";
            errors.push(FieldError::invalid(format!("{place}.count"), count, why));
        }
        "ExactCount" if count <= 0 => {
            errors.push(FieldError::invalid(format!("{place}.count"), count, "must be greater than zero"));
        }
        "All" | "ExactCount" => {}
        other => errors.declared(|errors| {
            errors.push(FieldError::unsupported(format!("{place}.allocationMode"), other, &MODES));
        }),
    }
    check_tolerations(&wish["tolerations"], &format!("{place}.tolerations"), errors);
}

fn check_constraint(constraint: &Value, place: &str, requests: &Requests<'_>, errors: &mut Errors) {
    requests.check_all(&constraint["requests"], &format!("{place}.requests"), errors);
    for name in ["matchAttribute", "distinctAttribute"] {
        if let Some(attribute) = constraint[name].as_str() {
            names::check_fully_qualified(attribute, &format!("{place}.{name}"), errors);
            return;
        }
    }
    // kube-apiserver's message is wrong: no field is set.
    let why =
        "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set";
    errors.push(FieldError::required(place, why));
}

/// Names of a claim's requests, with the names of their alternatives.
pub(super) struct Requests<'a>(BTreeMap<&'a str, BTreeSet<&'a str>>);

impl<'a> Requests<'a> {
    /// Collects the names from `spec.devices`.
    pub(super) fn of(devices: &'a Value) -> Self {
        let names = list(devices, "/requests").iter().map(|request| {
            let alternatives = list(request, "/firstAvailable").iter();
            (text(request, "/name"), alternatives.map(|one| text(one, "/name")).collect())
        });
        Self(names.collect())
    }

    /// Checks a list of distinct references.
    pub(super) fn check_all(&self, references: &Value, place: &str, errors: &mut Errors) {
        let name = |reference: &Value| reference.as_str().unwrap_or_default().to_owned();
        each_once((references, ""), place, MOST, errors, name, |reference, place, errors| {
            self.check(reference.as_str().unwrap_or_default(), place, errors);
        });
    }

    /// Checks a reference to a request, or to an alternative: `request/alternative`.
    pub(super) fn check(&self, reference: &str, place: &str, errors: &mut Errors) {
        const WHY: &str = "must be the name of a request in the claim or the name of a request and a subrequest \
                           separated by '/'";
        let parts: Vec<&str> = reference.split('/').collect();
        let is_known = match parts[..] {
            [request] => self.0.contains_key(request),
            [request, alternative] => self.0.get(request).is_some_and(|all| all.contains(alternative)),
            _ => {
                errors.push(FieldError::invalid(place, reference, WHY));
                return;
            }
        };
        for part in parts {
            names::check_label(part, place, errors);
        }
        if !is_known {
            errors.push(FieldError::invalid(place, reference, WHY));
        }
    }
}
