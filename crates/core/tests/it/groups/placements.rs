//! Groups that must be placed within one topology domain.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use harbormaster_api::{
    Node, Release, Str,
    features::{Feature, Features},
};
use harbormaster_core::{BindOutcome, EngineConfig};
use harbormaster_framework::{prelude::*, registry::Registry};
use harbormaster_plugins::gang_scheduling::PodGroupObject;
use harbormaster_testkit::{profile_for, random::Dice};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{bound, group, group_conditions, member, run};
use crate::world::{World, node, pod, with_priority};

/// A configuration whose groups are placed within one domain, with these plugins at PodGroupPostFilter.
pub(super) fn config_with(post_filters: &[&str]) -> EngineConfig {
    let mut registry = Registry::default();
    harbormaster_plugins::in_tree(&mut registry);
    let filters = &["NodeAffinity", "NodeResourcesFit"][..];
    EngineConfig::new(vec![profile_for(
        Features::of(Release::V1_37).with(Feature::TopologyAwareWorkloadScheduling, true),
        &registry,
        &[
            ("PreEnqueue", &["SchedulingGates", "GangScheduling"]),
            ("QueueSort", &["PrioritySort"]),
            ("PreFilter", filters),
            ("Filter", filters),
            ("PodGroupPostFilter", post_filters),
            ("PlacementGenerate", &["TopologyPlacementGenerator"]),
            ("PlacementScore", &["NodeResourcesFit", "PodGroupPodsCount"]),
            ("Permit", &["GangScheduling"]),
            ("Bind", &["DefaultBinder"]),
        ],
        &[],
    )])
}

pub(super) fn config() -> EngineConfig {
    config_with(&[])
}

pub(super) fn in_rack(mut node: Node, rack: &str) -> Node {
    node.labels = [(Str::from("rack"), Str::from(rack))].into_iter().collect();
    node
}

/// Like [`group`], but all members must be in one rack.
pub(super) fn together(name: &str, min_count: u32) -> Value {
    let mut object = group(name, min_count);
    object["spec"]["schedulingConstraints"] = json!({"topology": [{"key": "rack"}]});
    object
}

/// A world with these nodes: name, rack and room in thousandths of a CPU.
fn world_of(nodes: &[(&str, &str, i64)]) -> World {
    let mut world = World::with(config());
    set_nodes(&mut world, nodes);
    world
}

fn set_nodes(world: &mut World, nodes: &[(&str, &str, i64)]) {
    for (name, rack, room) in nodes {
        world.set_node(in_rack(node(name, *room), rack));
    }
}

fn add(world: &mut World, group: &Value, count: usize, milli_cpu: i64) {
    world.tell::<PodGroupObject>(group);
    let name = group["metadata"]["name"].as_str().unwrap();
    super::add_members(world, name, count, milli_cpu);
}

/// Names of the nodes whose bindings were requested, sorted.
fn nodes(world: &mut World) -> Vec<String> {
    let mut nodes: Vec<String> = world.bindings().into_iter().map(|(_, node)| node).collect();
    nodes.sort();
    nodes
}

#[test]
fn a_gang_gets_nodes_of_one_rack_only() {
    let mut world = world_of(&[("a1", "a", 2000), ("b1", "b", 1000), ("b2", "b", 2000), ("c1", "c", 1000)]);
    world.set_node(node("loose", 9000));
    add(&mut world, &together("g", 3), 3, 1000);
    run(&mut world);
    assert_eq!(nodes(&mut world), ["b1", "b2", "b2"]);
    assert_eq!(group_conditions(&mut world), ["g True Scheduled: "]);
}

#[test]
fn a_gang_without_a_constraint_may_use_nodes_of_several_racks() {
    let mut world = world_of(&[("a1", "a", 1000), ("b1", "b", 1000)]);
    add(&mut world, &group("g", 2), 2, 1000);
    run(&mut world);
    assert_eq!(nodes(&mut world), ["a1", "b1"]);
}

#[test]
fn the_rack_with_room_for_most_members_is_the_best() {
    let mut world = world_of(&[("a1", "a", 2000), ("b1", "b", 3000), ("c1", "c", 1000)]);
    add(&mut world, &together("g", 1), 4, 1000);
    run(&mut world);
    assert_eq!(nodes(&mut world), ["b1", "b1", "b1"]);
}

