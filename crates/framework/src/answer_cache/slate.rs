//! The combined answers of all row-scoped plugins for every row, shared by pods that these plugins cannot tell apart.

use harbormaster_api::points::ExtensionPoint;

use super::{
    budget::Usage,
    column::{Column, ColumnSource},
    synced::{Changes, FoundChanges, Synced},
};
use crate::{
    cycle::Cycle,
    guard::PointError,
    meter::{Stage, StageTimer, Staged},
    nodeset::{NodeIdx, NodeSet},
    profile::Profile,
    row_log::ChangedRows,
    sweep::PluginIdx,
    totals::Totals,
};

/// Position of a column in the cache.
pub(super) type ColumnId = usize;

/// A pod's columns combined: the rows that fit, and their totals.
///
/// Invariant: after [`Slate::sync`], the rows and the totals match the answers that the plugins would give now.
#[derive(Debug, Default)]
pub(super) struct Slate {
    /// The column of each plugin; `None` for cluster-scoped plugins.
    pub(super) columns: Box<[Option<ColumnId>]>,
    pub(super) usage: Usage,
    /// The attempt that created the slate; zero if the position is free.
    pub(super) created: u64,
    synced: Synced,
    /// Rows that no row-scoped Filter plugin rejects.
    fits: NodeSet,
    fit_count: usize,
    /// `None` if scoring failed.
    totals: Option<Totals>,
    /// Error returned by a scoring plugin. Only attempts that need scores fail because of it.
    score_failure: Option<PointError>,
}

/// Everything that a slate needs for an update.
pub(super) struct SyncContext<'a> {
    pub(super) profile: &'a Profile,
    pub(super) cx: &'a Cycle<'a>,
    pub(super) columns: &'a mut [Column],
    /// Measures the time spent on Filter, PreScore and Score.
    pub(super) timer: &'a mut StageTimer,
}

impl Staged for SyncContext<'_> {
    fn timer(&mut self) -> &mut StageTimer {
        self.timer
    }
}

impl<'a> SyncContext<'a> {
    /// Returns the slate's column of a plugin and the source of its answers; `None` for a cluster-scoped plugin.
    fn column(
        &mut self,
        slate_columns: &[Option<ColumnId>],
        plugin: PluginIdx,
    ) -> Option<(&mut Column, ColumnSource<'a>)> {
        let column = slate_columns[plugin.at()]?;
        Some((&mut self.columns[column], self.profile.column_source(plugin, self.cx)))
    }

    /// Returns the changes that the answers of these columns depend on.
    fn changes(&self, slate_columns: &[Option<ColumnId>]) -> Result<Changes<'a>, PointError> {
        let mut logs = Vec::new();
        for plugin in self.profile.cluster_readers() {
            let column = slate_columns[plugin.at()].map(|column| &self.columns[column]);
            if column.is_some_and(Column::reads_cluster) {
                logs.extend(self.profile.plugin(*plugin).changed_rows(self.cx)?);
            }
        }
        Ok(Changes { nodes: self.cx.nodes, logs })
    }
}

impl Slate {
    pub(super) fn new(columns: Box<[Option<ColumnId>]>, usage: Usage, created: u64) -> Self {
        Self { columns, usage, created, ..Self::default() }
    }

    /// Returns true if this position holds a slate.
    pub(super) fn exists(&self) -> bool {
        self.created != 0
    }

    /// Rows that no row-scoped Filter plugin rejects.
    pub(super) fn fits(&self) -> &NodeSet {
        &self.fits
    }

    /// Number of rows in [`Self::fits`].
    pub(super) fn fit_count(&self) -> usize {
        self.fit_count
    }

    /// The sums of scores; `None` if they cannot be used.
    pub(super) fn totals(&self) -> Option<&Totals> {
        self.totals.as_ref().filter(|totals| totals.valid())
    }

    /// Takes the scoring error, if there is one. The next attempt then rebuilds the slate.
    pub(super) fn take_score_failure(&mut self) -> Option<PointError> {
        let failure = self.score_failure.take()?;
        self.synced.forget();
        Some(failure)
    }

    /// Brings the slate up to date with the nodes.
    pub(super) fn sync(
        &mut self,
        mut context: SyncContext<'_>,
        found: &mut FoundChanges,
    ) -> Result<(), PointError> {
        let changes = context.changes(&self.columns)?;
        if self.synced.is_current(&changes) {
            return Ok(());
        }
        let changed = match &self.score_failure {
            Some(_) => None,
            None => self.synced.changed(&changes, found),
        };
        // The slate is unusable until all rows are done: an error must not leave it partially updated.
        self.synced.forget();
        match changed {
            Some(rows) => self.update(&mut context, rows)?,
            None => self.rebuild(&mut context)?,
        }
        self.synced.catch_up(&changes);
        Ok(())
    }

