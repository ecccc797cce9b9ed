//! Soft constraints.

use harbormaster_testkit::batch_equals_single;

use super::*;

/// Scores of the given candidates, in the given order.
fn scores_of(trial: &Trial, nodes: &Cluster, pod: &PodInfo, candidates: &[&str]) -> Option<Vec<i64>> {
    batch_equals_single(trial, nodes, pod);
    let rows: Vec<NodeIdx> = candidates.iter().map(|name| nodes.find(name).unwrap()).collect();
    let set: NodeSet = rows.iter().copied().collect();
    let slot = trial.pre_score(nodes, pod, &set).unwrap();
    slot.as_ref()?;
    let indexes = trial.indexes(nodes, pod);
    let cx = Cycle::with_indexes(nodes, &indexes, pod);
    let mut scores = vec![0; nodes.rows()];
    trial.plugin().score_batch(&cx, &slot, &mut Scores::new(&set, NodeIdx(0), &mut scores)).unwrap();
    trial.plugin().normalize(&cx, &slot, &set, &mut scores).unwrap();
    Some(rows.iter().map(|row| scores[row.at()]).collect())
}

const HOST: &str = LABEL_HOSTNAME;
const ALL: [&str; 4] = ["a", "b", "x", "y"];

/// Scores with pods labeled `foo` on nodes a and b in zone 1, and x and y in zone 2.
fn on_two_zones(counts: [usize; 4], pod: PodBuilder, candidates: &[&str]) -> Vec<i64> {
    let [a, b, x, y] = counts;
    let nodes = cluster(two_zones(), foos(&[("a", a), ("b", b), ("x", x), ("y", y)]));
    scores_of(&trial(), &nodes, &pod.info(), candidates).unwrap()
}

#[test]
fn domains_with_fewer_pods_score_higher() {
    // In the names of the cases, `~3~` is the count of a node that is not a candidate.
    let on_host = |max_skew| spreading([soft(max_skew, HOST)]);
    let zone = || spreading([soft(1, "zone")]);
    for (case, counts, pod, candidates, expected) in [
        ("no pods", [0; 4], on_host(1), &ALL[..], &[100, 100, 100, 100][..]),
        ("a single candidate", [2, 1, 0, 0], on_host(1), &["a"], &[100]),
        ("equal nodes", [1, 1, 0, 0], on_host(1), &["a", "b"], &[100, 100]),
        ("2/1/0/3", [2, 1, 0, 3], on_host(1), &ALL, &[20, 60, 100, 0]),
        ("2/1/0/3, skew 2", [2, 1, 0, 3], on_host(2), &ALL, &[33, 66, 100, 16]),
        ("4/3/2/1, skew 3", [4, 3, 2, 1], on_host(3), &ALL, &[44, 66, 77, 100]),
        ("an absent selector", [2, 1, 0, 3], spreading([on_nothing(soft(1, HOST))]), &ALL, &[100; 4]),
        ("an empty selector", [2, 1, 0, 3], spreading([on_everything(soft(1, HOST))]), &ALL, &[100; 4]),
        ("4/2/1/~3~", [4, 2, 1, 3], on_host(1), &["a", "b", "x"], &[33, 83, 100]),
        ("zones, the last node filtered out", [4, 2, 1, 3], zone(), &["a", "b", "x"], &[75, 75, 100]),
        (
            "zone and node, 2/~1~/2/~4~",
            [2, 1, 2, 4],
            spreading([soft(1, "zone"), soft(1, HOST)]),
            &["a", "x"],
            &[100, 63],
        ),
        (
            "min_domains has no effect",
            [2, 2, 1, 0],
            spreading([needing(10, soft(2, "node"))]),
            &["a", "b", "x"],
            &[75, 75, 100],
        ),
    ] {
        assert_eq!(on_two_zones(counts, pod, candidates), expected, "{case}");
    }
}

#[test]
fn constraints_add_up() {
    let foo = |name: &str, node: &str| pod(name).label("foo", "").on(node);
    let bar = |name: &str, node: &str| pod(name).label("bar", "").on(node);
    let both = |name: &str, node: &str| foo(name, node).label("bar", "");
    let two_zone_constraints = [soft(1, "zone"), on_bar(soft(1, "zone"))];
    let zone_and_host = [soft(1, "zone"), on_bar(soft(1, HOST))];
    for (case, constraints, pods, candidates, expected) in [
        (
            "two constraints on zones",
            two_zone_constraints,
            vec![both("1", "a"), foo("2", "a"), both("3", "b"), foo("4", "y"), both("5", "y"), foo("6", "y")],
            &["a", "x"][..],
            &[85, 100][..],
        ),
        (
            "zone 2/2/1/1 and node 0/1/0/1",
            zone_and_host.clone(),
            vec![foo("1", "a"), both("2", "b"), foo("3", "y"), bar("4", "y")],
            &ALL,
            &[60, 20, 100, 60],
        ),
        (
            "zone 2/2/1/~1~ and node 0/1/0/~1~",
            zone_and_host,
            vec![foo("1", "a"), both("2", "b"), foo("3", "y"), bar("4", "y")],
            &["a", "b", "x"],
            &[50, 25, 100],
        ),
    ] {
        let nodes = cluster(two_zones(), pods);
        let pod = spreading(constraints).label("bar", "").info();
        assert_eq!(scores_of(&trial(), &nodes, &pod, candidates).unwrap(), expected, "{case}");
    }
}