#[test]
fn of_two_racks_with_enough_room_the_fuller_one_is_better() {
    let mut world = world_of(&[("a1", "a", 4000), ("b1", "b", 4000), ("c1", "c", 8000)]);
    world.add_bound_pod(pod("there", 2000), "b1");
    add(&mut world, &together("g", 2), 2, 1000);
    run(&mut world);
    assert_eq!(nodes(&mut world), ["b1", "b1"]);
}

#[test]
fn of_equally_good_racks_the_first_one_is_taken() {
    let mut world = world_of(&[("n1", "b", 4000), ("n2", "a", 4000)]);
    add(&mut world, &together("g", 2), 2, 1000);
    run(&mut world);
    assert_eq!(nodes(&mut world), ["n1", "n1"]);
}

#[test]
fn a_gang_that_fits_into_no_rack_leaves_everything_as_it_was_and_says_why() {
    let mut world = world_of(&[("a1", "a", 2000), ("a2", "a", 500), ("b1", "b", 2000)]);
    add(&mut world, &together("g", 3), 3, 1000);
    run(&mut world);
    assert!(bound(&mut world).is_empty());
    assert_eq!(world.engine.sizes().pods, 0);
    let group = "pod group is unschedulable, 0/2 placements are available, first placement status: \
                 minCount (3) cannot be satisfied: 2 scheduled, 0 remaining";
    let own = "0/2 nodes are available: 2 Insufficient cpu.";
    assert_eq!(
        world.conditions(),
        [
            format!("g-0 Unschedulable: pod group is unschedulable, {group}"),
            format!("g-1 Unschedulable: pod group is unschedulable, {group}"),
            format!("g-2 Unschedulable: {own}"),
        ]
    );
    assert_eq!(group_conditions(&mut world), [format!("g False Unschedulable: {group}")]);
}

#[test]
fn a_gang_with_too_few_members_for_its_new_minimum_names_only_the_headline_of_the_first_placement() {
    let mut world = world_of(&[("a1", "a", 2000)]);
    add(&mut world, &together("g", 1), 1, 1000);
    world.tell::<PodGroupObject>(&together("g", 3));
    run(&mut world);
    let why = "pod group is unschedulable, 0/1 placements are available, first placement status: \
               pod group is unschedulable";
    assert_eq!(world.conditions(), [format!("g-0 Unschedulable: {why}")]);
    assert_eq!(group_conditions(&mut world), [format!("g False Unschedulable: {why}")]);
}

#[test]
fn without_a_constraint_all_nodes_are_the_only_placement() {
    let mut world = world_of(&[("a1", "a", 1000)]);
    add(&mut world, &group("g", 2), 2, 1000);
    run(&mut world);
    let why = "pod group is unschedulable, 0/1 placements are available, first placement status: \
               minCount (2) cannot be satisfied: 1 scheduled, 0 remaining";
    assert_eq!(group_conditions(&mut world), [format!("g False Unschedulable: {why}")]);
}

#[test]
fn a_gang_waits_until_a_node_has_the_label() {
    let mut world = World::with(config());
    world.set_node(node("a1", 2000));
    add(&mut world, &together("g", 2), 2, 1000);
    run(&mut world);
    let why = "no feasible placements found";
    assert_eq!(group_conditions(&mut world), [format!("g False Unschedulable: {why}")]);
    world.set_node(in_rack(node("a1", 2000), "a"));
    world.wait(Duration::from_secs(60));
    run(&mut world);
    assert_eq!(nodes(&mut world), ["a1", "a1"]);
}

#[test]
fn members_that_run_keep_the_others_in_their_rack() {
    let mut world = world_of(&[("a1", "a", 1000), ("a2", "a", 1000), ("b1", "b", 9000)]);
    world.tell::<PodGroupObject>(&together("g", 2));
    world.add_bound_pod(member("g-there", "g", 1000), "a1");
    super::add_members(&mut world, "g", 2, 1000);
    run(&mut world);
    assert_eq!(nodes(&mut world), ["a2"], "one more fits into rack a");
}

#[test]
fn when_the_members_of_a_full_rack_are_gone_the_others_get_another_rack() {
    let mut world = world_of(&[("a1", "a", 1000), ("b1", "b", 1000)]);
    world.tell::<PodGroupObject>(&together("g", 1));
    world.add_bound_pod(member("g-there", "g", 100), "a1");
    world.add_bound_pod(pod("other", 500), "a1");
    super::add_members(&mut world, "g", 1, 1000);
    run(&mut world);
    assert!(bound(&mut world).is_empty());
    world.remove_pod("g-there");
    world.wait(Duration::from_secs(60));
    run(&mut world);
    assert_eq!(nodes(&mut world), ["b1"]);
}

