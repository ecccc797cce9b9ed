//! Hard constraints.

use harbormaster_testkit::{batch_equals_single, tolerates};

use super::*;

const FITS: &str = "fits";
const SKEW: &str = "skew";
const LABEL: &str = "label";

/// The pod's verdicts in the order of rows.
fn verdicts(trial: &Trial, nodes: &Cluster, pod: &PodInfo) -> Vec<&'static str> {
    batch_equals_single(trial, nodes, pod);
    let skew = Reject::evictable("node(s) didn't match pod topology spread constraints");
    let label =
        Reject::unresolvable("node(s) didn't match pod topology spread constraints (missing required label)");
    let name = |row: NodeIdx| match trial.verdict(nodes, pod, nodes.node(row).name()) {
        Ok(()) => FITS,
        Err(reject) if reject == skew => SKEW,
        Err(reject) => {
            assert_eq!(reject, label);
            LABEL
        }
    };
    nodes.live().iter().map(name).collect()
}

/// Verdicts with pods labeled `foo` on nodes a and b in zone 1, and x and y in zone 2.
fn on_two_zones(counts: [usize; 4], pod: PodBuilder) -> Vec<&'static str> {
    let [a, b, x, y] = counts;
    let nodes = cluster(two_zones(), foos(&[("a", a), ("b", b), ("x", x), ("y", y)]));
    verdicts(&trial(), &nodes, &pod.info())
}

#[test]
fn the_domain_of_the_node_may_exceed_the_smallest_by_at_most_max_skew() {
    let not_foo = |constraint| {
        spreading([])
            .pod(|p| p.labels = labels(&[("bar", "")]))
            .spec(|s| s.topology_spread = vec![constraint])
    };
    for (case, counts, pod, expected) in [
        ("no pods", [0; 4], spreading([hard(1, "zone")]), [FITS; 4]),
        ("no pods, the pod does not match itself", [0; 4], not_foo(hard(1, "zone")), [FITS; 4]),
        ("zones 3/3", [2, 1, 0, 3], spreading([hard(1, "zone")]), [FITS; 4]),
        ("nodes 2/1/0/3", [2, 1, 0, 3], spreading([hard(1, "node")]), [SKEW, SKEW, FITS, SKEW]),
        ("nodes 2/1/0/3, skew 2", [2, 1, 0, 3], spreading([hard(2, "node")]), [SKEW, FITS, FITS, SKEW]),
        (
            "nodes 2/1/0/3, the pod does not match itself",
            [2, 1, 0, 3],
            not_foo(hard(1, "node")),
            [SKEW, FITS, FITS, SKEW],
        ),
        ("no node has the key", [0; 4], spreading([hard(1, "rack")]), [LABEL; 4]),
        ("soft constraints only", [9, 0, 0, 0], spreading([soft(1, "node")]), [FITS; 4]),
        ("an absent selector", [9, 0, 0, 0], spreading([on_nothing(hard(1, "node"))]), [FITS; 4]),
        (
            "a zone and its nodes",
            [2, 1, 0, 3],
            spreading([hard(1, "zone"), hard(1, "node")]),
            [SKEW, SKEW, FITS, SKEW],
        ),
        ("the other zone", [2, 1, 0, 4], spreading([hard(1, "zone"), hard(1, "node")]), [SKEW; 4]),
    ] {
        assert_eq!(on_two_zones(counts, pod), expected, "{case}");
    }
}

#[test]
fn with_fewer_domains_than_min_domains_the_smallest_counts_as_zero() {
    let three = || [("a", "1"), ("b", "1"), ("x", "2")].map(|(name, zone)| zoned(name, zone));
    let nodes = cluster(three(), foos(&[("a", 2), ("b", 2), ("x", 1)]));
    for (min, expected) in [(4, [SKEW, SKEW, FITS]), (3, [FITS; 3]), (2, [FITS; 3])] {
        let pod = spreading([needing(min, hard(2, "node"))]).info();
        assert_eq!(verdicts(&trial(), &nodes, &pod), expected, "nodes 2/2/1 with minDomains {min}");
    }
    let nodes = cluster(two_zones(), foos(&[("a", 1), ("b", 1), ("x", 1)]));
    for (min, expected) in [(3, [SKEW, SKEW, FITS, FITS]), (2, [FITS; 4])] {
        let pod = spreading([needing(min, hard(2, "zone"))]).info();
        assert_eq!(verdicts(&trial(), &nodes, &pod), expected, "zones 2/1 with minDomains {min}");
    }
}

