//! Weighted score sums per row, updated row by row, with quick access to the best row.

use crate::{
    max_tree::MaxTree,
    nodeset::{NodeIdx, NodeSet},
    normalize::{Extremes, is_between, is_unrated, normalized},
    outcome::Normalize,
    profile::Scorer,
    row_log::ChangedRows,
};

/// Marks a row that does not fit.
const UNFIT: i64 = i64::MIN;

/// Sums of weighted, normalized scores.
#[derive(Debug)]
pub(crate) struct Totals {
    parts: Vec<ScorerPart>,
    totals: MaxTree,
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
    /// Extremes of the raw scores of the rows that fit, on which normalized scores depend.
    extremes: Extremes,
    /// The rows with the largest raw score.
    largest: Holders,
    /// The rows with the smallest raw score; used only if normalized scores depend on it.
    smallest: Holders,
    /// The rows that cannot be rated.
    unrated: Holders,
}

impl ScorerPart {
    fn new(at: usize, scorer: &Scorer) -> Self {
        let Scorer { weight, normalize, .. } = *scorer;
        let extremes = Extremes::none(normalize);
        let [largest, smallest, unrated] = Default::default();
        Self { at, weight, normalize, extremes, largest, smallest, unrated }
    }

    fn normalized(&self, raw: i64) -> i64 {
        normalized(self.normalize, raw, self.extremes)
    }

    fn is_relative(&self) -> bool {
        self.normalize != Normalize::AsIs
    }

    /// Returns true if it matters which rows have an extreme raw score.
    fn watches_rows(&self) -> bool {
        self.holders().into_iter().any(|holders| holders.matter)
    }

    /// Returns the normalized score if it is the same for all rows.
    fn equal_score(&self) -> Option<i64> {
        let is_equal = self.normalize == Normalize::Proportional { reverse: true } && self.extremes.max == 0;
        is_equal.then_some(100)
    }

    fn find_extremes(&mut self, raw: &[i64], fits: &NodeSet) {
        self.extremes = Extremes::of(self.normalize, fits.runs().flat_map(|run| raw[run].iter().copied()));
        let Extremes { min, max, are_all_rated } = self.extremes;
        let is_between = is_between(self.normalize) && min <= max;
        // A proportional score is divided by the largest raw score, which is zero even if all raw scores are negative.
        let rows = |value: i64| fits.iter().filter(move |row| raw[row.at()] == value);
        self.largest.watch((is_between || max > 0).then(|| rows(max)));
        self.smallest.watch(is_between.then(|| rows(min)));
        let normalize = self.normalize;
        let unrated = || fits.iter().filter(move |row| is_unrated(normalize, raw[row.at()]));
        self.unrated.watch((!are_all_rated).then(unrated));
    }

    fn leave(&mut self, row: NodeIdx) {
        self.largest.remove(row);
        self.smallest.remove(row);
        self.unrated.remove(row);
    }

    /// Adds a row. Returns true if the extremes are unchanged.
    fn enter(&mut self, row: NodeIdx, raw: i64) -> bool {
        let Extremes { min, max, are_all_rated } = self.extremes;
        if is_unrated(self.normalize, raw) {
            self.unrated.insert(row);
            return !are_all_rated;
        }
        if raw == max {
            self.largest.insert(row);
        }
        if raw == min {
            self.smallest.insert(row);
        }
        (min..=max).contains(&raw)
    }

    /// Returns true if nothing about the rows is kept but the extremes.
    fn needs_only_extremes(&self) -> bool {
        !self.watches_rows() && !matches!(self.normalize, Normalize::Formula(_))
    }

    /// Returns true if the raw scores of `rows`, those that fit, are between the extremes.
    fn covers(&self, rows: &NodeSet, fits: &NodeSet, raw: &[i64]) -> bool {
        let Extremes { min, max, .. } = self.extremes;
        let is_inside = |raw: &i64| (min..=max).contains(raw);
        let mut entering = rows.clone();
        entering.intersect(fits);
        entering.runs().all(|run| raw[run].iter().all(is_inside))
    }

    /// Returns true if no row has an extreme raw score any more.
    fn is_outdated(&self) -> bool {
        self.is_relative() && self.holders().into_iter().any(Holders::are_gone)
    }

    /// Returns true if the extremes are the same for the subset `some` of the rows that fit.
    fn holds_for(&self, some: &NodeSet) -> bool {
        !self.is_relative() || self.holders().into_iter().all(|holders| holders.are_in(some))
    }

    fn holders(&self) -> [&Holders; 3] {
        [&self.largest, &self.smallest, &self.unrated]
    }
}

/// The rows that have an extreme raw score.
#[derive(Debug, Default)]
struct Holders {
    rows: NodeSet,
    count: usize,
    /// False if it does not matter which rows have the score.
    matter: bool,
}

impl Holders {
    /// Replaces the rows; `None` if they do not matter.
    fn watch(&mut self, rows: Option<impl Iterator<Item = NodeIdx>>) {
        self.rows.clear();
        self.matter = rows.is_some();
        rows.into_iter().flatten().for_each(|row| self.rows.insert(row));
        self.count = self.rows.len();
    }

    fn insert(&mut self, row: NodeIdx) {
        if self.matter && !self.rows.contains(row) {
            self.rows.insert(row);
            self.count += 1;
        }
    }

    fn remove(&mut self, row: NodeIdx) {
        if self.matter && self.rows.contains(row) {
            self.rows.remove(row);
            self.count -= 1;
        }
    }

