//! Scores.

use harbormaster_testkit::{NodeBuilder, cluster, node, pod};

use super::*;

fn region(name: &str, region: &str) -> NodeBuilder {
    node(name).label("region", region)
}

fn zone(name: &str, zone: &str) -> NodeBuilder {
    node(name).label("az", zone)
}

fn level(key: &str, level: &str) -> PodAffinityTerm {
    term(key, &[one_of("security", &[level])])
}

fn s(level: &str) -> PodBuilder {
    pod("s").label("security", level)
}

fn near_s1(pod: PodBuilder) -> PodBuilder {
    pod.likes(5, level("region", "S1"))
}

fn near_s2(pod: PodBuilder) -> PodBuilder {
    pod.likes(6, level("region", "S2"))
}

fn near_s1_far_from_s2(pod: PodBuilder) -> PodBuilder {
    pod.likes(8, level("region", "S1")).dislikes(5, level("az", "S2"))
}

/// Scores of `n1`, `n2`, …; `None` if PreScore skips the pod.
fn scores_of(trial: &Trial, nodes: &Cluster, pod: &PodInfo) -> Option<Vec<i64>> {
    batch_equals_single(trial, nodes, pod);
    let scores = trial.scores(nodes, pod).unwrap()?;
    let mut named: Vec<_> = each(nodes).map(|n| n.name().clone()).zip(scores).collect();
    named.sort();
    Some(named.into_iter().map(|(_, score)| score).collect())
}