#[test]
fn nodes_that_the_pods_affinity_excludes_are_not_domains() {
    let nodes = cluster(two_zones(), foos(&[("a", 2), ("b", 1), ("y", 3)]));
    let pod = |constraint| spreading([constraint]).requires_node_label("node", &["a", "y"]).info();
    // Excluded nodes fit as far as this plugin is concerned; another plugin rejects them.
    assert_eq!(verdicts(&trial(), &nodes, &pod(hard(1, "node"))), [FITS, FITS, FITS, SKEW]);
    assert_eq!(
        verdicts(&trial(), &nodes, &pod(ignoring_affinity(hard(1, "node")))),
        [SKEW, SKEW, FITS, SKEW]
    );
    let selected = spreading([hard(1, "node")]).node_selector("node", "y").info();
    assert_eq!(verdicts(&trial(), &nodes, &selected), [FITS; 4]);
    let nodes = cluster(two_zones(), foos(&[("b", 2), ("y", 1)]));
    let pod = spreading([hard(1, "zone")]).requires_node_label("node", &["a", "x", "y"]).info();
    assert_eq!(
        verdicts(&trial(), &nodes, &pod),
        [FITS, FITS, SKEW, SKEW],
        "zones 0/1, because b is excluded"
    );
}

#[test]
fn an_affinity_with_a_syntax_error_excludes_every_node() {
    let nodes = cluster(two_zones(), foos(&[("a", 5)]));
    let pod = spreading([hard(1, "node")]).requires_node_label("node", &[]).info();
    assert_eq!(verdicts(&trial(), &nodes, &pod), [FITS; 4]);
}

#[test]
fn nodes_with_untolerated_taints_are_excluded_only_if_the_constraint_honors_taints() {
    let nodes = || {
        let [a, b, x, y] = two_zones();
        cluster([a, b, x, y.taint("k", "v", "NoSchedule")], foos(&[("a", 1), ("b", 1), ("x", 1)]))
    };
    let tolerant = |pod: PodBuilder| pod.tolerate(tolerates("k", ""));
    for (case, pod, expected) in [
        ("ignored", spreading([hard(1, "node")]), [SKEW, SKEW, SKEW, FITS]),
        ("honored", spreading([honoring_taints(hard(1, "node"))]), [FITS; 4]),
        ("tolerated", tolerant(spreading([honoring_taints(hard(1, "node"))])), [SKEW, SKEW, SKEW, FITS]),
    ] {
        assert_eq!(verdicts(&trial(), &nodes(), &pod.info()), expected, "{case}");
    }
    let [a, b, x, y] = two_zones();
    let preferring = cluster([a, b, x, y.taint("k", "v", "PreferNoSchedule")], foos(&[("a", 1)]));
    let pod = spreading([honoring_taints(hard(1, "node"))]).info();
    assert_eq!(
        verdicts(&trial(), &preferring, &pod),
        [SKEW, FITS, FITS, FITS],
        "a preference excludes nothing"
    );
}

#[test]
fn every_constraint_has_its_own_inclusion_policies() {
    let [a, b, x, y] = two_zones();
    let labelled = |node: NodeBuilder| node.label("ok", "");
    let nodes = cluster([labelled(a), labelled(b), labelled(x), y], foos(&[("a", 1), ("b", 1), ("y", 1)]));
    let pod = spreading([hard(1, "zone"), ignoring_affinity(hard(1, "node"))]).node_selector("ok", "").info();
    assert_eq!(verdicts(&trial(), &nodes, &pod), [SKEW, SKEW, FITS, SKEW]);
}

