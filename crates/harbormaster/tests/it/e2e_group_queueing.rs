//! When members of groups are tried, over HTTP. The scenarios are those of Kubernetes' own tests
//! (`test/integration/scheduler/podgroup/queueing` of 1.37.2). Left out are those that run single attempts of the scheduler:
//! that a rejected group is tried again without any change, which Harbormaster does not do, and the order in which leftover
//! members and other pods are tried, which `crates/core/tests/it/groups.rs` covers.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use serde_json::json;

use crate::e2e::{
    extender::Extender,
    group_scene::{Group, GroupScene, NewPod},
    objects::{PODS, pod},
    process::Harbormaster,
    proxy::Fault,
};

/// A member of `pg` that requests two CPUs.
fn member(name: &str) -> NewPod {
    NewPod::new(name, "2").of("pg")
}

/// Starts a scheduler and the node `n`, which has room for one member.
fn started() -> (GroupScene, Harbormaster) {
    GroupScene::started(&[("n", "2")])
}

/// Adds a node with room for three members.
fn add_room(scene: &GroupScene) {
    scene.node("m", "6");
}

#[test]
fn a_new_member_joins_a_gang_that_waits_and_one_that_runs() {
    let (scene, _scheduler) = started();
    scene.group(Group::gang("pg", 2));
    scene.pods([member("p1"), member("p2")]);
    scene.are_unschedulable(&["p1", "p2"]);
    scene.pods([member("p3")]);
    scene.are_unschedulable(&["p1", "p2", "p3"]);
    add_room(&scene);
    scene.are_bound(&["p1", "p2", "p3"]);
    scene.pods([member("p4")]);
    scene.are_bound(&["p4"]);
}

#[test]
fn a_new_member_joins_a_basic_group_that_waits() {
    let (scene, _scheduler) = started();
    scene.group(Group::basic("pg"));
    scene.pods([member("p1")]);
    scene.are_bound(&["p1"]);
    scene.pods([member("p2")]);
    scene.are_unschedulable(&["p2"]);
    scene.pods([member("p3")]);
    scene.are_unschedulable(&["p2", "p3"]);
    add_room(&scene);
    scene.are_bound(&["p2", "p3"]);
}

/// Starts a scheduler whose extender creates the member `p3` while the member `during` is tried for the first time.
fn with_a_newcomer(scene: &GroupScene, during: &'static str) -> Harbormaster {
    let client = scene.client().clone();
    let done = Arc::new(AtomicBool::new(false));
    let extender = Extender::start(move |_, args| {
        if args["Pod"]["metadata"]["name"] == during && !done.swap(true, Ordering::Relaxed) {
            let spec = json!({"schedulingGroup": {"podGroupName": "pg"}, "terminationGracePeriodSeconds": 0});
            let newcomer = pod("p3", "default-scheduler", json!({"cpu": "2"}), spec);
            client.post(PODS, &newcomer).expect("the pod is created");
        }
        Some(json!({"NodeNames": args["NodeNames"]}))
    });
    scene.start_with(json!({
        "extenders": [{"urlPrefix": extender.url, "filterVerb": "filter", "nodeCacheCapable": true}],
    }))
}

fn newcomer(group: Group, during: &'static str, has_room: bool) {
    let scene = GroupScene::new();
    scene.node("n", "2");
    if has_room {
        add_room(&scene);
    }
    scene.group(group);
    scene.pods([member("p1"), member("p2")]);
    let _scheduler = with_a_newcomer(&scene, during);
    if !has_room {
        scene.are_unschedulable(&["p2", "p3"]);
        add_room(&scene);
    }
    scene.are_bound(&["p1", "p2", "p3"]);
}

#[test]
fn a_member_that_comes_while_its_gang_is_rejected_is_tried_with_the_others() {
    newcomer(Group::gang("pg", 2), "p1", false);
}

#[test]
fn a_member_that_comes_while_its_gang_is_placed_is_tried_afterwards() {
    newcomer(Group::gang("pg", 2), "p1", true);
}

#[test]
fn a_member_that_comes_while_a_basic_group_is_placed_in_part_is_tried_with_the_rest() {
    newcomer(Group::basic("pg"), "p1", false);
}

#[test]
fn a_member_that_comes_while_a_basic_group_is_placed_is_tried_afterwards() {
    newcomer(Group::basic("pg"), "p2", true);
}

/// A gated member holds back the members that come after it.
fn gated(group: Group) {
    let (scene, _scheduler) = started();
    add_room(&scene);
    scene.group(group);
    scene.pods([member("p1").gated()]);
    scene.are_left_alone(&["p1"]);
    scene.pods([member("p2"), member("p3")]);
    scene.are_left_alone(&["p1", "p2", "p3"]);
    scene.ungate("p1");
    scene.are_bound(&["p1", "p2", "p3"]);
}

#[test]
fn a_gated_member_holds_back_its_gang() {
    gated(Group::gang("pg", 2));
}

#[test]
fn a_gated_member_holds_back_its_basic_group() {
    gated(Group::basic("pg"));
}

#[test]
fn a_gang_that_waits_for_room_is_held_back_by_a_new_gated_member() {
    let (scene, _scheduler) = started();
    scene.group(Group::gang("pg", 2));
    scene.pods([member("p1"), member("p2")]);
    scene.are_unschedulable(&["p1", "p2"]);
    scene.pods([member("p3").gated()]);
    scene.remain_pending(&["p1", "p2", "p3"]);
    add_room(&scene);
    scene.remain_pending(&["p1", "p2", "p3"]);
    scene.ungate("p3");
    scene.are_bound(&["p1", "p2", "p3"]);
}

