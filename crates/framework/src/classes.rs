//! Results per row that outlive the attempt: what plugins of [`Scope::Row`] said about each node for pods of one spec.
//!
//! Pods come in classes: replicas share a spec. After one of them has landed, one row differs, so for the next one
//! only that row is asked again. This is what makes the cost of a decision almost independent of the number of nodes.
//!
//! Invariant: after [`ClassTable::sync`] every kept verdict and score equals what the plugins would say now.

use std::sync::Arc;

use harbormaster_api::{Str, points::ExtensionPoint};

use crate::{
    cluster::Cluster,
    cycle::Cycle,
    nodeset::{NodeIdx, NodeSet},
    outcome::PluginError,
    plugin::{PreFilterAnswer, Scope, Slot},
    pod::{PodInfo, SpecInfo},
    profile::{Profile, Scorer},
    sweep::{PluginIdx, Sweep, Verdicts},
    table::{LogPosition, NodeTable},
    totals::Totals,
};

/// A plugin failed unexpectedly at some point.
#[derive(Debug)]
pub struct PointError {
    /// Which plugin.
    pub plugin: &'static str,
    /// At which point.
    pub point: ExtensionPoint,
    /// What it said.
    pub source: PluginError,
}

/// What row-scoped plugins said for one spec.
#[derive(Debug)]
pub struct ClassTable {
    class: Arc<SpecInfo>,
    /// `spec.nodeName`, which plugins may read: set only when someone asks about a bound pod.
    node_name: Option<Str>,
    shape: u64,
    synced: LogPosition,
    used: u64,
    /// PreFilter's answers, by plugin; `None` for plugins that are asked anew every time.
    pub(crate) pre_filter: Vec<Option<PreFilterAnswer>>,
    /// Filter states, by plugin.
    pub(crate) filter_slots: Vec<Slot>,
    /// Score states, by plugin.
    pub(crate) score_slots: Vec<Slot>,
    /// Rejections by row-scoped Filter plugins.
    pub(crate) verdicts: Verdicts,
    /// Rows that no row-scoped Filter plugin rejected.
    pub(crate) fits: NodeSet,
    /// Raw scores by position in [`Profile::scorers`]; empty for skipped and for cluster-scoped plugins.
    pub(crate) raw: Vec<Vec<i64>>,
    /// Weighted sums of the row-scoped scorers' scores; `None` if scoring failed.
    pub(crate) totals: Option<Totals>,
    /// A scoring plugin failed: an error only for those who want scores.
    score_failure: Option<PointError>,
}

impl ClassTable {
    fn new(pod: &PodInfo) -> Self {
        Self {
            class: pod.class.clone(),
            node_name: pod.node_name.clone(),
            shape: u64::MAX,
            synced: LogPosition::default(),
            used: 0,
            pre_filter: Vec::new(),
            filter_slots: Vec::new(),
            score_slots: Vec::new(),
            verdicts: Verdicts::default(),
            fits: NodeSet::default(),
            raw: Vec::new(),
            totals: None,
            score_failure: None,
        }
    }

    /// Takes the failure of a scoring plugin, if there was one. The table is then made anew for the next attempt.
    pub(crate) fn take_score_failure(&mut self) -> Option<PointError> {
        let failure = self.score_failure.take()?;
        self.shape = u64::MAX;
        Some(failure)
    }

    /// Whether the table is about pods like this one.
    fn is_of(&self, pod: &PodInfo) -> bool {
        Arc::ptr_eq(&self.class, &pod.class) && self.node_name == pod.node_name
    }

    /// Brings the table up to date with the nodes.
    fn sync(&mut self, profile: &Profile, cx: &Cycle<'_>) -> Result<(), PointError> {
        let fresh = match self.stale_rows(cx.nodes) {
            Some(changed) => {
                // Until the rows are done the table is unusable: an error on the way must not leave it half true.
                self.shape = u64::MAX;
                self.update_rows(profile, cx, &changed)
            }
            _ => {
                self.shape = u64::MAX;
                self.rebuild(profile, cx)
            }
        };
        fresh?;
        self.shape = cx.nodes.shape();
        self.synced = cx.nodes.log_end();
        Ok(())
    }