#[test]
fn without_their_gate_inclusion_policies_are_ignored() {
    let features = Features::default().with(Feature::NodeInclusionPolicyInPodTopologySpread, false);
    let trial = Trial::of(with_features(features));
    let [a, b, x, y] = two_zones();
    let nodes = cluster([a, b, x, y.taint("k", "v", "NoSchedule")], foos(&[("a", 1), ("b", 1), ("x", 1)]));
    let pod = spreading([honoring_taints(hard(1, "node"))]).info();
    assert_eq!(verdicts(&trial, &nodes, &pod), [SKEW, SKEW, SKEW, FITS]);
    let pod =
        spreading([ignoring_affinity(hard(1, "node"))]).requires_node_label("node", &["a", "b", "x"]).info();
    assert_eq!(verdicts(&trial, &nodes, &pod), [FITS; 4]);
}

#[test]
fn terminating_pods_and_other_namespaces_do_not_count() {
    let on = |name: &str, node: &str| pod(name).label("foo", "").on(node);
    let pods = [on("t", "a").terminating(), on("elsewhere", "x").namespace("other"), on("live", "b")];
    let nodes = cluster([zoned("a", "1"), zoned("b", "1"), zoned("x", "1")], pods);
    let pod = spreading([hard(1, "node")]).info();
    assert_eq!(verdicts(&trial(), &nodes, &pod), [FITS, SKEW, FITS]);
}

#[test]
fn constraints_with_the_same_key_are_independent() {
    let both = |name: &str, node: &str| pod(name).label("foo", "").label("bar", "").on(node);
    let foo = |name: &str, node: &str| pod(name).label("foo", "").on(node);
    let mut pods =
        vec![both("1", "a"), foo("2", "a"), both("3", "b"), foo("4", "y"), both("5", "y"), foo("6", "y")];
    let pod = spreading([on_bar(hard(1, "zone")), hard(1, "zone")]).label("bar", "").info();
    let verdict = |pods: &Vec<PodBuilder>| verdicts(&trial(), &cluster(two_zones(), pods.clone()), &pod);
    assert_eq!(verdict(&pods), [SKEW, SKEW, FITS, FITS], "zones 3/3 for foo and 2/1 for bar");
    pods.push(foo("7", "y"));
    assert_eq!(verdict(&pods), [SKEW; 4], "zones 3/4 for foo and 2/1 for bar");
}

#[test]
fn a_node_that_lacks_one_key_counts_for_no_constraint() {
    let bare = node("x").label("zone", "2");
    let [a, b, _, y] = two_zones();
    let nodes = cluster([a, b, bare, y], foos(&[("a", 1), ("x", 1), ("y", 0)]));
    let pod = spreading([hard(1, "zone"), hard(1, "node")]).info();
    // If the pods on x were counted, both zones would have one pod, and b would fit.
    assert_eq!(verdicts(&trial(), &nodes, &pod), [SKEW, SKEW, LABEL, FITS]);
}

#[test]
fn the_first_constraint_that_fails_is_reported() {
    let nodes = cluster([zoned("a", "1"), node("b").label("zone", "2")], foos(&[("a", 0), ("b", 5)]));
    let by_zone_first = spreading([hard(1, "zone"), hard(1, "node")]).info();
    assert_eq!(verdicts(&trial(), &nodes, &by_zone_first), [FITS, LABEL], "the zone of b is not a domain");
    let nodes = cluster([zoned("a", "1"), zoned("b", "2"), node("c").label("zone", "1")], foos(&[("a", 5)]));
    let pods = |constraints: [TopologySpreadConstraint; 2]| spreading(constraints).info();
    assert_eq!(verdicts(&trial(), &nodes, &pods([hard(1, "zone"), hard(1, "node")])), [SKEW, FITS, SKEW]);
    assert_eq!(verdicts(&trial(), &nodes, &pods([hard(1, "node"), hard(1, "zone")])), [SKEW, FITS, LABEL]);
}

