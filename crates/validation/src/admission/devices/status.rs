//! Status of claims: allocation, reservations, and the status of devices.

use std::{collections::BTreeSet, net::IpAddr};

use serde_json::{Value, json};

use super::{
    super::{Errors, conditions, pod_checks},
    claim::Requests,
    each, each_once, names,
    selector::{MOST, check_choice, check_configuration, check_object},
    shared_device,
};
use crate::{
    FieldError,
    value::{list, present, remove, text},
};

/// Maximum number of consumers of a claim.
const MOST_CONSUMERS: usize = 256;
/// Maximum number of conditions of a device or a taint rule.
const MOST_CONDITIONS: usize = 8;
/// Maximum number of binding conditions of a device.
const MOST_BINDING_CONDITIONS: usize = 4;
/// Maximum number of addresses of a device.
const MOST_ADDRESSES: usize = 16;

/// Removes from `claim` the status of the devices that `old` holds and `claim` no longer holds.
pub(super) fn drop_released(old: &Value, claim: &mut Value) {
    let held = |claim: &Value| -> BTreeSet<[String; 4]> {
        let results = list(claim, "/status/allocation/devices/results").iter();
        results.map(|result| shared_device(result).map(str::to_owned)).collect()
    };
    let (before, now) = (held(old), held(claim));
    let Some(devices) = claim.pointer_mut("/status/devices").and_then(Value::as_array_mut) else { return };
    devices.retain(|device| {
        let device = shared_device(device).map(str::to_owned);
        now.contains(&device) || !before.contains(&device)
    });
    if devices.is_empty() {
        remove(&mut claim["status"], "devices");
    }
}

