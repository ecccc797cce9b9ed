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
    kept::Kept,
    nodeset::{NodeIdx, NodeSet},
    outcome::{Fix, PluginError, Reject},
    plugin::Scope,
    pod::PodInfo,
    points::PreFilterAnswer,
    sweep::{PluginIdx, Sweep, Verdicts},
};

impl Runner {
    /// Indexes get ready for the pod, then PreFilter in order: kept answers for row-scoped plugins, fresh ones for the
    /// others. `Err`: the attempt has ended, no node can fit.
    pub(super) fn narrow(
        &mut self,
        cluster: &mut Cluster,
        pod: &Arc<PodInfo>,
    ) -> Result<Result<Draft, Box<Attempt>>, AttemptError> {
        self.prepare(cluster, pod)?;
        let profile = self.profile.clone();
        let cx = Cycle::new(cluster, pod);
        let slate = self.kept.open(&profile, &cx)?;
        let plugins = profile.plugins().iter().enumerate();
        let state = |(at, plugin): (usize, &crate::guard::Guarded)| {
            let column = self.kept.column(slate, PluginIdx(at as u16));
            column.map_or_else(|| plugin.default_filter_slot(), |column| column.filter_state().clone())
        };
        let mut draft = Draft {
            states: plugins.map(state).collect(),
            profile: profile.clone(),
            pod: pod.clone(),
            slate,
            narrowed: Narrowed::default(),
            fits: NodeSet::default(),
            as_kept: false,
            overlay: Verdicts::default(),
            forced: NodeSet::default(),
        };
        let mut rejected: Option<(&'static str, Reject)> = None;
        let nodes = cluster.node_count();
        for plugin in profile.at(ExtensionPoint::PreFilter) {
            let erased = profile.plugin(*plugin);
            let answer = match self.kept.column(slate, *plugin) {
                Some(column) => match column.pre_filter() {
                    Some(answer) => answer.clone().map_err(|reject| Stopped::Reject(erased.name(), reject)),
                    None => continue,
                },
                None => erased.pre_filter(&cx, &mut draft.states[plugin.at()]),
            };
            match answer {
                Ok(PreFilterAnswer::Skip | PreFilterAnswer::Continue(None)) => {}
                Ok(PreFilterAnswer::Continue(Some(only))) => draft.narrowed.add(erased.name(), only),
                Err(Stopped::Error(error)) => return Err(error.into()),
                Err(Stopped::Reject(plugin, reject)) => match reject.fix {
                    Fix::NothingHelps => {
                        let by = Vec::new();
                        return Ok(Err(draft.ended_before(nodes, Some(plugin), reject, by)));
                    }
                    Fix::EvictionMayHelp => rejected = Some((plugin, reject)),
                    Fix::Pending => return Err(cannot_wait(plugin, &reject).into()),
                },
            }
            if let Some(reject) = draft.narrowed.nothing_left() {
                let by = std::mem::take(&mut draft.narrowed.by);
                return Ok(Err(draft.ended_before(nodes, None, reject, by)));
            }
        }
        Ok(match rejected {
            Some((plugin, reject)) => {
                let by = std::mem::take(&mut draft.narrowed.by);
                Err(draft.ended_before(nodes, Some(plugin), reject, by))
            }
            None => Ok(draft),
        })
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
        let cx = Cycle::new(cluster, &draft.pod);
        self.kept.sync(draft.slate, &draft.profile, &cx)?;
        if nominated.is_empty() && draft.all_filters_are_kept() {
            draft.fits.copy_from(self.kept.fits(draft.slate));
            draft.as_kept = draft.narrowed.only.is_none();
            if let Some(only) = &draft.narrowed.only {
                draft.fits.intersect(only);
            }
            return Ok(());
        }
        let mut open = cluster.live().clone();
        if let Some(only) = &draft.narrowed.only {
            open.intersect(only);
        }
        draft.overlay.resize(cluster.rows());
        draft.fits.copy_from(&open);
        for plugin in draft.profile.at(ExtensionPoint::Filter) {
            filter_with(
                &mut self.kept,
                &cx,
                draft.slate,
                *plugin,
                &draft.profile,
                &draft.states,
                Target { fits: &mut draft.fits, overlay: &mut draft.overlay },
            )?;
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

    /// The attempt ends without a node: every row's reason, and all of them counted.
    pub(super) fn nowhere(&self, cluster: &Cluster, mut draft: Draft) -> Result<Attempt, AttemptError> {
        let mut left = cluster.live().clone();
        if let Some(only) = &draft.narrowed.only {
            left.intersect(only);
        }
        let considered = left.clone();
        let mut by_row = Verdicts::default();
        by_row.resize(cluster.rows());
        by_row.take_over(&draft.overlay, draft.forced.iter());
        left.subtract(&draft.forced);
        for plugin in draft.profile.at(ExtensionPoint::Filter) {
            let out: NodeSet = match self.kept.column(draft.slate, *plugin) {
                Some(column) => column.rejected_of(&left),
                None if draft.overlay.is_empty() => continue,
                None => left.iter().filter(|row| draft.overlay.is_by(*row, *plugin)).collect(),
            };
            let said = self.kept.column(draft.slate, *plugin).map_or(&draft.overlay, |column| column.why());
            by_row.take_over(said, out.iter());
            left.subtract(&out);
        }
        let mut diagnosis = Diagnosis::new(cluster.node_count());
        for ((plugin, reject), n) in by_row.count(considered.iter()) {
            diagnosis.add(draft.profile.plugin(*plugin).name(), reject, n);
        }
        let outside = draft.narrowed.only.take().map(|only| (only, draft.narrowed.outside()));
        if let Some((only, reject)) = &outside {
            diagnosis.add_outside(&draft.narrowed.by, reject, cluster.node_count() - only.len());
        }
        Ok(draft.ended_nowhere(diagnosis, Rejections { all: None, outside, by_row }))
    }

    /// Why a row was rejected: the word of the first Filter plugin that did.
    pub(super) fn first_word<'a>(
        &'a self,
        draft: &'a Draft,
        row: NodeIdx,
    ) -> Option<&'a (PluginIdx, Reject)> {
        let overlay = draft.overlay.get(row);
        if draft.forced.contains(row) {
            return overlay;
        }
        draft.profile.at(ExtensionPoint::Filter).iter().find_map(|plugin| {
            match self.kept.column(draft.slate, *plugin) {
                Some(column) => column.rejection(row),
                None => overlay.filter(|(by, _)| by == plugin),
            }
        })
    }
}

/// Where one filter's verdicts go.
struct Target<'a> {
    fits: &'a mut NodeSet,
    overlay: &'a mut Verdicts,
}

