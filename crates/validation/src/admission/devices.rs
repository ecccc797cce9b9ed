//! Dynamic resource allocation: claims, their templates, device classes and resource slices, as with the default feature
//! gates of Kubernetes, and rules that taint devices, as in 1.37.

mod claim;
mod class;
mod names;
mod policy;
mod selector;
mod slice;
mod status;
mod taint_rule;

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    Context, Errors,
    checks::{elements, unique},
    meta,
};
use crate::{
    FieldError,
    kinds::{Kind, Rules},
    schema::in_declared_order,
    value::{is_true, list, namespace, text},
};

/// Label of namespaces in which claims may ask for admin access to devices.
const ADMIN_LABEL: &str = "resource.kubernetes.io/admin-access";

/// Sets defaults that no table can express.
pub(super) fn defaults(context: &Context<'_>, object: &mut Value) {
    match context.kind.rules {
        Rules::ResourceClaim => claim::defaults(object, "/spec"),
        Rules::ResourceClaimTemplate => claim::defaults(object, "/spec/spec"),
        Rules::ResourceSlice => slice::defaults(object, context.now),
        Rules::DeviceTaintRule => taint_rule::defaults(object, context.now),
        _ => {}
    }
}

/// Removes fields whose feature gates are off.
pub(super) fn admit(kind: &Kind, object: &mut Value) {
    if kind.rules == Rules::ResourceSlice {
        slice::drop_disabled(object);
    }
}

/// Like [`admit`], for a changed object. Also removes the status of devices that a claim no longer holds, and sets the
/// time of a rule's taint.
pub(super) fn admit_update(context: &Context<'_>, old: &Value, object: &mut Value) {
    admit(context.kind, object);
    match context.kind.rules {
        Rules::ResourceClaim if context.status_only => status::drop_released(old, object),
        Rules::DeviceTaintRule => taint_rule::admit_update(old, object, context.now),
        _ => {}
    }
}

/// Checks a new or changed object; `old` is its previous version.
pub(super) fn check(context: &Context<'_>, object: &Value, old: Option<&Value>, errors: &mut Errors) {
    match (context.kind.rules, old) {
        (Rules::ResourceClaim, Some(old)) if context.status_only => {
            check_admin_of_status(context, object, old, errors);
            status::check(object, old, errors);
        }
        (Rules::ResourceClaim, Some(old)) => {
            if object.get("spec") != old.get("spec") && errors.has_declarations() {
                let error = FieldError::invalid("spec", Value::Null, "field is immutable");
                errors.declared(|errors| errors.push(error));
            } else {
                check_unchanged(object, old, "spec", errors);
            }
        }
        (Rules::ResourceClaim, None) => {
            check_admin(context, object, "/spec", errors);
            claim::check_spec(&object["spec"], "spec", errors);
        }
        (Rules::ResourceClaimTemplate, old) => {
            if old.is_none() {
                check_admin(context, object, "/spec/spec", errors);
            }
            let spec = &object["spec"];
            meta::check_template(&spec["metadata"], "spec.metadata", errors);
            claim::check_spec(&spec["spec"], "spec.spec", errors);
            if let Some(old) = old {
                check_unchanged(object, old, "spec", errors);
            }
        }
        (Rules::DeviceClass, _) => class::check(object, errors),
        (Rules::DeviceTaintRule, _) if context.status_only => {
            taint_rule::check_status(object, errors);
        }
        (Rules::DeviceTaintRule, _) => taint_rule::check(object, errors),
        (Rules::ResourceSlice, old) => slice::check(object, old, errors),
        _ => {}
    }
}

/// Returns warnings about a resource slice.
pub(super) fn warnings(kind: &Kind, object: &Value) -> Vec<String> {
    let driver = text(object, "/spec/driver");
    if kind.rules != Rules::ResourceSlice || !driver.chars().any(char::is_uppercase) {
        return Vec::new();
    }
    vec![format!("spec.driver: driver names should be lowercase; {driver:?} contains uppercase characters")]
}