pub(super) fn check(claim: &Value, old: &Value, errors: &mut Errors) {
    let (status, before) = (&claim["status"], &old["status"]);
    let uid = |consumer: &Value| text(consumer, "/uid").to_owned();
    let place = "status.reservedFor";
    let consumers = (&status["reservedFor"], "resource.ResourceClaimConsumerReference");
    each_once(consumers, place, MOST_CONSUMERS, errors, uid, |consumer, place, errors| {
        for part in ["resource", "name", "uid"] {
            if consumer[part].as_str().unwrap_or_default().is_empty() {
                errors.push(FieldError::required(format!("{place}.{part}"), ""));
            }
        }
    });
    let allocation = present(status, "/allocation");
    check_devices(status, errors);
    if !list(status, "/reservedFor").is_empty() {
        if allocation.is_none() {
            errors.push(FieldError::forbidden(place, "may not be specified when `allocated` is not set"));
        } else if present(claim, "/metadata/deletionTimestamp").is_some() {
            let had = list(before, "/reservedFor");
            if list(status, "/reservedFor").iter().any(|consumer| !had.contains(consumer)) {
                let why = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` \
                           are set";
                errors.push(FieldError::forbidden(place, why));
            }
        }
    }
    match (present(before, "/allocation"), allocation) {
        (Some(old), Some(new)) if old != new => {
            let (value, why) = match errors.has_declarations() {
                true => (Value::Null, "field cannot be modified once set"),
                false => (new.clone(), "field is immutable"),
            };
            let error = FieldError::invalid("status.allocation", value, why);
            errors.declared(|errors| errors.push(error));
        }
        (None, Some(new)) => {
            check_allocation(new, &Requests::of(&claim["spec"]["devices"]), "status.allocation", errors);
        }
        _ => {}
    }
}

fn check_allocation(allocation: &Value, requests: &Requests<'_>, place: &str, errors: &mut Errors) {
    let devices = &allocation["devices"];
    each(&devices["results"], &format!("{place}.devices.results"), MOST, errors, |result, place, errors| {
        requests.check(text(result, "/request"), &format!("{place}.request"), errors);
        names::check_declared_driver(text(result, "/driver"), &format!("{place}.driver"), errors);
        names::check_declared_pool(text(result, "/pool"), &format!("{place}.pool"), errors);
        names::check_label(text(result, "/device"), &format!("{place}.device"), errors);
        check_binding_conditions(result, place, errors);
        check_share(result, place, errors);
    });
    let configs = format!("{place}.devices.config");
    each(&devices["config"], &configs, 2 * MOST, errors, |config, place, errors| {
        const SOURCES: [&str; 2] = ["FromClaim", "FromClass"];
        let (source, field) = (text(config, "/source"), format!("{place}.source"));
        errors.declared(|errors| check_choice(source, &SOURCES, &field, errors));
        requests.check_all(&config["requests"], &format!("{place}.requests"), errors);
        check_configuration(config, place, errors);
    });
    if let Some(selector) = present(allocation, "/nodeSelector") {
        pod_checks::check_node_selector(selector, &format!("{place}.nodeSelector"), errors);
    }
}

/// Checks the driver, pool and name of a device.
fn check_identity(device: &Value, place: &str, errors: &mut Errors) {
    names::check_driver(text(device, "/driver"), &format!("{place}.driver"), errors);
    names::check_pool(text(device, "/pool"), &format!("{place}.pool"), errors);
    names::check_label(text(device, "/device"), &format!("{place}.device"), errors);
}

fn check_share(device: &Value, place: &str, errors: &mut Errors) {
    if let Some(share) = device["shareID"].as_str() {
        names::check_share(share, &format!("{place}.shareID"), errors);
    }
}

/// Checks the binding conditions and binding failure conditions of a device.
pub(super) fn check_binding_conditions(device: &Value, place: &str, errors: &mut Errors) {
    const WANTED: &str = "bindingConditions";
    const FAILED: &str = "bindingFailureConditions";
    for name in [WANTED, FAILED] {
        let place = format!("{place}.{name}");
        each(&device[name], &place, MOST_BINDING_CONDITIONS, errors, |condition, place, errors| {
            names::check_label_key(condition.as_str().unwrap_or_default(), place, errors);
        });
    }
    let (wanted, failed) = (list(&device[WANTED], ""), list(&device[FAILED], ""));
    for (i, condition) in wanted.iter().enumerate().filter(|(i, condition)| wanted[..*i].contains(condition))
    {
        errors.push(FieldError::duplicate(format!("{place}.{WANTED}[{i}]"), condition.clone()));
    }
    for (i, condition) in failed.iter().enumerate() {
        let place = format!("{place}.{FAILED}[{i}]");
        if failed[..i].contains(condition) {
            errors.push(FieldError::duplicate(&place, condition.clone()));
        }
        if wanted.contains(condition) {
            let why = "bindingFailureConditions must not overlap with bindingConditions";
            errors.push(FieldError::invalid(&place, condition.clone(), why));
        }
    }
    let one_side = match (wanted, failed) {
        ([], [_, ..]) => (WANTED, &device[WANTED], "are required to use bindingFailureConditions"),
        ([_, ..], []) => (FAILED, &device[FAILED], "are required to use bindingConditions"),
        _ => return,
    };
    let (name, value, why) = one_side;
    errors.push(FieldError::invalid(format!("{place}.{name}"), value.clone(), format!("{name} {why}")));
}

fn check_devices(status: &Value, errors: &mut Errors) {
    let results = list(status, "/allocation/devices/results");
    let allocated: BTreeSet<[&str; 4]> = results.iter().map(shared_device).collect();
    let identity = |device: &Value| shared_device(device).join("/");
    let devices = (&status["devices"], "resource.AllocatedDeviceStatus");
    each_once(devices, "status.devices", usize::MAX, errors, identity, |device, place, errors| {
        check_identity(device, place, errors);
        check_share(device, place, errors);
        let key = shared_device(device);
        if !allocated.contains(&key) {
            let [driver, pool, name, share] = key;
            let shown = json!({"Driver": driver, "Pool": pool, "Device": name, "ShareID": share});
            errors.push(FieldError::invalid(place, shown, "must be an allocated device in the claim"));
        }
        check_conditions(&device["conditions"], &format!("{place}.conditions"), errors);
        if let Some(data) = present(device, "/data") {
            check_object(data, &format!("{place}.data"), errors);
        }
        check_network(&device["networkData"], &format!("{place}.networkData"), errors);
    });
}

pub(super) fn check_conditions(conditions: &Value, place: &str, errors: &mut Errors) {
    let count = list(conditions, "").len();
    if count > MOST_CONDITIONS {
        errors.push(FieldError::too_many(place, count as i64, MOST_CONDITIONS as i64));
    }
    conditions::check(conditions, place, errors);
}

fn check_network(data: &Value, place: &str, errors: &mut Errors) {
    let check_length = |name: &str, most: usize, errors: &mut Errors| {
        if data[name].as_str().is_some_and(|text| text.len() > most) {
            let error = FieldError::too_long(format!("{place}.{name}"), most);
            errors.declared(|errors| errors.push(error));
        }
    };
    // The declaration of the hardware address is the last one.
    let is_last = errors.has_declarations();
    check_length("interfaceName", 256, errors);
    if !is_last {
        check_length("hardwareAddress", 128, errors);
    }
    check_addresses(&data["ips"], &format!("{place}.ips"), errors);
    if is_last {
        check_length("hardwareAddress", 128, errors);
    }
}

fn check_addresses(addresses: &Value, place: &str, errors: &mut Errors) {
    let address = |address: &Value| address.as_str().unwrap_or_default().to_owned();
    each_once((addresses, ""), place, MOST_ADDRESSES, errors, address, |address, place, errors| {
        let address = address.as_str().unwrap_or_default();
        match canonical(address) {
            None => {
                let why = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)";
                errors.push(FieldError::invalid(place, address, why));
            }
            Some(canonical) if canonical != address => {
                let why = format!("must be in canonical form ({canonical:?})");
                errors.push(FieldError::invalid(place, address, why));
            }
            Some(_) => {}
        }
    });
}

/// Returns the canonical form of an address in CIDR form; `None` if the address is invalid.
fn canonical(address: &str) -> Option<String> {
    let (ip, length) = address.split_once('/')?;
    let digits = length.bytes().all(|b| b.is_ascii_digit()) && !length.is_empty();
    let length: u8 = length.parse().ok().filter(|_| digits)?;
    let ip: IpAddr = ip.parse().ok()?;
    let most = if ip.is_ipv4() { 32 } else { 128 };
    if length > most {
        return None;
    }
    let plain = ip.to_canonical();
    let length = if plain.is_ipv4() && !ip.is_ipv4() { length.saturating_sub(96) } else { length };
    Some(format!("{plain}/{length}"))
}
