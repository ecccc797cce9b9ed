//! Finds small changes after which a gang gets the nodes that it needs.
//!
//! Each trial places the whole gang in the changed cluster, with the engine. Changes to the pod concern all members.

use std::{collections::BTreeSet, sync::Arc};

use harbormaster_api::{
    Node, Pod, Str,
    pod::{PodSpec, ResourceList},
    requests::spec_request_list,
};
use harbormaster_framework::group::GroupId;
use serde::Serialize;
use serde_json::Value;

use super::{
    Change, Remedy,
    change::changed,
    cluster_remedies::shapes,
    edits::{copies_of, in_service},
    ideas::ideas,
    objects::Objects,
};
use crate::{
    inventory::Inventory,
    original::Original,
    report::PodReport,
    simulate::{Gang, Rehearsal, Scene, Settled, never_preempting},
};

/// Maximum number of existing nodes whose copies are tried, and of cordoned nodes.
const NODES: usize = 10;

/// Maximum number of members for which one node is considered when requests are lowered.
const MEMBERS_PER_NODE: usize = 64;

/// A gang that waits because too few of its members get nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupState {
    /// `namespace/name`.
    pub group: String,
    /// Number of members that must have nodes.
    pub min_count: usize,
    /// Number of members that exist.
    pub members: usize,
    /// Number of members that have nodes.
    pub placed: usize,
    /// Number of further members that would find nodes at the same time.
    pub fits: usize,
    /// The first member that would find none beside them.
    pub stuck: Option<StuckMember>,
}

/// A member that finds no node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StuckMember {
    /// `namespace/name`.
    pub pod: String,
    /// The reason, in kube-scheduler's words.
    pub message: String,
}

/// A gang, and the cluster in which it is tried.
pub(super) struct GroupTrials {
    pub(super) stage: Rehearsal,
    pub(super) gang: Gang,
    /// The PodGroup.
    object: Value,
    /// The member that further ones are like.
    model: Original,
    objects: Objects,
    /// `namespace/name` of the member that the question is about.
    asked: String,
    /// Changes without which no other change suffices.
    needed: Vec<Change>,
}

/// A gang, and what is needed to change it.
pub(super) struct Members {
    gang: Gang,
    object: Value,
    model: Original,
}

impl Members {
    /// Takes the PodGroup and the members' claims from the cluster as it was before the simulation. Returns `None` if
    /// there is no such PodGroup.
    pub(super) fn of(gang: Gang, cluster: &Inventory) -> Option<Self> {
        let object = object_of(cluster, &gang.id)?;
        let mut model = Original::of(gang.waiting.last()?.clone(), cluster);
        model.complete(cluster);
        Some(Self { gang, object, model })
    }
}

/// Returns the PodGroup with this name.
fn object_of(cluster: &Inventory, id: &GroupId) -> Option<Value> {
    let mut all = cluster.custom_of("scheduling.k8s.io", "PodGroup");
    let is_meant = |group: &&Value| {
        let metadata = &group["metadata"];
        let namespace = metadata["namespace"].as_str().unwrap_or("default");
        metadata["name"] == *id.name.as_str() && id.namespace == *namespace
    };
    all.find(is_meant).cloned()
}

impl GroupTrials {
    pub(super) fn new(settled: Settled, members: Members, objects: Objects, asked: String) -> Self {
        let Members { gang, object, model } = members;
        let stage = Rehearsal::new(settled, &gang.id);
        let lacking = gang.min_count.saturating_sub(gang.placed + gang.waiting.len());
        let group = gang.id.to_string();
        let needed = (lacking > 0).then_some(Change::AddMembers { group, count: lacking });
        Self { stage, gang, object, model, objects, asked, needed: needed.into_iter().collect() }
    }

    /// Returns how much of the gang can be placed, and leaves it on its nodes.
    pub(super) fn state(&mut self) -> GroupState {
        let reports = self.stage.play(self.scene(&[self.lowered_to(1)]));
        let fits = number_placed(&reports);
        let mut stuck = reports.iter().filter(|report| report.node.is_none());
        let first = stuck.clone().find(|report| report.pod == self.asked).or_else(|| stuck.next());
        GroupState {
            group: self.gang.id.to_string(),
            min_count: self.gang.min_count,
            members: self.gang.placed + self.gang.waiting.len(),
            placed: self.gang.placed,
            fits,
            stuck: first.map(|report| StuckMember {
                pod: report.pod.clone(),
                message: report.message.clone().unwrap_or_default(),
            }),
        }
    }