#[test]
fn an_empty_selector_counts_no_pods_but_matches_the_pod_itself() {
    let nodes = cluster(two_zones(), foos(&[("a", 9)]));
    let pod = spreading([on_everything(hard(1, "node"))]).info();
    assert_eq!(verdicts(&trial(), &nodes, &pod), [FITS; 4]);
    let pod = spreading([on_everything(hard(0, "node"))]).info();
    assert_eq!(verdicts(&trial(), &nodes, &pod), [SKEW; 4], "the pod itself is one too many");
}

#[test]
fn label_keys_narrow_the_selector_to_similar_pods() {
    let old = |name: &str, node: &str| pod(name).label("foo", "").label("rev", "1").on(node);
    let new = |name: &str, node: &str| pod(name).label("foo", "").label("rev", "2").on(node);
    let nodes = cluster(two_zones(), [old("1", "a"), old("2", "a"), new("3", "b"), new("4", "x")]);
    let keyed = |constraint, keys: &[&str]| TopologySpreadConstraint {
        match_label_keys: keys.iter().map(|k| Str::from(*k)).collect(),
        ..constraint
    };
    let pod = |constraint| spreading([constraint]).label("rev", "2").info();
    let narrowed = [FITS, SKEW, SKEW, FITS];
    for (case, constraint, expected) in [
        ("a key", keyed(hard(1, "node"), &["rev"]), narrowed),
        ("a key that the pod lacks", keyed(hard(1, "node"), &["none"]), [SKEW, SKEW, SKEW, FITS]),
        ("an empty selector", keyed(on_everything(hard(1, "node")), &["rev"]), narrowed),
        ("an empty selector and no key", keyed(on_everything(hard(1, "node")), &["none"]), [FITS; 4]),
        ("an absent selector", keyed(on_nothing(hard(1, "node")), &["rev"]), [FITS; 4]),
    ] {
        assert_eq!(verdicts(&trial(), &nodes, &pod(constraint)), expected, "{case}");
    }
    let off = Features::default().with(Feature::MatchLabelKeysInPodTopologySpread, false);
    let constraint = keyed(hard(1, "node"), &["rev"]);
    assert_eq!(verdicts(&Trial::of(with_features(off)), &nodes, &pod(constraint)), [SKEW, SKEW, SKEW, FITS]);
}

#[test]
fn prefilter_skips_the_pod_only_without_hard_constraints() {
    let by_default =
        listing(json!([{"maxSkew": 1, "topologyKey": "node", "whenUnsatisfiable": "DoNotSchedule"}]));
    let mut nodes = cluster(two_zones(), foos(&[("a", 1)]));
    nodes.set_object(service("s", Some(&[("foo", "")])));
    let foo = || pod("p").label("foo", "");
    for (case, plugin, pod, skipped) in [
        ("a hard constraint", plugin(), spreading([hard(1, "node")]), false),
        ("a soft constraint", plugin(), spreading([soft(1, "node")]), true),
        ("none", plugin(), foo(), true),
        ("a hard default", by_default.clone(), foo(), false),
        ("a hard default that selects nothing", by_default.clone(), pod("bar"), true),
        (
            "a hard default that a soft constraint disables",
            by_default.clone(),
            spreading([soft(1, "node")]),
            true,
        ),
    ] {
        let answer = Trial::of(plugin).pre_filter(&nodes, &pod.info()).unwrap();
        assert_eq!(matches!(answer, PreFiltered::Skip), skipped, "{case}: {answer:?}");
    }
    assert_eq!(verdicts(&Trial::of(by_default), &nodes, &foo().info()), [SKEW, FITS, FITS, FITS]);
}

#[test]
fn pods_on_unknown_nodes_do_not_count() {
    let mut nodes = cluster(two_zones(), foos(&[("a", 1), ("b", 1), ("x", 1), ("gone", 3)]));
    let pod = spreading([hard(1, "node")]).info();
    assert_eq!(verdicts(&trial(), &nodes, &pod), [SKEW, SKEW, SKEW, FITS]);
    nodes.remove_node("y");
    nodes.refresh();
    assert_eq!(verdicts(&trial(), &nodes, &pod), [FITS; 3]);
}
