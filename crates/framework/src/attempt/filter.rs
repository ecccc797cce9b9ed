//! From all nodes to those that fit: PreFilter, Filter, and why the others do not.

use std::sync::Arc;

use harbormaster_api::points::ExtensionPoint;

use super::{
    Attempt, AttemptError, NominatedRow, Rejections, RowDryRun, Runner, draft::Draft, narrowed::Narrowed,
};
use crate::{
    cluster::Cluster,
    cycle::Cycle,
    diagnosis::Diagnosis,
    guard::{Call, PointError, Stopped},
    meter::Stage,
    nodeset::{NodeIdx, NodeSet},
    outcome::{Fix, PluginError, Reject},
    pod::PodInfo,
    points::PreFilterAnswer,
    sweep::{PluginIdx, Sweep, Verdicts},
};

impl Runner {
    /// Indexes get ready for the pod, then PreFilter in order. `Err`: the attempt has ended, no node can fit.
    pub(super) fn narrow(
        &mut self,
        cluster: &mut Cluster,
        pod: &Arc<PodInfo>,
    ) -> Result<Result<Draft, Box<Attempt>>, AttemptError> {
        self.prepare(cluster, pod)?;
        let cx = Cycle::new(cluster, pod);
        let mut draft = self.begin(&cx, pod)?;
        let nodes = cluster.node_count();
        let mut rejected: Option<(&'static str, Reject)> = None;
        for plugin in self.profile.at(ExtensionPoint::PreFilter) {
            let answer = self.pre_filter(&cx, &mut draft, *plugin);
            if !matches!(answer, Ok(PreFilterAnswer::Skip)) {
                self.profile.plugin(*plugin).evaluated(Stage::PreFilter, || 1);
            }
            match answer {
                Ok(PreFilterAnswer::Skip | PreFilterAnswer::Continue(None)) => {}
                Ok(PreFilterAnswer::Continue(Some(only))) => {
                    draft.narrowed.add(self.profile.plugin(*plugin).name(), only);
                }
                Err(Stopped::Error(error)) => return Err(error.into()),
                Err(Stopped::Reject(plugin, reject)) => match reject.fix {
                    Fix::NothingHelps => {
                        draft.narrowed.by.clear();
                        return Ok(Err(draft.ended_before(nodes, Some(plugin), reject)));
                    }
                    Fix::EvictionMayHelp => rejected = Some((plugin, reject)),
                    Fix::Pending => return Err(cannot_wait(plugin, &reject).into()),
                },
            }
            if let Some(reject) = draft.narrowed.nothing_left() {
                return Ok(Err(draft.ended_before(nodes, None, reject)));
            }
        }
        Ok(match rejected {
            Some((plugin, reject)) => Err(draft.ended_before(nodes, Some(plugin), reject)),
            None => Ok(draft),
        })
    }

    /// A draft with what is kept for pods like this one.
    fn begin(&mut self, cx: &Cycle<'_>, pod: &Arc<PodInfo>) -> Result<Draft, PointError> {
        let slate = self.kept.open(&self.profile, cx)?;
        let state = |plugin: PluginIdx| match self.kept.column(slate, plugin) {
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
            narrowed: Narrowed::default(),
            fits: NodeSet::default(),
            as_kept: false,
            overlay: Verdicts::default(),
            forced: NodeSet::default(),
        })
    }

    /// A row-scoped plugin's answer is kept, any other is asked.
    fn pre_filter(
        &self,
        cx: &Cycle<'_>,
        draft: &mut Draft,
        plugin: PluginIdx,
    ) -> Result<PreFilterAnswer, Stopped> {
        let erased = self.profile.plugin(plugin);
        match self.kept.column(draft.slate, plugin) {
            Some(column) => {
                let answer = column.pre_filter().cloned().unwrap_or(Ok(PreFilterAnswer::Skip));
                answer.map_err(|reject| Stopped::Reject(erased.name(), reject))
            }
            None => erased.pre_filter(cx, &mut draft.states[plugin.at()]),
        }
    }

    fn prepare(&self, cluster: &mut Cluster, pod: &PodInfo) -> Result<(), PointError> {
        for (plugin, kind) in self.profile.indexed() {
            cluster.keep(*kind);
            let (view, indexes) = cluster.split();
            self.profile.plugin(*plugin).prepare(indexes, view, pod)?;
        }
        Ok(())
    }

