//! Topology spread constraints of pods, and default constraints of profiles.

use serde_json::{Value, json};

use super::flavour::Flavour;
use super::labels::topology_key;
use super::world::push;
use super::{Profile, Random, World, selectors};

/// `spec.topologySpreadConstraints`.
pub(super) struct Spread;

impl Flavour for Spread {
    fn name(&self) -> &'static str {
        "topology spread"
    }

    fn relates_pods(&self) -> bool {
        true
    }

    fn pod(&self, random: &mut Random, world: &World, pod: &mut Value) {
        if !random.chance(40) {
            return;
        }
        for _ in 0..*random.pick(&[1, 1, 1, 2, 2, 3]) {
            let constraint = constraint(random, world, pod);
            if !(world.admitted && has_same(&pod["spec"]["topologySpreadConstraints"], &constraint)) {
                push(&mut pod["spec"]["topologySpreadConstraints"], constraint);
            }
        }
    }
}

/// `PodTopologySpreadArgs`.
pub(super) struct SpreadDefaults;

impl Flavour for SpreadDefaults {
    fn name(&self) -> &'static str {
        "spread defaults"
    }

    fn relates_pods(&self) -> bool {
        true
    }

    fn share(&self) -> usize {
        40
    }

    fn profile(&self, random: &mut Random, world: &World, profile: &mut Profile) {
        if !random.chance(70) {
            return;
        }
        let mut args = json!({"defaultingType": "List"});
        for _ in 0..random.below(4) {
            let mut constraint = bare_constraint(random);
            if random.chance(15) {
                policies(random, &mut constraint);
            }
            // A scheduler always validates its configuration, even if pods are not validated.
            if !has_same(&args["defaultConstraints"], &constraint) {
                push(&mut args["defaultConstraints"], constraint);
            }
        }
        if args["defaultConstraints"].is_null() && world.admitted && random.chance(50) {
            args["defaultingType"] = "System".into();
        }
        profile.args.insert("PodTopologySpread".to_owned(), args);
    }
}

fn constraint(random: &mut Random, world: &World, pod: &Value) -> Value {
    let mut constraint = bare_constraint(random);
    let selector = selectors::selector(random, world, pod);
    if random.chance(15) {
        let keys = selectors::label_keys(random, world, &selector);
        if !keys.is_empty() {
            constraint["matchLabelKeys"] = json!(keys);
        }
    }
    if !selector.is_null() {
        constraint["labelSelector"] = selector;
    }
    policies(random, &mut constraint);
    let is_hard = constraint["whenUnsatisfiable"] == "DoNotSchedule";
    if random.chance(25) && (is_hard || !world.admitted) {
        constraint["minDomains"] = random.range(1, 5).into();
    }
    constraint
}

fn bare_constraint(random: &mut Random) -> Value {
    json!({
        "topologyKey": topology_key(random),
        "maxSkew": random.pick(&[1, 1, 2, 3]),
        "whenUnsatisfiable": random.pick(&["DoNotSchedule", "ScheduleAnyway"]),
    })
}

fn policies(random: &mut Random, constraint: &mut Value) {
    for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
        if random.chance(25) {
            constraint[policy] = (*random.pick(&["Honor", "Ignore"])).into();
        }
    }
}

/// Returns true if an API server considers `constraint` a duplicate of a constraint in the list.
fn has_same(list: &Value, constraint: &Value) -> bool {
    let is_same = |other: &Value| {
        ["topologyKey", "whenUnsatisfiable"].iter().all(|field| other[field] == constraint[field])
    };
    list.as_array().is_some_and(|list| list.iter().any(is_same))
}