#[test]
fn a_member_that_fits_no_node_of_its_rack_is_tried_again_when_the_rack_no_longer_matters() {
    let mut world = World::with(config());
    let labelled = |name: &str, rack: &str, disk: &str| {
        let labels = [("rack", rack), ("disk", disk)].map(|(key, value)| (Str::from(key), Str::from(value)));
        Node { labels: labels.into_iter().collect(), ..node(name, 1000) }
    };
    world.set_node(labelled("a1", "a", "hdd"));
    world.set_node(labelled("b1", "b", "ssd"));
    world.tell::<PodGroupObject>(&together("g", 1));
    world.add_bound_pod(member("g-there", "g", 100), "a1");
    let mut picky = member("g-0", "g", 100);
    let selector = [(Str::from("disk"), Str::from("ssd"))].into_iter().collect();
    Arc::make_mut(&mut picky.spec).node_selector = Some(selector);
    world.add_pod(picky);
    run(&mut world);
    assert!(bound(&mut world).is_empty());
    world.remove_pod("g-there");
    world.wait(Duration::from_secs(60));
    run(&mut world);
    assert_eq!(nodes(&mut world), ["b1"]);
}

#[test]
fn members_that_run_in_different_racks_are_an_error() {
    let mut world = world_of(&[("a1", "a", 9000), ("b1", "b", 9000)]);
    world.tell::<PodGroupObject>(&together("g", 1));
    world.add_bound_pod(member("g-x", "g", 1000), "a1");
    world.add_bound_pod(member("g-y", "g", 1000), "b1");
    super::add_members(&mut world, "g", 1, 1000);
    run(&mut world);
    let why = "cannot determine domain for already scheduled pods: \
               more than 1 domain found for pod group: a, b";
    assert_eq!(world.conditions(), [format!("g-0 SchedulerError: {why}")]);
    assert_eq!(group_conditions(&mut world), [format!("g False SchedulerError: {why}")]);
}

#[test]
fn a_running_gang_whose_extra_member_fits_nowhere_in_its_rack_is_unschedulable() {
    let mut world = world_of(&[("a1", "a", 1000), ("b1", "b", 9000)]);
    world.tell::<PodGroupObject>(&together("g", 1));
    world.add_bound_pod(member("g-there", "g", 1000), "a1");
    super::add_members(&mut world, "g", 1, 1000);
    run(&mut world);
    assert_eq!(world.conditions(), ["g-0 Unschedulable: 0/1 nodes are available: 1 Insufficient cpu."]);
    assert_eq!(group_conditions(&mut world), ["g False Unschedulable: pod group is unschedulable"]);
}

#[test]
fn a_nominated_node_in_another_placement_is_ignored() {
    let mut world = world_of(&[("a1", "a", 2000), ("b1", "b", 1000), ("b2", "b", 1000)]);
    world.add_bound_pod(pod("there", 1000), "a1");
    world.tell::<PodGroupObject>(&together("g", 2));
    for at in 0..2 {
        let mut member = member(&format!("g-{at}"), "g", 1000);
        member.status.nominated_node_name = Some("a1".into());
        world.add_pod(member);
    }
    run(&mut world);
    assert_eq!(nodes(&mut world), ["b1", "b2"]);
}

#[test]
fn a_gang_evicts_pods_in_one_rack_only() {
    let mut world = World::with(config_with(&["DynamicResources", "DefaultPreemption"]));
    set_nodes(&mut world, &[("a1", "a", 1000), ("a2", "a", 1000), ("b1", "b", 1000), ("c1", "c", 1000)]);
    for node in ["a1", "a2", "b1", "c1"] {
        world.add_bound_pod(pod(&format!("low-{node}"), 1000), node);
    }
    let mut important = together("g", 2);
    important["spec"]["priority"] = 10.into();
    world.tell::<PodGroupObject>(&important);
    (0..2).for_each(|at| world.add_pod(with_priority(member(&format!("g-{at}"), "g", 1000), 10)));
    run(&mut world);
    let nominated = world.nominations();
    let named: Vec<&str> = nominated.iter().filter_map(|(_, node)| node.as_deref()).collect();
    assert_eq!(named.len(), 2);
    assert!(named.iter().all(|node| node.starts_with('a')), "{named:?}");
    let victims: Vec<String> = world.evictions().iter().map(|task| task.victim.name.to_string()).collect();
    assert!(victims.iter().all(|victim| victim.starts_with("low-a")), "{victims:?}");
    let why = "pod group is unschedulable, 0/3 placements are available, first placement status: \
               minCount (2) cannot be satisfied: 0 scheduled, 1 remaining, \
               pod group preemption: found a placement for podgroup, preempting 2 victims";
    assert_eq!(group_conditions(&mut world), [format!("g False Unschedulable: {why}")]);
}

