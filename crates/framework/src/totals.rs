//! Weighted score sums per row, kept up to date row by row, with the best one at hand.

use crate::{
    nodeset::{NodeIdx, NodeSet},
    outcome::Normalize,
    profile::Scorer,
};

/// Marks a row that does not fit.
const UNFIT: i64 = i64::MIN;
/// Rows per block: the best total of each block is kept.
const BLOCK: usize = 64;

/// Sums of weighted, normalised scores of one class.
#[derive(Debug)]
pub struct Totals {
    columns: Vec<Column>,
    totals: Vec<i64>,
    block_best: Vec<i64>,
    stale: bool,
    invalid: usize,
    is_invalid: NodeSet,
}

/// One scorer's part in the totals.
#[derive(Clone, Copy, Debug)]
struct Column {
    /// Position among the scorers.
    at: usize,
    weight: i64,
    normalize: Normalize,
    /// The largest raw score among rows that fit, at least zero; and how many rows have it.
    max: i64,
    at_max: usize,
}

impl Column {
    fn normalized(&self, raw: i64) -> i64 {
        normalized(self.normalize, raw, self.max)
    }

    fn find_max(&mut self, raw: &[i64], fits: &NodeSet) {
        self.max = fits.iter().map(|row| raw[row.at()]).max().unwrap_or(0).max(0);
        self.at_max = fits.iter().filter(|row| raw[row.at()] == self.max).count();
    }
}

/// The score in 0..=100 for a raw score, given the largest raw score among the candidates.
pub(crate) fn normalized(how: Normalize, raw: i64, max: i64) -> i64 {
    match how {
        Normalize::Proportional { reverse } if max == 0 => {
            if reverse {
                100
            } else {
                raw
            }
        }
        Normalize::Proportional { reverse } => {
            let share = raw.saturating_mul(100) / max;
            if reverse { 100 - share } else { share }
        }
        Normalize::AsIs | Normalize::Custom => raw,
    }
}

impl Totals {
    /// Sums the raw columns of `scorers`; an empty column is a skipped scorer or one that is asked anew every time.
    pub(crate) fn new(scorers: &[Scorer], raw: &[Vec<i64>], fits: &NodeSet, rows: usize) -> Self {
        let columns = scorers.iter().enumerate().filter(|(at, _)| !raw[*at].is_empty());
        let columns =
            columns.map(|(at, s)| Column { at, weight: s.weight, normalize: s.normalize, max: 0, at_max: 0 });
        let mut totals = Self {
            columns: columns.collect(),
            totals: vec![UNFIT; rows],
            block_best: vec![UNFIT; rows.div_ceil(BLOCK)],
            stale: true,
            invalid: 0,
            is_invalid: NodeSet::empty(rows),
        };
        totals.settle(raw, fits);
        totals
    }

    /// Whether every kept score is in 0..=100, so that the sums can be used.
    pub(crate) fn valid(&self) -> bool {
        self.invalid == 0
    }

    /// A row that fits is about to change: `raw` still holds its old scores.
    pub(crate) fn leave(&mut self, row: NodeIdx, raw: &[Vec<i64>]) {
        for column in &mut self.columns {
            if raw[column.at][row.at()] == column.max {
                column.at_max = column.at_max.saturating_sub(1);
            }
        }
    }

    /// The row has changed: `raw` holds its new scores if it fits.
    pub(crate) fn enter(&mut self, row: NodeIdx, fits: bool, raw: &[Vec<i64>]) {
        for column in self.columns.iter_mut().filter(|_| fits) {
            let new = raw[column.at][row.at()];
            if new == column.max {
                column.at_max += 1;
            } else if new > column.max && column.normalize != Normalize::AsIs {
                self.stale = true;
            }
        }
        if !self.stale {
            self.write(row, fits, raw);
        }
    }

