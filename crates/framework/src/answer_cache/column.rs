//! One plugin's answers for every row, shared by pods that are equal in the parts that the plugin reads.

use super::synced::{Changes, FoundChanges, Synced};
use crate::{
    cycle::Cycle,
    guard::{GuardedPlugin, PointError, Stopped},
    nodeset::{NodeIdx, NodeSet},
    outcome::{PreFiltered, Reject},
    points::Slot,
    row_log::ChangedRows,
    scores::Scores,
    sweep::{PluginIdx, Sweep, Verdicts},
};

/// Cached answers of one plugin. An answer is computed on demand and dropped when its row changes; all answers are
/// dropped when a node joins or leaves.
#[derive(Debug, Default)]
pub(crate) struct Column {
    /// True if the key of the column contains facts about the cluster.
    reads_cluster: bool,
    synced: Synced,
    pre_filter: Option<Result<PreFiltered<()>, Reject>>,
    filter_state: Slot,
    /// `None` until PreScore has been called.
    score_state: Option<Slot>,
    /// Rows that have a verdict. A row in this set fits if it is also in `fits`.
    judged: NodeSet,
    fits: NodeSet,
    verdicts: Verdicts,
    /// Rows with a raw score.
    scored: NodeSet,
    raw: Vec<i64>,
    missing: NodeSet,
}

/// Source of a column's answers: a plugin in a cycle.
#[derive(Clone, Copy)]
pub(crate) struct ColumnSource<'a> {
    pub(crate) idx: PluginIdx,
    pub(crate) plugin: &'a GuardedPlugin,
    /// True if the profile enables the plugin at PreFilter.
    pub(crate) pre_filters: bool,
    /// True if the profile enables the plugin at PreScore.
    pub(crate) pre_scores: bool,
    pub(crate) cx: Cycle<'a>,
}

impl ColumnSource<'_> {
    /// Returns the same source with a cycle that shows only the data on which the column's answers may depend.
    fn for_column(self, column: &Column) -> Self {
        Self { cx: self.cx.for_cached(column.reads_cluster), ..self }
    }

    /// Returns the changes that the column's answers depend on.
    fn changes(&self, column: &Column) -> Result<Changes<'_>, PointError> {
        let log = if column.reads_cluster { self.plugin.changed_rows(&self.cx)? } else { None };
        Ok(Changes { nodes: self.cx.nodes, logs: log.into_iter().collect() })
    }
}

impl Column {
    /// Creates a column without answers. `reads_cluster` is true if its key contains facts about the cluster.
    pub(super) fn new(reads_cluster: bool) -> Self {
        Self { reads_cluster, ..Self::default() }
    }

    /// Drops the answers for changed rows. If it is not known which rows have changed, drops all answers and calls
    /// PreFilter again.
    pub(super) fn catch_up(
        &mut self,
        source: ColumnSource<'_>,
        found: &mut FoundChanges,
    ) -> Result<(), PointError> {
        let source = source.for_column(self);
        let changes = source.changes(self)?;
        if self.synced.is_current(&changes) {
            return Ok(());
        }
        match self.synced.changed(&changes, found) {
            Some(ChangedRows::Few(rows)) => rows.iter().for_each(|row| {
                self.judged.remove(*row);
                self.scored.remove(*row);
            }),
            Some(ChangedRows::Many(rows)) => {
                self.judged.subtract(rows);
                self.scored.subtract(rows);
            }
            None => self.reset(source)?,
        }
        self.synced.catch_up(&changes);
        Ok(())
    }

    /// Returns a column for the same pods that shares no answers with this one.
    pub(crate) fn start_anew(&self, source: ColumnSource<'_>) -> Result<Self, PointError> {
        let mut fresh = Self::new(self.reads_cluster);
        fresh.catch_up(source, &mut FoundChanges::default())?;
        Ok(fresh)
    }

    /// Returns true if the answers depend on facts about the cluster.
    pub(super) fn reads_cluster(&self) -> bool {
        self.reads_cluster
    }

    fn reset(&mut self, source: ColumnSource<'_>) -> Result<(), PointError> {
        self.synced.forget();
        self.judged.clear();
        self.scored.clear();
        self.verdicts.reset();
        self.score_state = None;
        self.filter_state = source.plugin.default_filter_slot();
        self.pre_filter = None;
        if source.pre_filters {
            self.pre_filter = Some(match source.plugin.pre_filter(&source.cx, &mut self.filter_state) {
                Ok(answer) => Ok(answer),
                Err(Stopped::Reject(_, reject)) => Err(reject),
                Err(Stopped::Error(error)) => return Err(error),
            });
        }
        Ok(())
    }

    /// PreFilter's answer; `None` for a plugin without PreFilter.
    pub(crate) fn pre_filter(&self) -> Option<&Result<PreFiltered<()>, Reject>> {
        self.pre_filter.as_ref()
    }

    pub(crate) fn filter_state(&self) -> &Slot {
        &self.filter_state
    }