    fn rebuild(&mut self, context: &mut SyncContext<'_>) -> Result<(), PointError> {
        self.totals = None;
        self.score_failure = None;
        let mut fits = std::mem::take(&mut self.fits);
        fits.copy_from(context.cx.nodes.live());
        self.keep_fitting(context, &mut fits)?;
        self.fits = fits;
        self.fit_count = self.fits.len();
        let scored = self.score(context, &self.fits);
        if scored.is_ok() {
            self.totals = Some(context.staged(Stage::Score, |context| self.add_up(context)));
        }
        self.keep_failure(scored);
        Ok(())
    }

    /// Returns the sums of the scores of all rows that fit.
    fn add_up(&self, context: &SyncContext<'_>) -> Totals {
        let raw = raw(context, &self.columns);
        Totals::new(context.profile.scorers(), raw, &self.fits, context.cx.nodes.rows())
    }

    /// Removes from `rows` every row that a row-scoped Filter plugin rejects.
    fn keep_fitting(&self, context: &mut SyncContext<'_>, rows: &mut NodeSet) -> Result<(), PointError> {
        for plugin in context.profile.row_filters() {
            if let Some((column, source)) = context.column(&self.columns, *plugin) {
                column.keep_fitting(source, rows)?;
            }
        }
        Ok(())
    }

    /// Scores `rows`. Calls PreScore first, even for plugins whose Score is not in the profile, because their PreScore
    /// may fail.
    fn score(&self, context: &mut SyncContext<'_>, rows: &NodeSet) -> Result<(), PointError> {
        context.staged(Stage::PreScore, |context| self.pre_score(context))?;
        context.staged(Stage::Score, |context| self.score_rows(context, rows))
    }

    fn pre_score(&self, context: &mut SyncContext<'_>) -> Result<(), PointError> {
        for plugin in context.profile.at(ExtensionPoint::PreScore) {
            if let Some((column, source)) = context.column(&self.columns, *plugin) {
                column.prepare_scoring(source)?;
            }
        }
        Ok(())
    }

    fn score_rows(&self, context: &mut SyncContext<'_>, rows: &NodeSet) -> Result<(), PointError> {
        for scorer in context.profile.scorers() {
            if let Some((column, source)) = context.column(&self.columns, scorer.plugin) {
                column.score(source, rows)?;
            }
        }
        Ok(())
    }

    /// Keeps a scoring error and drops the totals, so that an attempt that needs scores finds the error.
    fn keep_failure(&mut self, scored: Result<(), PointError>) {
        if let Err(failure) = scored {
            self.score_failure = Some(failure);
            self.totals = None;
        }
    }

    fn update(&mut self, context: &mut SyncContext<'_>, changed: ChangedRows<'_>) -> Result<(), PointError> {
        if let Some(totals) = &mut self.totals {
            totals.leave(changed);
        }
        let updated = match changed {
            ChangedRows::Few(rows) => rows.iter().try_for_each(|row| self.update_row(context, *row)),
            ChangedRows::Many(rows) => self.update_rows(context, rows),
        };
        if let Some(totals) = &mut self.totals {
            totals.enter(changed, raw(context, &self.columns), &self.fits);
        }
        updated
    }

    fn update_row(&mut self, context: &mut SyncContext<'_>, row: NodeIdx) -> Result<(), PointError> {
        if self.fits.contains(row) {
            self.fits.remove(row);
            self.fit_count -= 1;
        }
        for plugin in context.profile.row_filters() {
            if let Some((column, source)) = context.column(&self.columns, *plugin)
                && !column.fits_row(source, row)?
            {
                return Ok(());
            }
        }
        self.fits.insert(row);
        self.fit_count += 1;
        let scored = context.staged(Stage::Score, |context| self.score_row(context, row));
        self.keep_failure(scored);
        Ok(())
    }

    /// Scores one row. PreScore has already been called.
    fn score_row(&self, context: &mut SyncContext<'_>, row: NodeIdx) -> Result<(), PointError> {
        for scorer in context.profile.scorers() {
            if let Some((column, source)) = context.column(&self.columns, scorer.plugin) {
                column.score_row(source, row)?;
            }
        }
        Ok(())
    }

    fn update_rows(&mut self, context: &mut SyncContext<'_>, rows: &NodeSet) -> Result<(), PointError> {
        let mut fitting = rows.clone();
        self.keep_fitting(context, &mut fitting)?;
        self.fits.subtract(rows);
        self.fits.unite(&fitting);
        self.fit_count = self.fits.len();
        let scored = self.score(context, &fitting);
        self.keep_failure(scored);
        Ok(())
    }

    /// Approximate size in bytes, including the entry in the map.
    pub(super) fn size(&self) -> usize {
        let totals = self.totals.as_ref().map_or(0, Totals::size);
        let columns = 2 * size_of_val(&*self.columns);
        let rows = 8 * self.fits.words().len();
        size_of::<Self>() + columns + rows + totals
    }
}

/// Returns a function that maps a scorer's position to its raw scores, which are empty if the plugin has no column.
fn raw<'a>(context: &'a SyncContext<'_>, columns: &'a [Option<ColumnId>]) -> impl Fn(usize) -> &'a [i64] {
    |at| {
        let column = columns[context.profile.scorers()[at].plugin.at()];
        column.map_or(&[], |column| context.columns[column].raw())
    }
}
