//! Groups of pods in the engine: gangs are bound whole or not at all, and hold no room while they wait.

mod alike;
mod nominations;
mod placements;
mod preemption;
mod sequences;

use std::{sync::Arc, time::Duration};

use harbormaster_api::{Pod, Release, features::Features};
use harbormaster_core::{BindOutcome, Effect, EngineConfig, Input, Outcome};
use harbormaster_framework::{api_call::ObjectPath, registry::Registry};
use harbormaster_plugins::gang_scheduling::PodGroupObject;
use harbormaster_testkit::profile_for;
use serde_json::{Value, json};

use crate::world::{World, node, pod, with_priority};

fn config() -> EngineConfig {
    let mut registry = Registry::default();
    harbormaster_plugins::in_tree(&mut registry);
    let filters = &["NodeAffinity", "NodeResourcesFit"][..];
    EngineConfig::new(vec![profile_for(
        Features::of(Release::V1_37),
        &registry,
        &[
            ("PreEnqueue", &["SchedulingGates", "GangScheduling"]),
            ("QueueSort", &["PrioritySort"]),
            ("PreFilter", filters),
            ("Filter", filters),
            ("Permit", &["GangScheduling"]),
            ("Bind", &["DefaultBinder"]),
        ],
        &[],
    )])
}

fn world() -> World {
    World::with(config())
}

/// A gang, or a basic group if `min_count` is 0.
fn group(name: &str, min_count: u32) -> Value {
    let policy = if min_count > 0 { json!({"gang": {"minCount": min_count}}) } else { json!({"basic": {}}) };
    json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "generation": 1},
        "spec": {"schedulingPolicy": policy, "priority": 0},
    })
}

fn member(name: &str, group: &str, milli_cpu: i64) -> Pod {
    let mut pod = pod(name, milli_cpu);
    Arc::make_mut(&mut pod.spec).pod_group = Some(group.into());
    pod
}

fn add_members(world: &mut World, group: &str, count: usize, milli_cpu: i64) {
    (0..count).for_each(|at| world.add_pod(member(&format!("{group}-{at}"), group, milli_cpu)));
}

fn remove_group(world: &mut World, name: &str) {
    world.input(Input::CustomGone(ObjectPath::of::<PodGroupObject>("default", name).key()));
}

/// Makes attempts until nothing is ready, without waiting.
fn run(world: &mut World) {
    while world.attempt().is_some() {}
}

/// Names of the pods whose bindings were requested.
fn bound(world: &mut World) -> Vec<String> {
    world.bindings().into_iter().map(|(pod, _)| pod).collect()
}

/// Conditions that groups got, as `name status reason: message`.
fn group_conditions(world: &mut World) -> Vec<String> {
    let calls = world.all_effects().into_iter().filter_map(|effect| match effect {
        Effect::Group(call) => Some(call),
        _ => None,
    });
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let line = |call: harbormaster_core::GroupCall| {
        let condition = &call.call.body["status"]["conditions"][0];
        let [status, reason, message] = ["status", "reason", "message"].map(|field| text(&condition[field]));
        format!("{} {status} {reason}: {message}", call.group.id.name)
    };
    calls.map(line).collect()
}

#[test]
fn a_gang_is_bound_whole() {
    let mut world = world();
    world.set_node(node("n", 4000));
    world.tell::<PodGroupObject>(&group("g", 3));
    add_members(&mut world, "g", 3, 1000);
    let attempted = world.attempt().unwrap();
    assert!(attempted.all().all(|(_, outcome)| matches!(outcome, Outcome::Assumed { .. })));
    assert_eq!(attempted.all().count(), 3);
    assert_eq!(bound(&mut world), ["g-0", "g-1", "g-2"]);
    assert_eq!(group_conditions(&mut world), ["g True Scheduled: "]);
}

