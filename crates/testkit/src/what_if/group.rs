//! Groups whose members get nodes together, and PodGroupPostFilter plugins.

use std::{collections::BTreeMap, sync::Arc};

use harbormaster_api::Str;
use harbormaster_framework::{
    attempt::{Decision, NominatedRow, Search},
    cycle::Cycle,
    group::{
        Assignment, GroupId, GroupPostFilterCycle, GroupPostFiltered, GroupView, GroupWhatIf, PodGroup,
        PodGroupPostFilter,
    },
    nodeset::NodeIdx,
    objects::Objects,
    outcome::PluginResult,
    plugin::State,
    pod::PodInfo,
    table::NodeTable,
    window::Rotation,
};

use super::WhatIfTrial;

impl WhatIfTrial {
    /// Returns the nodes of the members that find one, each beside those before it; `None` if the group has too few
    /// members on nodes even with them. The cluster stays as it is.
    ///
    /// # Panics
    /// If the members are not of a known group, or a plugin of the profile fails.
    pub fn place_group(&mut self, members: &[Arc<PodInfo>]) -> Option<Vec<Assignment>> {
        let first = members.first()?;
        let group = first.group().and_then(|id| self.groups.iter().find(|group| group.id == *id));
        let Some(group) = group else { panic!("{first:?} is not a member of a known group") };
        let (id, wanted) = (group.id.clone(), group.min_count());
        let mut placed: Vec<Assignment> = Vec::new();
        for pod in members {
            if let Some(row) = self.row_for(pod, &placed) {
                self.enter(row, pod);
                placed.push(Assignment { pod: pod.clone(), row });
            }
        }
        let is_enough = !placed.is_empty() && self.members_of(&id).len() >= wanted;
        self.take_off(&placed);
        is_enough.then_some(placed)
    }

    /// Returns the plugin's answer for members of a group of which too few fit.
    ///
    /// # Errors
    /// If the plugin fails.
    ///
    /// # Panics
    /// If there are no members, if they are not of a known group, or if enough of them fit.
    pub fn ask_group<S: State>(
        &mut self,
        plugin: &impl PodGroupPostFilter<S>,
        members: &[Arc<PodInfo>],
    ) -> PluginResult<GroupPostFiltered> {
        assert!(self.place_group(members).is_none(), "enough of {members:?} fit");
        let group = members.first().and_then(|pod| pod.group()).and_then(|id| {
            let group = self.groups.iter().find(|group| group.id == *id)?;
            Some((group.clone(), self.members_of(id).len()))
        });
        let Some((group, scheduled)) = group else { panic!("there are no members") };
        let view = GroupView { group: &group, pods: scheduled + members.len(), scheduled };
        let mut what_if = GroupDryRuns { trial: self, removed: BTreeMap::new(), before: BTreeMap::new() };
        let states: Vec<Option<&S>> = vec![None; members.len()];
        let calls = &mut Vec::new();
        let what_if = &mut what_if;
        let cx = &mut GroupPostFilterCycle { group: view, members, pre_filtered: true, calls, what_if };
        plugin.group_post_filter(cx, &states)
    }

    pub(super) fn members_of(&self, id: &GroupId) -> Vec<(NodeIdx, Arc<PodInfo>)> {
        let nodes = self.cluster.nodes();
        let pods =
            nodes.live().iter().flat_map(|row| nodes.node(row).pods().iter().map(move |pod| (row, pod)));
        pods.filter(|(_, pod)| pod.group() == Some(id)).map(|(row, pod)| (row, pod.clone())).collect()
    }

    /// Returns the row that the pod gets; `None` if it fits nowhere.
    fn row_for(&mut self, pod: &Arc<PodInfo>, placed: &[Assignment]) -> Option<NodeIdx> {
        let nominated = self.nominated_beside(pod, placed);
        let mut rotation = Rotation::default();
        let search = Search { nominated: &nominated, ..Search::all(&mut rotation) };
        let attempt = self.runner.find(&mut self.cluster, pod, search).unwrap_or_else(|e| panic!("{e}"));
        match attempt.decision() {
            Decision::Node { row, .. } => Some(*row),
            Decision::Unschedulable(_) => None,
        }
    }