    /// The rows to look at again; `None` when it is better to look at all of them.
    fn stale_rows(&self, nodes: &NodeTable) -> Option<Vec<NodeIdx>> {
        if self.shape != nodes.shape() {
            return None;
        }
        let mut rows: Vec<NodeIdx> =
            nodes.changed_since(self.synced)?.filter(|row| nodes.live().contains(*row)).collect();
        rows.sort_unstable();
        rows.dedup();
        (rows.len() <= 64.max(nodes.rows() / 4)).then_some(rows)
    }

    fn rebuild(&mut self, profile: &Profile, cx: &Cycle<'_>) -> Result<(), PointError> {
        self.ask_pre_filter(profile, cx)?;
        self.verdicts.reset();
        self.verdicts.resize(cx.nodes.rows());
        self.fits.copy_from(cx.nodes.live());
        if self.pre_filter.iter().flatten().any(|answer| matches!(answer, PreFilterAnswer::Reject(_))) {
            return Ok(());
        }
        for (plugin, erased) in row_filters(profile) {
            let rows = self.fits.clone();
            let mut sweep = Sweep::new(plugin, &rows, &mut self.fits, &mut self.verdicts);
            erased
                .filter_batch(cx, &self.filter_slots[plugin.at()], &mut sweep)
                .map_err(failed(erased.name(), ExtensionPoint::Filter))?;
        }
        let scored = self.ask_pre_score(profile, cx).and_then(|()| self.score_all(profile, cx));
        self.keep_scores(scored);
        Ok(())
    }

    /// Without scores there are no totals, so that whoever wants scores comes across the failure.
    fn keep_scores(&mut self, scored: Result<(), PointError>) {
        self.score_failure = scored.err();
        if self.score_failure.is_some() {
            self.totals = None;
        }
    }

    fn ask_pre_filter(&mut self, profile: &Profile, cx: &Cycle<'_>) -> Result<(), PointError> {
        let plugins = profile.plugins();
        self.pre_filter = plugins.iter().map(|_| None).collect();
        self.filter_slots = plugins.iter().map(|p| p.default_filter_slot()).collect();
        for plugin in profile.at(ExtensionPoint::PreFilter) {
            let erased = profile.plugin(*plugin);
            if erased.scope() == Scope::Row {
                let answer = erased
                    .pre_filter(cx, &mut self.filter_slots[plugin.at()])
                    .map_err(failed(erased.name(), ExtensionPoint::PreFilter))?;
                self.pre_filter[plugin.at()] = Some(answer);
            }
        }
        Ok(())
    }

    fn ask_pre_score(&mut self, profile: &Profile, cx: &Cycle<'_>) -> Result<(), PointError> {
        self.score_slots = profile.plugins().iter().map(|p| p.default_score_slot()).collect();
        for plugin in profile.at(ExtensionPoint::PreScore) {
            let erased = profile.plugin(*plugin);
            if erased.scope() == Scope::Row {
                erased
                    .pre_score(cx, &NodeSet::default(), &mut self.score_slots[plugin.at()])
                    .map_err(failed(erased.name(), ExtensionPoint::PreScore))?;
            }
        }
        Ok(())
    }

    fn score_all(&mut self, profile: &Profile, cx: &Cycle<'_>) -> Result<(), PointError> {
        let rows = cx.nodes.rows();
        self.raw.resize_with(profile.scorers().len(), Vec::new);
        for (at, scorer) in profile.scorers().iter().enumerate() {
            if self.keeps(scorer) {
                let erased = profile.plugin(scorer.plugin);
                // What rows that do not fit hold is never looked at, so nothing is cleared.
                self.raw[at].resize(rows, 0);
                erased
                    .score_batch(cx, &self.score_slots[scorer.plugin.at()], &self.fits, &mut self.raw[at])
                    .map_err(failed(erased.name(), ExtensionPoint::Score))?;
            } else {
                self.raw[at].clear();
            }
        }
        self.totals = Some(Totals::new(profile.scorers(), &self.raw, &self.fits, rows));
        Ok(())
    }

    fn keeps(&self, scorer: &Scorer) -> bool {
        scorer.scope == Scope::Row && self.score_slots[scorer.plugin.at()].is_some()
    }

