//! The groups that pods belong to: their descriptions, and the numbers of their members.

use std::{collections::BTreeSet, sync::Arc};

use harbormaster_api::{Pod, Str};
use harbormaster_framework::{
    group::{GroupId, GroupView, PodGroup},
    guard::{GuardedPlugin, PointError},
    nodeset::{NodeIdx, NodeSet},
    pod::PodInfo,
    profile::Profile,
    resource::{AnyCustom, ResourceName},
    table::NodeTable,
};
use rustc_hash::FxHashMap;

use crate::{DumpedGroup, queue::QueuedPod};

/// All groups. A group is known while its object exists or while it has members.
#[derive(Debug, Default)]
pub struct Groups {
    /// The plugin that defines the groups of each profile's pods, by scheduler name; none for profiles without groups.
    plugins: Vec<(Str, Option<GuardedPlugin>)>,
    by_id: FxHashMap<GroupId, Known>,
    /// Groups with a member on a node whose priority is not the group's. Usually empty.
    reprioritizing: BTreeSet<GroupId>,
    errors: Vec<PointError>,
}

#[derive(Debug, Default)]
struct Known {
    group: Option<Arc<PodGroup>>,
    /// Number of unfinished members.
    pods: usize,
    /// UIDs of the members on nodes, with the names of the nodes and the terms of the members.
    on_nodes: FxHashMap<Str, (Str, Terms)>,
    /// Number of members on nodes whose priority is not the group's.
    reprioritized: usize,
}

impl Known {
    /// Returns true if the group has another priority than a member with these terms.
    fn reprioritizes(&self, terms: &Terms) -> bool {
        let priority = self.group.as_ref().and_then(|group| group.priority);
        priority.is_some_and(|priority| priority != terms.priority)
    }

    fn set_group(&mut self, group: Option<Arc<PodGroup>>) {
        let priority = |group: &Option<Arc<PodGroup>>| group.as_ref().and_then(|group| group.priority);
        let is_same = priority(&self.group) == priority(&group);
        self.group = group;
        if !is_same {
            self.reprioritized =
                self.on_nodes.values().filter(|(_, terms)| self.reprioritizes(terms)).count();
        }
    }
}

/// Properties in which the members of a group must agree.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Terms {
    scheduler: Str,
    priority: i32,
    never_preempts: bool,
}

impl Terms {
    /// Terms of a pod.
    fn of(pod: &PodInfo) -> Self {
        let (scheduler, never_preempts) = (pod.spec.scheduler_name.clone(), pod.spec.never_preempts);
        Self { scheduler, priority: pod.priority(), never_preempts }
    }
}

impl Groups {
    /// Groups the pods of these profiles from now on. Known pods stay in their groups.
    pub(crate) fn set_profiles(&mut self, profiles: &[Arc<Profile>]) {
        let plugin = |profile: &Arc<Profile>| (profile.name().clone(), profile.grouping().cloned());
        self.plugins = profiles.iter().map(plugin).collect();
    }

    /// Returns the plugin that defines the groups of a scheduler's pods. Pods of other schedulers are grouped as the
    /// first profile with groups does, because they count as members once they are bound.
    pub(crate) fn plugin_for(&self, scheduler: &str) -> Option<&GuardedPlugin> {
        match self.plugins.iter().find(|(name, _)| name == scheduler) {
            Some((_, plugin)) => plugin.as_ref(),
            None => self.plugins.iter().find_map(|(_, plugin)| plugin.as_ref()),
        }
    }

    /// Returns the group of a pod. If the plugin panics, the pod is on its own.
    pub(crate) fn group_of(&mut self, pod: &Pod) -> Option<GroupId> {
        let name = self.plugin_for(&pod.spec.scheduler_name)?.group_of(pod);
        let name = name.unwrap_or_else(|error| {
            self.errors.push(error);
            None
        });
        Some(GroupId { namespace: pod.namespace.clone(), name: name? })
    }

    /// Takes the errors of plugins since the last call.
    pub(crate) fn take_errors(&mut self) -> Vec<PointError> {
        std::mem::take(&mut self.errors)
    }

    /// Returns true if [`Self::take_errors`] would return something.
    pub(crate) fn has_errors(&self) -> bool {
        !self.errors.is_empty()
    }

    // --- objects ---

