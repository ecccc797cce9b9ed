//! One plugin's answers about every row, for pods of which it reads the same.

use crate::{
    cycle::Cycle,
    guard::{Guarded, PointError, Stopped},
    nodeset::{NodeIdx, NodeSet},
    outcome::Reject,
    points::{PreFilterAnswer, Slot},
    scores::Scores,
    sweep::{PluginIdx, Sweep, Verdicts},
    table::LogPosition,
};

/// Answers are made when they are asked for and forgotten when the row changes, or all of them when a node joins or
/// leaves.
#[derive(Debug, Default)]
pub(crate) struct Column {
    /// The shape of the node table that everything here is about; `None` before the first time and after a failure.
    shape: Option<u64>,
    synced: LogPosition,
    pre_filter: Option<Result<PreFilterAnswer, Reject>>,
    filter_state: Slot,
    /// `None` until PreScore was asked.
    score_state: Option<Slot>,
    /// Rows with a verdict, and those of them that fit.
    judged: NodeSet,
    fits: NodeSet,
    why: Verdicts,
    /// Rows with a raw score.
    scored: NodeSet,
    raw: Vec<i64>,
    missing: NodeSet,
}

/// A plugin that a column is about, in a cycle.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) idx: PluginIdx,
    pub(crate) plugin: &'a Guarded,
    /// Whether the profile has the plugin in PreFilter and in PreScore.
    pub(crate) pre_filters: bool,
    pub(crate) pre_scores: bool,
    pub(crate) cx: &'a Cycle<'a>,
}

impl Column {
    /// Forgets what is about rows that have changed; asks PreFilter again if a node joined or left.
    pub(crate) fn catch_up(&mut self, asked: Asked<'_>) -> Result<(), PointError> {
        let nodes = asked.cx.nodes;
        let changed = match self.shape == Some(nodes.shape()) {
            true if self.synced == nodes.log_end() => return Ok(()),
            true => nodes.changed_since(self.synced),
            false => None,
        };
        match changed {
            Some(rows) => rows.for_each(|row| {
                self.judged.remove(row);
                self.scored.remove(row);
            }),
            None => self.begin(asked)?,
        }
        self.shape = Some(nodes.shape());
        self.synced = nodes.log_end();
        Ok(())
    }

    fn begin(&mut self, asked: Asked<'_>) -> Result<(), PointError> {
        self.shape = None;
        self.judged.clear();
        self.scored.clear();
        self.why.reset();
        self.score_state = None;
        self.filter_state = asked.plugin.default_filter_slot();
        self.pre_filter = None;
        if asked.pre_filters {
            self.pre_filter = Some(match asked.plugin.pre_filter(asked.cx, &mut self.filter_state) {
                Ok(answer) => Ok(answer),
                Err(Stopped::Reject(_, reject)) => Err(reject),
                Err(Stopped::Error(error)) => return Err(error),
            });
        }
        Ok(())
    }

    /// What PreFilter said; `None` for a plugin without it.
    pub(crate) fn pre_filter(&self) -> Option<&Result<PreFilterAnswer, Reject>> {
        self.pre_filter.as_ref()
    }

    /// What PreFilter made.
    pub(crate) fn filter_state(&self) -> &Slot {
        &self.filter_state
    }

    /// Whether Filter has nothing to check.
    pub(crate) fn passes_all(&self) -> bool {
        self.filter_state.is_none()
    }

    /// Whether one row fits.
    pub(crate) fn fits_row(&mut self, asked: Asked<'_>, row: NodeIdx) -> Result<bool, PointError> {
        if self.passes_all() {
            return Ok(true);
        }
        if !self.judged.contains(row) {
            self.why.compact();
            match asked.plugin.filter(asked.cx, &self.filter_state, row) {
                Ok(()) => self.fits.insert(row),
                Err(Stopped::Reject(_, reject)) => {
                    self.fits.remove(row);
                    self.why.set(row, asked.idx, reject);
                }
                Err(Stopped::Error(error)) => return Err(error),
            }
            self.judged.insert(row);
        }
        Ok(self.fits.contains(row))
    }