#[test]
fn a_candidate_that_lacks_a_key_is_ignored_and_scores_zero() {
    let [a, _, x, y] = two_zones();
    let bare = node("b").node(|n| n.labels = labels(&[("n", "b")]));
    let nodes = cluster([a, bare, x, y], foos(&[("a", 4), ("b", 2), ("x", 1), ("y", 3)]));
    let pod = spreading([soft(1, HOST)]).info();
    assert_eq!(scores_of(&trial(), &nodes, &pod, &["a", "b", "x"]).unwrap(), [16, 0, 100]);
    let pod = spreading([soft(1, "rack")]).info();
    assert_eq!(scores_of(&trial(), &nodes, &pod, &ALL).unwrap(), [0; 4], "no node has the key");
}

#[test]
fn a_node_that_lacks_another_key_counts_for_no_domain() {
    let nodes = cluster(
        [zoned("a", "1"), zoned("x", "2"), node("c").label("zone", "2")],
        foos(&[("a", 1), ("x", 1), ("c", 5)]),
    );
    let pod = spreading([soft(1, "zone"), soft(1, "node")]).info();
    assert_eq!(scores_of(&trial(), &nodes, &pod, &["a", "x"]).unwrap(), [100, 100]);
}

#[test]
fn many_nodes_score_together_as_they_do_one_by_one() {
    let name = |at: usize| format!("n{at}");
    let nodes = (0..400).map(|at| match at % 90 {
        0 => node(&name(at)).node(|n| n.labels = labels(&[("n", "1")])),
        1 => node(&name(at)).label("node", &name(at)),
        _ => zoned(&name(at), ["1", "2", "3"][at % 3]),
    });
    let names: Vec<String> = (0..400).map(name).collect();
    let counts: Vec<(&str, usize)> =
        names.iter().enumerate().map(|(at, name)| (name.as_str(), at * at % 7)).collect();
    let cluster = cluster(nodes, foos(&counts));
    for constraints in [vec![soft(1, "zone")], vec![soft(1, HOST), soft(3, "zone")], vec![soft(70_000, HOST)]]
    {
        batch_equals_single(&trial(), &cluster, &spreading(constraints).info());
    }
}

#[test]
fn terminating_pods_and_other_namespaces_do_not_affect_scores() {
    let on = |name: &str, node: &str| pod(name).label("foo", "").on(node);
    let pods = [on("t", "a").terminating(), on("elsewhere", "a").namespace("other"), on("live", "b")];
    let nodes = cluster([node("a"), node("b")], pods);
    let pod = spreading([soft(1, HOST)]).info();
    assert_eq!(scores_of(&trial(), &nodes, &pod, &["a", "b"]).unwrap(), [100, 0]);
}

#[test]
fn inclusion_policies_apply_to_values_but_not_to_host_names() {
    let nodes = || {
        let (a, b) = (zoned("a", "1").label("ok", ""), zoned("b", "1").label("ok", ""));
        let c = zoned("c", "1").taint("k", "v", "NoSchedule");
        cluster([a, b, c], foos(&[("a", 2), ("b", 1), ("c", 1)]))
    };
    let selecting = |constraint| spreading([constraint]).node_selector("ok", "");
    for (case, pod, expected) in [
        ("affinity honored", selecting(soft(1, "node")), [0, 33, 100]),
        ("affinity ignored", selecting(ignoring_affinity(soft(1, "node"))), [66, 100, 100]),
        ("required affinity", spreading([soft(1, "node")]).requires_node_label("ok", &[""]), [0, 33, 100]),
        ("taints honored", spreading([honoring_taints(soft(1, "node"))]), [0, 33, 100]),
        ("taints ignored", spreading([soft(1, "node")]), [66, 100, 100]),
        ("host names", selecting(honoring_taints(soft(1, HOST))), [66, 100, 100]),
    ] {
        assert_eq!(scores_of(&trial(), &nodes(), &pod.info(), &["a", "b", "c"]).unwrap(), expected, "{case}");
    }
}

