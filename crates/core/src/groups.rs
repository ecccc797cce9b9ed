//! The groups that pods belong to: their descriptions, and the numbers of their members.

use std::sync::Arc;

use harbormaster_api::{Pod, Str};
use harbormaster_framework::{
    group::{GroupId, GroupView, PodGroup},
    guard::{GuardedPlugin, PointError},
    profile::Profile,
    resource::{AnyCustom, ResourceName},
};
use rustc_hash::FxHashMap;

/// All groups. A group is known while its object exists or while it has members.
#[derive(Debug, Default)]
pub struct Groups {
    /// The plugin that defines the groups of each profile's pods, by scheduler name; none for profiles without groups.
    plugins: Vec<(Str, Option<GuardedPlugin>)>,
    by_id: FxHashMap<GroupId, Known>,
    errors: Vec<PointError>,
}

#[derive(Debug, Default)]
struct Known {
    group: Option<Arc<PodGroup>>,
    /// Number of unfinished members.
    pods: usize,
    /// Number of members on nodes.
    scheduled: usize,
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
        self.by_id.entry(id).or_default().group = Some(group);
    }

    /// Removes a group whose object was deleted.
    pub(crate) fn remove(&mut self, id: &GroupId) {
        self.change(id, |known| known.group = None);
    }

    /// Returns true if there are neither groups nor members.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Returns a group whose object exists.
    pub fn get(&self, id: &GroupId) -> Option<&Arc<PodGroup>> {
        self.by_id.get(id)?.group.as_ref()
    }

    /// Returns a group whose object exists, with the numbers of its members.
    pub fn view(&self, id: &GroupId) -> Option<GroupView<'_>> {
        let known = self.by_id.get(id)?;
        let group = known.group.as_deref()?;
        Some(GroupView { group, pods: known.pods, scheduled: known.scheduled })
    }

    // --- members ---

    /// Counts a new member, or stops counting one that is gone.
    pub(crate) fn count_member(&mut self, id: &GroupId, is_there: bool) {
        self.change(id, |known| count(&mut known.pods, is_there));
    }

    /// Counts a member that has got a node, or stops counting one that has left its node.
    pub(crate) fn count_on_node(&mut self, id: &GroupId, is_there: bool) {
        self.change(id, |known| count(&mut known.scheduled, is_there));
    }

    fn change(&mut self, id: &GroupId, change: impl FnOnce(&mut Known)) {
        let known = self.by_id.entry(id.clone()).or_default();
        change(known);
        if known.group.is_none() && known.pods == 0 && known.scheduled == 0 {
            self.by_id.remove(id);
        }
    }
}

fn count(number: &mut usize, is_there: bool) {
    *number = if is_there { *number + 1 } else { number.saturating_sub(1) };
}