    /// Returns the smallest change of each kind; none if the gang needs no change. `fits` is the number of waiting
    /// members that find nodes.
    pub(super) fn remedies(&mut self, fits: usize) -> Vec<Remedy> {
        if self.places(&[]) {
            return Vec::new();
        }
        let mut found = Vec::new();
        found.extend(self.remedy(&self.needed.clone()));
        let to = self.gang.placed + fits;
        if to > 0 && to < self.gang.min_count {
            found.extend(self.remedy(&[self.lowered_to(to)]));
        }
        if found.iter().any(|remedy| remedy.changes == self.needed) {
            return found;
        }
        found.extend(self.changes_to_members());
        found.extend(self.uncordon());
        found.extend(self.add_nodes());
        found
    }

    fn lowered_to(&self, to: usize) -> Change {
        Change::LowerMinCount { group: self.gang.id.to_string(), from: self.gang.min_count, to }
    }

    /// Returns the changes to all members that suffice alone, if the members are alike.
    fn changes_to_members(&mut self) -> Vec<Remedy> {
        let Some(first) = self.gang.waiting.first().filter(|_| self.are_alike()).cloned() else {
            return Vec::new();
        };
        let ideas = ideas(&first, &self.stage.cache().cluster);
        let useful: Vec<Change> = ideas.into_iter().filter(|idea| self.helps(idea)).collect();
        let narrowed = useful.into_iter().filter_map(|idea| match idea {
            Change::LowerRequest { resource, from, .. } => self.largest_request(&resource, from),
            Change::SoftenSpread { constraint, topology_key } => {
                let from = first.spec.topology_spread.get(constraint).map_or(1, |spread| spread.max_skew);
                Some(self.smallest_skew(constraint, &topology_key, from))
            }
            other => Some(other),
        });
        let narrowed: Vec<Change> = narrowed.collect();
        narrowed.into_iter().filter_map(|change| self.remedy(&self.with_needed(change))).collect()
    }

    /// Returns true if the members differ in nothing but their volumes.
    fn are_alike(&self) -> bool {
        let without_volumes = |pod: &Pod| {
            let spec = PodSpec::clone(&pod.spec);
            PodSpec { volumes: Vec::new(), ..spec }
        };
        let mut specs = self.gang.waiting.iter().map(without_volumes);
        let Some(first) = specs.next() else { return false };
        specs.all(|spec| spec == first)
    }

    /// Returns the largest request of the members with which the gang is placed.
    fn largest_request(&mut self, resource: &Str, from: i64) -> Option<Change> {
        let amounts = self.amounts(resource, from);
        let lowered = |to: i64| Change::LowerRequest { resource: resource.clone(), from, to };
        let enough = amounts.partition_point(|to| self.helps(&lowered(*to)));
        amounts[..enough].last().map(|to| lowered(*to))
    }

    /// Returns the requests below `from` for which the number of members that some node has room for changes, in
    /// ascending order.
    fn amounts(&self, resource: &Str, from: i64) -> Vec<i64> {
        let nodes = self.stage.cache().cluster.nodes().nodes();
        let free = nodes
            .map(|node| node.allocatable().named(resource).saturating_sub(node.requested().named(resource)));
        let free: BTreeSet<i64> = free.filter(|free| *free > 0).collect();
        let most = self.gang.waiting.len().max(self.gang.min_count).min(MEMBERS_PER_NODE);
        let members = (1..).take(most);
        let amounts = free.iter().flat_map(|free| members.clone().map(move |members| free / members));
        let amounts: BTreeSet<i64> = amounts.filter(|amount| (1..from).contains(amount)).collect();
        amounts.into_iter().collect()
    }

    /// Returns the smallest skew with which the gang is placed, or the softened constraint if that is the smaller
    /// change.
    fn smallest_skew(&mut self, constraint: usize, key: &Str, from: i32) -> Change {
        let softened = Change::SoftenSpread { constraint, topology_key: key.clone() };
        for to in from.saturating_add(1).. {
            let wider = Change::WidenSkew { constraint, topology_key: key.clone(), from, to };
            if wider.size() >= softened.size() {
                break;
            }
            if self.helps(&wider) {
                return wider;
            }
        }
        softened
    }

    /// Returns a cordoned node that is enough.
    fn uncordon(&mut self) -> Option<Remedy> {
        let nodes = self.stage.cache().cluster.nodes().nodes();
        let cordoned = nodes.filter(|node| node.object().is_some_and(|node| node.unschedulable));
        let names: Vec<Str> = cordoned.map(|node| node.name().clone()).take(NODES).collect();
        names.into_iter().find_map(|node| self.remedy(&self.with_needed(Change::Uncordon { node })))
    }

