//! Runs PostFilter plugins and answers their what-if questions with a real attempt.

mod group;

use std::sync::Arc;

use harbormaster_api::Timestamp;
use harbormaster_framework::{
    attempt::{Attempt, Decision, DryRun, NominatedRow, Runner, Search},
    cluster::Cluster,
    cycle::{Cycle, PostFilterCycle, WhatIf},
    group::{GroupId, PodGroup},
    nodeset::{NodeIdx, NodeSet},
    objects::Objects,
    outcome::{Fix, PluginResult, PostFiltered, Reject},
    plugin::{PostFilter, State},
    pod::PodInfo,
    profile::Profile,
    table::NodeTable,
    window::Rotation,
};

/// A cluster and a profile, for asking PostFilter plugins about pods that fit no node.
pub struct WhatIfTrial {
    runner: Runner,
    /// The last attempt that found no node.
    failed: Option<Attempt>,
    cluster: Cluster,
    groups: Vec<PodGroup>,
    nominated: Vec<Arc<PodInfo>>,
    offset: usize,
    stops_early: bool,
    dry_runs: Vec<String>,
    retry_at: Option<Timestamp>,
}

impl WhatIfTrial {
    /// Returns a trial that uses the profile to try pods on the cluster.
    pub fn new(profile: Arc<Profile>, cluster: Cluster) -> Self {
        let runner = Runner::new(profile);
        Self {
            runner,
            failed: None,
            cluster,
            groups: Vec::new(),
            nominated: Vec::new(),
            offset: 0,
            stops_early: false,
            dry_runs: Vec::new(),
            retry_at: None,
        }
    }

    /// Makes plugins stop their searches once they have found enough nodes, as with `--parity`.
    #[must_use]
    pub fn in_parity(mut self) -> Self {
        self.stops_early = true;
        self
    }

    /// Adds a group. Pods of the cluster are members of the groups that `spec.schedulingGroup` names.
    #[must_use]
    pub fn group(mut self, group: PodGroup) -> Self {
        self.groups.push(group);
        self
    }

    /// Adds a group, or replaces it.
    pub fn set_group(&mut self, group: PodGroup) {
        self.groups.retain(|other| other.id != group.id);
        self.groups.push(group);
    }

    /// Adds a nominated pod; its node is in `status.nominatedNodeName`.
    #[must_use]
    pub fn nominate(mut self, pod: Arc<PodInfo>) -> Self {
        self.nominated.push(pod);
        self
    }

    /// Sets the value of [`WhatIf::offset`].
    pub fn set_offset(&mut self, offset: usize) {
        self.offset = offset;
    }

    /// Returns the cluster.
    pub fn cluster(&mut self) -> &mut Cluster {
        &mut self.cluster
    }

    /// Returns the names of the nodes on which dry runs were made for the last pod, in order.
    pub fn dry_runs(&self) -> &[String] {
        &self.dry_runs
    }

    /// Returns true if the pod fits a node. Nominated pods are taken into account as in [`Self::ask`].
    ///
    /// # Panics
    /// If a plugin of the profile fails.
    pub fn fits(&mut self, pod: &Arc<PodInfo>) -> bool {
        self.cluster.refresh();
        let rows = self.cluster.order().to_vec();
        let nominated = rows.into_iter().map(|row| NominatedRow { row, pods: self.nominated_to(row, pod) });
        let nominated: Vec<_> = nominated.filter(|n| !n.pods.is_empty()).collect();
        let mut rotation = Rotation::default();
        let search = Search { nominated: &nominated, ..Search::all(&mut rotation) };
        let attempt = self.runner.find(&mut self.cluster, pod, search).unwrap_or_else(|e| panic!("{e}"));
        self.failed = matches!(attempt.decision(), Decision::Unschedulable(_)).then_some(attempt);
        self.failed.is_none()
    }