#[test]
fn a_basic_group_that_waits_for_room_is_held_back_by_a_new_gated_member() {
    let (scene, _scheduler) = started();
    scene.group(Group::basic("pg"));
    scene.pods([member("p1")]);
    scene.are_bound(&["p1"]);
    scene.pods([member("p2")]);
    scene.are_unschedulable(&["p2"]);
    scene.pods([member("p3").gated()]);
    scene.remain_pending(&["p2", "p3"]);
    add_room(&scene);
    scene.remain_pending(&["p2", "p3"]);
    scene.ungate("p3");
    scene.are_bound(&["p2", "p3"]);
}

/// Lets the first binding of the pod fail.
fn fail_binding(scene: &GroupScene, pod: &'static str) {
    scene.proxy.fault(1, Fault::status(409, "Conflict"), move |request| request.is_bind_of(pod));
}

/// A member whose binding fails is bound later, as its companion is.
fn binding_fails(group: Group) {
    let scene = GroupScene::new();
    scene.node("n", "2");
    add_room(&scene);
    fail_binding(&scene, "p1");
    scene.group(group);
    scene.pods([member("p1"), member("p2")]);
    let _scheduler = scene.start();
    scene.are_bound(&["p1", "p2"]);
    assert_eq!(scene.proxy.count(|request| request.is_bind_of("p1")), 2);
    assert_eq!(scene.proxy.count(|request| request.is_bind_of("p2")), 1, "the other member stays bound");
}

#[test]
fn a_member_of_a_gang_whose_binding_fails_is_tried_again() {
    binding_fails(Group::gang("pg", 2));
}

#[test]
fn a_member_of_a_basic_group_whose_binding_fails_is_tried_again() {
    binding_fails(Group::basic("pg"));
}

fn only_binding_fails(group: Group) {
    let (scene, _scheduler) = started();
    fail_binding(&scene, "p1");
    scene.group(group);
    scene.pods([member("p1")]);
    scene.are_bound(&["p1"]);
}

#[test]
fn the_only_member_of_a_gang_is_tried_again_after_its_binding_fails() {
    only_binding_fails(Group::gang("pg", 1));
}

#[test]
fn the_only_member_of_a_basic_group_is_tried_again_after_its_binding_fails() {
    only_binding_fails(Group::basic("pg"));
}

/// The binding of one member fails while the other one, which is larger, fits nowhere.
fn binding_fails_beside_a_waiting_member(group: Group, group_comes_first: bool) {
    let (scene, _scheduler) = started();
    fail_binding(&scene, "p1");
    let pods = [member("p1"), NewPod::new("p2", "4").of("pg")];
    if group_comes_first {
        scene.group(group);
        scene.pods(pods);
    } else {
        scene.pods(pods);
        scene.are_left_alone(&["p1", "p2"]);
        scene.group(group);
    }
    scene.are_bound(&["p1"]);
    scene.are_unschedulable(&["p2"]);
    add_room(&scene);
    scene.are_bound(&["p2"]);
}

#[test]
fn a_failed_binding_and_a_waiting_member_of_a_gang_do_not_disturb_each_other() {
    binding_fails_beside_a_waiting_member(Group::gang("pg", 1), false);
}

#[test]
fn a_failed_binding_and_a_waiting_member_of_a_basic_group_do_not_disturb_each_other() {
    binding_fails_beside_a_waiting_member(Group::basic("pg"), true);
}

/// Returns two members that fit the node `n` together.
fn small_members() -> [NewPod; 2] {
    ["p1", "p2"].map(|name| NewPod::new(name, "1").of("pg"))
}

/// Members that come after their group was deleted are left alone until it exists again.
fn deleted_after_it_ran(group: impl Fn() -> Group) {
    let (scene, _scheduler) = started();
    scene.group(group());
    scene.pods(small_members());
    scene.are_bound(&["p1", "p2"]);
    scene.delete_group("pg");
    add_room(&scene);
    scene.pods([member("p3")]);
    scene.are_left_alone(&["p3"]);
    scene.group(group());
    scene.are_bound(&["p3"]);
}

#[test]
fn a_member_that_comes_after_its_gang_was_deleted_is_left_alone() {
    deleted_after_it_ran(|| Group::gang("pg", 2));
}

#[test]
fn a_member_that_comes_after_its_basic_group_was_deleted_is_left_alone() {
    deleted_after_it_ran(|| Group::basic("pg"));
}

/// A member that waits when its group is deleted waits until the group exists again, even if there is room.
fn deleted_while_a_part_waits(group: impl Fn() -> Group) {
    let (scene, _scheduler) = started();
    scene.group(group());
    scene.pods(small_members());
    scene.are_bound(&["p1", "p2"]);
    scene.pods([member("p3")]);
    scene.are_unschedulable(&["p3"]);
    scene.delete_group("pg");
    add_room(&scene);
    scene.remain_pending(&["p3"]);
    scene.group(group());
    scene.are_bound(&["p3"]);
}

#[test]
fn a_member_that_waits_when_its_gang_is_deleted_waits_for_the_group() {
    deleted_while_a_part_waits(|| Group::gang("pg", 2));
}

#[test]
fn a_member_that_waits_when_its_basic_group_is_deleted_waits_for_the_group() {
    deleted_while_a_part_waits(|| Group::basic("pg"));
}

#[test]
fn a_gang_that_waits_when_it_is_deleted_waits_for_the_group() {
    let (scene, _scheduler) = started();
    scene.group(Group::gang("pg", 3));
    scene.pods(small_members().into_iter().chain([member("p3")]));
    scene.are_unschedulable(&["p1", "p2", "p3"]);
    scene.delete_group("pg");
    add_room(&scene);
    scene.remain_pending(&["p1", "p2", "p3"]);
    scene.group(Group::gang("pg", 3));
    scene.are_bound(&["p1", "p2", "p3"]);
}
