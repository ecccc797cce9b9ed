//! Node labels, zones and cordoned nodes.

use serde_json::{Value, json};

use super::flavour::Flavour;
use super::{Random, World};

/// Zones, with the beta labels of old clusters among them.
pub(super) struct Topology;

impl Flavour for Topology {
    fn name(&self) -> &'static str {
        "zones"
    }

    fn node(&self, random: &mut Random, _world: &World, node: &mut Value) {
        let labels = &mut node["metadata"]["labels"];
        if random.chance(85) {
            labels["topology.kubernetes.io/zone"] = (*random.pick(&["a", "b", "c"])).into();
        }
        if random.chance(70) {
            labels["topology.kubernetes.io/region"] = (*random.pick(&["north", "south"])).into();
        }
        if random.chance(10) {
            labels["failure-domain.beta.kubernetes.io/zone"] = (*random.pick(&["a", "z", ""])).into();
        }
        if random.chance(5) {
            labels["failure-domain.beta.kubernetes.io/region"] = "north".into();
        }
    }
}

/// Cordoned nodes and pods that do not mind.
pub(super) struct Cordon;

impl Flavour for Cordon {
    fn name(&self) -> &'static str {
        "cordoned nodes"
    }

    fn node(&self, random: &mut Random, _world: &World, node: &mut Value) {
        if random.chance(12) {
            node["spec"]["unschedulable"] = true.into();
        }
    }

    fn pod(&self, random: &mut Random, _world: &World, pod: &mut Value) {
        if random.chance(15) {
            let mut toleration = json!({"key": "node.kubernetes.io/unschedulable", "operator": "Exists"});
            if random.chance(60) {
                toleration["effect"] = (*random.pick(&["NoSchedule", "PreferNoSchedule"])).into();
            }
            super::world::push(&mut pod["spec"]["tolerations"], toleration);
        }
    }
}

/// The keys and values that labels of nodes and affinity terms share.
pub(super) const LABELS: &[(&str, &[&str])] = &[
    ("disk", &["ssd", "hdd", "nvme"]),
    ("example.com/pool", &["blue", "green", ""]),
    ("cores", &["2", "4", "16", "many", "-3", "+5", "007", "9223372036854775808"]),
    ("kubernetes.io/arch", &["amd64", "arm64"]),
    ("topology.kubernetes.io/zone", &["a", "b", "c"]),
];

/// Gives a node some of [`LABELS`], except zones.
pub(super) fn label_node(random: &mut Random, node: &mut Value) {
    for (key, values) in &LABELS[..4] {
        if random.chance(60) {
            node["metadata"]["labels"][*key] = label_value(random, values).into();
        }
    }
}

/// A value that a label may have: a sign at the front is not allowed.
fn label_value(random: &mut Random, values: &[&'static str]) -> &'static str {
    let value = *random.pick(values);
    if value.starts_with(['+', '-']) { "8" } else { value }
}
