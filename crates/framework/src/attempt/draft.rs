//! An attempt before its node is chosen.

use std::sync::Arc;

use harbormaster_api::{Str, points::ExtensionPoint};

use super::{Attempt, Candidates, Decision, Rejections, restriction::Restriction};
use crate::{
    answer_cache::SlateId,
    cluster::Cluster,
    cycle::Cycle,
    diagnosis::Diagnosis,
    guard::{PointError, Stopped},
    nodeset::{NodeIdx, NodeSet},
    outcome::Reject,
    plugin::Scope,
    pod::PodInfo,
    points::Slot,
    profile::Profile,
    sweep::{PluginIdx, Verdicts},
    window::Ranking,
};

/// Verdicts and candidate nodes found so far in an attempt.
pub(super) struct Draft {
    pub(super) profile: Arc<Profile>,
    pub(super) pod: Arc<PodInfo>,
    /// Slate for the attempt's pod. No other slate is opened while the draft exists.
    pub(super) slate: SlateId,
    /// Filter state of each plugin; cached states are shared with the answer cache.
    pub(super) states: Vec<Slot>,
    /// Number of nodes to choose from, at least 1.
    pub(super) nodes: usize,
    pub(super) restriction: Restriction,
    /// The rows that fit, after filtering.
    pub(super) fits: NodeSet,
    /// True if the rows that fit are exactly those that cached filters accept.
    pub(super) fits_as_cached: bool,
    /// Rejections by cluster-scoped filters and extenders, and rejections caused by nominated pods.
    pub(super) overlay: Verdicts,
    /// Rows whose rejection in `overlay` takes precedence over that of cached filters.
    pub(super) forced: NodeSet,
}

impl Draft {
    /// Number of nodes that may fit.
    pub(super) fn considered(&self) -> usize {
        self.restriction.only.as_ref().map_or(self.nodes, NodeSet::len)
    }

    /// The rows that PreFilter allows.
    pub(super) fn open(&self, cluster: &Cluster) -> NodeSet {
        let mut open = cluster.live().clone();
        if let Some(only) = &self.restriction.only {
            open.intersect(only);
        }
        open
    }

    /// Returns true if every Filter plugin has either cached verdicts or nothing to check.
    pub(super) fn all_filters_cached(&self) -> bool {
        let filters = self.profile.at(ExtensionPoint::Filter);
        filters.iter().all(|p| self.profile.plugin(*p).scope() == Scope::Row || self.states[p.at()].is_none())
    }

    /// Runs the Filter plugins for a row in its current state. Returns the rejection, if any.
    pub(super) fn rejection(
        &self,
        cluster: &Cluster,
        row: NodeIdx,
    ) -> Result<Option<(PluginIdx, Reject)>, PointError> {
        rejection(&self.profile, &Cycle::new(cluster, &self.pod), &self.states, row)
    }

    pub(super) fn finish_at(
        self,
        row: NodeIdx,
        candidates: Vec<NodeIdx>,
        evaluated: usize,
        ranking: Option<(Vec<Str>, Ranking)>,
    ) -> Attempt {
        let decision = Decision::Node { row, evaluated, feasible: candidates.len(), ranking };
        self.finish(decision, None, Candidates::Listed(candidates))
    }

    pub(super) fn finish_best(mut self, row: NodeIdx, feasible: usize) -> Attempt {
        let evaluated = self.considered();
        let fits = std::mem::take(&mut self.fits);
        let decision = Decision::Node { row, evaluated, feasible, ranking: None };
        self.finish(decision, None, Candidates::All(fits))
    }

    pub(super) fn finish_unschedulable(self, diagnosis: Diagnosis, rejections: Rejections) -> Attempt {
        self.finish(
            Decision::Unschedulable(diagnosis),
            Some(Box::new(rejections)),
            Candidates::Listed(Vec::new()),
        )
    }

    fn finish(
        self,
        decision: Decision,
        rejections: Option<Box<Rejections>>,
        candidates: Candidates,
    ) -> Attempt {
        let Self { profile, pod, states, .. } = self;
        Attempt { profile, pod, states, decision, rejections, candidates }
    }
}

/// Runs the Filter plugins with `states` for a row. Returns the first plugin that rejects the pod, and its rejection.
pub(super) fn rejection(
    profile: &Profile,
    cx: &Cycle<'_>,
    states: &[Slot],
    row: NodeIdx,
) -> Result<Option<(PluginIdx, Reject)>, PointError> {
    for plugin in profile.at(ExtensionPoint::Filter) {
        match profile.plugin(*plugin).filter(cx, &states[plugin.at()], row) {
            Ok(()) => {}
            Err(Stopped::Reject(_, reject)) => return Ok(Some((*plugin, reject))),
            Err(Stopped::Error(error)) => return Err(error),
        }
    }
    Ok(None)
}
