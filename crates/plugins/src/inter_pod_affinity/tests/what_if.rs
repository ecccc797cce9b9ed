//! Tests of what-if questions.

use std::sync::Arc;

use harbormaster_testkit::{NodeBuilder, adding_and_removing_is_neutral, cluster, node, pod};

use super::*;

fn nodes() -> [NodeBuilder; 3] {
    let at = |name, zone| node(name).label("region", "r1").label("zone", zone);
    [at("na", "z1"), at("nb", "z2"), node("nc").label("region", "r1")]
}

fn foo(name: &str) -> PodBuilder {
    pod(name).label("foo", "bar")
}

fn same(key: &str) -> PodAffinityTerm {
    term(key, &[has("foo")])
}

fn waiting() -> Vec<(&'static str, PodBuilder)> {
    vec![
        ("anti-affinity", foo("p").shuns(same("zone"))),
        (
            "two anti-affinity terms with one key",
            foo("p").shuns(same("zone")).shuns(term("zone", &[has("x")])),
        ),
        ("affinity to itself", foo("p").wants(same("zone"))),
        ("affinity in two domains", foo("p").wants(same("zone")).wants(term("region", &[has("foo")]))),
        ("affinity to others", pod("p").wants(same("zone"))),
        ("affinity and anti-affinity", foo("p").wants(same("region")).shuns(same("zone"))),
    ]
}

/// Runs PreFilter on `nodes`, applies the changes, and returns the verdict for each node.
fn changed(nodes: &Cluster, pod: &PodInfo, changes: &[(bool, &str, Arc<PodInfo>)]) -> Vec<&'static str> {
    let trial = trial();
    let indexes = trial.indexes(nodes, pod);
    let cx = Cycle::with_indexes(nodes, &indexes, pod);
    let mut slot = None;
    trial.plugin().pre_filter(&cx, &mut slot).unwrap();
    assert!(slot.is_some(), "PreFilter skips");
    for (joins, node, other) in changes {
        let row = nodes.find(node).unwrap();
        let plugin = trial.plugin();
        if *joins {
            plugin.add_pod(&cx, &mut slot, other, row)
        } else {
            plugin.remove_pod(&cx, &mut slot, other, row)
        }
        .unwrap();
    }
    each(nodes).map(|node| word(&trial.plugin().filter(&cx, &slot, node.idx()).map_err(rejection))).collect()
}

#[test]
fn a_pod_that_joins_or_leaves_has_the_same_effect_as_in_a_new_attempt() {
    let others = [
        foo("o"),
        pod("o").label("x", ""),
        pod("o").shuns(same("zone")),
        foo("o").shuns(same("zone")).shuns(term("region", &[has("foo")])).wants(same("zone")),
        foo("o").shuns(term("a key that no other pod uses", &[has("foo")])),
        foo("o").namespace("elsewhere"),
        foo("o").terminating(),
    ];
    let before = || vec![foo("q").on("na"), pod("r").shuns(same("zone")).on("nb")];
    for there in [before(), Vec::new()] {
        for (case, incoming) in waiting() {
            for other in &others {
                for on in ["na", "nb", "nc"] {
                    let incoming = incoming.clone().info();
                    let with = there.iter().cloned().chain([other.clone().on(on)]);
                    let (without, with) = (cluster(nodes(), there.clone()), cluster(nodes(), with));
                    let other = other.clone().on(on).info();
                    let joined = changed(&without, &incoming, &[(true, on, other.clone())]);
                    assert_eq!(joined, verdicts(&with, &incoming), "{case}, {other:?} joins {on}");
                    let left = changed(&with, &incoming, &[(false, on, other.clone())]);
                    assert_eq!(left, verdicts(&without, &incoming), "{case}, {other:?} leaves {on}");
                }
            }
        }
    }
}

#[test]
fn adding_and_removing_a_pod_changes_nothing() {
    let mut table = cluster(nodes(), [foo("q").on("na"), pod("r").shuns(same("zone")).on("nb")]);
    for (_, incoming) in waiting() {
        for other in [foo("o"), foo("o").shuns(same("zone")), pod("o")] {
            adding_and_removing_is_neutral(&trial(), &mut table, &incoming.clone().info(), &other.info());
        }
    }
}

#[test]
fn after_the_last_pod_of_a_group_has_left_the_next_pod_counts_as_the_first() {
    let member = foo("q").on("na");
    let table = cluster(nodes(), [member.clone()]);
    let incoming = foo("p").wants(same("zone")).info();
    assert_eq!(changed(&table, &incoming, &[]), [FITS, AFFINITY, AFFINITY]);
    let leaves = (false, "na", member.info());
    assert_eq!(changed(&table, &incoming, std::slice::from_ref(&leaves)), [FITS, FITS, AFFINITY]);
    let joins = (true, "nb", foo("o").info());
    assert_eq!(changed(&table, &incoming, &[leaves.clone(), joins.clone()]), [AFFINITY, FITS, AFFINITY]);
    let elsewhere = (true, "nc", foo("o").info());
    assert_eq!(changed(&table, &incoming, &[leaves, elsewhere]), [FITS, FITS, AFFINITY]);
}

#[test]
fn a_domain_stays_excluded_until_its_last_matching_pod_leaves() {
    let pods = [foo("q").on("na"), foo("r").on("na")];
    let table = cluster(nodes(), pods.clone());
    let apart = foo("p").shuns(same("zone")).info();
    let leaves = pods.map(|pod| (false, "na", pod.info()));
    assert_eq!(changed(&table, &apart, &leaves[..1]), [ANTI, FITS, FITS]);
    assert_eq!(changed(&table, &apart, &leaves), [FITS; 3]);
}

#[test]
fn a_pod_that_joins_may_use_an_unwatched_key() {
    let table = cluster(nodes().map(|n| n.label("rack", "r")), []);
    let incoming = foo("p").shuns(term("zone", &[has("x")])).info();
    let joins = (true, "na", pod("o").shuns(same("rack")).info());
    assert_eq!(changed(&table, &incoming, &[joins]), [OTHERS; 3]);
}

#[test]
fn copies_of_the_state_change_independently() {
    let table = cluster(nodes(), [foo("q").on("na")]);
    let incoming = foo("p").shuns(same("zone")).info();
    let trial = trial();
    let indexes = trial.indexes(&table, &incoming);
    let cx = Cycle::with_indexes(&table, &indexes, &incoming);
    let mut slot = None;
    trial.plugin().pre_filter(&cx, &mut slot).unwrap();
    let mut copy = slot.clone();
    let row = table.find("na").unwrap();
    trial.plugin().remove_pod(&cx, &mut copy, &foo("q").info(), row).unwrap();
    assert!(trial.plugin().filter(&cx, &copy, row).is_ok());
    assert!(trial.plugin().filter(&cx, &slot, row).is_err());
}