    /// Returns the group that an object of the given kind describes, if it describes one.
    pub(crate) fn describe(&mut self, kind: ResourceName, object: &AnyCustom) -> Option<PodGroup> {
        let mut plugins = self.plugins.iter().filter_map(|(_, plugin)| plugin.as_ref());
        let described = plugins.find(|plugin| plugin.group_resource() == Some(kind))?.describe_group(object);
        described.unwrap_or_else(|error| {
            self.errors.push(error);
            None
        })
    }

    /// Adds or replaces a group.
    pub(crate) fn set(&mut self, group: Arc<PodGroup>) {
        let id = group.id.clone();
        self.change(&id, |known| known.set_group(Some(group)));
    }

    /// Removes a group whose object was deleted.
    pub(crate) fn remove(&mut self, id: &GroupId) {
        self.change(id, |known| known.set_group(None));
    }

    /// Returns a group whose object exists.
    pub fn get(&self, id: &GroupId) -> Option<&Arc<PodGroup>> {
        self.by_id.get(id)?.group.as_ref()
    }

    /// Returns the group whose object has this UID. Searches all groups.
    pub fn by_uid(&self, uid: &str) -> Option<&Arc<PodGroup>> {
        self.by_id.values().filter_map(|known| known.group.as_ref()).find(|group| group.uid == uid)
    }

    /// Returns a group whose object exists, with the numbers of its members.
    pub fn view(&self, id: &GroupId) -> Option<GroupView<'_>> {
        let known = self.by_id.get(id)?;
        let group = known.group.as_deref()?;
        Some(GroupView { group, pods: known.pods, scheduled: known.on_nodes.len() })
    }

    /// Returns the error for members that cannot be placed together, or not beside those on nodes, if there is one: all
    /// must have the same scheduler, and the group's priority and preemption policy. If the group has no policy, all must
    /// have the same.
    pub(crate) fn mismatch(&self, group: &PodGroup, members: &[QueuedPod]) -> Option<String> {
        let same = "all pods in a single pod group should have the same";
        let first = Terms::of(&members.first()?.pod);
        let queued = members.iter().map(|entry| Terms::of(&entry.pod));
        let known = self.by_id.get(&group.id).into_iter();
        let on_nodes: BTreeSet<&Terms> =
            known.flat_map(|known| known.on_nodes.values()).map(|(_, terms)| terms).collect();
        queued.chain(on_nodes.into_iter().cloned()).find_map(|terms| {
            let (name, expected) = (&terms.scheduler, &first.scheduler);
            if name != expected {
                return Some(format!("{same} .spec.schedulerName set, got: {name:?} and {expected:?}"));
            }
            if let Some(priority) = group.priority.filter(|priority| *priority != terms.priority) {
                let own = terms.priority;
                return Some(format!(
                    "{same} priority as the pod group's priority, got {own} and {priority}"
                ));
            }
            let (never, of_group) = match group.never_preempts {
                Some(never) => (never, " as the pod group's preemption policy"),
                None => (first.never_preempts, ""),
            };
            let (policy, expected) = (preemption_policy(terms.never_preempts), preemption_policy(never));
            (policy != expected)
                .then(|| format!("{same} preemption policy{of_group}, got {policy} and {expected}"))
        })
    }

    /// Returns all groups; `None` if no profile has groups.
    pub(crate) fn dump(&self) -> Option<Vec<DumpedGroup>> {
        let of = |(id, known): (&GroupId, &Known)| DumpedGroup {
            id: id.clone(),
            group: known.group.clone(),
            pods: known.pods,
            scheduled: known.on_nodes.len(),
        };
        let has_groups = self.plugins.iter().any(|(_, plugin)| plugin.is_some());
        has_groups.then(|| self.by_id.iter().map(of).collect())
    }

    // --- members ---

    /// Counts a new member, or stops counting one that is gone.
    pub(crate) fn count_member(&mut self, id: &GroupId, is_there: bool) {
        self.change(id, |known| count(&mut known.pods, is_there));
    }

    /// Notes that a member has got a node.
    pub(crate) fn joined(&mut self, id: &GroupId, pod: &PodInfo, node: &Str) {
        self.change(id, |known| {
            let terms = Terms::of(pod);
            known.reprioritized += usize::from(known.reprioritizes(&terms));
            if let Some((_, old)) = known.on_nodes.insert(pod.uid.clone(), (node.clone(), terms)) {
                known.reprioritized -= usize::from(known.reprioritizes(&old));
            }
        });
    }

    /// Notes that a member has left its node.
    pub(crate) fn left(&mut self, id: &GroupId, uid: &str) {
        self.change(id, |known| {
            if let Some((_, terms)) = known.on_nodes.remove(uid) {
                known.reprioritized -= usize::from(known.reprioritizes(&terms));
            }
        });
    }

    /// Returns the UIDs of the members on nodes, each with the name of the node.
    pub(crate) fn on_nodes(&self, id: &GroupId) -> impl Iterator<Item = (&Str, &Str)> {
        let known = self.by_id.get(id).into_iter();
        known.flat_map(|known| &known.on_nodes).map(|(uid, (node, _))| (uid, node))
    }

    /// Returns the members on nodes whose objects exist, in the order of the rows and of the pods on a node.
    pub(crate) fn members_on(&self, nodes: &NodeTable, id: &GroupId) -> Vec<(NodeIdx, Arc<PodInfo>)> {
        let placed = self.on_nodes(id).filter_map(|(uid, node)| {
            let row = nodes.find(node).filter(|row| nodes.live().contains(*row))?;
            let at = nodes.node(row).pods().iter().position(|pod| pod.uid == *uid)?;
            Some((row, at))
        });
        let mut placed: Vec<(NodeIdx, usize)> = placed.collect();
        placed.sort_unstable();
        placed.into_iter().map(|(row, at)| (row, nodes.node(row).pods()[at].clone())).collect()
    }

    /// Returns the rows of members whose priority is not the group's.
    pub(crate) fn reprioritized_rows(&self, nodes: &NodeTable) -> NodeSet {
        let known = self.reprioritizing.iter().filter_map(|id| self.by_id.get(id));
        let members = known.flat_map(|known| {
            known.on_nodes.values().filter(|(_, terms)| known.reprioritizes(terms)).map(|(node, _)| node)
        });
        members.filter_map(|node| nodes.find(node)).collect()
    }

    fn change(&mut self, id: &GroupId, change: impl FnOnce(&mut Known)) {
        let known = self.by_id.entry(id.clone()).or_default();
        let had_any = known.reprioritized > 0;
        change(known);
        match (had_any, known.reprioritized > 0) {
            (false, true) => drop(self.reprioritizing.insert(id.clone())),
            (true, false) => drop(self.reprioritizing.remove(id)),
            _ => {}
        }
        if known.group.is_none() && known.pods == 0 && known.on_nodes.is_empty() {
            self.by_id.remove(id);
        }
    }
}

