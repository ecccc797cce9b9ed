//! Node selectors and node affinity of pods, and added affinity of profiles.

use serde_json::{Value, json};

use super::flavour::Flavour;
use super::labels::LABELS;
use super::world::push;
use super::{Profile, Random, World};

/// `spec.nodeSelector`.
pub(super) struct NodeSelector;

impl Flavour for NodeSelector {
    fn name(&self) -> &'static str {
        "node selectors"
    }

    fn pod(&self, random: &mut Random, world: &World, pod: &mut Value) {
        if random.chance(20) {
            for _ in 0..random.range(1, 2) {
                let (key, values) = random.pick(LABELS);
                let value = *random.pick(values);
                if !(world.admitted && value.starts_with(['+', '-'])) {
                    pod["spec"]["nodeSelector"][*key] = value.into();
                }
            }
        } else if !world.admitted && random.chance(5) {
            pod["spec"]["nodeSelector"] = json!({});
        }
    }
}

/// `spec.affinity.nodeAffinity`.
pub(super) struct NodeAffinity;

impl Flavour for NodeAffinity {
    fn name(&self) -> &'static str {
        "node affinity"
    }

    fn pod(&self, random: &mut Random, world: &World, pod: &mut Value) {
        if random.chance(28) {
            let terms = terms(random, world);
            pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
                json!({"nodeSelectorTerms": terms});
        }
        if random.chance(35) {
            let preferred = preferred(random, world);
            pod["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] =
                preferred;
        }
    }
}

/// `addedAffinity` of the NodeAffinity plugin.
pub(super) struct AddedAffinity;

impl Flavour for AddedAffinity {
    fn name(&self) -> &'static str {
        "added affinity"
    }

    fn share(&self) -> usize {
        20
    }

    fn profile(&self, random: &mut Random, world: &World, profile: &mut Profile) {
        // A scheduler always validates its configuration, even if pods are not validated.
        let world = World { admitted: true, ..world.clone() };
        let mut added = json!({});
        if random.chance(50) {
            added["requiredDuringSchedulingIgnoredDuringExecution"] =
                json!({"nodeSelectorTerms": [term(random, &world), term(random, &world)]});
        }
        if random.chance(70) {
            added["preferredDuringSchedulingIgnoredDuringExecution"] = preferred(random, &world);
        }
        profile.args.insert("NodeAffinity".to_owned(), json!({"addedAffinity": added}));
    }
}

fn terms(random: &mut Random, world: &World) -> Vec<Value> {
    if !world.admitted && random.chance(3) {
        return Vec::new();
    }
    (0..random.range(1, 3)).map(|_| term(random, world)).collect()
}

fn term(random: &mut Random, world: &World) -> Value {
    let mut term = json!({});
    if random.chance(4) {
        return term;
    }
    if random.chance(80) {
        for _ in 0..random.range(1, 2) {
            push(&mut term["matchExpressions"], expression(random, world));
        }
    }
    if term["matchExpressions"].is_null() || random.chance(10) {
        for _ in 0..if random.chance(85) { 1 } else { 2 } {
            push(&mut term["matchFields"], field(random, world));
        }
    }
    term
}

fn expression(random: &mut Random, world: &World) -> Value {
    let (key, values) = random.pick(LABELS);
    let key = if random.chance(5) { "absent" } else { key };
    let operator = *random.pick(&["In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]);
    if !world.admitted && random.chance(5) {
        return broken(random);
    }
    match operator {
        "In" | "NotIn" => {
            let count = random.range(1, 3);
            let mut values = random.sample(values, count);
            values.retain(|value| !world.admitted || is_label_value(value));
            // An API server requires at least one value.
            if values.is_empty() {
                values.push("2");
            }
            json!({"key": key, "operator": operator, "values": values})
        }
        "Gt" | "Lt" => {
            let numbers = &["3", "8", "0", "15", "007", "9223372036854775807", "-1", "+5"];
            let number = *random.pick(if world.admitted { &numbers[..6] } else { numbers });
            json!({"key": "cores", "operator": operator, "values": [number]})
        }
        _ => json!({"key": key, "operator": operator}),
    }
}

/// Returns true if a label may have this value. Some numbers in [`LABELS`] have a sign, which label values must not
/// have.
fn is_label_value(value: &str) -> bool {
    !value.starts_with(['+', '-'])
}

/// Picks an expression that an API server rejects, although an older API server may have accepted it.
fn broken(random: &mut Random) -> Value {
    random
        .pick(&[
            json!({"key": "cores", "operator": "Gt", "values": ["four"]}),
            json!({"key": "cores", "operator": "Lt", "values": ["1", "2"]}),
            json!({"key": "cores", "operator": "Gt"}),
            json!({"key": "disk", "operator": "In"}),
            json!({"key": "disk", "operator": "NotIn", "values": []}),
            json!({"key": "disk", "operator": "Exists", "values": ["ssd"]}),
            json!({"key": "disk", "operator": "Like", "values": ["ssd"]}),
            json!({"key": "-bad-", "operator": "Exists"}),
            json!({"key": "disk", "operator": "In", "values": ["not a label value!"]}),
        ])
        .clone()
}

fn field(random: &mut Random, world: &World) -> Value {
    let operator = if random.chance(75) { "In" } else { "NotIn" };
    if !world.admitted && random.chance(8) {
        let names = random.sample(&world.node_names, 2);
        return json!({"key": "metadata.name", "operator": operator, "values": names});
    }
    if !world.admitted && random.chance(5) {
        return json!({"key": "metadata.namespace", "operator": operator, "values": ["x"]});
    }
    json!({"key": "metadata.name", "operator": operator, "values": [random.pick(&world.node_names)]})
}

fn preferred(random: &mut Random, world: &World) -> Value {
    // One broken term makes the pod fail, so most lists have no broken terms.
    let world = World { admitted: world.admitted || random.chance(90), ..world.clone() };
    (0..random.range(1, 4))
        .map(|_| {
            let weight = if !world.admitted && random.chance(10) { 0 } else { random.range(1, 100) };
            json!({"weight": weight, "preference": term(random, &world)})
        })
        .collect()
}
