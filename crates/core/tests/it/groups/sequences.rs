//! Random sequences: members, groups and nodes come and go, bindings fail, the scheduler restarts.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use harbormaster_core::{
    BindOutcome, EngineConfig,
    queue::{Entity, GroupLength, Queue, QueueLengths},
};
use harbormaster_plugins::gang_scheduling::PodGroupObject;
use proptest::prelude::*;

use super::{
    config, group, member,
    placements::{self, in_rack, together},
    remove_group,
};
use crate::world::{World, node};

const GROUPS: u8 = 3;
const NODES: u8 = 3;
/// In sequences with racks, the group whose members must be in one rack.
const TOGETHER: &str = "g2";
/// CPU of every member, in millicores. Nodes have multiples of it, so room is a number of members.
const UNIT: i64 = 1000;

#[derive(Clone, Debug)]
enum Step {
    Group { group: u8, min_count: u8 },
    GroupGone(u8),
    Member { group: u8, at: u8 },
    MemberGone { group: u8, at: u8 },
    Node { node: u8, room: u8 },
    NodeGone(u8),
    Attempt,
    BindingEnds { which: u8, is_bound: bool },
    Wait(u16),
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..GROUPS, 0u8..4).prop_map(|(group, min_count)| Step::Group { group, min_count }),
        1 => (0..GROUPS).prop_map(Step::GroupGone),
        8 => (0..GROUPS, 0u8..5).prop_map(|(group, at)| Step::Member { group, at }),
        2 => (0..GROUPS, 0u8..5).prop_map(|(group, at)| Step::MemberGone { group, at }),
        3 => (0..NODES, 0u8..4).prop_map(|(node, room)| Step::Node { node, room }),
        1 => (0..NODES).prop_map(Step::NodeGone),
        6 => Just(Step::Attempt),
        6 => (any::<u8>(), prop::bool::weighted(0.7))
            .prop_map(|(which, is_bound)| Step::BindingEnds { which, is_bound }),
        3 => (0u16..20_000).prop_map(Step::Wait),
        1 => Just(Step::Restart),
    ]
}

/// The API server and the host.
struct Model {
    world: World,
    /// True if the nodes are in racks.
    has_racks: bool,
    /// Minimum of each group that exists; 0 for a basic group.
    groups: BTreeMap<String, u8>,
    /// The node of each member that exists; `None` while it has none.
    members: BTreeMap<String, Option<String>>,
    /// Room of each node, in members.
    nodes: BTreeMap<String, u8>,
    /// Members whose bindings were requested and have not ended, with their nodes.
    bindings: Vec<(String, String)>,
}

fn group_name(group: u8) -> String {
    format!("g{group}")
}

fn member_name(group: u8, at: u8) -> String {
    format!("g{group}-{at}")
}

fn group_of(member: &str) -> &str {
    &member[..2]
}

/// Rack of a node.
fn rack_of(node: &str) -> &'static str {
    if node == "n2" { "b" } else { "a" }
}

fn engine_config(has_racks: bool) -> EngineConfig {
    if has_racks { placements::config() } else { config() }
}

impl Model {
    fn new(has_racks: bool) -> Self {
        Self {
            world: World::with(engine_config(has_racks)),
            has_racks,
            groups: BTreeMap::new(),
            members: BTreeMap::new(),
            nodes: BTreeMap::new(),
            bindings: Vec::new(),
        }
    }

