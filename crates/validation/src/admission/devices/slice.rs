//! Resource slices.

use std::collections::BTreeSet;

use harbormaster_api::{Release, Timestamp};
use serde_json::Value;

use super::{
    super::{Errors, checks::elements, meta::check_declared_label, pod_checks},
    each_once, each_once_in_code, is_short, names, policy,
    selector::check_taint,
    status::check_binding_conditions,
};
use crate::{
    FieldError,
    value::{default, entries, is_true, list, list_mut, number, present, remove, text},
};

/// Maximum number of devices.
const MOST_DEVICES: usize = 128;
/// Maximum number of devices if any has taints or consumes counters.
const MOST_COMPLEX_DEVICES: usize = 64;
/// Maximum number of attributes and capacities of a device, taken together.
const MOST_ATTRIBUTES: usize = 32;
const MOST_TAINTS: usize = 16;
const MOST_COUNTER_SETS: usize = 8;
/// Maximum number of counters in a set, and of counters that a device takes from a set.
const MOST_COUNTERS: usize = 32;
/// Maximum number of counter sets from which a device takes counters.
const MOST_CONSUMED_SETS: usize = 2;
/// Maximum length of the text of an attribute.
const LONGEST_TEXT: usize = 64;
/// Maximum length of the key of an attribute in the path of an error.
const LONGEST_KEY: usize = 96;

/// Fields for lists of values in an attribute. Their feature gate is off.
const LISTS: [&str; 4] = ["bools", "ints", "strings", "versions"];
/// All fields of an attribute, in the order in which messages list them.
const MEMBERS: [&str; 8] = ["int", "bool", "string", "version", "ints", "bools", "strings", "versions"];
/// Fields for single values in an attribute.
const VALUES: [&str; 4] = ["bool", "int", "string", "version"];

pub(super) fn defaults(slice: &mut Value, now: Timestamp) {
    for device in list_mut(slice, "/spec/devices") {
        for taint in list_mut(device, "/taints") {
            default(taint, "timeAdded", now.to_rfc3339());
        }
    }
}

/// Removes fields whose feature gates are off.
pub(super) fn drop_disabled(slice: &mut Value) {
    for device in list_mut(slice, "/spec/devices") {
        remove(device, "nodeAllocatableResourceMappings");
        let attributes = device.get_mut("attributes").and_then(Value::as_object_mut);
        for (_, attribute) in attributes.into_iter().flatten() {
            for name in LISTS {
                remove(attribute, name);
            }
        }
    }
}

pub(super) fn check(slice: &Value, old: Option<&Value>, errors: &mut Errors) {
    let spec = &slice["spec"];
    names::check_driver(text(spec, "/driver"), "spec.driver", errors);
    check_pool(&spec["pool"], errors);
    if let Some(old) = old {
        for (pointer, field) in
            [("/pool/name", "spec.pool.name"), ("/driver", "spec.driver"), ("/nodeName", "spec.nodeName")]
        {
            let (old, new) = (old["spec"].pointer(pointer), spec.pointer(pointer));
            if old != new {
                let new = new.cloned().unwrap_or_default();
                errors.push(FieldError::invalid(field, new, "field is immutable"));
            }
        }
    }
    check_nodes(spec, errors);
    if present(spec, "/sharedCounters").is_some() && present(spec, "/devices").is_some() {
        let why = "only one of `sharedCounters` or `devices` is allowed";
        errors.push(FieldError::invalid("spec", "", why));
    }
    let devices = list(spec, "/devices");
    let is_complex =
        |device: &Value| !list(device, "/taints").is_empty() || !list(device, "/consumesCounters").is_empty();
    let most = if devices.iter().any(is_complex) { MOST_COMPLEX_DEVICES } else { MOST_DEVICES };
    let name = |value: &Value| text(value, "/name").to_owned();
    let per_device = is_true(spec, "/perDeviceNodeSelection");
    each_once_in_code(&spec["devices"], "spec.devices", most, errors, name, |device, place, errors| {
        let devices = old.map_or(&[] as &[Value], |old| list(old, "/spec/devices"));
        let old = devices.iter().find(|old| old["name"] == device["name"]);
        check_device(device, old, per_device, place, errors);
    });
    let (counters, place) = ((&spec["sharedCounters"], "resource.CounterSet"), "spec.sharedCounters");
    each_once(counters, place, MOST_COUNTER_SETS, errors, name, |set, place, errors| {
        check_counters(set, "name", place, errors);
    });
}

