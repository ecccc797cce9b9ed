//! Random slices, classes and claims. All names come from small sets, so that references often match.

use harbormaster_api::{Release, features::Features};
use harbormaster_testkit::random::Dice;
use serde_json::{Map, Value, json};

use crate::devices::DeviceGates;

pub(super) const NODES: [&str; 3] = ["n0", "n1", "n2"];
pub(super) const ZONES: [&str; 2] = ["a", "b"];
const DRIVERS: [&str; 2] = ["x.example.com", "y.example.com"];
const CLASSES: [&str; 4] = ["any", "x", "big", "odd"];
const CAPACITIES: [&str; 2] = ["memory", "bandwidth"];

/// Feature gates. In most cases, all gates that vary are on.
pub(super) fn gates(dice: &mut Dice) -> DeviceGates {
    let is_usual = !dice.one_in(4);
    let release = dice.pick(Release::ALL);
    let mut enabled = || is_usual || !dice.one_in(3);
    DeviceGates {
        admin_access: enabled(),
        prioritized_list: enabled(),
        partitionable_devices: enabled(),
        device_taints: enabled(),
        binding_conditions: enabled(),
        consumable_capacity: enabled(),
        ..DeviceGates::of(Features::of(release))
    }
}

/// A random slice with this name.
pub(super) fn slice(dice: &mut Dice, name: &str) -> Value {
    // Slices s0 and s1 usually form one pool: s0 has counters, and s1 has devices that consume them. Every other slice
    // is usually a pool of its own.
    let is_partitioned = matches!(name, "s0" | "s1");
    let is_odd = dice.one_in(12);
    let driver = if is_partitioned && !is_odd { DRIVERS[0] } else { dice.pick(&DRIVERS) };
    let pool = match name {
        "s0" | "s1" => "p0",
        _ if is_odd => dice.pick(&["p0", "p2", "p3"]),
        "s2" => "p2",
        "s3" => "p3",
        _ => "p4",
    };
    let mut spec = json!({
        "driver": driver,
        "pool": {
            "name": pool,
            "generation": if dice.one_in(20) { 2 } else { 1 },
            "resourceSliceCount": if is_partitioned || dice.one_in(20) { 2 } else { 1 },
        },
    });
    let per_device = dice.one_in(6);
    match dice.below(7) {
        _ if per_device => spec["perDeviceNodeSelection"] = json!(true),
        0 => spec["allNodes"] = json!(true),
        1 => spec["nodeSelector"] = in_zone(dice),
        _ => spec["nodeName"] = json!(dice.pick(&NODES)),
    }
    if name == "s1" && dice.one_in(2) {
        spec.as_object_mut().unwrap().remove("nodeName");
        spec["allNodes"] = json!(true);
    }
    if name == "s0" {
        let counters = json!({"slots": {"value": dice.pick(&["1", "2", "3"])}, "mem": {"value": "8Gi"}});
        let mut sets = vec![json!({"name": "c0", "counters": counters})];
        if dice.one_in(4) {
            sets.push(
                json!({"name": dice.pick(&["c0", "c1", "c1", "c1"]), "counters": {"slots": {"value": "2"}}}),
            );
        }
        spec["sharedCounters"] = Value::Array(sets);
    } else {
        let devices = (0..dice.below(6)).map(|at| {
            // Pools with the same device twice are invalid.
            let device = if dice.one_in(100) { "d0".to_owned() } else { format!("{name}-d{at}") };
            device_of(dice, &device, driver, per_device)
        });
        spec["devices"] = devices.collect();
    }
    json!({"metadata": {"name": name, "uid": name, "resourceVersion": "1"}, "spec": spec})
}

fn in_zone(dice: &mut Dice) -> Value {
    let zone = json!({"key": "zone", "operator": "In", "values": [dice.pick(&ZONES)]});
    let mut term = json!({"matchExpressions": [zone]});
    if dice.one_in(3) {
        let name = json!({"key": "metadata.name", "operator": "NotIn", "values": [dice.pick(&NODES)]});
        term["matchFields"] = json!([name]);
    }
    json!({"nodeSelectorTerms": [term]})
}

