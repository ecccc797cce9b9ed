//! PodGroupPostFilter: looks for a way to place a group for which too few nodes were found.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use harbormaster_api::{Str, Timestamp, points::ExtensionPoint};
use harbormaster_framework::{
    group::{Assignment, GroupId, GroupPostFilterCycle, GroupPostFiltered, GroupView, GroupWhatIf, PodGroup},
    guard::PointError,
    meter::{Stage, Status},
    nodeset::NodeIdx,
    objects::Objects,
    outcome::{PluginError, PluginResult},
    pod::PodInfo,
    profile::Profile,
    sweep::PluginIdx,
    table::NodeTable,
};

use super::{
    Engine,
    group_cycle::{Failed, GroupFailure, Trial},
};
use crate::{
    evictions::Victims,
    failure::Failure,
    post_filter::was_pre_filtered,
    queue::{QueuedGroup, QueuedPod},
};

/// Result of the PodGroupPostFilter plugins.
#[derive(Debug, Default)]
pub(super) struct GroupPostFilterResult {
    /// Text to append to the group's message; `None` if no plugin was called.
    pub(super) text: Option<String>,
    /// UID of each member that has a place, with the name of the node; `None` if there is no way to place the group.
    pub(super) nodes: Option<Vec<(Str, Str)>>,
    /// Pods to evict.
    pub(super) victims: Victims,
}

/// Members that have been tried in the cycle.
pub(super) struct Tried<'a> {
    /// True if there was a node for at least one of them.
    pub(super) any_placed: bool,
    /// Failures of the others.
    pub(super) rejected: &'a [Failed],
}

impl Tried<'_> {
    /// Returns true if the plugin's PreFilter method was called for at least one member.
    fn was_pre_filtered(&self, profile: &Profile, plugin: PluginIdx) -> bool {
        let reached = |failure: &Failure| match failure {
            Failure::Unschedulable(why) => was_pre_filtered(profile, plugin, why.pre_filter.as_ref()),
            _ => false,
        };
        self.any_placed || self.rejected.iter().any(|failed| reached(&failed.failure))
    }
}

impl Engine {
    /// Calls the PodGroupPostFilter plugins of the group's profile, in order, until one gives a final answer.
    pub(super) fn group_post_filter(
        &mut self,
        group: &QueuedGroup,
        members: &[QueuedPod],
        tried: &Tried<'_>,
        now: Timestamp,
    ) -> Result<GroupPostFilterResult, String> {
        let profile = self.finder.profile(group.standing.profile).clone();
        if profile.at(ExtensionPoint::PodGroupPostFilter).is_empty() {
            return Ok(GroupPostFilterResult::default());
        }
        let (_, result) = profile.measured(
            Stage::PodGroupPostFilter,
            |(status, _)| *status,
            || self.ask_group_post_filters(&profile, group, members, tried, now),
        );
        result
    }

    fn ask_group_post_filters(
        &mut self,
        profile: &Profile,
        group: &QueuedGroup,
        members: &[QueuedPod],
        tried: &Tried<'_>,
        now: Timestamp,
    ) -> (Status, Result<GroupPostFilterResult, String>) {
        let joined = |texts: Vec<Cow<'_, str>>| Some(texts.join(", "));
        let mut reasons = Vec::new();
        for plugin in profile.at(ExtensionPoint::PodGroupPostFilter) {
            // kube-scheduler lets a plugin fail if no member has reached its PreFilter.
            let pre_filtered = !self.finder.is_in_parity() || tried.was_pre_filtered(profile, *plugin);
            let plugin = profile.plugin(*plugin);
            match self.with_what_if(group, members, pre_filtered, now, |cx| plugin.group_post_filter(cx)) {
                Ok(GroupPostFiltered::Nominate { nodes, victims: pods, violations, reasons }) => {
                    let victims = Victims { pods, violations };
                    let result = GroupPostFilterResult { text: joined(reasons), nodes: Some(nodes), victims };
                    return (Status::Success, Ok(result));
                }
                Ok(GroupPostFiltered::Unresolvable { reasons }) => {
                    let result = GroupPostFilterResult { text: joined(reasons), ..Default::default() };
                    return (Status::Unresolvable, Ok(result));
                }
                Ok(GroupPostFiltered::NoHelp { reasons: why }) => reasons.extend(why),
                Err(error) => {
                    let name = plugin.name();
                    let text = format!("error in {name:?} PodGroupPostFilter plugins: {}", error.source);
                    return (Status::Error, Err(text));
                }
            }
        }
        let result = GroupPostFilterResult { text: joined(reasons), ..Default::default() };
        (Status::Unschedulable, Ok(result))
    }