    /// Ends a series of updates.
    pub(crate) fn settle(&mut self, raw: &[Vec<i64>], fits: &NodeSet) {
        let max_is_gone = |c: &Column| c.normalize != Normalize::AsIs && c.max > 0 && c.at_max == 0;
        if !self.stale && !self.columns.iter().any(max_is_gone) {
            return;
        }
        self.stale = false;
        self.totals.fill(UNFIT);
        self.invalid = 0;
        self.is_invalid.clear();
        for row in fits {
            self.totals[row.at()] = 0;
        }
        for at in 0..self.columns.len() {
            self.add_column(at, &raw[self.columns[at].at], fits);
        }
        for block in 0..self.block_best.len() {
            self.block_best[block] = self.best_of_block(block);
        }
    }

    /// Adds one scorer's part to the totals of all rows that fit.
    fn add_column(&mut self, at: usize, raw: &[i64], fits: &NodeSet) {
        if self.columns[at].normalize != Normalize::AsIs {
            self.columns[at].find_max(raw, fits);
        }
        let column = self.columns[at];
        for row in fits {
            let score = column.normalized(raw[row.at()]);
            self.totals[row.at()] += score.saturating_mul(column.weight);
            if !(0..=100).contains(&score) {
                self.mark_invalid(row, true);
            }
        }
    }

    fn write(&mut self, row: NodeIdx, fits: bool, raw: &[Vec<i64>]) {
        self.mark_invalid(row, false);
        let total = if fits { self.sum(row, raw) } else { UNFIT };
        let block = row.at() / BLOCK;
        let before = std::mem::replace(&mut self.totals[row.at()], total);
        if total >= self.block_best[block] {
            self.block_best[block] = total;
        } else if before == self.block_best[block] {
            self.block_best[block] = self.best_of_block(block);
        }
    }

    fn sum(&mut self, row: NodeIdx, raw: &[Vec<i64>]) -> i64 {
        let mut total = 0;
        let mut valid = true;
        for column in &self.columns {
            let score = column.normalized(raw[column.at][row.at()]);
            valid &= (0..=100).contains(&score);
            total += score.saturating_mul(column.weight);
        }
        self.mark_invalid(row, !valid);
        total
    }

    fn mark_invalid(&mut self, row: NodeIdx, invalid: bool) {
        if self.is_invalid.contains(row) != invalid {
            self.is_invalid.set(row, invalid);
            self.invalid = if invalid { self.invalid + 1 } else { self.invalid - 1 };
        }
    }

    fn best_of_block(&self, block: usize) -> i64 {
        let end = ((block + 1) * BLOCK).min(self.totals.len());
        self.totals[block * BLOCK..end].iter().copied().max().unwrap_or(UNFIT)
    }

    /// Whether the sums are also those of `some` of the rows that fit: whether what raw scores are divided by stays the
    /// same without the others.
    pub(crate) fn hold_for(&self, raw: &[Vec<i64>], some: &NodeSet) -> bool {
        self.columns.iter().all(|c| {
            c.normalize == Normalize::AsIs
                || c.max == 0
                || some.iter().any(|row| raw[c.at][row.at()] == c.max)
        })
    }

    /// Copies the sums, one per row; what rows hold that do not fit means nothing.
    pub(crate) fn copy_to(&self, sums: &mut Vec<i64>) {
        sums.clone_from(&self.totals);
    }

    /// The row with the largest total, the first one at or after `start` (going round) if several have it.
    pub(crate) fn best(&self, start: usize) -> Option<NodeIdx> {
        let best = self.block_best.iter().copied().max().filter(|best| *best != UNFIT)?;
        let start = if start < self.totals.len() { start } else { 0 };
        self.first_with(best, start, self.totals.len()).or_else(|| self.first_with(best, 0, start))
    }

    fn first_with(&self, total: i64, from: usize, to: usize) -> Option<NodeIdx> {
        let mut at = from;
        while at < to {
            let block = at / BLOCK;
            let end = ((block + 1) * BLOCK).min(to);
            if self.block_best[block] >= total
                && let Some(found) = self.totals[at..end].iter().position(|t| *t == total)
            {
                return Some(NodeIdx::from(at + found));
            }
            at = end;
        }
        None
    }
}
