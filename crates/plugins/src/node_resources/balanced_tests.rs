use harbormaster_testkit::{
    NodeBuilder, PodBuilder, Trial, batch_equals_single, cluster, node, pod, random::Dice, row_scope_holds,
};
use serde_json::json;

use super::*;
use crate::node_resources::lanes::random::RandomColumns;

const GPU: &str = "example.com/gpu";

fn trial(resources: &[&str]) -> Trial {
    let resources: Vec<_> = resources.iter().map(|name| json!({"name": name, "weight": 1})).collect();
    let args = serde_json::from_value(json!({ "resources": resources })).unwrap();
    Trial::of(NodeResourcesBalancedAllocation::build(args, &BuildCycle::default()).unwrap())
}

fn sized(cpu: &str, memory: &str) -> NodeBuilder {
    node("n").allocatable(cpu, memory, 110)
}

fn asks(cpu: &str, memory: &str) -> PodBuilder {
    pod("p").cpu(cpu).memory(memory)
}

fn score(trial: &Trial, node: NodeBuilder, used: PodBuilder, pod: PodBuilder) -> Option<i64> {
    let nodes = cluster([node], [used.on("n")]);
    let pod = pod.info();
    batch_equals_single(trial, &nodes, &pod);
    trial.scores(&nodes, &pod).unwrap().map(|scores| scores[0])
}

#[test]
fn scores_show_by_how_much_the_pod_improves_the_balance() {
    let two = trial(&["cpu", "memory"]);
    let none = || pod("used");
    for (what, node, used, pod, expected) in [
        ("100 to 87", sized("4000m", "10000"), none(), asks("3000m", "5000"), 68),
        ("100 to 100", sized("4000m", "10000"), none(), asks("2000m", "5000"), 75),
        ("50 to 100", sized("1000m", "1000"), asks("1000m", "0"), asks("0", "1000"), 100),
        ("100 to 50", sized("1000m", "1000"), none(), asks("1000m", "0"), 50),
        ("75 to 50", sized("1000m", "1000"), asks("500m", "0"), asks("500m", "0"), 62),
        ("100 to 75", sized("1000m", "1000"), none(), asks("500m", "0"), 62),
        (
            "requests above the capacity count as the capacity",
            sized("1000m", "1000"),
            none(),
            asks("9000m", "1000"),
            75,
        ),
    ] {
        assert_eq!(score(&two, node, used, pod), Some(expected), "{what}");
    }
}

#[test]
fn three_resources_use_the_standard_deviation() {
    let three = trial(&["cpu", "memory", GPU]);
    let node = || sized("1000m", "1000").offers(GPU, "10");
    // The shares 0.5, 0.2 and 0.8 have a standard deviation of 0.2449, so the balance is 75 of 100.
    let pod = asks("500m", "200").request(GPU, "8");
    assert_eq!(score(&three, node(), harbormaster_testkit::pod("used"), pod), Some(50 + (50 + 75 - 100) / 2));
}

#[test]
fn scalars_that_the_pod_does_not_request_are_ignored() {
    let three = trial(&["cpu", "memory", GPU]);
    let pod = || asks("750m", "0");
    let (with, without) = (sized("1000m", "1000").offers(GPU, "4"), sized("1000m", "1000"));
    assert_eq!(score(&three, with, harbormaster_testkit::pod("used"), pod()), Some(50 + (50 + 62 - 100) / 2));
    assert_eq!(score(&three, without, harbormaster_testkit::pod("used"), pod()), Some(56));
}

#[test]
fn a_pod_that_requests_no_configured_resource_is_not_scored() {
    let used = || pod("used");
    assert_eq!(score(&trial(&["cpu", "memory"]), sized("1", "1"), used(), pod("best effort")), None);
    assert_eq!(score(&trial(&["cpu"]), sized("1", "1"), used(), pod("memory only").memory("1")), None);
    assert_eq!(score(&trial(&[GPU]), sized("1", "1"), used(), pod("other").cpu("1")), None);
    let pod_level = pod("pod level").pod_level("cpu", "500m").pod_level("memory", "500");
    assert_eq!(score(&trial(&["cpu", "memory"]), sized("1", "1000"), used(), pod_level), Some(75));
}

#[test]
fn requests_count_as_written_without_defaults() {
    // The pod on the node requests nothing, so both shares are zero without the new pod.
    let two = trial(&["cpu", "memory"]);
    assert_eq!(score(&two, sized("1000m", "1Gi"), pod("used"), asks("1000m", "0")), Some(50));
}

#[test]
fn scores_depend_only_on_the_row() {
    let mut nodes =
        cluster([node("n1"), node("n2").allocatable("1", "1Gi", 5)], [pod("used").cpu("1").on("n2")]);
    row_scope_holds(
        &trial(&["cpu", "memory"]),
        &mut nodes,
        &asks("1", "1Gi").info(),
        &pod("other").cpu("4").info(),
    );
}

#[test]
fn scores_of_columns_equal_those_of_single_nodes() {
    let mut dice = Dice::new(0);
    let mut exact = 0;
    for _ in 0..20_000 {
        let columns = RandomColumns::new(&mut dice);
        let lanes = [0, 1].map(|of| columns.lane(of, 1));
        exact += usize::from(lanes.iter().all(|lane| lane.is_exact(1..4)));
        let mut scores = [0; 3];
        score_columns(&lanes, 1..4, &mut scores);
        let slow = |row: usize| {
            score_amounts(&[0, 1].map(|of| ((columns.has[of][row], columns.used[of][row]), columns.asks[of])))
        };
        assert_eq!(scores, [1, 2, 3].map(slow), "{columns:?}");
    }
    assert!((5_000..15_000).contains(&exact), "{exact} columns are exact");
}
