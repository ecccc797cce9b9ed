//! Rules that taint devices.

use serde_json::{Value, json};

use super::{GPU, NIC};
use crate::generate::{Random, World};

/// Generates rules for some of the devices.
pub(super) fn all(random: &mut Random, world: &World) -> Vec<Value> {
    (0..random.range(1, 2)).map(|index| rule(random, world, index)).collect()
}

/// Generates one rule.
pub(super) fn rule(random: &mut Random, world: &World, index: usize) -> Value {
    let name = format!("rule-{index}");
    let effect = *random.pick(&["NoSchedule", "NoSchedule", "NoExecute", "None"]);
    let mut spec = json!({"taint": {
        "key": random.pick(&["example.com/broken", "example.com/maintenance"]),
        "value": random.pick(&["", "yes"]),
        "effect": effect,
        "timeAdded": "2026-01-01T00:00:00Z",
    }});
    if random.chance(95) {
        spec["deviceSelector"] = selector(random, world);
    }
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule",
        "metadata": {"name": name, "uid": name, "resourceVersion": "1"},
        "spec": spec,
    })
}

fn selector(random: &mut Random, world: &World) -> Value {
    let mut selector = json!({});
    if random.chance(50) {
        selector["driver"] = (*random.pick(&[GPU, NIC])).into();
    }
    if random.chance(50) {
        let node = random.pick(&world.node_names).clone();
        selector["pool"] = (*random.pick(&[node.as_str(), &node, "fabric", "zone", "racks"])).into();
    }
    if random.chance(50) {
        selector["device"] = format!("dev-{}", random.below(4)).into();
    }
    selector
}