    /// Leaves those of `rows` that fit.
    pub(crate) fn keep_fitting(&mut self, asked: Asked<'_>, rows: &mut NodeSet) -> Result<(), PointError> {
        if self.passes_all() {
            return Ok(());
        }
        self.missing.copy_from(rows);
        self.missing.subtract(&self.judged);
        if !self.missing.is_empty() {
            self.why.compact();
            self.fits.unite(&self.missing);
            let mut sweep = Sweep::new(asked.idx, &self.missing, &mut self.fits, &mut self.why);
            asked.plugin.filter_batch(asked.cx, &self.filter_state, &mut sweep)?;
            self.judged.unite(&self.missing);
        }
        rows.intersect(&self.fits);
        Ok(())
    }

    /// Those of `rows` that were rejected.
    pub(crate) fn rejected_of(&self, rows: &NodeSet) -> NodeSet {
        let mut rejected = NodeSet::default();
        if !self.passes_all() {
            rejected.copy_from(rows);
            rejected.intersect(&self.judged);
            rejected.subtract(&self.fits);
        }
        rejected
    }

    /// The rejections; what is said of rows that fit means nothing.
    pub(crate) fn why(&self) -> &Verdicts {
        &self.why
    }

    /// Whether the plugin scores; asks PreScore if that was not done.
    pub(crate) fn scores(&mut self, asked: Asked<'_>) -> Result<bool, PointError> {
        if self.score_state.is_none() {
            let mut state = asked.plugin.default_score_slot();
            if asked.pre_scores {
                asked.plugin.pre_score(asked.cx, &self.filter_state, &NodeSet::default(), &mut state)?;
            }
            self.score_state = Some(state);
        }
        Ok(self.score_state.as_ref().is_some_and(Option::is_some))
    }

    /// Whether PreScore was asked and did not skip.
    pub(crate) fn has_pre_scored(&self) -> bool {
        matches!(&self.score_state, Some(Some(_)))
    }

    /// Scores one row, if the plugin scores.
    pub(crate) fn score_row(&mut self, asked: Asked<'_>, row: NodeIdx) -> Result<(), PointError> {
        if self.scored.contains(row) || !self.scores(asked)? {
            return Ok(());
        }
        self.raw.resize(asked.cx.nodes.rows(), 0);
        let state = self.score_state.as_ref().unwrap_or(&None);
        self.raw[row.at()] = asked.plugin.score(asked.cx, state, row)?;
        self.scored.insert(row);
        Ok(())
    }

    /// Scores `rows`, if the plugin scores.
    pub(crate) fn score(&mut self, asked: Asked<'_>, rows: &NodeSet) -> Result<(), PointError> {
        if !self.scores(asked)? {
            return Ok(());
        }
        self.missing.copy_from(rows);
        self.missing.subtract(&self.scored);
        self.raw.resize(asked.cx.nodes.rows(), 0);
        if !self.missing.is_empty() {
            let state = self.score_state.as_ref().unwrap_or(&None);
            let mut scores = Scores::new(&self.missing, NodeIdx(0), &mut self.raw);
            asked.plugin.score_batch(asked.cx, state, &mut scores)?;
            self.scored.unite(&self.missing);
        }
        Ok(())
    }

    /// The raw scores of the rows that were scored; empty if the plugin does not score.
    pub(crate) fn raw(&self) -> &[i64] {
        match &self.score_state {
            Some(Some(_)) => &self.raw,
            _ => &[],
        }
    }

    /// About how many bytes it holds.
    pub(crate) fn size(&self) -> usize {
        let sets = [&self.judged, &self.fits, &self.scored, &self.missing];
        size_of::<Self>()
            + 8 * sets.iter().map(|set| set.words().len()).sum::<usize>()
            + 8 * self.raw.capacity()
            + self.why.size()
    }
}
