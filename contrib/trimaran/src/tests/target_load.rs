use super::*;
use crate::TargetLoadPacking;

/// Score of a node of one core at a utilization for a pod that requests some CPU.
fn score(args: Value, percent: f64, pod: PodBuilder) -> i64 {
    let nodes = cluster([sized("n", "1", "1Gi")], []);
    score_of(&trial::<TargetLoadPacking>(args), nodes, &[("CPU", "AVG", percent)], &info(pod))
}

#[test]
fn nodes_are_filled_up_to_the_target_and_avoided_above_it() {
    let idle = || pod("p").cpu("0");
    assert_eq!(score(json!({}), 0.0, idle()), 40);
    assert_eq!(score(json!({}), 50.0, idle()), 33);
    assert_eq!(score(json!({}), 30.0, pod("p").cpu("1")), 0);
    assert_eq!(score(json!({}), 40.0, idle()), 100);
    assert_eq!(score(json!({"targetUtilization": 100}), 100.0, idle()), 100);
    assert_eq!(score(json!({"targetUtilization": 0}), 40.0, idle()), 100);
}

#[test]
fn a_pod_uses_its_limit_or_a_multiple_of_its_request_or_the_default() {
    let score = |pod| score(json!({"defaultRequests": {"cpu": "400m"}, "targetUtilization": 50}), 0.0, pod);
    // Up to the target, the score is 50 more than the utilization.
    assert_eq!(score(pod("p")), 90);
    assert_eq!(score(pod("p").cpu("200m")), 80);
    assert_eq!(score(limited(pod("p").cpu("200m"), "cpu", 250)), 75);
    assert_eq!(score(pod("p").cpu("100m").container().cpu("101m").overhead("cpu", "100m")), 90);
    // 151.5 is rounded up.
    assert_eq!(score(pod("p").cpu("101m").overhead("cpu", "3m")), 66);
    assert_eq!(score(pod("p").cpu("100m").sidecar(&[("cpu", "100m")])), 80);
    assert_eq!(score(pod("p").cpu("100m").init_container(&[("cpu", "500m")])), 65);
}

#[test]
fn the_last_measurement_counts_and_nodes_without_one_get_nothing() {
    let of = |metrics: &[Measurement]| {
        let nodes = cluster([sized("n", "1", "1Gi")], []);
        score_of(&trial::<TargetLoadPacking>(json!({})), nodes, metrics, &info(pod("p").cpu("0")))
    };
    assert_eq!(of(&[("CPU", "AVG", 50.0), ("CPU", "Latest", 40.0), ("CPU", "STD", 9.0)]), 100);
    assert_eq!(of(&[("Memory", "AVG", 40.0)]), 0);
    assert_eq!(of(&[]), 0);
    // Nonsense stays within the range of scores.
    for nonsense in [-1e30, -5.0, 1e30, 1e300] {
        assert!((0..=100).contains(&of(&[("CPU", "AVG", nonsense)])), "{nonsense}");
    }
}

#[test]
fn pods_that_the_measurement_does_not_contain_yet_count() {
    let trial = trial::<TargetLoadPacking>(json!({"targetUtilization": 50}));
    for (seconds_before, expected) in [(-5, 90), (0, 90), (59, 90), (60, 60), (3600, 60)] {
        let recent = limited(placed("r", "n", seconds_before), "cpu", 300);
        let nodes = cluster([sized("n", "1", "1Gi")], [recent]);
        let score = score_of(&trial, nodes, &[("CPU", "AVG", 10.0)], &info(pod("p").cpu("0")));
        assert_eq!(score, expected, "{seconds_before}");
    }
    // A pod that was placed a moment ago, of which the API server has not said when.
    let assumed = limited(pod("r").on("n"), "cpu", 300);
    let nodes = cluster([sized("n", "1", "1Gi")], [assumed]);
    assert_eq!(score_of(&trial, nodes, &[("CPU", "AVG", 10.0)], &info(pod("p").cpu("0"))), 90);
}

#[test]
fn without_a_report_the_pod_is_not_scored() {
    let trial = trial::<TargetLoadPacking>(json!({}));
    let mut nodes = cluster([sized("n", "1", "1Gi")], []);
    set_custom::<NodeLoads>(&mut nodes, []);
    let pod = info(pod("p").cpu("0"));
    assert_eq!(trial.raw_scores(&nodes, &pod).unwrap(), Some(vec![0]));
    let other = json!({"metadata": {"name": "load-watcher-w-2020"}, "data": report(&[("n", &[("CPU", "AVG", 40.0)])])["data"]});
    set_custom::<NodeLoads>(&mut nodes, [other]);
    assert_eq!(
        trial.raw_scores(&nodes, &pod).unwrap(),
        Some(vec![0]),
        "that is the report of another source"
    );
}

#[test]
fn impossible_arguments_are_refused() {
    for (args, why) in [
        (json!({"targetUtilization": 101}), "targetUtilization: must be at most 100, but is 101"),
        (
            json!({"defaultRequestsMultiplier": "much"}),
            "defaultRequestsMultiplier: must be a number of at least 0, but is",
        ),
        (
            json!({"defaultRequestsMultiplier": "-1"}),
            "defaultRequestsMultiplier: must be a number of at least 0, but is",
        ),
        (
            json!({"metricProvider": {"type": "Datadog"}}),
            "metricProvider.type: invalid MetricProvider.Type, got Datadog",
        ),
        (json!({"metricProvider": {"type": "SignalFx"}}), "metricProvider.type: SignalFx is not supported"),
        (json!({"metricProvider": {"adress": "x"}}), "unknown field `adress`"),
        (json!({"watcher": "x"}), "unknown field `watcher`"),
    ] {
        let error = built::<TargetLoadPacking>(args).map(drop).unwrap_err();
        assert!(error.starts_with(why), "{error}");
    }
}