    fn with_what_if<T>(
        &mut self,
        group: &QueuedGroup,
        members: &[QueuedPod],
        pre_filtered: bool,
        now: Timestamp,
        call: impl FnOnce(&mut GroupPostFilterCycle<'_>) -> Result<T, PointError>,
    ) -> Result<T, PointError> {
        let pods: Vec<Arc<PodInfo>> = members.iter().map(|entry| entry.pod.clone()).collect();
        let described = group.group.clone();
        let (known, scheduled) =
            self.cache.groups.view(&described.id).map_or((0, 0), |view| (view.pods, view.scheduled));
        let view = GroupView { group: &described, pods: known, scheduled };
        let mut what_if = EngineWhatIf {
            engine: self,
            group,
            members,
            now,
            removed: BTreeMap::new(),
            before: BTreeMap::new(),
            is_local: false,
        };
        call(&mut GroupPostFilterCycle { group: view, members: &pods, pre_filtered, what_if: &mut what_if })
    }
}

/// Dry runs on the engine's own table. Everything is restored when this is dropped.
struct EngineWhatIf<'a> {
    engine: &'a mut Engine,
    group: &'a QueuedGroup,
    members: &'a [QueuedPod],
    now: Timestamp,
    /// Pods that are removed, by UID.
    removed: BTreeMap<Str, (NodeIdx, Arc<PodInfo>)>,
    /// The original pods of each row from which a pod was removed. Their order breaks ties.
    before: BTreeMap<NodeIdx, Vec<Arc<PodInfo>>>,
    is_local: bool,
}

impl GroupWhatIf for EngineWhatIf<'_> {
    fn nodes(&self) -> &NodeTable {
        self.engine.cache.cluster.nodes()
    }

    fn objects(&self) -> &Objects {
        self.engine.cache.cluster.objects()
    }

    fn group(&self, id: &GroupId) -> Option<&PodGroup> {
        self.engine.cache.groups.get(id).map(|group| &**group)
    }

    fn members_on_nodes(&self, id: &GroupId) -> Vec<(NodeIdx, Arc<PodInfo>)> {
        self.engine.cache.groups.members_on(self.nodes(), id)
    }

    fn remove(&mut self, row: NodeIdx, pod: &Arc<PodInfo>) {
        let cluster = &mut self.engine.cache.cluster;
        let node = cluster.node(row).name().clone();
        self.before.entry(row).or_insert_with(|| cluster.node(row).pods().to_vec());
        if cluster.remove_pod(&node, &pod.uid) {
            self.removed.insert(pod.uid.clone(), (row, pod.clone()));
        }
    }

    fn restore(&mut self, row: NodeIdx, pod: &Arc<PodInfo>) {
        if self.removed.remove(&pod.uid).is_some() {
            let cluster = &mut self.engine.cache.cluster;
            let node = cluster.node(row).name().clone();
            cluster.add_pod(&node, pod.clone());
        }
    }

    fn place(&mut self) -> PluginResult<Result<Vec<Assignment>, String>> {
        let (mut trial, now) = (Trial::default(), self.now);
        let decided = self.engine.place_group(self.group, self.members.to_vec(), &mut trial, now);
        self.is_local = trial.is_local;
        let assignments = trial.placed.iter().map(|placed| placed.assignment(&self.engine.cache.cluster));
        let assignments: Option<Vec<Assignment>> = assignments.collect();
        self.engine.release_all(trial.placed);
        match decided {
            Ok(()) => Ok(Ok(assignments.unwrap_or_default())),
            Err(GroupFailure::Rejected(why)) => Ok(Err(why)),
            Err(GroupFailure::Error(why)) => Err(why.into()),
        }
    }

    fn fits(&mut self, assignments: &[Assignment]) -> PluginResult<bool> {
        let mut placed = Vec::new();
        let mut fit = Ok(true);
        for Assignment { pod, row } in assignments {
            let Some(entry) = self.members.iter().find(|entry| *entry.uid() == pod.uid) else { continue };
            match self.engine.place_on(entry, *row) {
                Ok(Some(one)) => placed.push(one),
                Ok(None) => fit = Ok(false),
                Err(error) => fit = Err(PluginError::from(error)),
            }
            if !matches!(fit, Ok(true)) {
                break;
            }
        }
        self.engine.release_all(placed);
        fit
    }

    fn is_local(&self) -> bool {
        self.is_local
    }
}

impl Drop for EngineWhatIf<'_> {
    fn drop(&mut self) {
        for (row, pod) in std::mem::take(&mut self.removed).into_values() {
            let cluster = &mut self.engine.cache.cluster;
            let node = cluster.node(row).name().clone();
            cluster.add_pod(&node, pod);
        }
        for (row, pods) in std::mem::take(&mut self.before) {
            self.engine.cache.cluster.what_if().dry_run_end(row, pods);
        }
    }
}
