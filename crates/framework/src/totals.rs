//! Weighted score sums per row, updated row by row, with quick access to the best row.

use crate::{
    max_tree::MaxTree,
    nodeset::{NodeIdx, NodeSet},
    normalize::normalized,
    outcome::Normalize,
    profile::Scorer,
};

/// Marks a row that does not fit.
const UNFIT: i64 = i64::MIN;

/// Sums of weighted, normalized scores.
#[derive(Debug)]
pub(crate) struct Totals {
    parts: Vec<ScorerPart>,
    totals: MaxTree,
    stale: bool,
    invalid: usize,
    is_invalid: NodeSet,
}

/// One scorer's part of the totals.
#[derive(Debug)]
struct ScorerPart {
    /// Position among the scorers.
    at: usize,
    weight: i64,
    normalize: Normalize,
    /// Largest raw score among rows that fit, at least zero; scores are divided by it.
    max: i64,
    /// The rows with the score `max`, unless `max` is zero.
    at_max: NodeSet,
    count_at_max: usize,
}

impl ScorerPart {
    fn normalized(&self, raw: i64) -> i64 {
        normalized(self.normalize, raw, self.max)
    }

    fn is_relative(&self) -> bool {
        self.normalize != Normalize::AsIs
    }

    fn find_max(&mut self, raw: &[i64], fits: &NodeSet) {
        self.max = fits.iter().map(|row| raw[row.at()]).max().unwrap_or(0).max(0);
        self.at_max.clear();
        self.count_at_max = 0;
        if self.max > 0 {
            fits.iter().filter(|row| raw[row.at()] == self.max).for_each(|row| self.at_max.insert(row));
            self.count_at_max = self.at_max.len();
        }
    }

    fn leave(&mut self, row: NodeIdx) {
        if self.max > 0 && self.at_max.contains(row) {
            self.at_max.remove(row);
            self.count_at_max -= 1;
        }
    }

    /// Adds a row. Returns true if the largest score is unchanged.
    fn enter(&mut self, row: NodeIdx, raw: i64) -> bool {
        if self.max > 0 && raw == self.max && !self.at_max.contains(row) {
            self.at_max.insert(row);
            self.count_at_max += 1;
        }
        raw <= self.max
    }
}

impl Totals {
    /// Sums the scores of the `scorers` that have raw scores: those for which `raw` returns a nonempty slice.
    pub(crate) fn new<'a>(
        scorers: &[Scorer],
        raw: impl Fn(usize) -> &'a [i64],
        fits: &NodeSet,
        rows: usize,
    ) -> Self {
        let parts = scorers.iter().enumerate().filter(|(at, _)| !raw(*at).is_empty());
        let part = |(at, s): (usize, &Scorer)| ScorerPart {
            at,
            weight: s.weight,
            normalize: s.normalize,
            max: 0,
            at_max: NodeSet::default(),
            count_at_max: 0,
        };
        let mut totals = Self {
            parts: parts.map(part).collect(),
            totals: MaxTree::new(rows, UNFIT),
            stale: true,
            invalid: 0,
            is_invalid: NodeSet::empty(rows),
        };
        totals.settle(raw, fits);
        totals
    }

    /// Returns true if every cached score is in 0..=100, so that the sums can be used.
    pub(crate) fn valid(&self) -> bool {
        self.invalid == 0
    }

    /// Removes a row that fits, before its scores are updated.
    pub(crate) fn leave(&mut self, row: NodeIdx) {
        self.parts.iter_mut().filter(|part| part.is_relative()).for_each(|part| part.leave(row));
    }

    /// Adds a changed row. `raw` returns its new scores if it fits.
    pub(crate) fn enter<'a>(&mut self, row: NodeIdx, fits: bool, raw: impl Fn(usize) -> &'a [i64]) {
        for part in self.parts.iter_mut().filter(|part| fits && part.is_relative()) {
            self.stale |= !part.enter(row, raw(part.at)[row.at()]);
        }
        if !self.stale {
            self.write(row, fits, raw);
        }
    }

    /// Ends a series of updates. Recomputes all totals if the largest raw score of a scorer has changed.
    pub(crate) fn settle<'a>(&mut self, raw: impl Fn(usize) -> &'a [i64], fits: &NodeSet) {
        let max_is_gone = |part: &ScorerPart| part.is_relative() && part.max > 0 && part.count_at_max == 0;
        if !self.stale && !self.parts.iter().any(max_is_gone) {
            return;
        }
        self.stale = false;
        self.invalid = 0;
        self.is_invalid.clear();
        let totals = self.totals.numbers_mut();
        totals.fill(UNFIT);
        for row in fits {
            totals[row.at()] = 0;
        }
        for at in 0..self.parts.len() {
            self.add_part(at, raw(self.parts[at].at), fits);
        }
        self.totals.rebuild();
    }

    /// Adds one scorer's part to the totals of all rows that fit.
    fn add_part(&mut self, at: usize, raw: &[i64], fits: &NodeSet) {
        if self.parts[at].is_relative() {
            self.parts[at].find_max(raw, fits);
        }
        let ScorerPart { weight, normalize, max, .. } = self.parts[at];
        for row in fits {
            let score = normalized(normalize, raw[row.at()], max);
            self.totals.numbers_mut()[row.at()] += score.saturating_mul(weight);
            if !(0..=100).contains(&score) {
                self.mark_invalid(row, true);
            }
        }
    }

    fn write<'a>(&mut self, row: NodeIdx, fits: bool, raw: impl Fn(usize) -> &'a [i64]) {
        self.mark_invalid(row, false);
        let total = if fits { self.sum(row, raw) } else { UNFIT };
        self.totals.set(row.at(), total);
    }

    fn sum<'a>(&mut self, row: NodeIdx, raw: impl Fn(usize) -> &'a [i64]) -> i64 {
        let mut total = 0;
        let mut valid = true;
        for part in &self.parts {
            let score = part.normalized(raw(part.at)[row.at()]);
            valid &= (0..=100).contains(&score);
            total += score.saturating_mul(part.weight);
        }
        self.mark_invalid(row, !valid);
        total
    }

    fn mark_invalid(&mut self, row: NodeIdx, invalid: bool) {
        if self.is_invalid.contains(row) != invalid {
            self.is_invalid.set(row, invalid);
            if invalid { self.invalid += 1 } else { self.invalid -= 1 }
        }
    }

    /// Returns true if the sums are also correct for the subset `some` of the rows that fit, that is, if the divisors
    /// of raw scores stay the same without the other rows.
    pub(crate) fn hold_for(&self, some: &NodeSet) -> bool {
        self.parts.iter().all(|part| !part.is_relative() || part.max == 0 || part.at_max.intersects(some))
    }

    /// Copies the sums, one per row. Values for rows that do not fit are meaningless.
    pub(crate) fn copy_to(&self, sums: &mut Vec<i64>) {
        sums.clear();
        sums.extend_from_slice(self.totals.numbers());
    }

    /// Returns the row with the largest total; if several rows have it, the first one at or after `start` (wrapping
    /// around).
    pub(crate) fn best(&self, start: usize) -> Option<NodeIdx> {
        let (best, at) = self.totals.largest_from(start)?;
        (best != UNFIT).then(|| NodeIdx::from(at))
    }

    /// Approximate size in bytes.
    pub(crate) fn size(&self) -> usize {
        let parts = self.parts.iter().map(|part| size_of::<ScorerPart>() + 8 * part.at_max.words().len());
        size_of::<Self>() + self.totals.size() + 8 * self.is_invalid.words().len() + parts.sum::<usize>()
    }
}