#[test]
fn pods_are_counted_per_node_for_host_names_even_if_two_nodes_share_one() {
    let twin = node("b").label(HOST, "a");
    let nodes = cluster([node("a"), twin], foos(&[("a", 2), ("b", 1)]));
    let pod = spreading([soft(1, HOST)]).info();
    assert_eq!(scores_of(&trial(), &nodes, &pod, &["a", "b"]).unwrap(), [33, 100]);
}

#[test]
fn system_defaults_spread_the_pods_that_a_service_selects() {
    let mut nodes = cluster(two_zones(), foos(&[("a", 4), ("b", 3), ("x", 2), ("y", 1)]));
    let foo = pod("p").label("foo", "").info();
    assert_eq!(scores_of(&trial(), &nodes, &foo, &ALL), None, "nothing selects the pod");
    nodes.set_object(service("s", Some(&[("foo", "")])));
    assert_eq!(scores_of(&trial(), &nodes, &foo, &ALL).unwrap(), [44, 66, 77, 100], "no node has a zone");
    assert_eq!(scores_of(&trial(), &nodes, &pod("q").info(), &ALL), None, "no service selects the pod");
}

#[test]
fn listed_defaults_require_every_key() {
    let spread = |key: &str| json!({"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway"});
    let trial = Trial::of(listing(json!([spread("node"), spread("rack")])));
    let mut nodes = cluster(
        [zoned("a", "1").label("rack", "1"), zoned("b", "1"), zoned("c", "1").label("rack", "2")],
        foos(&[("a", 1), ("b", 1)]),
    );
    nodes.set_object(workload(WorkloadKind::ReplicaSet, "rs", matching(&[("foo", "")])));
    let pod = owned_by(pod("p").label("foo", ""), "apps/v1", "ReplicaSet", "rs").info();
    assert_eq!(scores_of(&trial, &nodes, &pod, &["a", "b", "c"]).unwrap(), [0, 0, 100]);
    let own = owned_by(spreading([hard(1, "node")]), "apps/v1", "ReplicaSet", "rs").info();
    assert_eq!(
        scores_of(&trial, &nodes, &own, &["a", "b", "c"]),
        None,
        "constraints of any kind replace the defaults"
    );
}

#[test]
fn under_system_defaults_nodes_without_a_zone_are_in_the_empty_zone() {
    let zone = |name: &str, zone: &str| node(name).label(LABEL_ZONE, zone);
    let scores = |candidates: &[&str]| {
        let nodes = [node("none"), zone("empty", ""), zone("one", "1"), node("full")];
        let mut nodes = cluster(nodes, foos(&[("full", 4), ("one", 2)]));
        nodes.set_object(service("s", Some(&[("foo", "")])));
        let pod = pod("p").label("foo", "").info();
        let slot =
            trial().pre_score(&nodes, &pod, &candidates.iter().map(|c| nodes.find(c).unwrap()).collect());
        let (slot, indexes) = (slot.unwrap(), trial().indexes(&nodes, &pod));
        let cx = Cycle::with_indexes(&nodes, &indexes, &pod);
        let raw = |name: &&str| trial().plugin().score(&cx, &slot, nodes.find(name).unwrap()).unwrap();
        candidates.iter().map(raw).collect::<Vec<_>>()
    };
    let (ln4, ln5) = (4f64.ln(), 5f64.ln());
    let rounded = |score: f64| score.round() as i64;
    // The three candidates are three hosts in two zones, one of which is the empty zone.
    assert_eq!(
        scores(&["none", "empty", "one"]),
        [2, rounded(2.0 + 4.0 * ln4 + 4.0), rounded(2.0 * ln5 + 2.0 + 2.0 * ln4 + 4.0)]
    );
    // Nodes without a zone form a domain even if no node has an empty zone.
    let ln4_hosts = 4f64.ln();
    assert_eq!(scores(&["none", "one"]), [2, rounded(2.0 * ln4_hosts + 2.0 + 2.0 * ln4 + 4.0)]);
}

#[test]
fn prescore_skips_the_pod_without_soft_constraints_or_without_nodes() {
    let nodes = cluster(two_zones(), []);
    for (case, pod, skipped) in [
        ("hard only", spreading([hard(1, "zone")]), true),
        ("none", pod("p"), true),
        ("soft", spreading([soft(1, "zone")]), false),
    ] {
        let scores = scores_of(&trial(), &nodes, &pod.info(), &ALL);
        assert_eq!(scores.is_none(), skipped, "{case}");
    }
    let pod = spreading([soft(1, "zone")]).info();
    assert_eq!(scores_of(&trial(), &cluster([], []), &pod, &[]), None, "no nodes");
}

#[test]
fn scores_round_halves_away_from_zero() {
    for (score, expected) in
        [(0.0, 0), (0.5, 1), (0.499_999_999_999_999_94, 0), (1.5, 2), (2.5, 3), (-0.5, -1), (7.4, 7)]
    {
        assert_eq!(super::super::score::round(score), expected, "{score}");
    }
}
