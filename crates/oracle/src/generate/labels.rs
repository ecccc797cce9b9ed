//! Node labels, zones and cordoned nodes.

use serde_json::{Value, json};

use super::flavour::Flavour;
use super::{Random, World};

/// Zone names; a cluster uses the first few.
pub(super) const ZONES: &[&str] = &["a", "b", "c", "d", "e"];

const RACK: &str = "example.com/rack";

/// Topology keys for spreading and affinity. No node has a label with the last key.
const TOPOLOGY_KEYS: &[&str] = &[
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    RACK,
    "kubernetes.io/arch",
    "example.com/nowhere",
];

/// Picks one of [`TOPOLOGY_KEYS`], preferring common ones.
pub(super) fn topology_key(random: &mut Random) -> &'static str {
    TOPOLOGY_KEYS[*random.pick(&[0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 3, 3, 4, 5])]
}

/// Zones, racks and host names, including the beta labels of old clusters, and incorrect labels.
pub(super) struct Topology;

impl Flavour for Topology {
    fn name(&self) -> &'static str {
        "zones"
    }

    fn relates_pods(&self) -> bool {
        true
    }

    fn node(&self, random: &mut Random, world: &World, node: &mut Value) {
        let labels = &mut node["metadata"]["labels"];
        if random.chance(90) {
            labels["topology.kubernetes.io/zone"] = (*random.pick(&ZONES[..world.zones])).into();
        }
        if random.chance(75) {
            labels[RACK] = (*random.pick(&["r1", "r2", "r3", "r4", "r5", "r6"])).into();
        }
        match random.below(50) {
            0 | 1 => drop(labels.as_object_mut().map(|labels| labels.remove("kubernetes.io/hostname"))),
            2 => labels["kubernetes.io/hostname"] = random.pick(&world.node_names).as_str().into(),
            _ => {}
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

/// Cordoned nodes and pods that tolerate them.
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

/// Keys and values for node labels and affinity terms.
pub(super) const LABELS: &[(&str, &[&str])] = &[
    ("disk", &["ssd", "hdd", "nvme"]),
    ("example.com/pool", &["blue", "green", ""]),
    ("cores", &["2", "4", "16", "many", "-3", "+5", "007", "9223372036854775808"]),
    ("kubernetes.io/arch", &["amd64", "arm64"]),
    ("topology.kubernetes.io/zone", &["a", "b", "c"]),
];

/// Adds some of [`LABELS`], except zones, to a node.
pub(super) fn label_node(random: &mut Random, node: &mut Value) {
    for (key, values) in &LABELS[..4] {
        if random.chance(60) {
            node["metadata"]["labels"][*key] = label_value(random, values).into();
        }
    }
}

/// Picks a value that is allowed in a label: it must not start with a sign.
fn label_value(random: &mut Random, values: &[&'static str]) -> &'static str {
    let value = *random.pick(values);
    if value.starts_with(['+', '-']) { "8" } else { value }
}
