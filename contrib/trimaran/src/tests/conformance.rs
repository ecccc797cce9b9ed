use harbormaster::testkit::{
    answers_are_repeatable, batch_equals_single, index_equals_rebuilt_one, random::Dice, reads_are_complete,
    resource_fits_definition, row_scope_holds, scores_are_valid,
};

use super::*;
use crate::{
    LoadVariationRiskBalancing, LowRiskOverCommitment, Peaks, TargetLoadPacking, arrivals::Arrivals,
    low_risk::Commitments,
};

/// A random report about some of the nodes, with some nonsense in it.
fn random_report(dice: &mut Dice, nodes: &[String]) -> Value {
    let metrics = |dice: &mut Dice| -> Vec<Value> {
        let metric = |dice: &mut Dice| {
            let (kind, operator) =
                (dice.pick(&["CPU", "Memory", "Energy"]), dice.pick(&["AVG", "STD", "Latest", ""]));
            let value = dice.pick(&[0.0, 12.5, 40.0, 66.6, 100.0, 250.0, -7.0, 1e30]);
            json!({"type": kind, "operator": operator, "value": value})
        };
        (0..dice.below(6)).map(|_| metric(dice)).collect()
    };
    let mut map = harbormaster::serde_json::Map::new();
    for node in nodes {
        if !dice.one_in(5) {
            map.insert(node.clone(), json!({"metrics": metrics(dice)}));
        }
    }
    json!({
        "metadata": {"name": "kubernetes-metrics-server"},
        "window": {"end": NOW},
        "data": {"NodeMetricsMap": map},
    })
}

fn random_pod(dice: &mut Dice, name: &str) -> PodBuilder {
    let mut made = dice.pod(name);
    if dice.one_in(2) {
        made = limited(made, "cpu", dice.below(8) as i64 * 500);
    }
    if dice.one_in(2) {
        made = limited(made, "memory", dice.below(8) as i64 * (256 << 20));
    }
    let seconds = dice.below(120) as i64 - 10;
    if dice.one_in(2) {
        let status = placed("x", "n", seconds).build().status;
        made = made.pod(|pod| pod.status = status);
    }
    made
}

fn random_cluster(dice: &mut Dice) -> Cluster {
    let mut nodes = dice.cluster(6);
    let names: Vec<String> = nodes.nodes().nodes().map(|node| node.name().to_string()).collect();
    let report = random_report(dice, &names);
    set_custom::<NodeLoads>(&mut nodes, [report]);
    nodes
}

#[test]
fn the_plugins_pass_the_conformance_checks() {
    let model = json!({"k0": 1, "k1": -90, "k2": -0.07});
    let models: Value = (0..10).map(|node| (format!("node-{node}"), model.clone())).collect();
    let trials = || {
        [
            trial::<TargetLoadPacking>(json!({})),
            trial::<LoadVariationRiskBalancing>(json!({"safeVarianceSensitivity": 2})),
            trial::<LowRiskOverCommitment>(json!({})),
            trial::<Peaks>(json!({"NodePowerModel": models})),
        ]
    };
    for seed in 0..20 {
        let mut dice = Dice::new(seed);
        let mut nodes = random_cluster(&mut dice);
        let (pod, meanwhile) = (info(random_pod(&mut dice, "p")), info(random_pod(&mut dice, "meanwhile")));
        for trial in trials() {
            answers_are_repeatable(&trial, &nodes, &pod, &meanwhile);
            batch_equals_single(&trial, &nodes, &pod);
            scores_are_valid(&trial, &nodes, &pod);
            row_scope_holds(&trial, &mut nodes, &pod, &meanwhile);
            assert!(reads_are_complete(&trial, &nodes, &[pod.clone(), meanwhile.clone()]) > 0);
        }
    }
}

#[test]
fn the_indexes_follow_all_changes() {
    for seed in 0..20 {
        index_equals_rebuilt_one::<Arrivals>(seed, |dice, name| dice.node(name), random_pod);
        index_equals_rebuilt_one::<Commitments>(seed, |dice, name| dice.node(name), random_pod);
    }
}

#[test]
fn the_type_fits_the_definition() {
    let definition: Value = serde_saphyr::from_str(include_str!("../../deploy/crd.yaml")).unwrap();
    resource_fits_definition::<NodeLoads>(&definition);
}