fn device_of(dice: &mut Dice, name: &str, driver: &str, per_device: bool) -> Value {
    let mut attributes = Map::new();
    if !dice.one_in(6) {
        attributes.insert("model".to_owned(), json!({"string": dice.pick(&["a", "b", "c"])}));
    }
    if !dice.one_in(3) {
        let name = if dice.one_in(3) { format!("{driver}/slot") } else { "slot".to_owned() };
        let slot = if dice.one_in(6) { json!({"bool": true}) } else { json!({"int": dice.below(3)}) };
        attributes.insert(name, slot);
    }
    if !dice.one_in(3) {
        let version = json!({"version": dice.pick(&["1.0.0", "1.1.0"])});
        attributes.insert("shared.example.com/version".to_owned(), version);
    }
    let mut device = json!({"name": name, "attributes": attributes});
    if per_device {
        match dice.below(3) {
            0 => device["allNodes"] = json!(true),
            1 => device["nodeSelector"] = in_zone(dice),
            _ => device["nodeName"] = json!(dice.pick(&NODES)),
        }
    }
    if dice.one_in(2) {
        for name in CAPACITIES {
            if !dice.one_in(3) {
                device["capacity"][name] = capacity(dice);
            }
        }
    }
    if dice.one_in(3) {
        device["allowMultipleAllocations"] = json!(true);
    }
    if name.starts_with("s1") && !dice.one_in(5) {
        let set = if dice.one_in(20) { "c1" } else { "c0" };
        let mut counters = json!({"slots": {"value": dice.pick(&["0", "1", "1", "2"])}});
        if set == "c0" && dice.one_in(3) {
            counters["mem"] = json!({"value": dice.pick(&["2Gi", "5Gi"])});
        }
        device["consumesCounters"] = json!([{"counterSet": set, "counters": counters}]);
    }
    if dice.one_in(8) {
        let effect = dice.pick(&["NoSchedule", "NoExecute", "None"]);
        device["taints"] = json!([{"key": dice.pick(&["t", "u"]), "value": "v", "effect": effect}]);
    }
    if dice.one_in(10) {
        device["bindingConditions"] = json!(["ready"]);
        device["bindingFailureConditions"] = json!(["broken"]);
    }
    if dice.one_in(10) {
        device["bindsToNode"] = json!(true);
    }
    device
}

fn capacity(dice: &mut Dice) -> Value {
    let mut capacity = json!({"value": dice.pick(&["4Gi", "8Gi", "10"])});
    match dice.below(4) {
        0 => {
            let values = ["1Gi", "2Gi", "8Gi"];
            capacity["requestPolicy"] = json!({"default": dice.pick(&values), "validValues": values});
        }
        1 => {
            let mut range = json!({"min": "1Gi"});
            if dice.one_in(2) {
                range["max"] = json!("6Gi");
            }
            if dice.one_in(2) {
                range["step"] = json!("512Mi");
            }
            capacity["requestPolicy"] = json!({"default": "2Gi", "validRange": range});
        }
        _ => {}
    }
    capacity
}

/// A random rule that taints devices.
pub(super) fn taint_rule(dice: &mut Dice, name: &str) -> Value {
    let mut selector = json!({});
    for (field, value) in
        [("driver", dice.pick(&DRIVERS)), ("pool", dice.pick(&["p0", "p2"])), ("device", "s2-d0")]
    {
        if dice.one_in(2) {
            selector[field] = json!(value);
        }
    }
    let selector = if dice.one_in(6) { json!(null) } else { selector };
    let effect = dice.pick(&["NoSchedule", "NoExecute", "None"]);
    let taint = json!({"key": dice.pick(&["t", "u"]), "value": "v", "effect": effect});
    json!({"metadata": {"name": name}, "spec": {"deviceSelector": selector, "taint": taint}})
}