    fn play(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Group { group, min_count } => self.group_comes(&group_name(group), min_count),
            Step::GroupGone(group) => {
                if self.groups.remove(&group_name(group)).is_some() {
                    remove_group(&mut self.world, &group_name(group));
                }
            }
            Step::Member { group, at } => {
                let name = member_name(group, at);
                let is_being_bound = self.bindings.iter().any(|(pod, _)| *pod == name);
                if !self.members.contains_key(&name) && !is_being_bound {
                    self.members.insert(name.clone(), None);
                    self.world.add_pod(member(&name, group_of(&name), UNIT));
                }
            }
            Step::MemberGone { group, at } => {
                let name = member_name(group, at);
                if self.members.remove(&name).is_some() {
                    self.world.remove_pod(&name);
                }
            }
            Step::Node { node: at, room } => {
                self.nodes.insert(format!("n{at}"), room);
                self.set_node(&format!("n{at}"), room);
            }
            Step::NodeGone(at) => {
                self.nodes.remove(&format!("n{at}"));
                self.world.remove_node(&format!("n{at}"));
            }
            Step::Attempt => drop(self.attempt()?),
            Step::BindingEnds { which, is_bound } => self.binding_ends(which, is_bound),
            Step::Wait(millis) => self.world.wait(Duration::from_millis(millis.into())),
            Step::Restart => self.restart(),
        }
        self.check()
    }

    fn group_comes(&mut self, name: &str, min_count: u8) {
        // The variant of a policy never changes.
        if self.groups.get(name).is_some_and(|old| (*old == 0) != (min_count == 0)) {
            return;
        }
        self.groups.insert(name.to_owned(), min_count);
        let is_together = self.has_racks && name == TOGETHER;
        let object =
            if is_together { together(name, min_count.into()) } else { group(name, min_count.into()) };
        self.world.tell::<PodGroupObject>(&object);
    }

    fn set_node(&mut self, name: &str, room: u8) {
        self.world.set_node(in_rack(node(name, i64::from(room) * UNIT), rack_of(name)));
    }

    /// Makes an attempt. Checks that a gang of which members get nodes has enough members with nodes. Returns false if
    /// nothing was ready.
    fn attempt(&mut self) -> Result<bool, TestCaseError> {
        let Some(attempted) = self.world.attempt() else { return Ok(false) };
        let new = self.world.bindings();
        let groups: BTreeSet<String> = new.iter().map(|(pod, _)| group_of(pod).to_owned()).collect();
        self.bindings.extend(new);
        for group in groups {
            let wanted = usize::from(self.groups[&group]);
            let scheduled = self.scheduled(&group);
            prop_assert!(scheduled >= wanted, "{group} has {scheduled} of {wanted}: {attempted:?}");
        }
        Ok(true)
    }

    /// Number of members that are bound or are being bound.
    fn scheduled(&self, group: &str) -> usize {
        let bound = self.members.iter().filter(|(name, node)| group_of(name) == group && node.is_some());
        let is_there = |(pod, _): &&(String, String)| self.members.get(pod).is_some_and(Option::is_none);
        bound.count()
            + self.bindings.iter().filter(|(pod, _)| group_of(pod) == group).filter(is_there).count()
    }

    fn binding_ends(&mut self, which: u8, is_bound: bool) {
        if self.bindings.is_empty() {
            return;
        }
        let (pod, node) = self.bindings.remove(usize::from(which) % self.bindings.len());
        let exists = self.members.contains_key(&pod);
        let outcome =
            if is_bound && exists { BindOutcome::Bound } else { BindOutcome::Failed("broken".to_owned()) };
        self.world.bind_finished(&pod, outcome);
        if is_bound && exists {
            self.members.insert(pod.clone(), Some(node.clone()));
            self.world.add_bound_pod(member(&pod, group_of(&pod), UNIT), &node);
        }
    }

    /// Kills the scheduler, and starts another one. What it had not bound is not bound.
    fn restart(&mut self) {
        let now = self.world.now;
        self.bindings.clear();
        self.world = World::with(engine_config(self.has_racks));
        self.world.now = now;
        for (name, min_count) in self.groups.clone() {
            self.group_comes(&name, min_count);
        }
        for (name, room) in self.nodes.clone() {
            self.set_node(&name, room);
        }
        for (name, on) in &self.members {
            let pod = member(name, group_of(name), UNIT);
            match on {
                Some(node) => self.world.add_bound_pod(pod, node),
                None => self.world.add_pod(pod),
            }
        }
    }

    /// Checks that pods occupy nodes only if they are bound or are being bound, and that no member is lost.
    fn check(&self) -> Result<(), TestCaseError> {
        let engine = &self.world.engine;
        let bound = self.members.values().flatten().count();
        let is_there = |(pod, _): &&(String, String)| self.members.contains_key(pod);
        let being_bound = self.bindings.iter().filter(is_there).count();
        prop_assert_eq!(engine.sizes().pods, bound + being_bound, "pods that occupy nodes");
        for (name, node) in &self.members {
            let is_queued = engine.queue().get(&name.as_str().into()).is_some();
            let is_placed = node.is_some() || self.bindings.iter().any(|(pod, _)| pod == name);
            prop_assert_eq!(is_queued, !is_placed, "{} is queued", name);
        }
        prop_assert_eq!(engine.queue_lengths(), recounted(engine.queue()));
        let racks = self.racks_of_together();
        prop_assert!(!self.has_racks || racks.len() < 2, "{TOGETHER} is in {racks:?}");
        Ok(())
    }

    /// Racks of the members of [`TOGETHER`] that are bound or are being bound.
    fn racks_of_together(&self) -> BTreeSet<&'static str> {
        let is_there = |(pod, _): &&(String, String)| self.members.contains_key(pod);
        let being_bound = self.bindings.iter().filter(is_there).map(|(pod, node)| (pod, node));
        let bound = self.members.iter().filter_map(|(pod, node)| Some((pod, node.as_ref()?)));
        let of_group = bound.chain(being_bound).filter(|(pod, _)| group_of(pod) == TOGETHER);
        of_group.map(|(_, node)| rack_of(node)).collect()
    }

    /// Lets everything come to rest.
    fn settle(&mut self) -> Result<(), TestCaseError> {
        for _ in 0..12 {
            self.world.wait(Duration::from_secs(60));
            while self.attempt()? {}
            while !self.bindings.is_empty() {
                self.binding_ends(0, true);
            }
            self.check()?;
        }
        Ok(())
    }

    /// Checks that no group waits that could be placed.
    fn check_rest(&self) -> Result<(), TestCaseError> {
        let used = |node: &String| self.members.values().flatten().filter(|on| *on == node).count();
        let room = |(name, room): (&String, &u8)| usize::from(*room).saturating_sub(used(name));
        let free_where = |is_allowed: &dyn Fn(&str) -> bool| -> usize {
            self.nodes.iter().filter(|(name, _)| is_allowed(name)).map(room).sum()
        };
        let free = free_where(&|_| true);
        for (group, min_count) in &self.groups {
            let waiting =
                self.members.iter().filter(|(name, node)| group_of(name) == group && node.is_none());
            let needed = usize::from(*min_count).saturating_sub(self.scheduled(group)).max(1);
            let free = if self.has_racks && group == TOGETHER {
                let racks = self.racks_of_together();
                let on_known_nodes = |(name, node): (&String, &Option<String>)| {
                    group_of(name) != TOGETHER
                        || node.as_ref().is_none_or(|node| self.nodes.contains_key(node))
                };
                if !self.members.iter().all(on_known_nodes) {
                    continue; // The domain of a missing node is unknown.
                }
                let is_allowed = |rack: &&str| racks.is_empty() || racks.contains(rack);
                let most = ["a", "b"].iter().filter(|rack| is_allowed(rack));
                most.map(|rack| free_where(&|node| rack_of(node) == *rack)).max().unwrap_or(0)
            } else {
                free
            };
            let could_run = waiting.count() >= needed && free >= needed;
            prop_assert!(!could_run, "{group} needs {needed} nodes, {free} are free");
        }
        Ok(())
    }
}