/// Each node is a placement. The fewer members a placement has, the better it is.
struct Nodes {
    args: NodesArgs,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NodesArgs {
    /// Score of a placement without members.
    most: i64,
    panics: bool,
}

impl Build for Nodes {
    type Args = NodesArgs;

    fn build(args: NodesArgs, _: &BuildCycle) -> Result<Self, PluginError> {
        Ok(Self { args })
    }
}

impl Plugin for Nodes {
    const NAME: &'static str = "Nodes";
    implemented_points!();
}

impl PlacementGenerate for Nodes {
    fn generate_placements(&self, cx: &GroupCycle<'_>) -> Result<Vec<GroupPlacement>, Stop> {
        if cx.group.id.name == "unwelcome" {
            return Err(Reject::evictable("go away").into());
        }
        let placement = |node: NodeRef<'_>| GroupPlacement {
            name: node.name().clone(),
            nodes: [node.idx()].into_iter().collect(),
        };
        Ok(cx.nodes.nodes().map(placement).collect())
    }
}

impl PlacementScore for Nodes {
    fn score_placement(&self, _: &GroupCycle<'_>, proposed: &ProposedPlacement<'_>) -> PluginResult<i64> {
        assert!(!self.args.panics, "broken");
        Ok(self.args.most - proposed.assignments.len() as i64)
    }
}

/// A world without the feature gate whose groups are placed by [`Nodes`].
fn world_with_nodes(args: Value) -> World {
    let mut registry = Registry::default();
    harbormaster_plugins::in_tree(&mut registry);
    registry.register::<Nodes>();
    World::with(EngineConfig::new(vec![profile_for(
        Features::of(Release::V1_37),
        &registry,
        &[
            ("PreEnqueue", &["GangScheduling"]),
            ("QueueSort", &["PrioritySort"]),
            ("PreFilter", &["NodeResourcesFit"]),
            ("Filter", &["NodeResourcesFit"]),
            ("PlacementGenerate", &["Nodes"]),
            ("PlacementScore", &["Nodes"]),
            ("Bind", &["DefaultBinder"]),
        ],
        &[("Nodes", args)],
    )]))
}

#[test]
fn plugins_of_other_authors_divide_the_nodes_and_choose_without_a_gate() {
    let mut world = world_with_nodes(json!({"most": 100}));
    set_nodes(&mut world, &[("n1", "", 3000), ("n2", "", 2000), ("n3", "", 1000)]);
    add(&mut world, &group("g", 2), 3, 1000);
    run(&mut world);
    assert_eq!(nodes(&mut world), ["n2", "n2"], "the placement with fewer members scores higher");
    add(&mut world, &group("unwelcome", 1), 1, 100);
    run(&mut world);
    let conditions = group_conditions(&mut world);
    assert!(conditions.contains(&"unwelcome False Unschedulable: go away".to_owned()), "{conditions:?}");
}

#[test]
fn a_score_that_is_out_of_range_or_a_panic_fails_the_group_and_leaves_no_trace() {
    for (args, why) in [
        (
            json!({"most": 103}),
            "applying score defaultWeights on PlacementScore plugins: plugin \"Nodes\" returns an invalid score 101, \
             it should in the range of [0, 100] after normalizing",
        ),
        (
            json!({"panics": true}),
            "running PlacementScore plugins: plugin \"Nodes\" failed with: plugin \"Nodes\" panicked at \
             PlacementScore: broken",
        ),
    ] {
        let mut world = world_with_nodes(args);
        set_nodes(&mut world, &[("n1", "", 3000), ("n2", "", 2000)]);
        add(&mut world, &group("g", 2), 2, 1000);
        run(&mut world);
        assert_eq!(world.engine.sizes().pods, 0);
        let expected = ["g-0", "g-1"].map(|name| format!("{name} SchedulerError: {why}"));
        assert_eq!(world.conditions(), expected);
        assert_eq!(group_conditions(&mut world), [format!("g False SchedulerError: {why}")]);
    }
}

/// Name and size in thousandths of a CPU.
type Sized = (String, i64);