    fn fits_on(&mut self, Assignment { pod, row }: &Assignment, placed: &[Assignment]) -> bool {
        let nominated = self.nominated_beside(pod, placed);
        let found = self.runner.find_on(&mut self.cluster, pod, &nominated, *row);
        found.unwrap_or_else(|e| panic!("{e}")).is_some()
    }

    /// Returns the pods that are nominated to nodes, without the members that have got theirs.
    fn nominated_beside(&mut self, pod: &Arc<PodInfo>, placed: &[Assignment]) -> Vec<NominatedRow> {
        self.cluster.refresh();
        let is_waiting = |other: &Arc<PodInfo>| placed.iter().all(|one| one.pod.uid != other.uid);
        let nominated = |row: &NodeIdx| {
            let pods = self.nominated_to(*row, pod).into_iter().filter(is_waiting).collect();
            NominatedRow { row: *row, pods }
        };
        let rows = self.cluster.order().iter().map(nominated);
        rows.filter(|row| !row.pods.is_empty()).collect()
    }

    fn enter(&mut self, row: NodeIdx, pod: &Arc<PodInfo>) {
        let node = self.cluster.node(row).name().clone();
        self.cluster.add_pod(&node, pod.clone());
    }

    fn take_off(&mut self, placed: &[Assignment]) {
        for Assignment { pod, row } in placed.iter().rev() {
            let node = self.cluster.node(*row).name().clone();
            self.cluster.remove_pod(&node, &pod.uid);
        }
    }
}

/// Dry runs on the cluster of the trial. Everything is restored when this is dropped.
struct GroupDryRuns<'a> {
    trial: &'a mut WhatIfTrial,
    /// Pods that are removed, by UID.
    removed: BTreeMap<Str, (NodeIdx, Arc<PodInfo>)>,
    /// The original pods of each row from which a pod was removed. Their order breaks ties.
    before: BTreeMap<NodeIdx, Vec<Arc<PodInfo>>>,
}

impl GroupWhatIf for GroupDryRuns<'_> {
    fn nodes(&self) -> &NodeTable {
        self.trial.cluster.nodes()
    }

    fn objects(&self) -> &Objects {
        self.trial.cluster.objects()
    }

    fn cycle<'a>(&'a self, pod: &'a PodInfo) -> Cycle<'a> {
        Cycle::new(&self.trial.cluster, pod)
    }

    fn group(&self, id: &GroupId) -> Option<&PodGroup> {
        self.trial.groups.iter().find(|group| group.id == *id)
    }

    fn members_on_nodes(&self, id: &GroupId) -> Vec<(NodeIdx, Arc<PodInfo>)> {
        self.trial.members_of(id)
    }

    fn remove(&mut self, row: NodeIdx, pod: &Arc<PodInfo>) {
        let cluster = &mut self.trial.cluster;
        let node = cluster.node(row).name().clone();
        self.before.entry(row).or_insert_with(|| cluster.node(row).pods().to_vec());
        if cluster.remove_pod(&node, &pod.uid) {
            self.removed.insert(pod.uid.clone(), (row, pod.clone()));
        }
    }

    fn restore(&mut self, row: NodeIdx, pod: &Arc<PodInfo>) {
        if self.removed.remove(&pod.uid).is_some() {
            self.trial.enter(row, pod);
        }
    }

    fn place(&mut self, members: &[Arc<PodInfo>]) -> PluginResult<Result<Vec<Assignment>, String>> {
        Ok(self.trial.place_group(members).ok_or_else(|| "pod group is unschedulable".to_owned()))
    }

    fn fits(&mut self, assignments: &[Assignment]) -> PluginResult<bool> {
        let mut placed: Vec<Assignment> = Vec::new();
        for one in assignments {
            if !self.trial.fits_on(one, &placed) {
                break;
            }
            self.trial.enter(one.row, &one.pod);
            placed.push(one.clone());
        }
        self.trial.take_off(&placed);
        Ok(placed.len() == assignments.len())
    }

    fn is_local(&self) -> bool {
        false
    }
}

impl Drop for GroupDryRuns<'_> {
    fn drop(&mut self) {
        for (row, pod) in std::mem::take(&mut self.removed).into_values() {
            self.trial.enter(row, &pod);
        }
        for (row, pods) in std::mem::take(&mut self.before) {
            self.trial.cluster.what_if().dry_run_end(row, pods);
        }
    }
}
