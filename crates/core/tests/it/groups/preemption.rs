//! Groups that evict other pods.

use std::{sync::Arc, time::Duration};

use harbormaster_api::{
    Pod, Release, Timestamp,
    features::{Feature, Features},
    pod::PodCondition,
};
use harbormaster_core::{EngineConfig, EvictOutcome};
use harbormaster_framework::registry::Registry;
use harbormaster_plugins::gang_scheduling::PodGroupObject;
use harbormaster_testkit::profile_for;
use serde_json::{Value, json};

use super::{bound, group, group_conditions, member, run};
use crate::world::{World, node, pod, with_priority};

fn world() -> World {
    world_of(&["DefaultPreemption"])
}

/// A world with these plugins at PodGroupPostFilter. DynamicResources is at PreFilter, too.
fn world_of(post_filters: &[&'static str]) -> World {
    World::with(config_of(post_filters))
}

fn config_of(post_filters: &[&'static str]) -> EngineConfig {
    config_with(Features::of(Release::V1_37), post_filters)
}

fn config_with(features: Features, post_filters: &[&'static str]) -> EngineConfig {
    let mut registry = Registry::default();
    harbormaster_plugins::in_tree(&mut registry);
    EngineConfig::new(vec![profile_for(
        features,
        &registry,
        &[
            ("PreEnqueue", &["GangScheduling", "DefaultPreemption"]),
            ("QueueSort", &["PrioritySort"]),
            ("PreFilter", &["NodeResourcesFit", "DynamicResources"]),
            ("Filter", &["NodeResourcesFit"]),
            ("PostFilter", &["DefaultPreemption"]),
            ("PodGroupPostFilter", post_filters),
            ("Permit", &["GangScheduling"]),
            ("Bind", &["DefaultBinder"]),
        ],
        &[],
    )])
}

fn important(name: &str, min_count: u32) -> Value {
    let mut object = group(name, min_count);
    object["spec"]["priority"] = 10.into();
    object
}

fn add_important(world: &mut World, count: usize) {
    world.tell::<PodGroupObject>(&important("g", count as u32));
    (0..count).for_each(|at| world.add_pod(with_priority(member(&format!("g-{at}"), "g", 1000), 10)));
}

/// Names of the pods whose evictions were requested. All of them succeed, and the pods are gone.
fn evicted(world: &mut World) -> Vec<String> {
    let mut names = Vec::new();
    loop {
        let tasks = world.evictions();
        if tasks.is_empty() {
            return names;
        }
        for task in tasks {
            let name = task.victim.name.to_string();
            world.evict_finished(task, EvictOutcome::Evicted);
            world.remove_pod(&name);
            names.push(name);
        }
    }
}

#[test]
fn a_gang_evicts_as_few_pods_as_it_needs_from_several_nodes_and_then_runs() {
    let mut world = world();
    for name in ["a", "b"] {
        world.set_node(node(name, 2000));
        for (at, priority) in [(0, 1), (1, 5)] {
            let pod = with_priority(pod(&format!("{name}-{at}"), 1000), priority);
            world.add_bound_pod(pod, name);
        }
    }
    add_important(&mut world, 2);
    run(&mut world);
    let why = "minCount (2) cannot be satisfied: 0 scheduled, 1 remaining, \
               pod group preemption: found a placement for podgroup, preempting 2 victims";
    assert_eq!(group_conditions_kept(&mut world), [format!("g False Unschedulable: {why}")]);
    let nominated = world.nominations();
    assert_eq!(nominated.len(), 2);
    let mut victims = evicted(&mut world);
    victims.sort();
    assert_eq!(victims, ["a-0", "b-0"], "the less important pod of each node");
    world.wait(Duration::from_secs(60));
    run(&mut world);
    let mut nodes = world.bindings();
    nodes.sort();
    let mut expected: Vec<(String, String)> =
        nominated.into_iter().filter_map(|(pod, node)| Some((pod, node?))).collect();
    expected.sort();
    assert_eq!(nodes, expected, "the members run where they were nominated");
}

/// Like [`group_conditions`], but keeps the other effects.
fn group_conditions_kept(world: &mut World) -> Vec<String> {
    let effects = world.all_effects();
    world.put_back(effects.clone());
    let conditions = group_conditions(world);
    world.put_back(effects);
    conditions
}

#[test]
fn a_victim_of_a_group_that_is_disrupted_as_a_whole_takes_the_others_along() {
    let mut world = world();
    let mut whole = group("whole", 2);
    whole["spec"]["disruptionMode"] = json!({"all": {}});
    world.tell::<PodGroupObject>(&whole);
    for name in ["a", "b"] {
        world.set_node(node(name, 1000));
        world.add_bound_pod(member(&format!("whole-{name}"), "whole", 1000), name);
    }
    add_important(&mut world, 1);
    run(&mut world);
    let mut victims = evicted(&mut world);
    victims.sort();
    assert_eq!(victims, ["whole-a", "whole-b"]);
}

#[test]
fn a_pod_on_its_own_evicts_whole_groups_and_goes_by_their_priority() {
    let mut world = world();
    let mut whole = group("whole", 2);
    whole["spec"]["disruptionMode"] = json!({"all": {}});
    world.tell::<PodGroupObject>(&whole);
    world.tell::<PodGroupObject>(&important("precious", 1));
    for (name, room) in [("a", 1000), ("b", 500), ("c", 1000)] {
        world.set_node(node(name, room));
    }
    world.add_bound_pod(with_priority(member("whole-a", "whole", 1000), 3), "a");
    world.add_bound_pod(with_priority(member("whole-b", "whole", 500), 3), "b");
    world.add_bound_pod(member("precious-c", "precious", 1000), "c");
    world.add_pod(with_priority(pod("single", 1000), 2));
    run(&mut world);
    let mut victims = evicted(&mut world);
    victims.sort();
    assert_eq!(victims, ["whole-a", "whole-b"], "the group's priority is 0, the pods' is 3");
    world.wait(Duration::from_secs(60));
    run(&mut world);
    assert_eq!(world.bindings(), [("single".to_owned(), "a".to_owned())]);
}

#[test]
fn a_gang_that_would_not_fit_even_then_evicts_nothing() {
    let mut world = world();
    world.set_node(node("n", 1000));
    world.add_bound_pod(pod("low", 1000), "n");
    add_important(&mut world, 2);
    run(&mut world);
    assert!(evicted(&mut world).is_empty());
    let why = "minCount (2) cannot be satisfied: 0 scheduled, 1 remaining, \
               pod group preemption: minCount (2) cannot be satisfied: 1 scheduled, 0 remaining";
    assert_eq!(group_conditions(&mut world), [format!("g False Unschedulable: {why}")]);
}

#[test]
fn members_have_the_same_order_with_and_without_the_victims() {
    let mut world = world();
    world.set_node(node("n", 2500));
    world.add_bound_pod(pod("low", 1500), "n");
    world.tell::<PodGroupObject>(&important("g", 3));
    for (at, milli_cpu) in [2000, 500, 500, 500, 500].into_iter().enumerate() {
        world.add_pod(with_priority(member(&format!("g-{at}"), "g", milli_cpu), 10));
    }
    run(&mut world);
    // The first member leaves room for one more. Four others would have room if the first came last.
    assert!(evicted(&mut world).is_empty());
    let why = "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining, \
               pod group preemption: minCount (3) cannot be satisfied: 2 scheduled, 0 remaining";
    assert_eq!(group_conditions(&mut world), [format!("g False Unschedulable: {why}")]);
}

#[test]
fn without_pods_of_lower_priority_there_is_nothing_to_evict() {
    let mut world = world();
    world.set_node(node("n", 1000));
    world.add_bound_pod(with_priority(pod("same", 1000), 10), "n");
    add_important(&mut world, 1);
    run(&mut world);
    let why = "minCount (1) cannot be satisfied: 0 scheduled, 0 remaining, \
               pod group preemption: No preemption victims found for incoming preemptor";
    assert_eq!(group_conditions(&mut world), [format!("g False Unschedulable: {why}")]);
}

#[test]
fn the_text_about_resource_claims_comes_first_if_preemption_has_no_final_answer() {
    let mut world = world_of(&["DynamicResources", "DefaultPreemption"]);
    world.set_node(node("n", 1000));
    world.add_bound_pod(pod("low", 1000), "n");
    add_important(&mut world, 2);
    run(&mut world);
    let why = "minCount (2) cannot be satisfied: 0 scheduled, 1 remaining, \
               deallocation and deletion of ResourceClaims completed, \
               pod group preemption: minCount (2) cannot be satisfied: 1 scheduled, 0 remaining";
    assert_eq!(group_conditions(&mut world), [format!("g False Unschedulable: {why}")]);
}

#[test]
fn a_larger_minimum_than_there_are_members_is_an_error_only_in_parity() {
    let too_few = "pod group is unschedulable, minCount (3) cannot be satisfied: 0 scheduled, 1 remaining, \
                   pod group preemption: No preemption victims found for incoming preemptor";
    let error = "error in \"DynamicResources\" PodGroupPostFilter plugins: not found";
    for (parity, reason, why) in [(false, "Unschedulable", too_few), (true, "SchedulerError", error)] {
        let config = config_of(&["DynamicResources", "DefaultPreemption"]);
        let mut world = World::with(EngineConfig { parity, ..config });
        world.set_node(node("n", 1000));
        add_important(&mut world, 1);
        world.tell::<PodGroupObject>(&important("g", 3));
        run(&mut world);
        assert_eq!(group_conditions(&mut world), [format!("g False {reason}: {why}")]);
    }
}

#[test]
fn members_that_must_not_preempt_evict_nothing() {
    let mut world = world();
    world.set_node(node("n", 1000));
    world.add_bound_pod(pod("low", 1000), "n");
    world.tell::<PodGroupObject>(&important("g", 1));
    let mut peaceful: Pod = with_priority(member("g-0", "g", 1000), 10);
    Arc::make_mut(&mut peaceful.spec).never_preempts = true;
    world.add_pod(peaceful);
    run(&mut world);
    assert!(evicted(&mut world).is_empty() && bound(&mut world).is_empty());
}

#[test]
fn a_member_without_a_place_keeps_its_nomination() {
    let mut world = world();
    for (name, priority) in [("n", 0), ("m", 10)] {
        world.set_node(node(name, 1000));
        world.add_bound_pod(with_priority(pod(&format!("on-{name}"), 1000), priority), name);
    }
    world.tell::<PodGroupObject>(&important("g", 1));
    world.add_pod(with_priority(member("g-0", "g", 1000), 10));
    let mut nominated = with_priority(member("g-1", "g", 1000), 10);
    nominated.status.nominated_node_name = Some("m".into());
    world.add_pod(nominated);
    run(&mut world);
    assert_eq!(world.nominations(), [("g-0".to_owned(), Some("n".to_owned()))]);
}

#[test]
fn a_group_waits_for_victims_that_are_terminating_with_a_less_important_group() {
    let mut world = world();
    world.set_node(node("n", 1000));
    world.tell::<PodGroupObject>(&group("low", 1));
    let mut victim = with_priority(member("victim", "low", 1000), 20);
    victim.deleted = Some(Timestamp::default());
    victim.status.conditions.push(PodCondition {
        type_: "DisruptionTarget".into(),
        status: "True".into(),
        reason: "PreemptionByScheduler".into(),
        ..PodCondition::default()
    });
    world.add_bound_pod(victim, "n");
    world.tell::<PodGroupObject>(&important("g", 1));
    let mut nominated = with_priority(member("g-0", "g", 1000), 10);
    nominated.status.nominated_node_name = Some("n".into());
    world.add_pod(nominated);
    run(&mut world);
    let why = "minCount (1) cannot be satisfied: 0 scheduled, 0 remaining, \
               pod group preemption: ongoing preemption on nominated nodes";
    assert_eq!(group_conditions(&mut world), [format!("g False Unschedulable: {why}")]);
}

#[test]
fn members_nominated_to_the_same_node_do_not_block_each_other() {
    let mut world = world();
    world.set_node(node("n", 2000));
    world.add_bound_pod(with_priority(pod("high", 1000), 20), "n");
    world.tell::<PodGroupObject>(&important("g", 1));
    for name in ["g-0", "g-1"] {
        let mut nominated = with_priority(member(name, "g", 1000), 10);
        nominated.status.nominated_node_name = Some("n".into());
        world.add_pod(nominated);
    }
    run(&mut world);
    assert_eq!(bound(&mut world).len(), 1, "there is room for one of them");
}

#[test]
fn with_the_feature_gate_the_group_decides_whether_it_preempts_and_its_members_must_agree() {
    let features = Features::of(Release::V1_37).with(Feature::PodGroupPreemptionPolicy, true);
    let cannot = "minCount (1) cannot be satisfied: 0 scheduled, 0 remaining";
    let same = "all pods in a single pod group should have the same preemption policy as the pod group's \
                preemption policy, got";
    for (policy, member_never_does, expected) in [
        (
            None,
            false,
            format!(
                "Unschedulable: {cannot}, pod group preemption: found a placement for podgroup, preempting 1 victims"
            ),
        ),
        (
            Some("Never"),
            true,
            format!(
                "Unschedulable: {cannot}, pod group preemption: not eligible due to preemptionPolicy=Never."
            ),
        ),
        (Some("Never"), false, format!("SchedulerError: {same} PreemptLowerPriority and Never")),
        (None, true, format!("SchedulerError: {same} Never and PreemptLowerPriority")),
    ] {
        let mut world = World::with(config_with(features, &["DefaultPreemption"]));
        world.set_node(node("a", 1000));
        world.add_pod(pod("low", 1000));
        run(&mut world);
        let mut object = important("g", 1);
        object["spec"]["preemptionPolicy"] = policy.into();
        world.tell::<PodGroupObject>(&object);
        let mut pod = with_priority(member("g-0", "g", 1000), 10);
        Arc::make_mut(&mut pod.spec).never_preempts = member_never_does;
        world.add_pod(pod);
        run(&mut world);
        assert_eq!(group_conditions(&mut world), [format!("g False {expected}")], "{policy:?}");
    }
}
