//! PodGroupPostFilter: looks for a way to place a group for which too few nodes were found.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use harbormaster_api::{Str, Timestamp, points::ExtensionPoint};
use harbormaster_framework::{
    api_call::ApiCall,
    cycle::Cycle,
    group::{Assignment, GroupId, GroupPostFilterCycle, GroupPostFiltered, GroupView, GroupWhatIf, PodGroup},
    guard::PointError,
    meter::{Stage, Status},
    nodeset::NodeIdx,
    objects::Objects,
    outcome::{PluginError, PluginResult},
    pod::PodInfo,
    points::Slot,
    profile::Profile,
    table::NodeTable,
};

use super::{
    Engine,
    group_cycle::{GroupFailure, MemberStates, Trial},
};
use crate::{
    evictions::Victims,
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
    /// Plugins that made requests to the API server, and that wait for their effects.
    pub(super) callers: Vec<&'static str>,
}

/// Requests of the PodGroupPostFilter plugins to the API server.
#[derive(Default)]
struct Requests {
    calls: Vec<ApiCall>,
    /// Names of the plugins that made them.
    callers: Vec<&'static str>,
}

/// A group for which too few nodes were found, its members without nodes, and the time.
type FailedCycle<'a> = (&'a QueuedGroup, &'a [QueuedPod], Timestamp);

impl Engine {
    /// Calls the PodGroupPostFilter plugins of the group's profile, in order, until one gives a final answer.
    pub(super) fn group_post_filter(
        &mut self,
        group: &QueuedGroup,
        members: &[QueuedPod],
        states: &[MemberStates],
        now: Timestamp,
    ) -> Result<GroupPostFilterResult, String> {
        let profile = self.finder.profile(group.standing.profile).clone();
        if profile.at(ExtensionPoint::PodGroupPostFilter).is_empty() {
            return Ok(GroupPostFilterResult::default());
        }
        let mut requests = Requests::default();
        let (_, result) = profile.measured(
            Stage::PodGroupPostFilter,
            |(status, _)| *status,
            || self.ask_group_post_filters(&profile, (group, members, now), states, &mut requests),
        );
        if let Some(first) = members.first() {
            self.reporter.call(&first.pod, requests.calls);
        }
        result.map(|result| GroupPostFilterResult { callers: requests.callers, ..result })
    }

    fn ask_group_post_filters(
        &mut self,
        profile: &Profile,
        cycle: FailedCycle<'_>,
        states: &[MemberStates],
        requests: &mut Requests,
    ) -> (Status, Result<GroupPostFilterResult, String>) {
        let joined = |texts: Vec<Cow<'_, str>>| Some(texts.join(", "));
        let mut reasons = Vec::new();
        let (_, members, _) = cycle;
        let latest: BTreeMap<&Str, &MemberStates> =
            states.iter().map(|states| (&states.uid, states)).collect();
        for (at, plugin) in profile.at(ExtensionPoint::PodGroupPostFilter).iter().enumerate() {
            let slot = |entry: &QueuedPod| latest.get(entry.uid())?.slots.get(at)?.clone();
            let slots: Vec<Option<Slot>> = members.iter().map(slot).collect();
            let plugin = profile.plugin(*plugin);
            let known = requests.calls.len();
            let result = self
                .with_what_if(cycle, &slots, &mut requests.calls, |cx| plugin.group_post_filter(cx, &slots));
            requests.callers.extend((requests.calls.len() > known).then(|| plugin.name()));
            match result {
                Ok(GroupPostFiltered::Nominate { nodes, victims: pods, violations, reasons }) => {
                    let victims = Victims { pods, violations };
                    let (text, nodes, callers) = (joined(reasons), Some(nodes), Vec::new());
                    let result = GroupPostFilterResult { text, nodes, victims, callers };
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
        (group, members, now): FailedCycle<'_>,
        slots: &[Option<Slot>],
        calls: &mut Vec<ApiCall>,
        call: impl FnOnce(&mut GroupPostFilterCycle<'_>) -> Result<T, PointError>,
    ) -> Result<T, PointError> {
        // kube-scheduler lets a plugin fail if no member has reached its PreFilter.
        let pre_filtered = !self.finder.is_in_parity() || slots.iter().any(Option::is_some);
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
        let what_if = &mut what_if;
        call(&mut GroupPostFilterCycle { group: view, members: &pods, pre_filtered, calls, what_if })
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

    fn cycle<'a>(&'a self, pod: &'a PodInfo) -> Cycle<'a> {
        Cycle::new(&self.engine.cache.cluster, pod)
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

    fn place(&mut self, members: &[Arc<PodInfo>]) -> PluginResult<Result<Vec<Assignment>, String>> {
        let (mut trial, now) = (Trial::default(), self.now);
        let wanted: BTreeSet<&Str> = members.iter().map(|pod| &pod.uid).collect();
        let members = self.members.iter().filter(|entry| wanted.contains(entry.uid())).cloned().collect();
        let decided = self.engine.place_group(self.group, members, &mut trial, now);
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
