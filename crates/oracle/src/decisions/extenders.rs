//! The extenders of a script.
//!
//! With extenders, kube-scheduler breaks ties randomly. So the first extender prevents ties: it gives every node a
//! different score, and even its highest score counts for less than one point from any plugin or other extender.

use serde_json::{Value, json};

use super::script::{Script, Step};
use crate::extenders::{Character, PLACEHOLDER};
use crate::generate::{Random, SCORERS, push};

/// Resources that generated pods request.
const RESOURCES: &[&str] = &["example.com/gpu", "example.com/fpga"];

/// Adds one to three extenders with random verbs and random behaviour (a [`Character`]) to a script.
pub(super) fn add_extenders(script: &mut Script) {
    // The random numbers are separate, so that the rest of the script is the same as without extenders.
    let mut random = Random::new(script.seed ^ 0x0e71_e4de);
    let count = random.range(1, 3);
    let binder = random.chance(40).then(|| random.below(count));
    for profile in script.config["profiles"].as_array_mut().into_iter().flatten() {
        keep_fit(profile);
        outweigh_ranks(&mut random, profile);
    }
    let mut entries = Vec::new();
    // A resource may be managed by at most one extender.
    let mut resources = random.sample(RESOURCES, 2);
    for index in 0..count {
        let mut character = character(&mut random, index);
        if !script.awaits_backoff {
            // Backoffs never expire in this script, so a pod whose attempt fails with an error would never be retried.
            character.moody = 0;
        }
        let mut entry = entry(&mut random, &character, script.preempts, binder == Some(index));
        if !character.ranks && random.chance(35) && !resources.is_empty() {
            let managed = resources.split_off(random.below(resources.len()));
            let managed = managed.iter();
            let managed = managed.map(|name| json!({"name": name, "ignoredByScheduler": random.chance(50)}));
            entry["managedResources"] = managed.collect::<Vec<_>>().into();
        }
        entries.push(entry);
        script.extenders.push(character);
    }
    script.config["extenders"] = entries.into();
    for object in script.steps.iter_mut().filter_map(Step::objects_mut).flatten() {
        if object["kind"] == "PodDisruptionBudget" {
            let min_available = if random.chance(50) { 0 } else { 1000 };
            object["spec"]["minAvailable"] = min_available.into();
        }
    }
}

/// Keeps NodeResourcesFit enabled, because kube-scheduler does not start if an extender sets `ignoredByScheduler` and a
/// profile lacks this plugin.
fn keep_fit(profile: &mut Value) {
    if let Some(disabled) = profile["plugins"]["multiPoint"]["disabled"].as_array_mut() {
        disabled.retain(|plugin| plugin["name"] != "NodeResourcesFit");
    }
}

/// Multiplies the weights of plugins by 1000, so that one point outweighs any difference between ranks, which are the
/// scores of the first extender. Ranks are at most 96 and count tenfold, because that extender has weight 1.
fn outweigh_ranks(random: &mut Random, profile: &mut Value) {
    let multi_point = &mut profile["plugins"]["multiPoint"];
    let is_named = |list: &Value, name: &str| {
        list.as_array().is_some_and(|list| list.iter().any(|plugin| plugin["name"] == name))
    };
    for plugin in multi_point["enabled"].as_array_mut().into_iter().flatten() {
        plugin["weight"] = (plugin["weight"].as_i64().unwrap_or(1) * 1000).into();
    }
    for scorer in SCORERS {
        if !is_named(&multi_point["disabled"], scorer) && !is_named(&multi_point["enabled"], scorer) {
            let weight = *random.pick(&[1000, 2000, 3000]);
            push(&mut multi_point["enabled"], json!({"name": scorer, "weight": weight}));
        }
    }
}

fn character(random: &mut Random, index: usize) -> Character {
    Character {
        name: format!("extender-{index}"),
        ranks: index == 0,
        seed: u64::try_from(random.below(1 << 30)).unwrap_or(0),
        strict: *random.pick(&[5, 20, 40]),
        // Missing scores would lead to ties.
        moody: if index == 0 { 0 } else { *random.pick(&[0, 0, 8]) },
        honest: index == 0 || random.chance(70),
        lower_case: random.chance(30),
    }
}

fn entry(random: &mut Random, character: &Character, preempts: bool, binds: bool) -> Value {
    let slash = if random.chance(20) { "/" } else { "" };
    let mut entry = json!({
        "urlPrefix": format!("{PLACEHOLDER}/{}{slash}", character.name),
        "nodeCacheCapable": random.chance(50),
        "ignorable": random.chance(30),
        "httpTimeout": "30s",
    });
    if random.chance(75) {
        entry["filterVerb"] = "filter".into();
    }
    if character.ranks || random.chance(60) {
        entry["prioritizeVerb"] = "prioritize".into();
        let weight = if character.ranks { 1 } else { *random.pick(&[100, 200, 700]) };
        entry["weight"] = weight.into();
    }
    if preempts && random.chance(60) {
        entry["preemptVerb"] = "preempt".into();
    }
    if binds {
        entry["bindVerb"] = "bind".into();
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::super::{Options, Size};
    use super::*;

    #[test]
    fn scripts_have_extenders_with_all_verbs() {
        let size = Size { nodes: 10, pods: 20, changes: 3 };
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..30 {
            let with = Script::new(seed, size, Options { extenders: true, ..Options::default() });
            let entries = with.config["extenders"].as_array().cloned().unwrap_or_default();
            assert_eq!(entries.len(), with.extenders.len());
            assert!((1..=3).contains(&entries.len()));
            seen.extend(entries.iter().filter_map(Value::as_object).flat_map(|entry| entry.keys().cloned()));
        }
        for field in
            ["urlPrefix", "filterVerb", "prioritizeVerb", "preemptVerb", "bindVerb", "managedResources"]
        {
            assert!(seen.contains(field), "no script has the field {field}");
        }
    }
}