#[test]
fn a_gang_of_which_one_member_fits_is_not_bound_and_says_why() {
    let mut world = world();
    world.set_node(node("n", 1000));
    world.tell::<PodGroupObject>(&group("g", 3));
    add_members(&mut world, "g", 3, 1000);
    run(&mut world);
    assert!(bound(&mut world).is_empty());
    let group = "minCount (3) cannot be satisfied: 1 scheduled, 1 remaining";
    assert_eq!(
        world.conditions(),
        [
            format!("g-0 Unschedulable: pod group is unschedulable, {group}"),
            "g-1 Unschedulable: 0/1 nodes are available: 1 Insufficient cpu.".to_owned(),
            format!("g-2 Unschedulable: {group}"),
        ]
    );
    assert_eq!(group_conditions(&mut world), [format!("g False Unschedulable: {group}")]);
    assert_eq!(world.engine.queue_lengths().unschedulable, 3);
}

#[test]
fn a_group_that_waits_holds_no_room() {
    let mut world = world();
    world.set_node(node("n", 2000));
    world.tell::<PodGroupObject>(&group("g", 3));
    add_members(&mut world, "g", 3, 1000);
    run(&mut world);
    world.add_pod(pod("single", 2000));
    run(&mut world);
    assert_eq!(bound(&mut world), ["single"]);
}

#[test]
fn two_gangs_that_compete_for_the_same_room_do_not_deadlock() {
    let mut world = world();
    world.set_node(node("n", 3000));
    for name in ["a", "b"] {
        world.tell::<PodGroupObject>(&group(name, 2));
    }
    // The members arrive alternately.
    for at in 0..2 {
        for name in ["a", "b"] {
            world.add_pod(member(&format!("{name}-{at}"), name, 1000));
        }
    }
    run(&mut world);
    assert_eq!(bound(&mut world), ["a-0", "a-1"]);
    assert_eq!(world.engine.queue_lengths().unschedulable, 2);
    for name in ["a-0", "a-1"] {
        world.bind_finished(name, BindOutcome::Bound);
        world.add_bound_pod(member(name, "a", 1000), "n");
    }
    world.remove_pod("a-0");
    world.wait(Duration::from_secs(30));
    run(&mut world);
    assert_eq!(bound(&mut world), ["b-0", "b-1"]);
}

#[test]
fn members_are_gated_until_there_are_enough_of_them() {
    let mut world = world();
    world.set_node(node("n", 4000));
    world.tell::<PodGroupObject>(&group("g", 3));
    add_members(&mut world, "g", 2, 1000);
    assert!(world.attempt().is_none());
    assert_eq!(world.engine.queue_lengths().gated, 2);
    world.add_pod(member("g-2", "g", 1000));
    run(&mut world);
    assert_eq!(bound(&mut world).len(), 3);
}

#[test]
fn a_smaller_minimum_opens_the_gate() {
    let mut world = world();
    world.set_node(node("n", 4000));
    world.tell::<PodGroupObject>(&group("g", 3));
    add_members(&mut world, "g", 2, 1000);
    assert!(world.attempt().is_none());
    world.tell::<PodGroupObject>(&group("g", 2));
    run(&mut world);
    assert_eq!(bound(&mut world).len(), 2);
}

#[test]
fn members_wait_for_their_group_and_are_then_placed_together() {
    let mut world = world();
    world.set_node(node("n", 4000));
    add_members(&mut world, "g", 3, 1000);
    assert!(world.attempt().is_none());
    assert_eq!(world.engine.queue_lengths().incomplete, 3);
    world.tell::<PodGroupObject>(&group("g", 3));
    let attempted = world.attempt().unwrap();
    assert_eq!(attempted.all().count(), 3, "the members are fed in at once");
    assert_eq!(bound(&mut world).len(), 3);
}

#[test]
fn members_of_a_deleted_group_wait_until_it_is_created_again() {
    let mut world = world();
    world.tell::<PodGroupObject>(&group("g", 2));
    add_members(&mut world, "g", 2, 1000);
    remove_group(&mut world, "g");
    world.set_node(node("n", 4000));
    run(&mut world);
    assert!(bound(&mut world).is_empty());
    assert_eq!(world.engine.queue_lengths().incomplete, 2);
    world.tell::<PodGroupObject>(&group("g", 2));
    run(&mut world);
    assert_eq!(bound(&mut world).len(), 2);
}