fn check_pool(pool: &Value, errors: &mut Errors) {
    names::check_pool(text(pool, "/name"), "spec.pool.name", errors);
    let (count, generation) = (number(pool, "/resourceSliceCount"), number(pool, "/generation"));
    if count <= 0 {
        errors.push(FieldError::invalid("spec.pool.resourceSliceCount", count, "must be greater than zero"));
    }
    if generation < 0 {
        let why = "must be greater than or equal to zero";
        errors.push(FieldError::invalid("spec.pool.generation", generation, why));
    }
}

/// Checks the fields that determine which nodes can reach the devices.
fn check_nodes(spec: &Value, errors: &mut Errors) {
    const WHY: &str =
        "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    let mut given = Vec::new();
    if let Some(name) = spec["nodeName"].as_str() {
        if name.is_empty() {
            let why = "must be either unset or set to a non-empty string";
            errors.push(FieldError::invalid("spec.nodeName", name, why));
        } else {
            given.push("`nodeName`");
            names::check_subdomain(name, "spec.nodeName", errors);
        }
    }
    if let Some(selector) = present(spec, "/nodeSelector") {
        given.push("`nodeSelector`");
        pod_checks::check_node_selector(selector, "spec.nodeSelector", errors);
        if list(selector, "/nodeSelectorTerms").len() != 1 {
            let terms = selector["nodeSelectorTerms"].clone();
            let why = "must have exactly one node selector term";
            errors.push(FieldError::invalid("spec.nodeSelector.nodeSelectorTerms", terms, why));
        }
    }
    given.extend(check_flag(spec, "allNodes", "`allNodes`", "spec", errors));
    given.extend(check_flag(spec, "perDeviceNodeSelection", "`perDeviceNodeSelection`", "spec", errors));
    match given.len() {
        0 => errors.push(FieldError::required("spec", WHY)),
        1 => {}
        _ => {
            let why = format!("{WHY}, but multiple fields are set");
            errors.push(FieldError::invalid("spec", format!("{{{}}}", given.join(", ")), why));
        }
    }
}

/// Returns `shown` if a flag is true. A flag must be true or absent.
fn check_flag(
    value: &Value,
    name: &str,
    shown: &'static str,
    place: &str,
    errors: &mut Errors,
) -> Option<&'static str> {
    match value[name].as_bool() {
        Some(true) => return Some(shown),
        Some(false) => {
            let why = "must be either unset or set to true";
            errors.push(FieldError::invalid(format!("{place}.{name}"), false, why));
        }
        None => {}
    }
    None
}

fn check_device(device: &Value, old: Option<&Value>, per_device: bool, place: &str, errors: &mut Errors) {
    names::check_label(text(device, "/name"), &format!("{place}.name"), errors);
    let count = entries(device, "/attributes").count() + entries(device, "/capacity").count();
    if count > MOST_ATTRIBUTES {
        let why = format!("the total number of attributes and capacities must not exceed {MOST_ATTRIBUTES}");
        errors.push(FieldError::invalid(place, count, why));
    }
    check_map(device, "attributes", place, errors, check_attribute);
    let is_shared = is_true(device, "/allowMultipleAllocations");
    // From 1.37 on, capacities that are as before are not checked again.
    let is_as_before = old.is_some_and(|old| old["capacity"] == device["capacity"]);
    if !is_as_before || errors.release() < Release::V1_37 {
        check_map(device, "capacity", place, errors, |capacity, place, errors| {
            let Some(wanted) = present(capacity, "/requestPolicy") else { return };
            let place = format!("{place}.requestPolicy");
            if is_shared {
                policy::check(capacity, wanted, &place, errors);
            } else {
                errors.push(FieldError::forbidden(place, "allowMultipleAllocations must be true"));
            }
        });
    }
    if old.is_none_or(|old| old["taints"] != device["taints"]) {
        let (taints, place) = (&device["taints"], format!("{place}.taints"));
        if is_short(taints, &place, MOST_TAINTS, errors) {
            elements(taints, &place).for_each(|(place, taint)| check_taint(taint, &place, errors));
        }
    }
    let set = |consumption: &Value| text(consumption, "/counterSet").to_owned();
    let consumed = format!("{place}.consumesCounters");
    each_once(
        (&device["consumesCounters"], "resource.DeviceCounterConsumption"),
        &consumed,
        MOST_CONSUMED_SETS,
        errors,
        set,
        |consumption, place, errors| check_counters(consumption, "counterSet", place, errors),
    );
    check_nodes_of_device(device, per_device, place, errors);
    check_binding_conditions(device, place, errors);
}

