//! Weighted score sums per row, kept up to date row by row, with the best one at hand.

use crate::{
    best::Best,
    nodeset::{NodeIdx, NodeSet},
    normalize::normalized,
    outcome::Normalize,
    profile::Scorer,
};

/// Marks a row that does not fit.
const UNFIT: i64 = i64::MIN;

/// Sums of weighted, normalised scores.
#[derive(Debug)]
pub(crate) struct Totals {
    parts: Vec<Part>,
    totals: Best,
    stale: bool,
    invalid: usize,
    is_invalid: NodeSet,
}

/// One scorer's part in the totals.
#[derive(Debug)]
struct Part {
    /// Position among the scorers.
    at: usize,
    weight: i64,
    normalize: Normalize,
    /// The largest raw score among rows that fit, at least zero, which scores are divided by.
    max: i64,
    /// The rows that have it, unless it is zero.
    at_max: NodeSet,
    how_many: usize,
}

impl Part {
    fn normalized(&self, raw: i64) -> i64 {
        normalized(self.normalize, raw, self.max)
    }

    fn is_relative(&self) -> bool {
        self.normalize != Normalize::AsIs
    }

    fn find_max(&mut self, raw: &[i64], fits: &NodeSet) {
        self.max = fits.iter().map(|row| raw[row.at()]).max().unwrap_or(0).max(0);
        self.at_max.clear();
        self.how_many = 0;
        if self.max > 0 {
            fits.iter().filter(|row| raw[row.at()] == self.max).for_each(|row| self.at_max.insert(row));
            self.how_many = self.at_max.len();
        }
    }

    fn leave(&mut self, row: NodeIdx) {
        if self.max > 0 && self.at_max.contains(row) {
            self.at_max.remove(row);
            self.how_many -= 1;
        }
    }

    /// Whether the largest score stays what it was.
    fn enter(&mut self, row: NodeIdx, raw: i64) -> bool {
        if self.max > 0 && raw == self.max && !self.at_max.contains(row) {
            self.at_max.insert(row);
            self.how_many += 1;
        }
        raw <= self.max
    }
}

impl Totals {
    /// Sums of those of `scorers` that have raw scores (`raw` of the scorer's position is not empty).
    pub(crate) fn new<'a>(
        scorers: &[Scorer],
        raw: impl Fn(usize) -> &'a [i64],
        fits: &NodeSet,
        rows: usize,
    ) -> Self {
        let parts = scorers.iter().enumerate().filter(|(at, _)| !raw(*at).is_empty());
        let part = |(at, s): (usize, &Scorer)| Part {
            at,
            weight: s.weight,
            normalize: s.normalize,
            max: 0,
            at_max: NodeSet::default(),
            how_many: 0,
        };
        let mut totals = Self {
            parts: parts.map(part).collect(),
            totals: Best::new(rows, UNFIT),
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

    /// A row that fits is about to change.
    pub(crate) fn leave(&mut self, row: NodeIdx) {
        self.parts.iter_mut().filter(|part| part.is_relative()).for_each(|part| part.leave(row));
    }

    /// The row has changed: `raw` holds its new scores if it fits.
    pub(crate) fn enter<'a>(&mut self, row: NodeIdx, fits: bool, raw: impl Fn(usize) -> &'a [i64]) {
        for part in self.parts.iter_mut().filter(|part| fits && part.is_relative()) {
            self.stale |= !part.enter(row, raw(part.at)[row.at()]);
        }
        if !self.stale {
            self.write(row, fits, raw);
        }
    }

    /// Ends a series of updates.
    pub(crate) fn settle<'a>(&mut self, raw: impl Fn(usize) -> &'a [i64], fits: &NodeSet) {
        let max_is_gone = |part: &Part| part.is_relative() && part.max > 0 && part.how_many == 0;
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
        let Part { weight, normalize, max, .. } = self.parts[at];
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

    /// Whether the sums are also those of `some` of the rows that fit: whether what raw scores are divided by stays the
    /// same without the others.
    pub(crate) fn hold_for(&self, some: &NodeSet) -> bool {
        self.parts.iter().all(|part| !part.is_relative() || part.max == 0 || part.at_max.intersects(some))
    }

    /// Copies the sums, one per row; what rows hold that do not fit means nothing.
    pub(crate) fn copy_to(&self, sums: &mut Vec<i64>) {
        sums.clear();
        sums.extend_from_slice(self.totals.numbers());
    }

    /// The row with the largest total, the first one at or after `start` (going round) if several have it.
    pub(crate) fn best(&self, start: usize) -> Option<NodeIdx> {
        let (best, at) = self.totals.largest_from(start)?;
        (best != UNFIT).then(|| NodeIdx::from(at))
    }

    /// About how many bytes it holds.
    pub(crate) fn size(&self) -> usize {
        let parts = self.parts.iter().map(|part| size_of::<Part>() + 8 * part.at_max.words().len());
        size_of::<Self>() + self.totals.size() + 8 * self.is_invalid.words().len() + parts.sum::<usize>()
    }
}
