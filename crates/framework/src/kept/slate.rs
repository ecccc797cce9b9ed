//! What all row-scoped plugins together say of every row, for pods that they cannot tell apart.

use harbormaster_api::points::ExtensionPoint;

use super::{
    column::{Asked, Column},
    room::Stay,
};
use crate::{
    cycle::Cycle,
    guard::PointError,
    meter::{Laps, Stage},
    nodeset::{NodeIdx, NodeSet},
    profile::Profile,
    sweep::PluginIdx,
    table::{LogPosition, NodeTable},
    totals::Totals,
};

/// The position of a column among those that are kept.
pub(super) type ColumnId = usize;

/// As many changed rows are looked at one by one; more of them together.
const ONE_BY_ONE: usize = 8;

/// A pod's columns put together: which rows fit, and their totals.
///
/// Invariant: after [`Slate::sync`] they equal what the plugins would say now.
#[derive(Debug, Default)]
pub(super) struct Slate {
    /// By plugin; `None` for cluster-scoped ones.
    pub(super) columns: Box<[Option<ColumnId>]>,
    pub(super) stay: Stay,
    /// The attempt that made it; zero for none.
    pub(super) made: u64,
    shape: Option<u64>,
    synced: LogPosition,
    /// Rows that no row-scoped Filter plugin rejects.
    fits: NodeSet,
    how_many_fit: usize,
    /// `None` if scoring failed.
    totals: Option<Totals>,
    /// A scoring plugin failed: an error only for those who want scores.
    score_failure: Option<PointError>,
    /// Rows that changed, each once.
    changed: Vec<NodeIdx>,
}

/// What a slate works on.
pub(super) struct Desk<'a> {
    pub(super) profile: &'a Profile,
    pub(super) cx: &'a Cycle<'a>,
    pub(super) columns: &'a mut [Column],
    /// What is spent on Filter, PreScore and Score.
    pub(super) laps: &'a mut Laps,
}

impl<'a> Desk<'a> {
    /// The column that a slate has of a plugin, and the plugin to be asked; `None` for a cluster-scoped one.
    fn column(
        &mut self,
        of_slate: &[Option<ColumnId>],
        plugin: PluginIdx,
    ) -> Option<(&mut Column, Asked<'a>)> {
        let column = of_slate[plugin.at()]?;
        Some((&mut self.columns[column], self.profile.asked(plugin, self.cx)))
    }
}

impl Slate {
    pub(super) fn new(columns: Box<[Option<ColumnId>]>, stay: Stay, made: u64) -> Self {
        Self { columns, stay, made, ..Self::default() }
    }

    /// Whether this is a slate and not the place of one that is gone.
    pub(super) fn is_there(&self) -> bool {
        self.made != 0
    }

    /// Rows that no row-scoped Filter plugin rejects.
    pub(super) fn fits(&self) -> &NodeSet {
        &self.fits
    }

    /// How many these are.
    pub(super) fn how_many_fit(&self) -> usize {
        self.how_many_fit
    }

    /// The sums of scores, if they can be used.
    pub(super) fn totals(&self) -> Option<&Totals> {
        self.totals.as_ref().filter(|totals| totals.valid())
    }

    /// Takes the failure of a scoring plugin, if there was one. Everything is then made anew for the next attempt.
    pub(super) fn take_score_failure(&mut self) -> Option<PointError> {
        let failure = self.score_failure.take()?;
        self.shape = None;
        Some(failure)
    }

    /// Brings the slate up to date with the nodes.
    pub(super) fn sync(&mut self, mut desk: Desk<'_>) -> Result<(), PointError> {
        let nodes = desk.cx.nodes;
        if self.shape == Some(nodes.shape()) && self.synced == nodes.log_end() {
            return Ok(());
        }
        let known = self.find_changed(nodes);
        // Until the rows are done the slate is unusable: an error on the way must not leave it half true.
        self.shape = None;
        let done = match known {
            true => self.update(&mut desk),
            false => self.rebuild(&mut desk),
        };
        done?;
        self.shape = Some(nodes.shape());
        self.synced = nodes.log_end();
        Ok(())
    }

    /// Collects the rows that have changed; `false` when all of them are to be looked at.
    fn find_changed(&mut self, nodes: &NodeTable) -> bool {
        self.changed.clear();
        if self.shape != Some(nodes.shape()) || self.score_failure.is_some() {
            return false;
        }
        let Some(rows) = nodes.changed_since(self.synced) else { return false };
        self.changed.extend(rows.filter(|row| nodes.live().contains(*row)));
        self.changed.sort_unstable();
        self.changed.dedup();
        true
    }

