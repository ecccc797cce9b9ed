use super::*;
use crate::{LowRiskOverCommitment, load_variation::Load, low_risk::Commitment};

#[test]
fn risk_is_that_of_limits_and_that_of_the_load() {
    let cpu = Load { capacity: 4000.0, request: 0.0, average: 3200.0, deviation: 0.0 };
    let memory = Load { capacity: 4096.0, request: 0.0, average: 1024.0, deviation: 0.0 };
    for (load, capacity, (request, limit, request_before, limit_before), expected) in [
        (cpu, 4000, (2000, 3000, 1000, 2000), 0.5),
        (cpu, 4000, (4000, 5000, 3000, 4000), 1.0),
        (memory, 4096, (2048, 6144, 0, 0), 0.25),
        (memory, 4096, (1024, 7168, 512, 6144), 0.75),
    ] {
        let commitment = Commitment { capacity, request, limit, request_before, limit_before };
        let risk = commitment.risk(Some(load), 5.0_f64.sqrt(), 0.5);
        assert!((risk - expected).abs() < 1e-12, "{commitment:?}: {risk}");
    }
}

/// Score of a node of four cores for a pod, beside another pod that requests 1 and is limited to 3.
fn score(args: Value, metrics: &[Measurement], pod: PodBuilder) -> i64 {
    let resident = limited(placed("r", "n", 3600).cpu("1"), "cpu", 3000);
    let nodes = cluster([sized("n", "4", "8Gi")], [resident]);
    score_of(&trial::<LowRiskOverCommitment>(args), nodes, metrics, &info(pod))
}

#[test]
fn nodes_are_avoided_where_limits_exceed_the_capacity() {
    let idle = [("CPU", "AVG", 0.0)];
    let pod = || limited(pod("p").cpu("1"), "cpu", 3000);
    // 2 of the 4 cores above the requests are missing, and half of the weight is that of limits.
    assert_eq!(score(json!({}), &idle, pod()), 75);
    assert_eq!(score(json!({"riskLimitWeights": {"cpu": 1}}), &idle, pod()), 50);
    assert_eq!(score(json!({"riskLimitWeights": {"memory": 1}}), &idle, pod()), 75);
    assert_eq!(score(json!({"riskLimitWeights": {"cpu": 0}}), &idle, pod()), 100);
    assert_eq!(score(json!({"riskLimitWeights": {"cpu": 7}}), &idle, pod()), 75);
    assert_eq!(score(json!({}), &[("Energy", "AVG", 1.0)], pod()), 75);
    assert_eq!(score(json!({}), &[], pod()), 0, "the node is not part of the report");
    assert_eq!(score(json!({}), &idle, super::pod("p")), 0, "the pod has neither requests nor limits");
}

#[test]
fn a_load_above_the_requests_is_a_risk() {
    let pod = || pod("p").cpu("500m");
    assert_eq!(score(json!({}), &[("CPU", "Latest", 20.0)], pod()), 100);
    assert_eq!(score(json!({}), &[("CPU", "Latest", 30.0)], pod()), 50);
    let steady = score(json!({}), &[("CPU", "AVG", 20.0), ("CPU", "STD", 1.0)], pod());
    let lively = score(json!({}), &[("CPU", "AVG", 20.0), ("CPU", "STD", 9.0)], pod());
    assert!((51..lively + 50).contains(&steady) && lively < steady, "{steady} {lively}");
    let smooth =
        score(json!({"smoothingWindowSize": 50}), &[("CPU", "AVG", 20.0), ("CPU", "STD", 9.0)], pod());
    assert_ne!(smooth, lively);
    for nonsense in [-1e30, 1e30, 1e300] {
        for operator in ["AVG", "STD"] {
            let score = score(json!({}), &[("CPU", "AVG", 50.0), ("CPU", operator, nonsense)], pod());
            assert!((0..=100).contains(&score), "{operator} {nonsense}: {score}");
        }
    }
}