fn check_nodes_of_device(device: &Value, per_device: bool, place: &str, errors: &mut Errors) {
    const WHY: &str = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when \
                       `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    if !per_device {
        if ["nodeName", "nodeSelector", "allNodes"].iter().any(|name| !device[*name].is_null()) {
            let why = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is \
                       set to true in the ResourceSlice spec";
            errors.push(FieldError::invalid(place, Value::Null, why));
        }
        return;
    }
    let mut given = Vec::new();
    if let Some(name) = device["nodeName"].as_str() {
        let field = format!("{place}.nodeName");
        if name.is_empty() {
            errors.push(FieldError::invalid(field, name, "must not be empty"));
        } else {
            given.push("`nodeName`");
            names::check_subdomain(name, &field, errors);
        }
    }
    if let Some(selector) = present(device, "/nodeSelector") {
        given.push("`nodeSelector`");
        pod_checks::check_node_selector(selector, &format!("{place}.nodeSelector"), errors);
    }
    given.extend(check_flag(device, "allNodes", "`allNodes`", place, errors));
    match given.len() {
        0 => errors.push(FieldError::required(place, WHY)),
        1 => {}
        _ => errors.push(FieldError::invalid(place, format!("{{{}}}", given.join(", ")), WHY)),
    }
}

/// Checks the keys and values of a map of attributes or capacities.
fn check_map(
    device: &Value,
    name: &str,
    place: &str,
    errors: &mut Errors,
    check: impl Fn(&Value, &str, &mut Errors),
) {
    let place = format!("{place}.{name}");
    for (key, value) in entries(&device[name], "") {
        names::check_qualified(key, &place, errors);
        check(value, &format!("{place}[{}]", shortened(key, LONGEST_KEY)), errors);
    }
}

/// Returns the key without its middle if it is too long.
fn shortened(key: &str, most: usize) -> String {
    if key.len() <= most {
        return key.to_owned();
    }
    let (bytes, kept) = (key.as_bytes(), most.saturating_sub(3));
    let (head, tail) = (&bytes[..kept.div_ceil(2)], &bytes[bytes.len() - kept / 2..]);
    format!("{}...{}", String::from_utf8_lossy(head), String::from_utf8_lossy(tail))
}

fn check_attribute(attribute: &Value, place: &str, errors: &mut Errors) {
    for name in ["string", "version"] {
        let Some(text) = attribute[name].as_str() else { continue };
        let field = format!("{place}.{name}");
        if name == "version" && !is_version(text) {
            let why = "must be a string compatible with semver.org spec 2.0.0";
            errors.push(FieldError::invalid(&field, text, why));
        }
        if text.len() > LONGEST_TEXT {
            errors.push(FieldError::too_long(field, LONGEST_TEXT));
        }
    }
    let given = VALUES.iter().filter(|name| !attribute[**name].is_null()).count();
    if given != 1 {
        let error = if errors.has_declarations() {
            FieldError::not_one_of(place, &MEMBERS, |name| !attribute[name].is_null())
        } else {
            let shown = if given == 0 { Value::from("") } else { attribute.clone() };
            FieldError::invalid(place, shown, "exactly one value must be specified")
        };
        errors.declared(|errors| errors.push(error));
    }
}

/// Returns true for a semantic version.
fn is_version(text: &str) -> bool {
    let (rest, build) = text.split_once('+').map_or((text, None), |(rest, build)| (rest, Some(build)));
    let (core, pre) = rest.split_once('-').map_or((rest, None), |(core, pre)| (core, Some(pre)));
    let is_word =
        |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let is_number = |word: &str| {
        !word.is_empty()
            && word.bytes().all(|b| b.is_ascii_digit())
            && (word == "0" || !word.starts_with('0'))
    };
    core.split('.').count() == 3
        && core.split('.').all(is_number)
        && pre.is_none_or(|pre| {
            let is_part =
                |word: &str| is_word(word) && (is_number(word) || !word.bytes().all(|b| b.is_ascii_digit()));
            pre.split('.').all(is_part)
        })
        && build.is_none_or(|build| build.split('.').all(is_word))
}

/// Checks a counter set, or the counters that a device takes from a set. `name` is the field with the set's name.
fn check_counters(value: &Value, name: &str, place: &str, errors: &mut Errors) {
    names::check_given_label(text(value, &format!("/{name}")), &format!("{place}.{name}"), errors);
    let place = format!("{place}.counters");
    let keys: BTreeSet<&str> = entries(value, "/counters").map(|(key, _)| &**key).collect();
    if keys.is_empty() {
        errors.declared(|errors| errors.push(FieldError::required(place, "")));
    } else if keys.len() > MOST_COUNTERS {
        errors.push(FieldError::too_many(place, keys.len() as i64, MOST_COUNTERS as i64));
    } else {
        for key in keys {
            check_declared_label(key, &place, errors);
        }
    }
}