    fn rebuild(&mut self, desk: &mut Desk<'_>) -> Result<(), PointError> {
        self.totals = None;
        self.score_failure = None;
        let mut fits = std::mem::take(&mut self.fits);
        fits.copy_from(desk.cx.nodes.live());
        self.keep_fitting(desk, &mut fits)?;
        self.fits = fits;
        self.how_many_fit = self.fits.len();
        let scored = self.score(desk, &self.fits);
        if scored.is_ok() {
            let raw = raw(desk, &self.columns);
            let rows = desk.cx.nodes.rows();
            self.totals = Some(Totals::new(desk.profile.scorers(), raw, &self.fits, rows));
        }
        desk.laps.turn(Stage::Filter);
        self.keep_failure(scored);
        Ok(())
    }

    /// Leaves those of `rows` that no row-scoped Filter plugin rejects.
    fn keep_fitting(&self, desk: &mut Desk<'_>, rows: &mut NodeSet) -> Result<(), PointError> {
        for plugin in desk.profile.row_filters() {
            if let Some((column, asked)) = desk.column(&self.columns, *plugin) {
                column.keep_fitting(asked, rows)?;
            }
        }
        Ok(())
    }

    /// Scores `rows`. PreScore is asked first, also of plugins whose Score the profile leaves out: they may fail.
    fn score(&self, desk: &mut Desk<'_>, rows: &NodeSet) -> Result<(), PointError> {
        desk.laps.turn(Stage::PreScore);
        for plugin in desk.profile.at(ExtensionPoint::PreScore) {
            if let Some((column, asked)) = desk.column(&self.columns, *plugin) {
                column.scores(asked)?;
            }
        }
        desk.laps.turn(Stage::Score);
        for scorer in desk.profile.scorers() {
            if let Some((column, asked)) = desk.column(&self.columns, scorer.plugin) {
                column.score(asked, rows)?;
            }
        }
        Ok(())
    }

    /// Without scores there are no totals, so that whoever wants scores comes across the failure.
    fn keep_failure(&mut self, scored: Result<(), PointError>) {
        if let Err(failure) = scored {
            self.score_failure = Some(failure);
            self.totals = None;
        }
    }

    fn update(&mut self, desk: &mut Desk<'_>) -> Result<(), PointError> {
        let changed = std::mem::take(&mut self.changed);
        if let Some(totals) = &mut self.totals {
            changed.iter().filter(|row| self.fits.contains(**row)).for_each(|row| totals.leave(*row));
        }
        let updated = match changed.len() <= ONE_BY_ONE {
            true => changed.iter().try_for_each(|row| self.update_row(desk, *row)),
            false => self.update_rows(desk, &changed.iter().copied().collect()),
        };
        if let Some(totals) = &mut self.totals {
            let raw = raw(desk, &self.columns);
            changed.iter().for_each(|row| totals.enter(*row, self.fits.contains(*row), &raw));
            totals.settle(&raw, &self.fits);
        }
        self.changed = changed;
        updated
    }

    fn update_row(&mut self, desk: &mut Desk<'_>, row: NodeIdx) -> Result<(), PointError> {
        if self.fits.contains(row) {
            self.fits.remove(row);
            self.how_many_fit -= 1;
        }
        for plugin in desk.profile.row_filters() {
            if let Some((column, asked)) = desk.column(&self.columns, *plugin)
                && !column.fits_row(asked, row)?
            {
                return Ok(());
            }
        }
        self.fits.insert(row);
        self.how_many_fit += 1;
        desk.laps.turn(Stage::Score);
        let scored = self.score_row(desk, row);
        desk.laps.turn(Stage::Filter);
        self.keep_failure(scored);
        Ok(())
    }

    /// Scores one row, PreScore having been asked.
    fn score_row(&self, desk: &mut Desk<'_>, row: NodeIdx) -> Result<(), PointError> {
        for scorer in desk.profile.scorers() {
            if let Some((column, asked)) = desk.column(&self.columns, scorer.plugin) {
                column.score_row(asked, row)?;
            }
        }
        Ok(())
    }

    fn update_rows(&mut self, desk: &mut Desk<'_>, rows: &NodeSet) -> Result<(), PointError> {
        let mut fitting = rows.clone();
        self.keep_fitting(desk, &mut fitting)?;
        self.fits.subtract(rows);
        self.fits.unite(&fitting);
        self.how_many_fit = self.fits.len();
        let scored = self.score(desk, &fitting);
        desk.laps.turn(Stage::Filter);
        self.keep_failure(scored);
        Ok(())
    }

    /// About how many bytes it holds, with its entry in the map.
    pub(super) fn size(&self) -> usize {
        let totals = self.totals.as_ref().map_or(0, Totals::size);
        let columns = 2 * size_of_val(&*self.columns);
        let rows = 8 * self.fits.words().len() + 4 * self.changed.capacity();
        size_of::<Self>() + columns + rows + totals
    }
}

/// The raw scores of a scorer by its position; empty if nothing is kept of it.
fn raw<'a>(desk: &'a Desk<'_>, columns: &'a [Option<ColumnId>]) -> impl Fn(usize) -> &'a [i64] {
    |at| {
        let column = columns[desk.profile.scorers()[at].plugin.at()];
        column.map_or(&[], |column| desk.columns[column].raw())
    }
}
