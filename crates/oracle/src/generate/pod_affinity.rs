//! Affinity and anti-affinity between pods.

use serde_json::{Value, json};

use super::flavour::Flavour;
use super::labels::topology_key;
use super::namespaces::{self, NAMESPACES};
use super::world::push;
use super::{Profile, Random, World, selectors};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// `spec.affinity.podAffinity` and `spec.affinity.podAntiAffinity`.
pub(super) struct PodAffinity;

impl Flavour for PodAffinity {
    fn name(&self) -> &'static str {
        "pod affinity"
    }

    fn relates_pods(&self) -> bool {
        true
    }

    fn pod(&self, random: &mut Random, world: &World, pod: &mut Value) {
        for (field, percent) in [("podAffinity", 14), ("podAntiAffinity", 12)] {
            if random.chance(percent) {
                for _ in 0..*random.pick(&[1, 1, 1, 2]) {
                    let term = term(random, world, pod, field == "podAffinity");
                    push(&mut pod["spec"]["affinity"][field][REQUIRED], term);
                }
            }
            if random.chance(15) {
                for _ in 0..random.range(1, 3) {
                    let term = term(random, world, pod, false);
                    let weighted = json!({"weight": random.range(1, 100), "podAffinityTerm": term});
                    push(&mut pod["spec"]["affinity"][field][PREFERRED], weighted);
                }
            }
        }
    }

    fn profile(&self, random: &mut Random, _world: &World, profile: &mut Profile) {
        if random.chance(60) {
            let mut args = json!({"hardPodAffinityWeight": random.pick(&[0, 1, 5, 100])});
            if random.chance(40) {
                args["ignorePreferredTermsOfExistingPods"] = true.into();
            }
            profile.args.insert("InterPodAffinity".to_owned(), args);
        }
    }
}

/// Generates a term. With `prefers_own`, the pod itself often matches the term, because a term that its own pod does
/// not match can rarely be satisfied.
fn term(random: &mut Random, world: &World, pod: &Value, prefers_own: bool) -> Value {
    let selector = if prefers_own && random.chance(40) {
        selectors::own(random, pod)
    } else {
        selectors::selector(random, world, pod)
    };
    let mut term = json!({"topologyKey": topology_key(random)});
    // An API server merges these keys into the selector at admission.
    for field in ["matchLabelKeys", "mismatchLabelKeys"] {
        if random.chance(5) && term["matchLabelKeys"].is_null() {
            let keys = selectors::label_keys(random, world, &selector);
            if !keys.is_empty() {
                term[field] = json!(keys);
            }
        }
    }
    if !selector.is_null() {
        term["labelSelector"] = selector;
    }
    if random.chance(25) {
        let mut names: Vec<&str> = NAMESPACES.iter().map(|(name, _)| *name).collect();
        names.push("nowhere");
        let count = random.range(1, 2);
        term["namespaces"] = json!(random.sample(&names, count));
    }
    if random.chance(25) {
        term["namespaceSelector"] = match random.below(4) {
            0 => json!({}),
            1 => json!({"matchLabels": {"team": random.pick(&["blue", "green"])}}),
            _ => json!({"matchExpressions": [selectors::expression(random, namespaces::LABELS)]}),
        };
    }
    term
}

/// Merges `matchLabelKeys` and `mismatchLabelKeys` into the selectors of affinity terms, as an API server does at
/// admission, because schedulers use only the selectors.
pub(super) fn merge_label_keys(pod: &mut Value) {
    let labels = pod["metadata"]["labels"].clone();
    for affinity in ["podAffinity", "podAntiAffinity"] {
        let Some(affinity) = pod.pointer_mut(&format!("/spec/affinity/{affinity}")) else { continue };
        for term in items(affinity, REQUIRED) {
            merge_into(term, &labels);
        }
        for weighted in items(affinity, PREFERRED) {
            merge_into(&mut weighted["podAffinityTerm"], &labels);
        }
    }
}

fn items<'a>(affinity: &'a mut Value, list: &str) -> impl Iterator<Item = &'a mut Value> {
    affinity.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten()
}

fn merge_into(term: &mut Value, labels: &Value) {
    if !term["labelSelector"].is_object() {
        return;
    }
    for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        for key in term[field].as_array().cloned().unwrap_or_default() {
            if let Some(value) = key.as_str().and_then(|key| labels[key].as_str()) {
                let requirement = json!({"key": key, "operator": operator, "values": [value]});
                push(&mut term["labelSelector"]["matchExpressions"], requirement);
            }
        }
    }
}