/// All classes. The selector of one class fails for some devices.
pub(super) fn classes() -> Vec<Value> {
    let configuration = |name: &str| json!({"opaque": {"driver": DRIVERS[0], "parameters": {"class": name}}});
    let class = |name: &str, selectors: &[&str], config: &[&str]| {
        let selectors: Vec<_> = selectors.iter().map(|text| json!({"cel": {"expression": text}})).collect();
        let config: Vec<_> = config.iter().map(|name| configuration(name)).collect();
        json!({"metadata": {"name": name}, "spec": {"selectors": selectors, "config": config}})
    };
    vec![
        class(CLASSES[0], &[], &[]),
        class(CLASSES[1], &["device.driver == 'x.example.com'"], &["one", "two"]),
        class(CLASSES[2], &["'memory' in device.capacity[device.driver]", "true"], &["big"]),
        class(CLASSES[3], &["device.attributes['x.example.com'].slot != 2"], &[]),
    ]
}

/// A random claim with this name.
pub(super) fn claim(dice: &mut Dice, name: &str) -> Value {
    let requests: Vec<Value> = (0..=dice.below(3).saturating_sub(1))
        .map(|at| {
            let name = format!("r{at}");
            if dice.one_in(4) {
                let alternatives = (0..=dice.below(3)).map(|at| {
                    let mut demand = demand(dice);
                    demand["name"] = json!(format!("s{at}"));
                    demand
                });
                return json!({"name": name, "firstAvailable": alternatives.collect::<Vec<_>>()});
            }
            let mut demand = demand(dice);
            if dice.one_in(10) {
                demand["adminAccess"] = json!(!dice.one_in(5));
            }
            json!({"name": name, "exactly": demand})
        })
        .collect();
    let mut devices = json!({"requests": requests});
    let scope = |dice: &mut Dice| match dice.below(6) {
        0 => json!(["r0"]),
        1 => json!(["r0", "r1"]),
        2 => json!(["r0/s0", "r1"]),
        _ => json!([]),
    };
    let constraints: Vec<_> = (0..dice.below(5).saturating_sub(2))
        .map(|_| {
            let kind = dice.pick(&["matchAttribute", "matchAttribute", "distinctAttribute"]);
            let attributes = ["x.example.com/slot", "y.example.com/model", "shared.example.com/version"];
            json!({kind: dice.pick(&attributes), "requests": scope(dice)})
        })
        .collect();
    devices["constraints"] = json!(constraints);
    if dice.one_in(3) {
        let opaque = json!({"driver": DRIVERS[1], "parameters": {"a": 1}});
        devices["config"] = json!([{"requests": scope(dice), "opaque": opaque}]);
    }
    json!({
        "metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1"},
        "spec": {"devices": devices},
    })
}

fn demand(dice: &mut Dice) -> Value {
    let class = if dice.one_in(25) { CLASSES[3] } else { dice.pick(&CLASSES[..3]) };
    let mut demand = json!({"deviceClassName": class, "allocationMode": "ExactCount", "count": 1});
    match dice.below(8) {
        0 => {
            demand["allocationMode"] = json!("All");
            demand["count"] = json!(0);
        }
        1 | 2 => demand["count"] = json!(2 + dice.below(2)),
        _ => {}
    }
    if dice.one_in(4) {
        let expression = dice.pick(&[
            "device.attributes[device.driver].model != 'c'",
            "'model' in device.attributes[device.driver]",
            "'model' in device.attributes[device.driver] && device.attributes[device.driver].model == 'b'",
            "device.allowMultipleAllocations == true",
            "has(device.capacity[device.driver].memory)",
        ]);
        demand["selectors"] = json!([{"cel": {"expression": expression}}]);
    }
    if dice.one_in(4) {
        demand["tolerations"] = json!([{"key": "t", "operator": dice.pick(&["Exists", "Equal"])}]);
    }
    if dice.one_in(5) {
        let amount = dice.pick(&["1Gi", "1536Mi", "3Gi", "1", "100"]);
        demand["capacity"] = json!({"requests": {dice.pick(&CAPACITIES): amount}});
    }
    demand
}