    /// Returns true if Filter has nothing to check.
    pub(crate) fn passes_all(&self) -> bool {
        self.filter_state.is_none()
    }

    /// Returns true if the row fits.
    pub(crate) fn fits_row(&mut self, source: ColumnSource<'_>, row: NodeIdx) -> Result<bool, PointError> {
        if self.passes_all() {
            return Ok(true);
        }
        if !self.judged.contains(row) {
            self.verdicts.compact();
            match source.plugin.filter(&source.for_column(self).cx, &self.filter_state, row) {
                Ok(()) => self.fits.insert(row),
                Err(Stopped::Reject(_, reject)) => {
                    self.fits.remove(row);
                    self.verdicts.set(row, source.idx, reject);
                }
                Err(Stopped::Error(error)) => return Err(error),
            }
            self.judged.insert(row);
        }
        Ok(self.fits.contains(row))
    }

    /// Removes from `rows` every row that does not fit.
    pub(crate) fn keep_fitting(
        &mut self,
        source: ColumnSource<'_>,
        rows: &mut NodeSet,
    ) -> Result<(), PointError> {
        if self.passes_all() {
            return Ok(());
        }
        self.missing.copy_from(rows);
        self.missing.subtract(&self.judged);
        if !self.missing.is_empty() {
            self.verdicts.compact();
            self.fits.unite(&self.missing);
            let cx = source.for_column(self).cx;
            let mut sweep = Sweep::new(source.idx, &self.missing, &mut self.fits, &mut self.verdicts);
            source.plugin.filter_batch(&cx, &self.filter_state, &mut sweep)?;
            self.judged.unite(&self.missing);
        }
        rows.intersect(&self.fits);
        Ok(())
    }

    /// Returns the members of `rows` that were rejected.
    pub(crate) fn rejected_of(&self, rows: &NodeSet) -> NodeSet {
        let mut rejected = NodeSet::default();
        if !self.passes_all() {
            rejected.copy_from(rows);
            rejected.intersect(&self.judged);
            rejected.subtract(&self.fits);
        }
        rejected
    }

    /// Rejections by row. Entries for rows that fit are meaningless.
    pub(crate) fn verdicts(&self) -> &Verdicts {
        &self.verdicts
    }

    /// Returns true if the plugin scores. Calls PreScore first if it has not been called yet.
    pub(crate) fn prepare_scoring(&mut self, source: ColumnSource<'_>) -> Result<bool, PointError> {
        if self.score_state.is_none() {
            let mut state = source.plugin.default_score_slot();
            if source.pre_scores {
                let cx = source.for_column(self).cx;
                source.plugin.pre_score(&cx, &self.filter_state, &NodeSet::default(), &mut state)?;
            }
            self.score_state = Some(state);
        }
        Ok(self.score_state.as_ref().is_some_and(Option::is_some))
    }

    /// Returns true if scoring has been prepared and PreScore did not skip.
    pub(crate) fn has_pre_scored(&self) -> bool {
        matches!(&self.score_state, Some(Some(_)))
    }

    /// Scores one row, if the plugin scores.
    pub(crate) fn score_row(&mut self, source: ColumnSource<'_>, row: NodeIdx) -> Result<(), PointError> {
        if self.scored.contains(row) || !self.prepare_scoring(source)? {
            return Ok(());
        }
        self.raw.resize(source.cx.nodes.rows(), 0);
        let state = self.score_state.as_ref().unwrap_or(&None);
        self.raw[row.at()] = source.plugin.score(&source.for_column(self).cx, state, row)?;
        self.scored.insert(row);
        Ok(())
    }

    /// Scores `rows`, if the plugin scores.
    pub(crate) fn score(&mut self, source: ColumnSource<'_>, rows: &NodeSet) -> Result<(), PointError> {
        if !self.prepare_scoring(source)? {
            return Ok(());
        }
        self.missing.copy_from(rows);
        self.missing.subtract(&self.scored);
        self.raw.resize(source.cx.nodes.rows(), 0);
        if !self.missing.is_empty() {
            let state = self.score_state.as_ref().unwrap_or(&None);
            let cx = source.for_column(self).cx;
            let mut scores = Scores::new(&self.missing, NodeIdx(0), &mut self.raw);
            source.plugin.score_batch(&cx, state, &mut scores)?;
            self.scored.unite(&self.missing);
        }
        Ok(())
    }

    /// Raw scores of the scored rows; empty if the plugin does not score.
    pub(crate) fn raw(&self) -> &[i64] {
        match &self.score_state {
            Some(Some(_)) => &self.raw,
            _ => &[],
        }
    }

    /// Approximate size in bytes.
    pub(crate) fn size(&self) -> usize {
        let sets = [&self.judged, &self.fits, &self.scored, &self.missing];
        size_of::<Self>()
            + 8 * sets.iter().map(|set| set.words().len()).sum::<usize>()
            + 8 * self.raw.capacity()
            + self.verdicts.size()
    }
}
