//! Labels and selectors of pods.

use serde_json::{Value, json};

use super::flavour::Flavour;
use super::world::push;
use super::{Random, World};

/// Labels of pods.
const LABELS: &[(&str, &[&str])] = &[
    ("app", &["web", "db", "job"]),
    ("tier", &["front", "back"]),
    ("version", &["v1", "v2", ""]),
    ("example.com/track", &["stable", "canary"]),
];

/// Additional labels of pods, and pods without labels.
pub(super) struct PodLabels;

impl Flavour for PodLabels {
    fn name(&self) -> &'static str {
        "pod labels"
    }

    fn relates_pods(&self) -> bool {
        true
    }

    fn share(&self) -> usize {
        80
    }

    fn pod(&self, random: &mut Random, _world: &World, pod: &mut Value) {
        if random.chance(4) {
            pod["metadata"]["labels"] = Value::Null;
            return;
        }
        for (key, values) in &LABELS[1..] {
            if random.chance(40) {
                pod["metadata"]["labels"][*key] = (*random.pick(values)).into();
            }
        }
    }
}

/// Generates a `labelSelector` for a field of `pod`: null, `{}`, or a selector of the pod itself, of other pods, or of
/// no pods.
pub(super) fn selector(random: &mut Random, world: &World, pod: &Value) -> Value {
    if !world.admitted && random.chance(2) {
        return broken(random);
    }
    match random.below(100) {
        0..4 => Value::Null,
        4..9 => json!({}),
        9..50 => own(random, pod),
        50..70 => {
            let (key, values) = random.pick(LABELS);
            json!({"matchLabels": {*key: random.pick(values)}})
        }
        _ => {
            let mut selector = json!({});
            for _ in 0..random.range(1, 2) {
                push(&mut selector["matchExpressions"], expression(random, LABELS));
            }
            if random.chance(15) {
                selector["matchLabels"] = json!({"app": "web"});
            }
            selector
        }
    }
}

/// Generates a selector for one of the pod's own labels.
pub(super) fn own(random: &mut Random, pod: &Value) -> Value {
    let labels: Vec<(&String, &Value)> =
        pod["metadata"]["labels"].as_object().into_iter().flatten().collect();
    if labels.is_empty() {
        return json!({"matchLabels": {"app": "web"}});
    }
    let (key, value) = *random.pick(&labels);
    json!({"matchLabels": {key: value}})
}

/// Generates a requirement on one of `labels`, with any operator.
pub(super) fn expression(random: &mut Random, labels: &[(&str, &[&'static str])]) -> Value {
    let (key, values) = random.pick(labels);
    match *random.pick(&["In", "In", "In", "NotIn", "Exists", "DoesNotExist"]) {
        operator @ ("In" | "NotIn") => {
            let count = random.range(1, 2);
            json!({"key": key, "operator": operator, "values": random.sample(values, count)})
        }
        operator => json!({"key": key, "operator": operator}),
    }
}

/// Picks up to two label keys, which the pod may lack. An API server rejects keys that the selector uses, and any keys
/// if there is no selector, so such keys are left out if the pod must be admitted.
pub(super) fn label_keys(random: &mut Random, world: &World, selector: &Value) -> Vec<&'static str> {
    if world.admitted && selector.is_null() {
        return Vec::new();
    }
    let keys = ["tier", "version", "example.com/track", "nobody-has-this"];
    let text = selector.to_string();
    let count = random.range(1, 2);
    let mut keys = random.sample(&keys, count);
    keys.retain(|key| !world.admitted || !text.contains(key));
    keys
}

/// Picks a selector that an API server rejects.
fn broken(random: &mut Random) -> Value {
    random
        .pick(&[
            json!({"matchLabels": {"app": "not a label value!"}}),
            json!({"matchLabels": {"-bad-": "x"}}),
            json!({"matchExpressions": [{"key": "app", "operator": "In"}]}),
            json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": []}]}),
            json!({"matchExpressions": [{"key": "app", "operator": "Exists", "values": ["web"]}]}),
            json!({"matchExpressions": [{"key": "app", "operator": "Like", "values": ["web"]}]}),
            json!({"matchExpressions": [{"key": "app", "operator": "Gt", "values": ["1"]}]}),
        ])
        .clone()
}