    /// Whether one row fits, nominated pods there included.
    pub(super) fn fits(
        &self,
        cluster: &mut Cluster,
        draft: &Draft,
        nominated: &[NominatedRow],
        row: NodeIdx,
    ) -> Result<bool, AttemptError> {
        if draft.narrowed.only.as_ref().is_some_and(|only| !only.contains(row)) {
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
        self.kept.sync(draft.slate, &profile, &cx, &mut self.laps)?;
        if nominated.is_empty() && draft.all_filters_are_kept() {
            draft.fits.copy_from(self.kept.fits(draft.slate));
            draft.as_kept = draft.narrowed.only.is_none();
            if let Some(only) = &draft.narrowed.only {
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

    /// Leaves those of the draft's rows that fit for one plugin.
    fn filter_with(
        &mut self,
        cx: &Cycle<'_>,
        draft: &mut Draft,
        plugin: PluginIdx,
    ) -> Result<(), PointError> {
        if let Some(column) = self.kept.column_mut(draft.slate, plugin) {
            return column.keep_fitting(draft.profile.asked(plugin, cx), &mut draft.fits);
        }
        let state = &draft.states[plugin.at()];
        if state.is_none() {
            return Ok(());
        }
        let rows = draft.fits.clone();
        let mut sweep = Sweep::new(plugin, &rows, &mut draft.fits, &mut draft.overlay);
        draft.profile.plugin(plugin).filter_batch(cx, state, &mut sweep)
    }

    /// The attempt ends without a node: every row's reason, and all of them counted.
    pub(super) fn nowhere(&self, cluster: &Cluster, mut draft: Draft) -> Result<Attempt, AttemptError> {
        let open = draft.open(cluster);
        let by_row = self.verdicts(&draft, &open);
        let mut diagnosis = Diagnosis::new(cluster.node_count());
        for ((plugin, reject), n) in by_row.count(open.iter()) {
            diagnosis.add(draft.profile.name_of(*plugin), reject, n);
        }
        let outside = draft.narrowed.only.take().map(|only| (only, draft.narrowed.outside()));
        if let Some((only, reject)) = &outside {
            diagnosis.add_outside(&draft.narrowed.by, reject, cluster.node_count() - only.len());
        }
        Ok(draft.ended_nowhere(diagnosis, Rejections { all: None, outside, by_row }))
    }

    /// Why rows do not fit, once filtered, of those that were `open` before: for each the word of the first Filter plugin
    /// that rejects it.
    pub(super) fn verdicts(&self, draft: &Draft, open: &NodeSet) -> Verdicts {
        let mut by_row = Verdicts::default();
        by_row.take_over(&draft.overlay, draft.forced.iter());
        let mut left = open.clone();
        left.subtract(&draft.forced);
        for plugin in draft.profile.at(ExtensionPoint::Filter) {
            let (out, said) = match self.kept.column(draft.slate, *plugin) {
                Some(column) => (column.rejected_of(&left), column.why()),
                None if draft.overlay.is_empty() => continue,
                None => {
                    let out = left.iter().filter(|row| draft.overlay.is_by(*row, *plugin)).collect();
                    (out, &draft.overlay)
                }
            };
            by_row.take_over(said, out.iter());
            left.subtract(&out);
        }
        by_row
    }
}

fn cannot_wait(plugin: &'static str, reject: &Reject) -> PointError {
    let source: PluginError = reject.message().into();
    PointError { plugin, call: Call::Point(ExtensionPoint::PreFilter), source }
}

impl Draft {
    /// PreFilter left no node.
    fn ended_before(self, nodes: usize, plugin: Option<&'static str>, reject: Reject) -> Box<Attempt> {
        let rejections = Rejections { all: Some(reject.clone()), ..Rejections::default() };
        let by = self.narrowed.by.clone();
        Box::new(self.ended_nowhere(Diagnosis::by_pre_filter(nodes, plugin, reject, by), rejections))
    }

    /// What rejects the pod on a row as if the pods nominated to it were there already.
    fn rejection_with(
        &self,
        cluster: &mut Cluster,
        others: &NominatedRow,
    ) -> Result<Option<(PluginIdx, Reject)>, PointError> {
        let mut asked =
            RowDryRun::new(&self.profile, &self.states, cluster, &self.pod, others.row, &others.pods);
        asked.rejection_with_nominated()
    }
}