fn check_unchanged(object: &Value, old: &Value, field: &str, errors: &mut Errors) {
    if object.get(field) != old.get(field) {
        let new = object.get(field).cloned().unwrap_or_default();
        errors.push(FieldError::invalid(field, new, "field is immutable"));
    }
}

/// Checks that a claim asks for admin access only in a namespace with [`ADMIN_LABEL`].
fn check_admin(context: &Context<'_>, object: &Value, spec: &str, errors: &mut Errors) {
    let requests = list(object, &format!("{spec}/devices/requests"));
    let wanted = requests.iter().position(|request| is_true(request, "/exactly/adminAccess"));
    if let Some(i) = wanted {
        allow_admin(context, object, format!("spec.devices.requests[{i}].adminAccess"), errors);
    }
}

fn check_admin_of_status(context: &Context<'_>, object: &Value, old: &Value, errors: &mut Errors) {
    let wanted = |claim| {
        let results = list(claim, "/status/allocation/devices/results");
        results.iter().position(|result| is_true(result, "/adminAccess"))
    };
    if wanted(old).is_none()
        && let Some(i) = wanted(object)
    {
        let field = format!("status.allocation.devices.results[{i}].adminAccess");
        allow_admin(context, object, field, errors);
    }
}

fn allow_admin(context: &Context<'_>, object: &Value, field: String, errors: &mut Errors) {
    let Some(namespace) = context.others.get("namespaces", namespace(object)) else { return };
    if namespace["metadata"]["labels"][ADMIN_LABEL] != "true" {
        let why = format!(
            "admin access to devices requires the `{ADMIN_LABEL}: true` label on the containing namespace"
        );
        errors.push(FieldError::forbidden(field, why));
    }
}

/// Returns the identity of the device, or of the share of a device, that an allocation result or a device status is
/// about.
fn shared_device(value: &Value) -> [&str; 4] {
    ["/driver", "/pool", "/device", "/shareID"].map(|part| text(value, part))
}

/// Checks that a list is not too long.
fn is_short(list: &Value, place: &str, most: usize, errors: &mut Errors) -> bool {
    let count = list.as_array().map_or(0, Vec::len);
    if count > most {
        errors.push(FieldError::too_many(place, count as i64, most as i64));
    }
    count <= most
}

/// Checks every element of a list whose length is limited by a declared rule. If the list is too long, reports only its
/// length.
fn each(
    list: &Value,
    place: &str,
    most: usize,
    errors: &mut Errors,
    mut check: impl FnMut(&Value, &str, &mut Errors),
) {
    if errors.declared(|errors| is_short(list, place, most, errors)) {
        elements(list, place).for_each(|(place, element)| check(element, &place, errors));
    }
}

/// Like [`each`]. By another declared rule, also refuses elements of the type `of` with the key of an earlier element.
fn each_once(
    (list, of): (&Value, &str),
    place: &str,
    most: usize,
    errors: &mut Errors,
    key: impl Fn(&Value) -> String,
    check: impl FnMut(&Value, &str, &mut Errors),
) {
    if !errors.has_declarations() {
        return each_once_in_code(list, place, most, errors, key, check);
    }
    if list.as_array().map_or(0, Vec::len) <= most {
        errors.declared(|errors| {
            let mut seen = BTreeSet::new();
            for (place, element) in elements(list, place).filter(|(_, element)| !seen.insert(key(element))) {
                errors.push(FieldError::duplicate_shown(place, &in_declared_order(element, of)));
            }
        });
    }
    each(list, place, most, errors, check);
}

/// Checks every element of a list, its length, and that no element has the key of an earlier element. The rules are not
/// declared in any release.
fn each_once_in_code(
    list: &Value,
    place: &str,
    most: usize,
    errors: &mut Errors,
    key: impl Fn(&Value) -> String,
    mut check: impl FnMut(&Value, &str, &mut Errors),
) {
    if !is_short(list, place, most, errors) {
        return;
    }
    elements(list, place).for_each(|(place, element)| check(element, &place, errors));
    unique(elements(list, place).map(|(place, element)| (place, key(element))), errors);
}

#[cfg(test)]
mod tests;
