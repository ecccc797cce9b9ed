use harbormaster::framework::Extremes;

use super::*;
use crate::{Peaks, peaks::PowerModel};

const MODEL: PowerModel = PowerModel { k0: 0.0, k1: -91.504_930_195_883_65, k2: -0.071_860_490_525_162_28 };

fn args(nodes: &[&str]) -> Value {
    let model = json!({"k0": 471.7, "k1": MODEL.k1, "k2": MODEL.k2});
    let models: Value = nodes.iter().map(|node| ((*node).to_owned(), model.clone())).collect();
    json!({"NodePowerModel": models})
}

#[test]
fn power_rises_with_the_utilization() {
    for (from, to, expected) in [
        (0.0, 100.0, 91.435_654_157_549_68),
        (0.0, 50.0, 88.987_173_445_918_05),
        (40.0, 60.0, 3.938_117_206_213_379_4),
    ] {
        let rise = MODEL.rise(from, to) / 1e15;
        assert!((rise - expected).abs() < 1e-12, "{from} {to}: {rise}");
    }
    assert_eq!(MODEL.rise(0.0, 100.0) as i64, 91_435_654_157_549_680);
}

#[test]
fn the_node_with_the_least_additional_power_is_the_best_and_unknown_ones_are_the_worst() {
    let names = ["idle", "busy", "full", "unmeasured", "unmodelled"];
    let trial = trial::<Peaks>(args(&names[..4]));
    let mut nodes = cluster(names.map(|name| sized(name, "1", "1Gi")), []);
    let measured: [(&str, &[Measurement]); 4] = [
        ("idle", &[("CPU", "AVG", 0.0)]),
        ("busy", &[("CPU", "Latest", 60.0), ("CPU", "AVG", 1.0)]),
        ("full", &[("CPU", "AVG", 90.0)]),
        ("unmodelled", &[("CPU", "AVG", 50.0)]),
    ];
    set_custom::<NodeLoads>(&mut nodes, [report(&measured)]);
    let pod = info(pod("p").cpu("200m"));
    let scores = |nodes: &Cluster| trial.scores(nodes, &pod).unwrap().unwrap();
    assert_eq!(scores(&nodes), [0, 100, 0, 0, 0]);
    // All nodes cost the same.
    let same: [(&str, &[Measurement]); 1] = [("idle", &[("CPU", "AVG", 0.0)])];
    set_custom::<NodeLoads>(&mut nodes, [report(&same)]);
    assert_eq!(scores(&nodes), [100, 0, 0, 0, 0]);
    set_custom::<NodeLoads>(&mut nodes, [report(&[])]);
    assert_eq!(scores(&nodes), [0; 5]);
}

#[test]
fn overhead_counts_only_in_addition_to_a_request() {
    let trial = trial::<Peaks>(args(&["n"]));
    let cost = |pod: PodBuilder| {
        let mut nodes = cluster([sized("n", "1", "1Gi")], []);
        set_custom::<NodeLoads>(&mut nodes, [report(&[("n", &[("CPU", "AVG", 0.0)])])]);
        trial.raw_scores(&nodes, &info(pod)).unwrap().unwrap()[0]
    };
    assert_eq!(cost(pod("p").overhead("cpu", "100m")), 0);
    let both = cost(pod("p").cpu("100m").overhead("cpu", "100m"));
    assert_eq!(both, cost(pod("p").cpu("200m")));
}

#[test]
fn costs_are_converted_as_in_scheduler_plugins() {
    let convert = |costs: &[i64]| -> Vec<i64> {
        let (min, max) = (*costs.iter().min().unwrap(), *costs.iter().max().unwrap());
        let extremes = Extremes { min, max, are_all_rated: true };
        costs.iter().map(|cost| crate::peaks::points(*cost, extremes)).collect()
    };
    assert_eq!(convert(&[0, 100]), [100, 0]);
    assert_eq!(convert(&[0, 0]), [0, 0]);
    assert_eq!(convert(&[100, 100]), [100, 100]);
    assert_eq!(convert(&[i64::MIN + 1, i64::MAX, 0]), [100, 0, 50]);
}

#[test]
fn models_are_required() {
    let error = |args| built::<Peaks>(args).map(drop).unwrap_err();
    assert!(error(json!({"WatcherAddress": "http://w:2020"})).starts_with("NodePowerModel: required"));
    assert!(error(json!({"NodePowerModel": {"n": {"k4": 1}}})).starts_with("unknown field `k4`"));
}