    fn are_gone(&self) -> bool {
        self.matter && self.count == 0
    }

    fn are_in(&self, some: &NodeSet) -> bool {
        !self.matter || self.rows.intersects(some)
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
        let mut totals = Self {
            parts: parts.map(|(at, scorer)| ScorerPart::new(at, scorer)).collect(),
            totals: MaxTree::new(rows, UNFIT),
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

    /// Removes rows, before their scores are updated.
    pub(crate) fn leave(&mut self, changed: ChangedRows<'_>) {
        for part in self.parts.iter_mut().filter(|part| part.watches_rows()) {
            changed.for_each(|row| part.leave(row));
        }
    }

    /// Adds changed rows, of which those in `fits` fit. `raw` returns their new scores. Recomputes all totals if an
    /// extreme raw score of a scorer has changed.
    pub(crate) fn enter<'a>(
        &mut self,
        changed: ChangedRows<'_>,
        raw: impl Fn(usize) -> &'a [i64],
        fits: &NodeSet,
    ) {
        let mut is_stale = false;
        for part in self.parts.iter_mut().filter(|part| part.is_relative()) {
            let raw = raw(part.at);
            match changed {
                ChangedRows::Many(rows) if part.needs_only_extremes() => {
                    is_stale |= !part.covers(rows, fits, raw);
                }
                _ => {
                    changed.for_each(|row| is_stale |= fits.contains(row) && !part.enter(row, raw[row.at()]));
                }
            }
        }
        if is_stale || self.parts.iter().any(ScorerPart::is_outdated) {
            return self.settle(raw, fits);
        }
        match changed {
            ChangedRows::Few(rows) => rows.iter().for_each(|row| self.write(*row, fits.contains(*row), &raw)),
            ChangedRows::Many(rows) => self.write_all(rows, fits, raw),
        }
    }

    /// Recomputes all totals.
    fn settle<'a>(&mut self, raw: impl Fn(usize) -> &'a [i64], fits: &NodeSet) {
        self.invalid = 0;
        self.is_invalid.clear();
        self.totals.numbers_mut().fill(UNFIT);
        for part in self.parts.iter_mut().filter(|part| part.is_relative()) {
            part.find_extremes(raw(part.at), fits);
        }
        self.add_up(fits, raw);
        self.totals.rebuild();
    }

    /// Computes the totals of `rows`, which fit.
    fn add_up<'a>(&mut self, rows: &NodeSet, raw: impl Fn(usize) -> &'a [i64]) {
        let equal =
            self.parts.iter().filter_map(|part| Some(part.equal_score()?.saturating_mul(part.weight))).sum();
        let totals = self.totals.numbers_mut();
        rows.runs().for_each(|run| totals[run].fill(equal));
        for at in 0..self.parts.len() {
            let part = &self.parts[at];
            if part.equal_score().is_some() {
                continue;
            }
            let ScorerPart { at, weight, normalize, extremes, .. } = *part;
            let (totals, raw) = (self.totals.numbers_mut(), raw(at));
            let are_valid = match normalize {
                Normalize::AsIs => add_scores(totals, rows, raw, weight, |raw| raw),
                how => add_scores(totals, rows, raw, weight, |raw| normalized(how, raw, extremes)),
            };
            if !are_valid {
                let is_valid = |row: NodeIdx| is_valid(normalized(normalize, raw[row.at()], extremes));
                rows.iter().filter(|row| !is_valid(*row)).for_each(|row| self.mark_invalid(row, true));
            }
        }
    }

    fn write_all<'a>(&mut self, changed: &NodeSet, fits: &NodeSet, raw: impl Fn(usize) -> &'a [i64]) {
        if self.invalid > 0 {
            changed.iter().for_each(|row| self.mark_invalid(row, false));
        }
        let totals = self.totals.numbers_mut();
        changed.runs().for_each(|run| totals[run].fill(UNFIT));
        let mut fitting = changed.clone();
        fitting.intersect(fits);
        self.add_up(&fitting, raw);
        self.totals.refresh(changed);
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
            valid &= is_valid(score);
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

    /// Returns true if the sums are also correct for the subset `some` of the rows that fit, that is, if the extreme
    /// raw scores stay the same without the other rows.
    pub(crate) fn hold_for(&self, some: &NodeSet) -> bool {
        self.parts.iter().all(|part| part.holds_for(some))
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
        let words = |part: &ScorerPart| {
            part.holders().into_iter().map(|holders| holders.rows.words().len()).sum::<usize>()
        };
        let parts = self.parts.iter().map(|part| size_of::<ScorerPart>() + 8 * words(part));
        size_of::<Self>() + self.totals.size() + 8 * self.is_invalid.words().len() + parts.sum::<usize>()
    }
}

/// Adds weighted scores of `rows` to their totals. Returns false if a score is invalid; its total then means nothing.
fn add_scores(
    totals: &mut [i64],
    rows: &NodeSet,
    raw: &[i64],
    weight: i64,
    normalized: impl Fn(i64) -> i64,
) -> bool {
    let mut are_valid = true;
    for run in rows.runs() {
        for (total, raw) in totals[run.clone()].iter_mut().zip(&raw[run]) {
            let score = normalized(*raw);
            are_valid &= is_valid(score);
            *total = total.wrapping_add(score.wrapping_mul(weight));
        }
    }
    are_valid
}

fn is_valid(score: i64) -> bool {
    (0..=100).contains(&score)
}