    /// Returns the plugin's answer for a pod that fits no node.
    ///
    /// # Errors
    /// If the plugin fails.
    ///
    /// # Panics
    /// If the pod fits a node.
    pub fn ask<S: State>(
        &mut self,
        plugin: &impl PostFilter<S>,
        pod: &Arc<PodInfo>,
    ) -> PluginResult<PostFiltered> {
        assert!(!self.fits(pod), "{pod:?} fits a node");
        let Some(mut attempt) = self.failed.take() else { panic!("{pod:?} was not tried") };
        self.dry_runs.clear();
        let pre_filter = attempt.take_diagnosis().pre_filter.map(|(_, reject)| reject);
        let what_if = &mut TrialWhatIf { trial: self, attempt, pod };
        let calls = &mut Vec::new();
        let cx = &mut PostFilterCycle { pod, pre_filter, pre_filtered: true, calls, retry_at: None, what_if };
        let answer = plugin.post_filter(cx, &S::default());
        let retry_at = cx.retry_at;
        self.retry_at = retry_at;
        answer
    }

    /// Returns the time at which the plugin wanted the last pod to be tried again, if it named one.
    pub fn retry_at(&self) -> Option<Timestamp> {
        self.retry_at
    }

    /// Returns the pods of equal or higher priority that are nominated to the row.
    fn nominated_to(&self, row: NodeIdx, pod: &PodInfo) -> Vec<Arc<PodInfo>> {
        let name = self.cluster.node(row).name();
        let here = self.nominated.iter().filter(|p| p.status.nominated_node_name.as_ref() == Some(name));
        here.filter(|p| p.priority() >= pod.priority() && p.uid != pod.uid).cloned().collect()
    }
}

struct TrialWhatIf<'a> {
    trial: &'a mut WhatIfTrial,
    attempt: Attempt,
    pod: &'a PodInfo,
}

impl WhatIf for TrialWhatIf<'_> {
    fn nodes(&self) -> &NodeTable {
        self.trial.cluster.nodes()
    }

    fn objects(&self) -> &Objects {
        self.trial.cluster.objects()
    }

    fn now(&self) -> Timestamp {
        self.trial.cluster.now()
    }

    fn cycle<'a>(&'a self, pod: &'a PodInfo) -> Cycle<'a> {
        Cycle::new(&self.trial.cluster, pod)
    }

    fn rejection(&self, row: NodeIdx) -> Option<Reject> {
        self.attempt.rejection_of(row).cloned()
    }

    fn evictable_rows(&self) -> Vec<NodeIdx> {
        let rows = self.trial.cluster.order();
        self.attempt.rows_rejected_with(rows, Fix::EvictionMayHelp)
    }

    fn rejected_by(&self, row: NodeIdx) -> Option<&'static str> {
        self.attempt.rejected_by(row)
    }

    fn offset(&self) -> usize {
        self.trial.offset
    }

    fn stops_early(&self) -> bool {
        self.trial.stops_early
    }

    fn reprioritized_rows(&self) -> NodeSet {
        let priority = |pod: &PodInfo| pod.group().and_then(|id| self.group(id)?.priority);
        let differs = |pod: &Arc<PodInfo>| priority(pod).is_some_and(|priority| priority != pod.priority());
        let nodes = self.nodes();
        nodes.live().iter().filter(|row| nodes.node(*row).pods().iter().any(differs)).collect()
    }

    fn group(&self, id: &GroupId) -> Option<&PodGroup> {
        self.trial.groups.iter().find(|group| group.id == *id)
    }

    fn members_on_nodes(&self, id: &GroupId) -> Vec<(NodeIdx, Arc<PodInfo>)> {
        self.trial.members_of(id)
    }

    fn dry_run(&mut self, row: NodeIdx) -> DryRun<'_> {
        let nominated = self.trial.nominated_to(row, self.pod);
        let name = self.trial.cluster.node(row).name().to_string();
        self.trial.dry_runs.push(name);
        self.attempt.dry_run(&mut self.trial.cluster, row, nominated)
    }
}
