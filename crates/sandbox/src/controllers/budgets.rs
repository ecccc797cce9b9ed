//! Status of disruption budgets, on which evictions and preemption depend.

use std::collections::{HashMap, HashSet};

use harbormaster_api::{Object, ObjectKind, selector::LabelSelector, wire::Decoder};
use harbormaster_apiserver::Store;
use serde_json::{Map, Value, json};

use super::{Mirrors, write_status};
use crate::fields::{
    controller, is_ending, is_finished, is_ready, labels, name, namespace, number, set_condition, share,
    text, uid,
};

pub(super) fn reconcile(store: &Store, mirrors: &Mirrors) {
    let mut budgets = mirrors.budgets.all().peekable();
    if budgets.peek().is_none() {
        return;
    }
    let scales = scales(mirrors);
    let mut decoder = Decoder::new();
    for budget in budgets {
        let Some(selector) = selector(&mut decoder, budget) else { continue };
        let chosen: Vec<&Value> = mirrors
            .pods
            .all()
            .filter(|pod| namespace(pod) == namespace(budget) && !is_finished(pod))
            .filter(|pod| selector.matches(&labels(pod)))
            .collect();
        write_status(store, "poddisruptionbudgets.policy", budget, |budget| {
            status(budget, &chosen, &scales);
        });
    }
}

fn selector(decoder: &mut Decoder, budget: &Value) -> Option<LabelSelector> {
    match decoder.object_value(ObjectKind::PodDisruptionBudget, budget) {
        Ok(Object::PodDisruptionBudget(budget)) => budget.selector,
        _ => None,
    }
}

/// Returns the desired number of pods of each owner, keyed by the owner's UID.
fn scales(mirrors: &Mirrors) -> HashMap<&str, i64> {
    let owners = mirrors.replica_sets.all().chain(mirrors.replication_controllers.all());
    let owners = owners.chain(mirrors.stateful_sets.all());
    owners.map(|owner| (uid(owner), number(owner, "/spec/replicas").unwrap_or(1))).collect()
}

/// Updates the status of a budget. May run again on a later version of the budget, to take into account what an
/// eviction has written in the meantime.
fn status(budget: &mut Value, pods: &[&Value], scales: &HashMap<&str, i64>) {
    let mut disrupted = budget["status"]["disruptedPods"].as_object().cloned().unwrap_or_default();
    // An evicted pod needs to be remembered only until its deletion begins.
    disrupted.retain(|evicted, _| pods.iter().any(|pod| name(pod) == evicted && !is_ending(pod)));
    let (expected, desired) = amounts(budget, pods, scales);
    let is_healthy = |pod: &&&Value| is_ready(pod) && !is_ending(pod) && !disrupted.contains_key(name(pod));
    let healthy = i64::try_from(pods.iter().filter(is_healthy).count()).unwrap_or(i64::MAX);
    let allowed = if expected > 0 { (healthy - desired).max(0) } else { 0 };
    let generation = budget["metadata"]["generation"].clone();
    for (field, value) in [
        ("expectedPods", json!(expected)),
        ("currentHealthy", json!(healthy)),
        ("desiredHealthy", json!(desired)),
        ("disruptionsAllowed", json!(allowed)),
        ("observedGeneration", generation),
    ] {
        budget["status"][field] = value;
    }
    write_disrupted(&mut budget["status"], disrupted);
    let reason = if allowed > 0 { "SufficientPods" } else { "InsufficientPods" };
    set_condition(budget, "DisruptionAllowed", allowed > 0, reason, "");
}

fn write_disrupted(status: &mut Value, disrupted: Map<String, Value>) {
    if let Some(status) = status.as_object_mut() {
        match disrupted.is_empty() {
            true => status.remove("disruptedPods"),
            false => status.insert("disruptedPods".into(), disrupted.into()),
        };
    }
}

/// Returns the number of expected pods, and the number that must be healthy.
fn amounts(budget: &Value, pods: &[&Value], scales: &HashMap<&str, i64>) -> (i64, i64) {
    let spec = &budget["spec"];
    let (least, most_away) = (&spec["minAvailable"], &spec["maxUnavailable"]);
    if least.is_number() {
        let expected = i64::try_from(pods.len()).unwrap_or(i64::MAX);
        return (expected, share(least, expected, true).unwrap_or(0));
    }
    let owners: HashSet<&str> =
        pods.iter().filter_map(|pod| controller(pod)).map(|owner| text(owner, "/uid")).collect();
    let expected = owners.iter().filter_map(|owner| scales.get(owner)).sum();
    match (share(least, expected, true), share(most_away, expected, true)) {
        (Some(least), _) => (expected, least.max(0)),
        (None, Some(away)) => (expected, (expected - away).max(0)),
        // The budget specifies neither amount. As in Kubernetes, it then allows no disruptions.
        (None, None) => (0, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_counts_healthy_pods_against_numbers_and_percentages() {
        let pod = |n: usize, ready: &str| {
            json!({
                "metadata": {"name": format!("p{n}"), "ownerReferences": [{"uid": "o", "controller": true}]},
                "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]},
            })
        };
        let pods = [pod(1, "True"), pod(2, "True"), pod(3, "False")];
        let pods: Vec<&Value> = pods.iter().collect();
        let scales = HashMap::from([("o", 4)]);
        for (spec, expected) in [
            (json!({"minAvailable": 1}), [3, 2, 1, 1]),
            (json!({"minAvailable": "50%"}), [4, 2, 2, 0]),
            (json!({"maxUnavailable": 3}), [4, 2, 1, 1]),
            (json!({"maxUnavailable": "30%"}), [4, 2, 2, 0]),
            (json!({}), [0, 2, 0, 0]),
        ] {
            let mut budget = json!({"metadata": {"generation": 2}, "spec": spec, "status": {}});
            status(&mut budget, &pods, &scales);
            let found = ["expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed"]
                .map(|field| number(&budget["status"], &format!("/{field}")).unwrap_or(-1));
            assert_eq!(found, expected, "{}", budget["spec"]);
            assert_eq!(budget["status"]["observedGeneration"], 2);
        }
    }

    #[test]
    fn an_eviction_counts_until_the_deletion_of_its_pod_begins() {
        let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        let mut pods = [
            json!({"metadata": {"name": "a"}, "status": ready}),
            json!({"metadata": {"name": "b"}, "status": ready}),
        ];
        let mut budget =
            json!({"spec": {"minAvailable": 1}, "status": {"disruptedPods": {"a": "now", "c": "then"}}});
        status(&mut budget, &pods.iter().collect::<Vec<_>>(), &HashMap::new());
        assert_eq!(budget["status"]["disruptedPods"], json!({"a": "now"}));
        assert_eq!(budget["status"]["disruptionsAllowed"], 0);
        pods[0]["metadata"]["deletionTimestamp"] = json!("now");
        status(&mut budget, &pods.iter().collect::<Vec<_>>(), &HashMap::new());
        assert_eq!(budget["status"]["disruptedPods"], Value::Null);
        assert_eq!(budget["status"]["disruptionsAllowed"], 0);
    }
}
