//! Victims that belong to groups.

use harbormaster_framework::group::{GroupId, PodGroup};

use super::*;

fn group(name: &str, priority: Option<i32>, disruption: Disruption) -> PodGroup {
    let id = GroupId { namespace: "default".into(), name: name.into() };
    let spec = GroupSpec { priority, disruption, ..GroupSpec::default() };
    PodGroup { id, uid: name.into(), generation: 1, spec }
}

/// A member of the group `g` that fills half a node.
fn member(name: &str, node: &str) -> PodBuilder {
    pod(name).cpu("2").spec(|spec| spec.pod_group = Some("g".into())).on(node)
}

/// Two nodes, of which new pods may use only the first.
fn only_n() -> [NodeBuilder; 2] {
    [node("n"), node("m").unschedulable()]
}

/// The answer of 1.37, without its text.
fn ask_newer(world: &mut WhatIfTrial, pod: PodBuilder) -> String {
    let answer = describe(world.ask(&built_for(Release::V1_37, 10, 100), &pod.info()));
    answer.split(" preemption: found").next().unwrap().to_owned()
}

#[test]
fn a_group_that_is_disrupted_as_a_whole_is_evicted_from_all_nodes() {
    let pods = || [member("a", "n"), member("b", "m"), pod("other").cpu("2").priority(9).on("m")];
    for (disruption, victims) in [(Disruption::Single, "n: a"), (Disruption::All, "n: a b")] {
        let world = world(nodes(&["n", "m"]), pods());
        let mut world = world.group(group("g", Some(0), disruption));
        assert_eq!(ask_newer(&mut world, pod("p").cpu("3").priority(5)), victims);
    }
}

#[test]
fn a_whole_group_is_spared_if_the_pods_on_the_node_do_not_matter() {
    let pods = [member("a", "n"), member("b", "m"), pod("low").cpu("2").priority(-1).on("n")];
    let mut world = world(only_n(), pods).group(group("g", Some(0), Disruption::All));
    assert_eq!(ask_newer(&mut world, pod("p").cpu("2").priority(5)), "n: low");
}

#[test]
fn the_priority_of_its_group_decides_whether_a_pod_may_be_preempted() {
    for (of_group, expected) in [
        (Some(1), "n: a"),
        (
            Some(5),
            "Clear preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.",
        ),
        (None, "Clear preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."),
    ] {
        for search in [10, 11] {
            let there = world(nodes(&["n"]), [member("a", "n").priority(7)]);
            let mut there = there.group(group("g", of_group, Disruption::Single));
            let plugin = built_for(Release::V1_37, search, 100);
            let answer = describe(there.ask(&plugin, &pod("p").cpu("3").priority(5).info()));
            assert!(answer.starts_with(expected), "{answer}");
        }
    }
}

#[test]
fn members_are_spared_before_single_pods_of_equal_priority() {
    let old = |pod: PodBuilder| started_at(1, pod);
    for (of_group, victim) in [(Some(0), "n: single"), (None, "n: a")] {
        let pods = [member("a", "n"), old(pod("single").cpu("2").on("n"))];
        let mut world = world(nodes(&["n"]), pods).group(group("g", of_group, Disruption::Single));
        assert_eq!(ask_newer(&mut world, pod("p").cpu("2").priority(5)), victim);
    }
}

#[test]
fn every_violating_pod_of_a_whole_group_counts_against_a_node() {
    let x = |pod: PodBuilder| pod.label("app", "x");
    let pods = [
        x(member("a", "n")),
        x(member("b", "m")),
        pod("high").cpu("2").priority(9).on("m"),
        x(pod("single").cpu("3").on("k")),
    ];
    let world = world(nodes(&["n", "m", "k"]), pods);
    let mut world = world.group(group("g", Some(-1), Disruption::All));
    world.cluster().set_object(budget("x", 0));
    assert_eq!(ask_newer(&mut world, pod("p").cpu("3").priority(5)), "k: single");
}

