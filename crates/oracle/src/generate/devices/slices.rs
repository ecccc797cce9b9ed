//! Resource slices: pools of devices on one node, on several nodes and on all nodes.

use serde_json::{Value, json};

use super::{GPU, NIC};
use crate::generate::world::push;
use crate::generate::{Random, World, labels};

/// Generates the slices of all pools.
pub(super) fn all(random: &mut Random, world: &World) -> Vec<Value> {
    let mut slices = Vec::new();
    let is_partitioned = random.chance(35);
    for node in &world.node_names {
        for driver in [GPU, NIC] {
            if random.chance(if driver == GPU { 80 } else { 40 }) {
                let partitions = is_partitioned && driver == GPU && random.chance(70);
                slices.extend(pool(random, world, driver, node, &Reach::Node(node), partitions));
            }
        }
    }
    if random.chance(30) {
        slices.extend(pool(random, world, NIC, "fabric", &Reach::All, false));
    }
    if random.chance(30) {
        slices.extend(pool(random, world, GPU, "zone", &Reach::Zone, false));
    }
    if random.chance(30) {
        let is_partitioned = random.chance(30);
        slices.extend(pool(random, world, GPU, "racks", &Reach::PerDevice, is_partitioned));
    }
    slices
}

/// Generates the slices of a new node.
pub(super) fn of_node(random: &mut Random, world: &World, node: &str, is_partitioned: bool) -> Vec<Value> {
    let driver = *random.pick(&[GPU, GPU, NIC]);
    pool(random, world, driver, node, &Reach::Node(node), is_partitioned)
}

/// The nodes that can use the devices of a pool.
enum Reach<'a> {
    Node(&'a str),
    All,
    Zone,
    PerDevice,
}

impl Reach<'_> {
    fn set(&self, random: &mut Random, world: &World, spec: &mut Value) {
        match self {
            Self::Node(name) => spec["nodeName"] = (*name).into(),
            Self::All => spec["allNodes"] = true.into(),
            Self::Zone => spec["nodeSelector"] = zone_selector(random, world),
            Self::PerDevice => spec["perDeviceNodeSelection"] = true.into(),
        }
    }
}

fn zone_selector(random: &mut Random, world: &World) -> Value {
    let zone = *random.pick(&labels::ZONES[..world.zones]);
    let key = "topology.kubernetes.io/zone";
    let expression = json!({"key": key, "operator": random.pick(&["In", "In", "NotIn"]), "values": [zone]});
    json!({"nodeSelectorTerms": [{"matchExpressions": [expression]}]})
}

fn pool(
    random: &mut Random,
    world: &World,
    driver: &str,
    name: &str,
    reach: &Reach<'_>,
    partitions: bool,
) -> Vec<Value> {
    let generation = random.range(1, 3);
    let count = *random.pick(&[1, 1, 1, 2, 2, 3]);
    let mut contents: Vec<Value> = Vec::new();
    let mut number = 0;
    let mut last = Value::Null;
    if partitions {
        contents.push(json!({"sharedCounters": counter_sets()}));
    }
    for _ in 0..count {
        let mut devices = Vec::new();
        let in_slice = random.range(0, 3);
        for place in 1..=in_slice {
            let mut device = device(random, driver, number, partitions);
            if matches!(reach, Reach::PerDevice) {
                match random.below(4) {
                    0 | 1 => device["nodeName"] = random.pick(&world.node_names).as_str().into(),
                    2 => device["nodeSelector"] = zone_selector(random, world),
                    _ => device["allNodes"] = true.into(),
                }
            }
            if device["name"] == last["name"] {
                // kube-scheduler's scores keep the answer of a selector by the device's name.
                for field in ["attributes", "capacity"] {
                    device[field] = last[field].clone();
                }
            }
            // The API server rejects two devices of one name in a slice, but not in a pool.
            let repeats = random.chance(2) && place == in_slice;
            number += usize::from(!repeats);
            last = device.clone();
            devices.push(device);
        }
        contents.push(json!({"devices": devices}));
    }
    let mut total = contents.len();
    if random.chance(6) {
        total += 1;
    }
    let selection = zone_selector(random, world);
    let mut slices = Vec::new();
    for (index, content) in contents.into_iter().enumerate() {
        let mut spec = content;
        spec["driver"] = driver.into();
        spec["pool"] = json!({"name": name, "generation": generation, "resourceSliceCount": total});
        reach.set(random, world, &mut spec);
        if matches!(reach, Reach::Zone) {
            spec["nodeSelector"] = selection.clone();
        }
        if random.chance(4) {
            // The slice is from before the pool changed.
            spec["pool"]["generation"] = (generation - 1).into();
        }
        let full = format!("{name}-{}-{index}", &driver[..3]);
        slices.push(json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
            "metadata": {"name": full, "uid": format!("slice-{full}"), "resourceVersion": "1"},
            "spec": spec,
        }));
    }
    slices
}