    /// Returns the smallest existing node of which copies are enough, with their smallest number.
    fn add_nodes(&mut self) -> Option<Remedy> {
        let pod = self.gang.waiting.first()?.clone();
        let request = spec_request_list(&pod.spec);
        let shapes = shapes(&pod, self.stage.cache(), &self.objects);
        let large: Vec<Arc<Node>> =
            shapes.into_iter().filter(|node| has_room(node, &request)).take(NODES).collect();
        // A node for each member is enough, if any number is.
        let most = self.gang.min_count.saturating_sub(self.gang.placed);
        for node in large {
            let added = |count: usize| Change::AddNodes { like: node.name.clone(), count };
            if self.helps(&added(most)) {
                let fewest = smallest(most, |count| self.helps(&added(count)));
                return self.remedy(&self.with_needed(added(fewest)));
            }
        }
        None
    }

    fn with_needed(&self, change: Change) -> Vec<Change> {
        self.needed.iter().cloned().chain([change]).collect()
    }

    /// Returns true if the gang is placed after the change and those that are needed anyway.
    fn helps(&mut self, change: &Change) -> bool {
        self.places(&self.with_needed(change.clone()))
    }

    fn places(&mut self, changes: &[Change]) -> bool {
        number_placed(&self.try_out(changes)) > 0
    }

    /// Returns the remedy if the gang is placed after the changes.
    fn remedy(&mut self, changes: &[Change]) -> Option<Remedy> {
        let reports = self.try_out(changes);
        let asked = reports.iter().filter(|report| report.pod == self.asked);
        let example = asked.chain(&reports).find_map(|report| report.node.clone())?;
        let nodes: BTreeSet<&String> = reports.iter().filter_map(|report| report.node.as_ref()).collect();
        let members = Some(number_placed(&reports));
        Some(Remedy { fits: nodes.len(), changes: changes.to_vec(), example, members })
    }

    /// Places the gang after the changes. Afterwards, the cluster is as before.
    fn try_out(&mut self, changes: &[Change]) -> Vec<PodReport> {
        let scene = self.scene(changes);
        let reports = self.stage.play(scene);
        self.stage.clear();
        reports
    }

    /// Returns the gang and the cluster after the changes. Nobody preempts others on trial.
    fn scene(&self, changes: &[Change]) -> Scene {
        let mut scene = Scene { group: self.object.clone(), ..Scene::default() };
        scene.group["spec"]["preemptionPolicy"] = "Never".into();
        let mut pods = self.gang.waiting.clone();
        for change in changes {
            match change {
                Change::LowerMinCount { to, .. } => {
                    scene.group["spec"]["schedulingPolicy"]["gang"]["minCount"] = (*to).into();
                }
                Change::AddMembers { count, .. } => {
                    for (pod, claims) in (1..=*count).map(|number| self.model.copy(number)) {
                        pods.push(pod);
                        scene.claims.extend(claims);
                    }
                }
                Change::AddNodes { like, count } => self.add_copies(like, *count, &mut scene),
                Change::Uncordon { node } => {
                    scene.nodes.extend(self.stage.cache().node(node).map(|node| in_service(node)));
                }
                _ => {}
            }
        }
        scene.pods = pods.iter().map(|pod| never_preempting(&changed(pod, changes))).collect();
        scene
    }

    fn add_copies(&self, like: &str, count: usize, scene: &mut Scene) {
        let cache = self.stage.cache();
        let Some(like) = cache.node(like) else { return };
        for copy in copies_of(like, cache).take(count) {
            scene.parts.extend(self.objects.copied(&like.name, &copy.name));
            scene.nodes.push(copy);
        }
    }
}

fn number_placed(reports: &[PodReport]) -> usize {
    reports.iter().filter(|report| report.node.is_some()).count()
}

/// Returns true if the node, when empty, offers what is requested.
fn has_room(node: &Node, request: &ResourceList) -> bool {
    request.iter().all(|(resource, amount)| node.allocatable.named(resource) >= *amount)
}

/// Returns the smallest number up to `most` for which the test succeeds. It must succeed for `most`.
fn smallest(most: usize, mut test: impl FnMut(usize) -> bool) -> usize {
    let (mut low, mut high) = (1, most);
    while low < high {
        let middle = low + (high - low) / 2;
        if test(middle) { high = middle } else { low = middle + 1 }
    }
    low.min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_number_is_found_with_few_tests() {
        for enough in 1..=100 {
            let mut tests = 0;
            let found = smallest(100, |number| {
                tests += 1;
                number >= enough
            });
            assert_eq!(found, enough);
            assert!(tests <= 7, "{tests} tests for {enough}");
        }
    }
}