/// Lengths of the queue's parts, found by visiting all elements.
fn recounted(queue: &Queue) -> QueueLengths {
    let mut lengths = QueueLengths { incomplete: queue.incomplete().count(), ..QueueLengths::default() };
    let QueueLengths { active, backoff, unschedulable, gated, groups, .. } = &mut lengths;
    let count = |entity: &Entity, pods: &mut usize, length: &mut GroupLength| {
        *pods += entity.pods().len();
        if let Entity::Group(group) = entity {
            *length =
                GroupLength { groups: length.groups + 1, members: length.members + group.members.len() };
        }
    };
    queue.active().for_each(|entity| count(entity, active, &mut groups.active));
    queue.backing_off().for_each(|entity| count(entity, backoff, &mut groups.backoff));
    for entity in queue.unschedulable() {
        match entity.gated_by {
            Some(_) => count(entity, gated, &mut groups.gated),
            None => count(entity, unschedulable, &mut groups.unschedulable),
        }
    }
    lengths
}

/// Number of sequences: 500, or `PROPTEST_CASES` if that is more.
fn sequences() -> ProptestConfig {
    let default = ProptestConfig::default();
    ProptestConfig { cases: default.cases.max(500), ..default }
}

proptest! {
    #![proptest_config(sequences())]

    #[test]
    fn gangs_are_whole_or_wait_whole_and_none_waits_that_could_run(steps in prop::collection::vec(step(), 1..80)) {
        let mut model = Model::new(false);
        for step in steps {
            model.play(step)?;
        }
        model.settle()?;
        model.check_rest()?;
    }

    #[test]
    fn a_group_with_a_constraint_is_in_one_rack_and_waits_only_if_no_rack_has_room(
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let mut model = Model::new(true);
        for step in steps {
            model.play(step)?;
        }
        model.settle()?;
        model.check_rest()?;
    }
}
