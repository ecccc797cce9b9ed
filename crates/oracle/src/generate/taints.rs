//! Taints and tolerations.

use serde_json::{Value, json};

use super::flavour::Flavour;
use super::world::push;
use super::{Random, World};

const KEYS: &[&str] = &["dedicated", "example.com/gpu", "node.kubernetes.io/not-ready", "maintenance"];
const VALUES: &[&str] = &["", "a", "b", "10"];
const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Taints of nodes and tolerations of pods.
pub(super) struct Taints;

impl Flavour for Taints {
    fn name(&self) -> &'static str {
        "taints"
    }

    fn node(&self, random: &mut Random, _world: &World, node: &mut Value) {
        for _ in 0..*random.pick(&[0, 0, 0, 0, 1, 1, 2, 3]) {
            let taint = taint(random);
            let is_same = |other: &Value| other["key"] == taint["key"] && other["effect"] == taint["effect"];
            if !node["spec"]["taints"].as_array().is_some_and(|taints| taints.iter().any(is_same)) {
                push(&mut node["spec"]["taints"], taint);
            }
        }
    }

    fn pod(&self, random: &mut Random, world: &World, pod: &mut Value) {
        for _ in 0..*random.pick(&[0, 0, 1, 1, 2, 4]) {
            push(&mut pod["spec"]["tolerations"], toleration(random, world));
        }
    }
}

/// Generates a taint with or without a value.
pub(crate) fn taint(random: &mut Random) -> Value {
    let mut taint = json!({"key": random.pick(KEYS), "effect": random.pick(EFFECTS)});
    let value = *random.pick(VALUES);
    if !value.is_empty() {
        taint["value"] = value.into();
    }
    taint
}

fn toleration(random: &mut Random, world: &World) -> Value {
    if random.chance(6) {
        return json!({"operator": "Exists"});
    }
    let mut toleration = json!({"key": random.pick(KEYS)});
    if !world.admitted && random.chance(8) {
        toleration = random
            .pick(&[
                json!({"operator": "Equal", "value": "a"}),
                json!({"key": "dedicated", "operator": "Lt", "value": "11"}),
                json!({"key": "dedicated", "operator": "Gt", "value": "9"}),
                json!({"key": "dedicated", "operator": "Exists", "value": "ignored"}),
                json!({"key": "dedicated", "operator": "Near"}),
            ])
            .clone();
    } else if random.chance(40) {
        toleration["operator"] = "Exists".into();
    } else {
        toleration["value"] = (*random.pick(VALUES)).into();
        if random.chance(50) {
            toleration["operator"] = "Equal".into();
        }
    }
    if random.chance(60) {
        toleration["effect"] = (*random.pick(EFFECTS)).into();
    }
    if toleration["effect"] == "NoExecute" && random.chance(50) {
        toleration["tolerationSeconds"] = random.range(0, 300).into();
    }
    toleration
}
