//! The order of the queue by shares.

use harbormaster::api::Timestamp;

use super::{groups::*, *};
use crate::QuotaSort;

/// Shares in parts per billion, from the top down to the namespace.
fn shares(nodes: &mut Cluster, namespace: &str) -> Vec<i64> {
    let turn = Trial::of(QuotaSort).turn(nodes, namespace);
    let last = turn.iter().rposition(|share| *share != 0).map_or(0, |at| at + 1);
    turn[..last].to_vec()
}

fn uses(namespace: &str, cpu: &str, memory: u64) -> PodBuilder {
    in_namespace(namespace, "old", memory).cpu(cpu).on("n")
}

fn of_both(namespace: &str, cpu: u64, memory: u64) -> Value {
    quota(namespace, json!({"cpu": cpu, "memory": memory}), json!({}))
}

#[test]
fn the_share_is_the_largest_part_of_what_is_guaranteed_that_a_quota_has_borrowed_for_its_weight() {
    // 10 cores and 1,000 bytes are guaranteed.
    let quotas = || vec![of_both("a", 2, 100), of_both("b", 8, 900)];
    let team = |weights: &[u32]| weighted(group("team", 0, 10_000, &["a", "b"]), weights);
    for (cpu, memory, weight, expected) in [
        // Within the min.
        ("2", 100, 1, 0),
        // One core of ten.
        ("3", 100, 1, 100_000_000),
        // 300 bytes of 1,000 are more than two cores of ten.
        ("4", 400, 1, 300_000_000),
        // Three cores of ten are more than 200 bytes of 1,000.
        ("5", 300, 1, 300_000_000),
        // With twice the weight, they count half.
        ("5", 300, 2, 150_000_000),
        ("5", 300, 3, 100_000_000),
    ] {
        let mut nodes = world_of(vec![team(&[weight, 1])], quotas(), vec![uses("a", cpu, memory)]);
        // The group itself has borrowed nothing.
        let expected = if expected == 0 { vec![] } else { vec![0, expected] };
        assert_eq!(shares(&mut nodes, "a"), expected, "{cpu} {memory} {weight}");
        assert_eq!(shares(&mut nodes, "b"), Vec::<i64>::new());
        assert_eq!(shares(&mut nodes, "plain"), Vec::<i64>::new());
    }
}

#[test]
fn shares_are_those_of_the_whole_path_and_follow_every_decision() {
    // 2,000 bytes are guaranteed.
    let groups = || {
        vec![
            group("org", 1000, 9000, &[]),
            below(group("team", 600, 9000, &["a", "b"]), "org"),
            group("x", 1000, 9000, &["c"]),
        ]
    };
    let quotas = vec![of_memory("a", 300, 9000), of_memory("b", 300, 9000)];
    let used = vec![in_namespace("a", "old", 500).on("n"), in_namespace("b", "old", 700).on("n")];
    let mut nodes = world_of(groups(), quotas, used);
    // `org` and `team` use 1,200: 200 and 600 beyond their mins.
    assert_eq!(shares(&mut nodes, "a"), vec![100_000_000, 300_000_000, 100_000_000]);
    assert_eq!(shares(&mut nodes, "b"), vec![100_000_000, 300_000_000, 200_000_000]);
    // `c` has no ElasticQuota, but its group is guaranteed 1,000.
    assert_eq!(shares(&mut nodes, "c"), Vec::<i64>::new());
    nodes.add_pod(&"n".into(), in_namespace("c", "new", 1500).on("n").info());
    assert_eq!(shares(&mut nodes, "c"), vec![250_000_000, 250_000_000]);
    assert!(nodes.remove_pod("n", "b-old"));
    assert_eq!(shares(&mut nodes, "b"), Vec::<i64>::new());
    assert_eq!(shares(&mut nodes, "a"), vec![0, 0, 100_000_000]);
}

#[test]
fn within_a_namespace_pods_are_tried_by_priority_then_by_time() {
    let pods = [(5, 9), (5, 10), (0, 1), (0, 2), (-1, 0)].map(|(priority, since)| {
        (in_namespace("a", "p", 1).priority(priority).info(), Timestamp::from_secs(since))
    });
    let of = |at: usize| Queued::pod(&pods[at].0, pods[at].1);
    for first in 0..pods.len() {
        for second in 0..pods.len() {
            assert_eq!(QuotaSort.less(of(first), of(second)), first < second, "{first} {second}");
        }
    }
}