fn preemption_policy(never_preempts: bool) -> &'static str {
    if never_preempts { "Never" } else { "PreemptLowerPriority" }
}

fn count(number: &mut usize, is_there: bool) {
    *number = if is_there { *number + 1 } else { number.saturating_sub(1) };
}

#[cfg(test)]
mod tests {
    use harbormaster_framework::group::GroupSpec;
    use harbormaster_testkit::{cluster, node, pod};

    use super::*;

    fn group(priority: Option<i32>) -> Arc<PodGroup> {
        let id = GroupId { namespace: "default".into(), name: "g".into() };
        let spec = GroupSpec { priority, ..GroupSpec::default() };
        Arc::new(PodGroup { id, uid: "g".into(), generation: 1, spec })
    }

    #[test]
    fn only_rows_of_members_with_other_priorities_than_their_group_are_reprioritized() {
        let cluster = cluster([node("a"), node("b")], []);
        let (three, five) = (pod("three").priority(3).info(), pod("five").priority(5).info());
        let (mut groups, id) = (Groups::default(), group(None).id.clone());
        let rows = |groups: &Groups| -> Vec<String> {
            let rows = groups.reprioritized_rows(cluster.nodes());
            rows.iter().map(|row| cluster.node(row).name().to_string()).collect()
        };
        groups.joined(&id, &three, &"a".into());
        groups.set(group(Some(5)));
        groups.joined(&id, &five, &"b".into());
        assert_eq!(rows(&groups), ["a"]);
        groups.joined(&id, &three, &"b".into());
        assert_eq!(rows(&groups), ["b"], "the member has moved");
        groups.set(group(Some(3)));
        groups.joined(&id, &three, &"a".into());
        assert_eq!(rows(&groups), ["b"]);
        groups.set(group(Some(4)));
        assert_eq!(rows(&groups), ["a", "b"]);
        groups.left(&id, &five.uid);
        assert_eq!(rows(&groups), ["a"]);
        groups.remove(&id);
        assert!(rows(&groups).is_empty() && groups.reprioritizing.is_empty());
    }
}
