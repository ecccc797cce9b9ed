//! The PreFilter and Filter stages, and the reasons why nodes do not fit.

use std::sync::Arc;

use harbormaster_api::points::ExtensionPoint;

use super::{
    Attempt, AttemptError, DryRun, NominatedRow, Rejections, Runner, draft::Draft, restriction::Restriction,
};
use crate::{
    cluster::Cluster,
    cycle::Cycle,
    diagnosis::Diagnosis,
    guard::{Call, PointError, Stopped},
    meter::Stage,
    nodeset::{NodeIdx, NodeSet},
    outcome::{Fix, PluginError, PreFiltered, Reject},
    pod::PodInfo,
    sweep::{PluginIdx, Sweep, Verdicts},
};

/// Result of PreFilter.
pub(super) enum Narrowing {
    /// Nodes may fit.
    Continue(Draft),
    /// No node can fit.
    Ended(Attempt),
}

impl Runner {
    /// Prepares indexes for the pod, then runs the PreFilter plugins in order. Nodes that are not `within` this set do
    /// not count.
    pub(super) fn narrow(
        &mut self,
        cluster: &mut Cluster,
        pod: &Arc<PodInfo>,
        within: Option<&NodeSet>,
    ) -> Result<Narrowing, AttemptError> {
        self.prepare(cluster, pod)?;
        let cx = Cycle::new(cluster, pod);
        let mut draft = self.begin(&cx, pod)?;
        draft.nodes = within.map_or(draft.nodes, NodeSet::len);
        let mut rejected: Option<(&'static str, Reject)> = None;
        for plugin in self.profile.at(ExtensionPoint::PreFilter) {
            let answer = self.pre_filter(&cx, &mut draft, *plugin);
            if !matches!(answer, Ok(PreFiltered::Skip)) {
                self.profile.plugin(*plugin).evaluated(Stage::PreFilter, || 1);
            }
            match answer {
                Ok(PreFiltered::Skip | PreFiltered::Continue { only: None, .. }) => {}
                Ok(PreFiltered::Continue { only: Some(only), .. }) => {
                    draft.restriction.add(self.profile.plugin(*plugin).name(), only);
                }
                Err(Stopped::Error(error)) => return Err(error.into()),
                Err(Stopped::Reject(plugin, reject)) => match reject.fix {
                    Fix::NothingHelps => {
                        draft.restriction.by.clear();
                        return Ok(Narrowing::Ended(draft.finish_before_filter(Some(plugin), reject)));
                    }
                    Fix::EvictionMayHelp => rejected = Some((plugin, reject)),
                    Fix::Pending => return Err(cannot_wait(plugin, &reject).into()),
                },
            }
            if let Some(reject) = draft.restriction.nothing_left() {
                return Ok(Narrowing::Ended(draft.finish_before_filter(None, reject)));
            }
        }
        Ok(match rejected {
            Some((plugin, reject)) => Narrowing::Ended(draft.finish_before_filter(Some(plugin), reject)),
            None => {
                draft.restriction.confine(within);
                Narrowing::Continue(draft)
            }
        })
    }

    /// Creates a draft from the cached answers for the pod.
    fn begin(&mut self, cx: &Cycle<'_>, pod: &Arc<PodInfo>) -> Result<Draft, PointError> {
        let slate = self.cache.open(&self.profile, cx)?;
        let state = |plugin: PluginIdx| match self.cache.column(slate, plugin) {
            Some(column) => column.filter_state().clone(),
            None if self.profile.filters_unprepared(plugin) => {
                self.profile.plugin(plugin).default_filter_slot()
            }
            None => None,
        };
        Ok(Draft {
            states: (0..self.profile.plugins().len()).map(|at| state(PluginIdx(at as u16))).collect(),
            profile: self.profile.clone(),
            pod: pod.clone(),
            slate,
            nodes: cx.nodes.node_count(),
            restriction: Restriction::default(),
            fits: NodeSet::default(),
            fits_as_cached: false,
            overlay: Verdicts::default(),
            forced: NodeSet::default(),
        })
    }

    /// Returns the cached answer of a row-scoped plugin; calls any other plugin.
    fn pre_filter(
        &self,
        cx: &Cycle<'_>,
        draft: &mut Draft,
        plugin: PluginIdx,
    ) -> Result<PreFiltered<()>, Stopped> {
        let erased = self.profile.plugin(plugin);
        match self.cache.column(draft.slate, plugin) {
            Some(column) => {
                let answer = column.pre_filter().cloned().unwrap_or(Ok(PreFiltered::Skip));
                answer.map_err(|reject| Stopped::Reject(erased.name(), reject))
            }
            None => erased.pre_filter(cx, &mut draft.states[plugin.at()]),
        }
    }

    /// Returns true if cached answers for the pod depend on [facts about the cluster](crate::plugin::ReadsCluster).
    ///
    /// # Errors
    /// When a plugin fails.
    pub fn reads_cluster(&self, cluster: &mut Cluster, pod: &PodInfo) -> Result<bool, PointError> {
        self.profile.indexes().iter().for_each(|kind| cluster.add_index(*kind));
        Ok(!self.profile.cluster_reads(&Cycle::new(cluster, pod))?.is_empty())
    }

    fn prepare(&self, cluster: &mut Cluster, pod: &PodInfo) -> Result<(), PointError> {
        self.profile.indexes().iter().for_each(|kind| cluster.add_index(*kind));
        for plugin in self.profile.preparers() {
            let (view, indexes) = cluster.split();
            self.profile.plugin(*plugin).prepare(indexes, view, pod)?;
        }
        Ok(())
    }

    /// Returns true if the pod fits the row, both without and with the pods nominated to the row.
    pub(super) fn fits(
        &self,
        cluster: &mut Cluster,
        draft: &Draft,
        nominated: &[NominatedRow],
        row: NodeIdx,
    ) -> Result<bool, AttemptError> {
        if draft.restriction.only.as_ref().is_some_and(|only| !only.contains(row)) {
            return Ok(false);
        }
        if draft.rejection(cluster, row)?.is_some() {
            return Ok(false);
        }
        let others = nominated.iter().find(|nominated| nominated.row == row);
        Ok(match others {
            Some(others) => draft.rejection_with(cluster, others)?.is_none(),
            None => true,
        })
    }

    /// Finds the rows that fit.
    pub(super) fn filter(
        &mut self,
        cluster: &mut Cluster,
        draft: &mut Draft,
        nominated: &[NominatedRow],
    ) -> Result<(), AttemptError> {
        let (pod, profile) = (draft.pod.clone(), draft.profile.clone());
        let cx = Cycle::new(cluster, &pod);
        self.cache.sync(draft.slate, &profile, &cx, &mut self.timer)?;
        if nominated.is_empty() && draft.all_filters_cached() {
            draft.fits.copy_from(self.cache.fits(draft.slate));
            draft.fits_as_cached = draft.restriction.only.is_none();
            if let Some(only) = &draft.restriction.only {
                draft.fits.intersect(only);
            }
            return Ok(());
        }
        let open = draft.open(cluster);
        draft.fits.copy_from(&open);
        for plugin in profile.at(ExtensionPoint::Filter) {
            self.filter_with(&cx, draft, *plugin)?;
        }
        for others in nominated.iter().filter(|others| open.contains(others.row)) {
            if let Some((plugin, reject)) = draft.rejection_with(cluster, others)? {
                draft.fits.remove(others.row);
                draft.overlay.set(others.row, plugin, reject);
                draft.forced.insert(others.row);
            }
        }
        Ok(())
    }

    /// Removes from the draft every row that the plugin rejects.
    fn filter_with(
        &mut self,
        cx: &Cycle<'_>,
        draft: &mut Draft,
        plugin: PluginIdx,
    ) -> Result<(), PointError> {
        if let Some(column) = self.cache.column_mut(draft.slate, plugin) {
            return column.keep_fitting(draft.profile.column_source(plugin, cx), &mut draft.fits);
        }
        let state = &draft.states[plugin.at()];
        if state.is_none() {
            return Ok(());
        }
        let rows = draft.fits.clone();
        let mut sweep = Sweep::new(plugin, &rows, &mut draft.fits, &mut draft.overlay);
        draft.profile.plugin(plugin).filter_batch(cx, state, &mut sweep)
    }

    /// Ends the attempt without a node: collects and counts the reasons for all rows.
    pub(super) fn unschedulable(&self, cluster: &Cluster, mut draft: Draft) -> Result<Attempt, AttemptError> {
        let open = draft.open(cluster);
        let by_row = self.verdicts(&draft, &open);
        let mut diagnosis = Diagnosis::new(draft.nodes);
        for ((plugin, reject), n) in by_row.count(open.iter()) {
            diagnosis.add(draft.profile.name_of(*plugin), reject, n);
        }
        let outside = draft.restriction.only.take().map(|only| (only, draft.restriction.outside()));
        if let Some((only, reject)) = &outside {
            diagnosis.add_outside(&draft.restriction.by, reject, draft.nodes - only.len());
        }
        Ok(draft.finish_unschedulable(diagnosis, Rejections { all: None, outside, by_row }))
    }

    /// Returns the rejections of the `open` rows that do not fit. Call this after [`Self::filter`]. A forced rejection
    /// takes precedence; otherwise, the rejection is that of the first Filter plugin that rejects the row.
    pub(super) fn verdicts(&self, draft: &Draft, open: &NodeSet) -> Verdicts {
        let mut by_row = Verdicts::default();
        by_row.copy_rows(&draft.overlay, draft.forced.iter());
        let mut left = open.clone();
        left.subtract(&draft.forced);
        for plugin in draft.profile.at(ExtensionPoint::Filter) {
            let (rejected, verdicts) = match self.cache.column(draft.slate, *plugin) {
                Some(column) => (column.rejected_of(&left), column.verdicts()),
                None if draft.overlay.is_empty() => continue,
                None => {
                    let rejected = left.iter().filter(|row| draft.overlay.is_by(*row, *plugin)).collect();
                    (rejected, &draft.overlay)
                }
            };
            by_row.copy_rows(verdicts, rejected.iter());
            left.subtract(&rejected);
        }
        by_row
    }
}

fn cannot_wait(plugin: &'static str, reject: &Reject) -> PointError {
    let source: PluginError = reject.message().into();
    PointError { plugin, call: Call::Point(ExtensionPoint::PreFilter), source }
}

impl Draft {
    /// Ends the attempt because PreFilter left no node.
    fn finish_before_filter(self, plugin: Option<&'static str>, reject: Reject) -> Attempt {
        let rejections = Rejections { all: Some(reject.clone()), ..Rejections::default() };
        let (nodes, by) = (self.nodes, self.restriction.by.clone());
        self.finish_unschedulable(Diagnosis::by_pre_filter(nodes, plugin, reject, by), rejections)
    }

    /// Runs the Filter plugins for a row as if the pods nominated to it were on it. Returns the rejection, if any.
    fn rejection_with(
        &self,
        cluster: &mut Cluster,
        others: &NominatedRow,
    ) -> Result<Option<(PluginIdx, Reject)>, PointError> {
        let nominated = others.pods.as_slice().into();
        let mut dry_run = DryRun::new(&self.profile, &self.states, cluster, &self.pod, others.row, nominated);
        dry_run.rejection_with_nominated()
    }
}