    fn update_rows(&mut self, profile: &Profile, cx: &Cycle<'_>, rows: &[NodeIdx]) -> Result<(), PointError> {
        if self.pre_filter.iter().flatten().any(|answer| matches!(answer, PreFilterAnswer::Reject(_))) {
            return Ok(());
        }
        for row in rows {
            if let Some(totals) = self.totals.as_mut().filter(|_| self.fits.contains(*row)) {
                totals.leave(*row, &self.raw);
            }
            self.verdicts.unset(*row);
            let fits = self.filter_row(profile, cx, *row)?;
            self.fits.set(*row, fits);
            if fits && self.score_failure.is_none() {
                let scored = self.score_row(profile, cx, *row);
                self.keep_scores(scored);
            }
            if let Some(totals) = &mut self.totals {
                totals.enter(*row, fits, &self.raw);
            }
        }
        if let Some(totals) = &mut self.totals {
            totals.settle(&self.raw, &self.fits);
        }
        self.verdicts.compact();
        Ok(())
    }

    fn filter_row(&mut self, profile: &Profile, cx: &Cycle<'_>, row: NodeIdx) -> Result<bool, PointError> {
        for (plugin, erased) in row_filters(profile) {
            let verdict = erased
                .filter(cx, &self.filter_slots[plugin.at()], row)
                .map_err(failed(erased.name(), ExtensionPoint::Filter))?;
            if let Err(reject) = verdict {
                self.verdicts.set(row, plugin, reject);
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn score_row(&mut self, profile: &Profile, cx: &Cycle<'_>, row: NodeIdx) -> Result<(), PointError> {
        for (at, scorer) in profile.scorers().iter().enumerate() {
            if self.keeps(scorer) {
                let erased = profile.plugin(scorer.plugin);
                self.raw[at][row.at()] = erased
                    .score(cx, &self.score_slots[scorer.plugin.at()], row)
                    .map_err(failed(erased.name(), ExtensionPoint::Score))?;
            }
        }
        Ok(())
    }
}

fn row_filters(
    profile: &Profile,
) -> impl Iterator<Item = (PluginIdx, &Arc<dyn crate::plugin::ErasedPlugin>)> + '_ {
    let filters = profile.at(ExtensionPoint::Filter).iter();
    filters
        .map(|plugin| (*plugin, profile.plugin(*plugin)))
        .filter(|(_, erased)| erased.scope() == Scope::Row)
}

pub(crate) fn failed(plugin: &'static str, point: ExtensionPoint) -> impl FnOnce(PluginError) -> PointError {
    move |source| PointError { plugin, point, source }
}

/// The tables of the classes seen lately.
#[derive(Debug)]
pub struct Classes {
    tables: Vec<ClassTable>,
    clock: u64,
    at_most: usize,
}

impl Classes {
    /// Keeps tables of at most so many classes, at least one. A table costs about 60 bytes per node.
    pub fn keeping(at_most: usize) -> Self {
        Self { tables: Vec::new(), clock: 0, at_most: at_most.max(1) }
    }

    /// The up-to-date table for the pod's class.
    ///
    /// # Errors
    /// When a plugin fails unexpectedly.
    pub fn get(
        &mut self,
        profile: &Profile,
        cluster: &Cluster,
        pod: &PodInfo,
    ) -> Result<&mut ClassTable, PointError> {
        self.clock += 1;
        let known = self.tables.iter().position(|t| t.is_of(pod));
        let at = known.unwrap_or_else(|| self.make_room(pod));
        let table = &mut self.tables[at];
        table.used = self.clock;
        table.sync(profile, &Cycle::new(cluster, pod))?;
        Ok(table)
    }

    /// The table for the pod's class as [`Self::get`] left it.
    pub fn last(&self, pod: &PodInfo) -> Option<&ClassTable> {
        self.tables.iter().find(|t| t.is_of(pod))
    }

    fn make_room(&mut self, pod: &PodInfo) -> usize {
        if self.tables.len() < self.at_most {
            self.tables.push(ClassTable::new(pod));
            return self.tables.len() - 1;
        }
        let oldest = self.tables.iter().enumerate().min_by_key(|(_, t)| t.used).map_or(0, |(at, _)| at);
        let table = &mut self.tables[oldest];
        table.class = pod.class.clone();
        table.node_name = pod.node_name.clone();
        table.shape = u64::MAX;
        oldest
    }
}