/// The greedy result in one rack: the sizes of the members that get nodes there. Every placement is tried on its own
/// engine, which has only the nodes of the rack.
fn tried_alone(rack: &[(String, i64, Vec<Sized>)], members: &[Sized]) -> Vec<i64> {
    let mut world = World::with(super::config());
    for (name, room, there) in rack {
        world.set_node(node(name, *room));
        for (pod_name, size) in there {
            world.add_bound_pod(pod(pod_name, *size), name);
        }
    }
    world.tell::<PodGroupObject>(&group("g", 0));
    for (name, size) in members {
        world.add_pod(member(name, "g", *size));
    }
    world.attempt();
    let placed = bound(&mut world);
    members.iter().filter(|(name, _)| placed.contains(name)).map(|(_, size)| *size).collect()
}

#[test]
fn the_best_placement_is_the_best_of_all_that_are_tried_on_clones() {
    let (mut several, mut none) = (0, 0);
    for seed in 0..150 {
        let mut dice = Dice::new(seed);
        let mut racks: BTreeMap<String, Vec<(String, i64, Vec<Sized>)>> = BTreeMap::new();
        for at in 0..1 + dice.below(7) {
            let there: Vec<Sized> =
                (0..dice.below(3)).map(|i| (format!("there-{at}-{i}"), 250 * dice.below(5) as i64)).collect();
            let rack = racks.entry(format!("r{}", dice.below(3))).or_default();
            rack.push((format!("n{at}"), 1000 + 500 * dice.below(5) as i64, there));
        }
        // Members of one size, so that the number that fits does not depend on which of equal nodes is taken first.
        let size = dice.pick(&[500, 750, 1000, 1250]);
        let members: Vec<Sized> = (0..1 + dice.below(5)).map(|at| (format!("g-{at}"), size)).collect();
        let min_count = (dice.below(4) as usize).min(members.len());

        let found: BTreeMap<&String, Vec<i64>> =
            racks.iter().map(|(name, rack)| (name, tried_alone(rack, &members))).collect();
        let found: BTreeMap<_, _> =
            found.into_iter().filter(|(_, placed)| placed.len() >= min_count.max(1)).collect();
        let most = found.values().map(Vec::len).max().unwrap_or(1) as i64;
        let score = |name: &String, placed: &[i64]| {
            let rack = &racks[name];
            let cpu: i64 = rack.iter().map(|(_, room, _)| room).sum();
            let count = 100 * placed.len() as i64 / most;
            let there: Vec<i64> = rack.iter().flat_map(|(.., there)| there).map(|(_, size)| *size).collect();
            let used: i64 = there.iter().chain(placed).sum();
            // Containers without a memory request count as 200 MiB.
            let memory = 200 * 1024 * 1024 * (there.len() + placed.len()) as i64;
            let fit = (100 * used.min(cpu) / cpu + 100 * memory / (rack.len() as i64 * (32 << 30))) / 2;
            count + fit
        };
        let best = found.iter().map(|(name, placed)| score(name, placed)).max();

        let mut world = World::with(config());
        for (rack, nodes) in &racks {
            for (name, room, there) in nodes {
                world.set_node(in_rack(node(name, *room), rack));
                for (pod_name, size) in there {
                    world.add_bound_pod(pod(pod_name, *size), name);
                }
            }
        }
        world.tell::<PodGroupObject>(&together("g", min_count as u32));
        for (name, size) in &members {
            world.add_pod(member(name, "g", *size));
        }
        world.attempt();
        let placed = world.bindings();
        none += usize::from(placed.is_empty());
        several += usize::from(found.len() > 1);
        let Some(best) = best else {
            assert!(placed.is_empty(), "{seed}: {placed:?}");
            continue;
        };
        let holds = |rack: &[(String, i64, Vec<Sized>)]| {
            placed.iter().all(|(_, node)| rack.iter().any(|(name, ..)| name == node))
        };
        let racks_used: Vec<&String> =
            racks.iter().filter(|(_, rack)| holds(rack)).map(|(name, _)| name).collect();
        let [rack] = racks_used.as_slice() else { panic!("{seed}: {placed:?} is not in one rack") };
        assert_eq!(placed.len(), found[rack].len(), "{seed}");
        assert_eq!(score(rack, &found[rack]), best, "{seed}: {found:?} {placed:?}");
        // What was assumed in the other racks is undone.
        let there = racks.values().flatten().map(|(.., there)| there.len()).sum::<usize>();
        assert_eq!(world.engine.sizes().pods, there + placed.len(), "{seed}");
        for (pod, _) in placed {
            world.bind_finished(&pod, BindOutcome::Bound);
        }
    }
    assert!(several > 40 && none > 10, "{several} {none}");
}
