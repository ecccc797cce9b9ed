use std::sync::Arc;

use harbormaster_framework::{
    events::{Action, Change, ClusterEvent, EventResource, Hint},
    group::GroupId,
};
use harbormaster_testkit::{Trial, cluster, node, pod};

use super::*;

fn rack(name: &str, value: &str) -> harbormaster_testkit::NodeBuilder {
    node(name).label("rack", value)
}

/// Placements of a group with a topology constraint, as `name: nodes`. `there` are members with their nodes.
fn placements(nodes: &Cluster, key: Option<&str>, there: &[(&str, &str)]) -> Result<Vec<String>, String> {
    let id = GroupId { namespace: "default".into(), name: "g".into() };
    let spec = GroupSpec { topology_key: key.map(Str::from), ..GroupSpec::default() };
    let group = PodGroup { id, uid: "u".into(), generation: 1, spec };
    let member =
        |(name, node): &(&str, &str)| ScheduledMember { pod: pod(name).info(), node: (*node).into() };
    let scheduled: Vec<ScheduledMember> = there.iter().map(member).collect();
    let group = GroupView { group: &group, pods: 9, scheduled: scheduled.len() };
    let members: [Arc<PodInfo>; 0] = [];
    let (nodes, objects) = (nodes.nodes(), nodes.objects());
    let cx = GroupCycle { group, members: &members, scheduled: &scheduled, nodes, objects };
    let shown = |placement: GroupPlacement| {
        let names: Vec<&str> = placement.nodes.iter().map(|row| nodes.node(row).name().as_str()).collect();
        format!("{}: {}", placement.name, names.join(" "))
    };
    match TopologyPlacementGenerator.generate_placements(&cx) {
        Ok(placements) => Ok(placements.into_iter().map(shown).collect()),
        Err(Stop::Reject(reject)) => Err(reject.message()),
        Err(Stop::Error(error)) => Err(error.to_string()),
    }
}

#[test]
fn there_is_one_placement_for_each_value_of_the_label() {
    let nodes = cluster([rack("n1", "b"), rack("n2", "a"), node("n3"), rack("n4", "b")], []);
    assert_eq!(placements(&nodes, Some("rack"), &[]).unwrap(), ["b: n1 n4", "a: n2"]);
    assert_eq!(placements(&nodes, Some("row"), &[]).unwrap(), [""; 0]);
}

#[test]
fn a_group_without_a_constraint_may_use_all_nodes() {
    let nodes = cluster([rack("n1", "b"), node("n2")], []);
    assert_eq!(placements(&nodes, None, &[("p", "gone")]).unwrap(), [": n1 n2"]);
}

#[test]
fn members_that_have_nodes_keep_the_others_in_their_domain() {
    let nodes = cluster([rack("n1", "b"), rack("n2", "a"), node("n3"), rack("n4", "b"), rack("n5", "")], []);
    let found = |there: &[(&str, &str)]| placements(&nodes, Some("rack"), there);
    assert_eq!(found(&[("p", "n4")]).unwrap(), ["b: n1 n4"]);
    assert_eq!(found(&[("p", "n1"), ("q", "n4")]).unwrap(), ["b: n1 n4"]);
    let what = "cannot determine domain for already scheduled pods";
    for (there, why) in [
        (&[("p", "n3")][..], "no topology domain found for pod default/p"),
        (&[("p", "n1"), ("q", "n2")], "more than 1 domain found for pod group: b, a"),
        (&[("p", "n9")], "getting node for pod default/p: nodeinfo not found for node name \"n9\""),
    ] {
        assert_eq!(found(there).unwrap_err(), format!("{what}: {why}"));
    }
    assert_eq!(found(&[("p", "n5"), ("q", "n2")]).unwrap(), ["a: n2"], "an empty value agrees with others");
}

#[test]
fn a_group_is_tried_again_when_a_domain_may_have_changed() {
    let trial = Trial::of(TopologyPlacementGenerator);
    let in_group = |name: &str, group: &str| pod(name).spec(|spec| spec.pod_group = Some(group.into()));
    let waiting = in_group("p", "g").info();
    let hint = |resource, action, change: &Change<'_>| {
        trial.hint(ClusterEvent::new(resource, action), &waiting, change)
    };
    let label = Action::UPDATE_NODE_LABEL;
    assert_eq!(hint(EventResource::Node, Action::ADD, &Change::Other), Some(Hint::Queue));
    assert_eq!(hint(EventResource::Node, label, &Change::Other), Some(Hint::Queue));
    for (group, expected) in [("g", Hint::Queue), ("h", Hint::Skip)] {
        let gone = in_group("q", group).on("n").build();
        let change = Change::Pod { old: Some(&gone), new: None };
        assert_eq!(hint(EventResource::AssignedPod, Action::DELETE, &change), Some(expected), "{group}");
    }
}