#[test]
fn a_rejected_gang_is_woken_by_room_and_not_by_the_clock() {
    let mut world = world();
    world.set_node(node("n", 1000));
    world.tell::<PodGroupObject>(&group("g", 2));
    add_members(&mut world, "g", 2, 1000);
    run(&mut world);
    world.wait(Duration::from_secs(120));
    assert!(world.attempt().is_none(), "nothing has happened that could help");
    world.set_node(node("small", 10));
    world.wait(Duration::from_secs(30));
    assert!(world.attempt().is_none(), "the new node is too small for any member");
    world.set_node(node("m", 1000));
    world.wait(Duration::from_secs(30));
    run(&mut world);
    assert_eq!(bound(&mut world).len(), 2);
}

#[test]
fn members_are_tried_again_in_the_order_in_which_they_arrived() {
    let mut world = world();
    world.set_node(node("n", 1000));
    world.tell::<PodGroupObject>(&group("g", 2));
    world.add_pod(member("z", "g", 1000));
    world.add_pod(member("a", "g", 500));
    run(&mut world);
    assert!(bound(&mut world).is_empty());
    // There is room for either of them.
    world.tell::<PodGroupObject>(&group("g", 1));
    world.wait(Duration::from_secs(30));
    run(&mut world);
    assert_eq!(bound(&mut world), ["z"]);
}

#[test]
fn room_for_a_member_that_fits_already_wakes_a_gang_of_different_members() {
    let mut world = world();
    world.set_node(node("big", 3000));
    world.tell::<PodGroupObject>(&group("g", 2));
    // Both fit on the big node, but not together.
    world.add_pod(member("g-0", "g", 1000));
    world.add_pod(member("g-1", "g", 3000));
    run(&mut world);
    assert!(bound(&mut world).is_empty());
    assert_eq!(world.engine.queue_lengths().unschedulable, 2);
    // The new node is too small for the member that was rejected. The other one could leave the big node to it.
    world.set_node(node("small", 1000));
    assert_eq!(world.engine.queue_lengths().unschedulable, 0);
}

#[test]
fn members_beyond_the_minimum_are_bound_as_far_as_they_fit() {
    let mut world = world();
    world.set_node(node("n", 3000));
    world.tell::<PodGroupObject>(&group("g", 2));
    add_members(&mut world, "g", 4, 1000);
    run(&mut world);
    assert_eq!(bound(&mut world), ["g-0", "g-1", "g-2"]);
    assert_eq!(group_conditions(&mut world), ["g True Scheduled: "], "a scheduled group stays so");
    assert_eq!(world.engine.queue_lengths().unschedulable, 1);
    // The rest joins the running gang on its own.
    world.set_node(node("m", 1000));
    world.wait(Duration::from_secs(30));
    run(&mut world);
    assert_eq!(bound(&mut world), ["g-3"]);
}

#[test]
fn a_member_whose_binding_fails_is_tried_again_and_the_others_stay_bound() {
    let mut world = world();
    world.set_node(node("n", 3000));
    world.tell::<PodGroupObject>(&group("g", 3));
    add_members(&mut world, "g", 3, 1000);
    run(&mut world);
    assert_eq!(bound(&mut world).len(), 3);
    world.bind_finished("g-0", BindOutcome::Bound);
    world.bind_finished("g-1", BindOutcome::Failed("broken".to_owned()));
    world.bind_finished("g-2", BindOutcome::Bound);
    world.wait(Duration::from_secs(5));
    run(&mut world);
    assert_eq!(bound(&mut world), ["g-1"]);
}