#[test]
fn plugins_are_notified_of_members_on_other_nodes() {
    // The filter allows three pods in the whole cluster.
    let pods =
        [member("a", "n"), member("b", "m"), pod("c").priority(2).on("n"), pod("d").priority(9).on("m")];
    let mut world = world_with("Few", only_n(), pods).group(group("g", Some(0), Disruption::All));
    assert_eq!(ask_newer(&mut world, pod("p").priority(5)), "n: a b");
    let counted: Vec<_> = world.cluster().nodes().nodes().map(|node| node.pods().len()).collect();
    assert_eq!(counted, [2, 2], "everything is restored");
}

#[test]
fn a_pod_waits_for_a_preempted_member_whose_group_is_less_important() {
    for (of_group, waits) in [(Some(0), true), (Some(9), false)] {
        let going = preempted(member("a", "n").priority(7), "PreemptionByScheduler", "True");
        let pods = [going, pod("high").cpu("2").priority(9).on("n")];
        let mut world = world(nodes(&["n"]), pods).group(group("g", of_group, Disruption::Single));
        let answer = ask_newer(&mut world, pod("p").cpu("4").priority(5).nominated_to("n"));
        assert_eq!(answer.contains("terminating pod on the nominated node"), waits, "{answer}");
    }
}

// ---- choice ----

#[test]
fn the_node_with_the_lowest_cost_wins() {
    let on = |name: &str, priority, node: &str| pod(name).cpu("2").priority(priority).on(node);
    let pods = [
        on("a1", 4, "high"),
        on("a2", 1, "high"),
        on("b1", 3, "low"),
        on("b2", 2, "low"),
        on("c1", 3, "also"),
        on("c2", 3, "also"),
    ];
    let mut world = world(nodes(&["high", "low", "also"]), pods);
    assert_eq!(ask(&mut world, pod("p").cpu("4").priority(5)), "low: b1 b2");
    assert_eq!(ask(&mut world, pod("p").cpu("2").priority(5)), "high: a2");
}

#[test]
fn among_equal_nodes_the_first_one_found_wins() {
    let mut world = world(nodes(&["a", "b"]), ["a", "b"].map(|n| pod(&format!("on-{n}")).cpu("4").on(n)));
    assert_eq!(ask(&mut world, pod("p").cpu("4").priority(5)), "a: on-a");
    world.set_offset(1);
    assert_eq!(ask(&mut world, pod("p").cpu("4").priority(5)), "b: on-b");
}

// ---- failures ----

#[test]
fn a_failing_plugin_is_an_error_if_there_is_no_candidate() {
    let pods = || [pod("a").cpu("4").on("n"), pod("b").cpu("4").on("m")];
    let preemptor = || pod("p").cpu("4").priority(5);
    let mut both =
        world_with("Broken", [node("n").label("broken", ""), node("m").label("broken", "")], pods());
    let text = "error preemption: running \"Broken\" filter plugin: broken";
    assert_eq!(ask(&mut both, preemptor()), text);
    let mut one = world_with("Broken", [node("n").label("broken", ""), node("m")], pods());
    assert_eq!(ask(&mut one, preemptor()), "m: b");
}

#[test]
fn a_node_where_every_pod_can_be_spared_is_an_error() {
    let mut world = world_with("Fickle", nodes(&["n"]), [pod("a").on("n")]);
    let text = r#"error preemption: expected at least one victim pod on node "n""#;
    assert_eq!(ask(&mut world, pod("p").priority(5)), text);
}

#[test]
fn arguments_have_the_field_names_of_the_configuration_and_no_others() {
    let mut registry = Registry::default();
    registry.register::<DefaultPreemption>();
    let made = |args| registry.build("DefaultPreemption", Some(&args), &BuildCycle::default());
    assert!(
        made(serde_json::json!({"minCandidateNodesPercentage": 5, "minCandidateNodesAbsolute": 7})).is_ok()
    );
    assert!(made(serde_json::json!({"minCandidates": 5})).is_err());
}