fn counter_sets() -> Value {
    json!([
        {"name": "board", "counters": {"memory": {"value": "40Gi"}, "slots": {"value": "4"}}},
        {"name": "spare", "counters": {"memory": {"value": "8Gi"}}},
    ])
}

fn device(random: &mut Random, driver: &str, number: usize, partitions: bool) -> Value {
    let mut device = json!({"name": format!("dev-{number}")});
    attributes(random, driver, number, &mut device);
    if random.chance(70) {
        capacity(random, driver, &mut device);
    }
    if random.chance(20) {
        device["allowMultipleAllocations"] = random.chance(90).into();
    }
    if partitions && random.chance(85) {
        for _ in 0..*random.pick(&[1, 1, 1, 2]) {
            let set = *random.pick(&["board", "board", "board", "board", "board", "spare"]);
            let set = if random.chance(2) { "no-such-set" } else { set };
            let mut counters = json!({"memory": {"value": random.pick(&["10Gi", "20Gi", "40Gi", "5Gi"])}});
            if set == "board" && random.chance(60) {
                counters["slots"] = json!({"value": random.pick(&["1", "2", "4"])});
            }
            push(&mut device["consumesCounters"], json!({"counterSet": set, "counters": counters}));
        }
    }
    if random.chance(15) {
        let key = *random.pick(&["example.com/broken", "example.com/maintenance"]);
        let effect = *random.pick(&["NoSchedule", "NoSchedule", "NoExecute", "None"]);
        let taint = json!({"key": key, "value": random.pick(&["", "yes"]), "effect": effect,
            "timeAdded": "2026-01-01T00:00:00Z"});
        push(&mut device["taints"], taint);
    }
    if random.chance(8) {
        device["bindingConditions"] = json!(["example.com/attached"]);
        device["bindingFailureConditions"] = json!(["example.com/failed"]);
        if random.chance(50) {
            device["bindsToNode"] = true.into();
        }
    }
    device
}

fn attributes(random: &mut Random, driver: &str, number: usize, device: &mut Value) {
    let attributes = &mut device["attributes"];
    *attributes = json!({"index": {"int": number}});
    if random.chance(85) {
        // A name without a domain belongs to the driver.
        let key = if random.chance(20) { format!("{driver}/model") } else { "model".to_owned() };
        attributes[key] = json!({"string": random.pick(&["a", "a", "b", "c"])});
    }
    if random.chance(60) {
        attributes["healthy"] = json!({"bool": random.chance(80)});
    }
    if random.chance(60) {
        attributes["version"] = json!({"version": random.pick(&["1.0.0", "1.5.1", "2.0.0-rc.1", "2.3.4"])});
    }
    if random.chance(60) {
        let value = if random.chance(90) { json!({"int": random.below(2)}) } else { json!({"string": "0"}) };
        attributes["example.com/numa"] = value;
    }
}

fn capacity(random: &mut Random, driver: &str, device: &mut Value) {
    let mut memory = json!({"value": random.pick(&["16Gi", "40Gi", "80Gi"])});
    match random.below(8) {
        0 => memory["requestPolicy"] = json!({"default": "4Gi", "validValues": ["2Gi", "4Gi", "8Gi"]}),
        1 => {
            memory["requestPolicy"] =
                json!({"default": "2Gi", "validRange": {"min": "1Gi", "max": "12Gi", "step": "1Gi"}});
        }
        2 => memory["requestPolicy"] = json!({"default": "1Gi", "validRange": {"min": "1Gi"}}),
        3 => memory["requestPolicy"] = json!({"default": "8Gi"}),
        _ => {}
    }
    let key = if random.chance(15) { format!("{driver}/memory") } else { "memory".to_owned() };
    device["capacity"][key] = memory;
    if random.chance(40) {
        device["capacity"]["bandwidth"] = json!({"value": random.pick(&["10", "10", "2500m", "100"])});
    }
}