/// Leaves those of the target's rows that fit for one plugin.
fn filter_with(
    kept: &mut Kept,
    cx: &Cycle<'_>,
    slate: crate::kept::SlateId,
    plugin: PluginIdx,
    profile: &crate::profile::Profile,
    states: &[crate::points::Slot],
    target: Target<'_>,
) -> Result<(), PointError> {
    let erased = profile.plugin(plugin);
    if erased.scope() == Scope::Row {
        return match kept.column_mut(slate, plugin) {
            Some(column) => column.keep_fitting(profile.asked(plugin, cx), target.fits),
            None => Ok(()),
        };
    }
    if states[plugin.at()].is_none() {
        return Ok(());
    }
    let rows = target.fits.clone();
    let mut sweep = Sweep::new(plugin, &rows, target.fits, target.overlay);
    erased.filter_batch(cx, &states[plugin.at()], &mut sweep)
}

fn cannot_wait(plugin: &'static str, reject: &Reject) -> PointError {
    let source: PluginError = reject.message().into();
    PointError { plugin, call: Call::Point(ExtensionPoint::PreFilter), source }
}

impl Draft {
    /// PreFilter left no node.
    fn ended_before(
        self,
        nodes: usize,
        plugin: Option<&'static str>,
        reject: Reject,
        by: Vec<&'static str>,
    ) -> Box<Attempt> {
        let rejections = Rejections { all: Some(reject.clone()), ..Rejections::default() };
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