#[test]
fn groups_are_ordered_by_priority_and_then_by_age() {
    let mut world = world();
    world.set_node(node("n", 2000));
    for (name, priority) in [("low", 0), ("high", 5)] {
        let mut object = group(name, 2);
        object["spec"]["priority"] = priority.into();
        world.tell::<PodGroupObject>(&object);
        for at in 0..2 {
            world.add_pod(with_priority(member(&format!("{name}-{at}"), name, 1000), priority));
        }
    }
    run(&mut world);
    assert_eq!(bound(&mut world), ["high-0", "high-1"]);
}

#[test]
fn a_member_with_another_priority_or_scheduler_fails_the_group() {
    let mut world = world();
    world.set_node(node("n", 4000));
    world.tell::<PodGroupObject>(&group("g", 2));
    world.add_pod(member("g-0", "g", 1000));
    world.add_pod(with_priority(member("g-1", "g", 1000), 3));
    let attempted = world.attempt().unwrap();
    let error = "all pods in a single pod group should have the same priority as the pod group's priority, got 3 and 0";
    assert!(attempted.all().all(|(_, outcome)| *outcome == Outcome::Error(error.to_owned())));
    assert_eq!(group_conditions(&mut world), [format!("g False SchedulerError: {error}")]);
    assert_eq!(world.engine.queue_lengths().backoff, 2);
}

#[test]
fn a_member_with_another_priority_than_the_running_members_fails_the_group() {
    let mut world = world();
    world.set_node(node("n", 4000));
    world.tell::<PodGroupObject>(&group("g", 1));
    world.add_bound_pod(with_priority(member("running", "g", 1000), 3), "n");
    world.add_pod(member("g-0", "g", 1000));
    run(&mut world);
    let error = "all pods in a single pod group should have the same priority as the pod group's priority, got 3 and 0";
    assert_eq!(group_conditions(&mut world), [format!("g False SchedulerError: {error}")]);
    world.remove_pod("running");
    world.wait(Duration::from_secs(30));
    run(&mut world);
    assert_eq!(bound(&mut world), ["g-0"]);
}

#[test]
fn a_dump_lists_groups_with_the_numbers_of_their_members() {
    let mut world = world();
    world.set_node(node("n", 1000));
    world.tell::<PodGroupObject>(&group("g", 1));
    add_members(&mut world, "g", 2, 1000);
    run(&mut world);
    add_members(&mut world, "unknown", 1, 1000);
    let mut groups = world.engine.dump().groups.unwrap();
    groups.sort_by(|a, b| a.id.cmp(&b.id));
    let found: Vec<_> = groups
        .iter()
        .map(|group| (group.id.name.as_str(), group.group.is_some(), group.pods, group.scheduled))
        .collect();
    assert_eq!(found, [("g", true, 2, 1), ("unknown", false, 1, 0)]);
}

#[test]
fn a_gated_member_holds_its_group_back_until_it_is_gone() {
    let mut world = world();
    world.set_node(node("n", 4000));
    world.tell::<PodGroupObject>(&group("g", 2));
    let mut gated = member("gated", "g", 1000);
    gated.scheduling_gates = vec!["wait".into()];
    add_members(&mut world, "g", 2, 1000);
    world.add_pod(gated);
    assert!(world.attempt().is_none());
    assert_eq!(world.engine.queue_lengths().gated, 3);
    world.remove_pod("gated");
    run(&mut world);
    assert_eq!(bound(&mut world).len(), 2);
}

#[test]
fn a_basic_group_binds_whatever_fits() {
    let mut world = world();
    world.set_node(node("n", 1000));
    world.tell::<PodGroupObject>(&group("g", 0));
    add_members(&mut world, "g", 2, 1000);
    run(&mut world);
    assert_eq!(bound(&mut world), ["g-0"]);
    assert_eq!(world.engine.queue_lengths().unschedulable, 1);
}

#[test]
fn pods_of_a_group_that_no_plugin_defines_are_on_their_own() {
    let mut world = World::new();
    world.set_node(node("n", 1000));
    add_members(&mut world, "g", 2, 1000);
    run(&mut world);
    assert_eq!(bound(&mut world), ["g-0"]);
}
