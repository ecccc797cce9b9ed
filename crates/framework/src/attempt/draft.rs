//! An attempt in the making.

use std::sync::Arc;

use harbormaster_api::{Str, points::ExtensionPoint};

use super::{Attempt, Competed, Found, Rejections, narrowed::Narrowed};
use crate::{
    cluster::Cluster,
    cycle::Cycle,
    diagnosis::Diagnosis,
    guard::{PointError, Stopped},
    kept::SlateId,
    nodeset::{NodeIdx, NodeSet},
    outcome::Reject,
    plugin::Scope,
    pod::PodInfo,
    points::Slot,
    profile::Profile,
    sweep::{PluginIdx, Verdicts},
    window::Ranking,
};

/// What is known of the pod's chances so far.
pub(super) struct Draft {
    pub(super) profile: Arc<Profile>,
    pub(super) pod: Arc<PodInfo>,
    /// What is kept for pods like this one. Nothing else is opened while the draft lives.
    pub(super) slate: SlateId,
    /// Filter states, by plugin: kept ones are shared.
    pub(super) states: Vec<Slot>,
    pub(super) narrowed: Narrowed,
    /// The rows that fit, once filtered.
    pub(super) fits: NodeSet,
    /// Whether exactly the rows fit that kept filters left.
    pub(super) as_kept: bool,
    /// Rejections by cluster-scoped filters and because of nominated pods.
    pub(super) overlay: Verdicts,
    /// Rows whose rejection in `overlay` counts whatever a kept filter says.
    pub(super) forced: NodeSet,
}

impl Draft {
    /// How many nodes may fit.
    pub(super) fn considered(&self, cluster: &Cluster) -> usize {
        self.narrowed.only.as_ref().map_or(cluster.node_count(), NodeSet::len)
    }

    /// The rows that PreFilter left.
    pub(super) fn open(&self, cluster: &Cluster) -> NodeSet {
        let mut open = cluster.live().clone();
        if let Some(only) = &self.narrowed.only {
            open.intersect(only);
        }
        open
    }

    /// Whether every Filter plugin either has its verdicts kept or has nothing to check.
    pub(super) fn all_filters_are_kept(&self) -> bool {
        let filters = self.profile.at(ExtensionPoint::Filter);
        filters.iter().all(|p| self.profile.plugin(*p).scope() == Scope::Row || self.states[p.at()].is_none())
    }

    /// What rejects the pod on a row as it is now.
    pub(super) fn rejection(
        &self,
        cluster: &Cluster,
        row: NodeIdx,
    ) -> Result<Option<(PluginIdx, Reject)>, PointError> {
        rejection(&self.profile, &Cycle::new(cluster, &self.pod), &self.states, row)
    }

    pub(super) fn ended_at(
        self,
        row: NodeIdx,
        competed: Vec<NodeIdx>,
        evaluated: usize,
        ranking: Option<(Vec<Str>, Ranking)>,
    ) -> Attempt {
        let found = Found::Node { row, evaluated, feasible: competed.len(), ranking };
        self.ended(found, None, Competed::Listed(competed))
    }

    pub(super) fn ended_best(mut self, row: NodeIdx, feasible: usize, cluster: &Cluster) -> Attempt {
        let evaluated = self.considered(cluster);
        let fits = std::mem::take(&mut self.fits);
        let found = Found::Node { row, evaluated, feasible, ranking: None };
        self.ended(found, None, Competed::All(fits))
    }

    pub(super) fn ended_nowhere(self, diagnosis: Diagnosis, rejections: Rejections) -> Attempt {
        self.ended(Found::Nowhere(diagnosis), Some(Box::new(rejections)), Competed::Listed(Vec::new()))
    }

    fn ended(self, found: Found, rejections: Option<Box<Rejections>>, competed: Competed) -> Attempt {
        let Self { profile, pod, states, .. } = self;
        Attempt { profile, pod, states, found, rejections, competed }
    }
}

/// The first Filter plugin that rejects the pod on a row, with these states.
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