fn scores(
    nodes: impl IntoIterator<Item = NodeBuilder>,
    pods: impl IntoIterator<Item = (&'static str, PodBuilder)>,
    incoming: PodBuilder,
) -> Option<Vec<i64>> {
    scores_in(Release::V1_36, nodes, pods, incoming)
}

fn scores_in(
    release: Release,
    nodes: impl IntoIterator<Item = NodeBuilder>,
    pods: impl IntoIterator<Item = (&'static str, PodBuilder)>,
    incoming: PodBuilder,
) -> Option<Vec<i64>> {
    let pods = pods.into_iter().enumerate().map(|(at, (node, pod))| pod.uid(&format!("u{at}")).on(node));
    scores_of(&trial_in(release), &with_teams(cluster(nodes, pods)), &incoming.info())
}

fn china_india_az1() -> [NodeBuilder; 3] {
    [region("n1", "China"), region("n2", "India"), zone("n3", "az1")]
}

#[test]
fn the_nodes_of_a_domain_with_preferred_pods_score_highest() {
    let pods = || [("n1", s("S1")), ("n2", s("S2")), ("n3", s("S1"))];
    assert_eq!(
        scores(china_india_az1(), pods(), near_s1(s("S1"))),
        Some(vec![100, 0, 0]),
        "a pod on a node without the key adds nothing"
    );
    let two_in_china =
        [region("n1", "China"), region("n2", "China").label("az", "az1"), region("n3", "India")];
    assert_eq!(
        scores(two_in_china, [("n1", s("S1"))], near_s1(pod("p"))),
        Some(vec![100, 100, 0]),
        "all nodes of the domain are equal"
    );
    let five = [("n1", "China"), ("n2", "India"), ("n3", "China"), ("n4", "China"), ("n5", "India")];
    assert_eq!(
        scores(
            five.map(|(name, at)| region(name, at)),
            ["n1", "n1", "n2", "n3", "n4", "n5"].map(|node| (node, s("S2"))),
            near_s2(s("S1"))
        ),
        Some(vec![100, 0, 100, 100, 0]),
        "more pods are better"
    );
    let weighted = pod("p")
        .likes(8, term("region", &[none_of("security", &["S1"]), one_of("security", &["S2"])]))
        .likes(2, term("region", &[has("security"), lacks("wrongkey")]));
    assert_eq!(scores(china_india_az1(), pods(), weighted), Some(vec![20, 100, 0]), "sums of 2, 10 and 0");
}

#[test]
fn disliked_pods_make_a_domain_worse() {
    let far = || s("S1").dislikes(5, level("az", "S1"));
    let az_and_region = || [zone("n1", "az1"), region("n2", "China")];
    for (case, pods) in [
        ("the pod on n2 is not disliked", vec![("n1", s("S1")), ("n2", s("S2"))]),
        ("n2 lacks the key", vec![("n1", s("S1")), ("n2", s("S1"))]),
        ("two disliked pods on n1", vec![("n1", s("S1")), ("n1", s("S1")), ("n2", s("S2"))]),
    ] {
        assert_eq!(scores(az_and_region(), pods, far()), Some(vec![0, 100]), "{case}");
    }
}

#[test]
fn preferences_of_pods_on_nodes_also_count() {
    let pods = || [("n1", near_s1(s("S1"))), ("n2", near_s2(s("S2")))];
    assert_eq!(scores(china_india_az1(), pods(), s("S2")), Some(vec![0, 100, 0]));
    let far = |level_of: &str, other: &str| s(level_of).dislikes(5, level("az", other));
    assert_eq!(
        scores(
            [zone("n1", "az1"), zone("n2", "az2")],
            [("n1", far("S1", "S2")), ("n2", far("S2", "S1"))],
            s("S2")
        ),
        Some(vec![0, 100])
    );
    let selected = |weight: i32| {
        let there = within(level("region", "S1"), &["b2"], Some(&[one_of("team", &["a"])]));
        if weight > 0 { s("S1").likes(weight, there) } else { s("S1").dislikes(-weight, there) }
    };
    let pods = |weight| [("n1", selected(weight)), ("n2", near_s2(s("S2")))];
    assert_eq!(scores(china_india_az1(), pods(5), s("S1").namespace("a1")), Some(vec![100, 0, 0]));
    assert_eq!(scores(china_india_az1(), pods(-5), s("S1").namespace("a1")), Some(vec![0, 100, 100]));
    assert_eq!(scores(china_india_az1(), pods(5), s("S1").namespace("b1")), None, "a pod of the other team");
    assert_eq!(
        scores(china_india_az1(), pods(5), s("S1").namespace("b2")),
        Some(vec![100, 0, 0]),
        "a listed namespace"
    );
}

#[test]
fn affinity_and_anti_affinity_of_the_pod_and_of_others_add_up() {
    assert_eq!(
        scores(
            [region("n1", "China"), zone("n2", "az1")],
            [("n1", s("S1")), ("n2", s("S1"))],
            near_s1_far_from_s2(s("S1"))
        ),
        Some(vec![100, 0])
    );
    let five = [
        region("n1", "China").label("az", "az1"),
        region("n2", "India"),
        region("n3", "China"),
        region("n4", "China"),
        region("n5", "India"),
    ];
    assert_eq!(
        scores(
            five,
            ["n1", "n1", "n2", "n3", "n3", "n4", "n5"].map(|node| (node, s("S1"))),
            near_s1_far_from_s2(s("S1"))
        ),
        Some(vec![100, 0, 100, 100, 0])
    );
    assert_eq!(
        scores(
            [region("n1", "China"), zone("n2", "az1"), region("n3", "India"), zone("n4", "az2")],
            [
                ("n1", s("S1")),
                ("n2", s("S2")),
                ("n3", near_s1_far_from_s2(pod("q"))),
                ("n4", pod("q").dislikes(5, level("az", "S1"))),
            ],
            near_s1_far_from_s2(s("S1"))
        ),
        Some(vec![100, 0, 100, 0]),
        "sums of 8, -5, 8 and -5"
    );
}

#[test]
fn own_preferences_apply_to_listed_or_selected_namespaces() {
    let there = || within(level("region", "S1"), &["b2"], Some(&[one_of("team", &["a"])]));
    let nodes = || [region("n1", "China"), region("n2", "India")];
    for (third, name) in [("b1", "neither listed nor selected"), ("b2", "listed")] {
        let pods = || {
            [("n1", "a1"), ("n1", "a1"), ("n1", third), ("n2", "a2")]
                .map(|(n, ns)| (n, s("S1").namespace(ns)))
        };
        let incoming = || s("S1").namespace("a1");
        assert_eq!(scores(nodes(), pods(), incoming().likes(5, there())), Some(vec![100, 0]), "{name}");
        assert_eq!(scores(nodes(), pods(), incoming().dislikes(5, there())), Some(vec![0, 100]), "{name}");
    }
    let anywhere_but_a = within(level("region", "S1"), &[], Some(&[none_of("team", &["a"])]));
    for (release, expected) in [(Release::V1_36, Some(vec![100, 0])), (Release::V1_37, None)] {
        let incoming = pod("p").likes(5, anywhere_but_a.clone());
        let scores = scores_in(release, nodes(), [("n1", s("S1").namespace("a1"))], incoming);
        assert_eq!(scores, expected, "a negative selector of the pod's own term in {release}");
    }
    let held = pod("q").likes(5, anywhere_but_a);
    assert_eq!(
        scores(nodes(), [("n1", held)], s("S1").namespace("a1")),
        None,
        "a negative selector of another pod's term does not"
    );
}

#[test]
fn required_affinity_of_pods_on_nodes_counts_with_its_own_weight() {
    let wanting = || {
        let in_a = within(level("region", "S1"), &["default", "b2"], Some(&[one_of("team", &["a"])]));
        pod("q").wants(in_a)
    };
    let nodes = || {
        let pods = ["n1", "n2"].map(|node| wanting().uid(node).on(node));
        with_teams(cluster(china_india_az1(), pods))
    };
    let with = |weight, namespace| {
        scores_of(&trial_with(weight, false), &nodes(), &s("S1").namespace(namespace).info())
    };
    assert_eq!(with(1, "default"), Some(vec![100, 100, 0]));
    assert_eq!(with(0, "default"), None, "the weight is zero");
    assert_eq!(with(1, "a1"), Some(vec![100, 100, 0]), "a selected namespace");
    assert_eq!(with(1, "b2"), Some(vec![100, 100, 0]), "a listed namespace");
    assert_eq!(with(1, "b1"), None, "neither listed nor selected");
    let twice = || pod("q").wants(level("region", "S1")).wants(term("region", &[has("security")]));
    assert_eq!(
        scores(china_india_az1(), [("n1", twice()), ("n2", twice())], s("S2")),
        Some(vec![100, 100, 0]),
        "each term counts by itself"
    );
    let anti = pod("q").shuns(level("region", "S1"));
    assert_eq!(
        scores(china_india_az1(), [("n1", anti)], s("S1")),
        None,
        "required anti-affinity never counts"
    );
}

#[test]
fn equal_sums_score_zero_not_a_hundred() {
    let nodes = || [region("n1", "China"), region("n2", "China")];
    let pods = [("n1", s("S1")), ("n2", near_s1_far_from_s2(pod("q")))];
    assert_eq!(scores(nodes(), pods, s("S1")), Some(vec![0, 0]));
}

/// As in kube-scheduler, PreScore skips only if no domain got a number, not if all sums are zero.
#[test]
fn contributions_that_cancel_out_are_scored() {
    let nodes = || [region("n1", "China"), region("n2", "India")];
    let both = || pod("p").likes(5, level("region", "S1")).dislikes(5, level("region", "S1"));
    assert_eq!(scores(nodes(), [("n1", s("S1"))], both()), Some(vec![0, 0]), "terms of the pod itself");
    assert_eq!(scores(nodes(), [("n1", both())], s("S1")), Some(vec![0, 0]), "terms of the bound pod");
    assert_eq!(scores(nodes(), [], both()), None);
    assert_eq!(scores([node("n1")], [("n1", s("S1"))], both()), None, "no node has the key");
}

#[test]
fn scores_are_truncated_not_rounded() {
    let nodes = [region("n1", "a"), region("n2", "b"), region("n3", "c"), region("n4", "d")];
    let pods = [("n2", s("S1")), ("n3", s("S1")), ("n3", s("S1"))];
    let more = ["n4"; 7].map(|node| (node, s("S1")));
    let found = scores(nodes, pods.into_iter().chain(more), near_s1(pod("p")));
    assert_eq!(found, Some(vec![0, 14, 28, 100]), "sums of 5, 10 and 35");
    let nodes = [region("n1", "a"), region("n2", "b"), region("n3", "c")];
    let weighted = pod("p").likes(29, level("region", "S1")).likes(100, level("region", "S2"));
    let found = scores(nodes, [("n2", s("S1")), ("n3", s("S2"))], weighted);
    assert_eq!(found, Some(vec![0, 28, 100]), "100 * (29 / 100) is slightly less than 29 as a float");
}

#[test]
fn preferences_of_bound_pods_can_be_ignored() {
    let nodes = || {
        let pods = [near_s1_far_from_s2(s("S1")).on("n1"), near_s2(s("S2")).uid("u").on("n2")];
        cluster([region("n1", "China"), region("n2", "India")], pods)
    };
    let found = |ignore, pod: PodBuilder| scores_of(&trial_with(1, ignore), &nodes(), &pod.info());
    assert_eq!(found(true, s("S2")), None);
    assert_eq!(found(false, s("S2")), Some(vec![0, 100]));
    let own = s("S2").likes(1, level("region", "S1"));
    assert_eq!(
        found(true, own),
        Some(vec![0, 100]),
        "if the pod has preferences of its own, all terms count: sums of 1 and 6"
    );
    let cannot_match = s("S2").likes(1, term("nowhere", &[has("x")]));
    assert_eq!(found(true, cannot_match), Some(vec![0, 100]), "the preference need not match");
}

#[test]
fn a_pod_to_which_no_term_applies_is_not_scored() {
    assert_eq!(scores(china_india_az1(), [], s("S1")), None);
    assert_eq!(scores([], [], s("S2")), None, "no nodes");
    assert_eq!(
        scores(china_india_az1(), [("gone", near_s1(pod("q")))], s("S1")),
        None,
        "a pod on an unknown node"
    );
}

#[test]
fn a_syntax_error_fails_pre_score() {
    let nodes = cluster(china_india_az1(), []);
    let bad = || term("region", &[one_of("security", &["{{.bad-value.}}"])]);
    for (pod, list) in [
        (pod("p").likes(8, bad()), "preferredAffinityTerms"),
        (pod("p").dislikes(5, bad()), "preferredAntiAffinityTerms"),
    ] {
        let error = trial().pre_score(&nodes, &pod.info(), nodes.live()).unwrap_err().source.to_string();
        assert!(
            error.starts_with(&format!("failed to parse pod: {list}: values[0][security]: Invalid")),
            "{error}"
        );
    }
}
