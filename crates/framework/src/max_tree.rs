//! The largest of many numbers, kept up to date while the numbers change one by one.

use crate::nodeset::{NodeIdx, NodeSet};

/// Number of neighbors that share one maximum in the next level. Divides the 64 rows of a word of a [`NodeSet`].
const FAN: usize = 16;

/// Numbers and their maxima: the maximum of every [`FAN`] neighbors, the maximum of every [`FAN`] of these maxima, and
/// so on, up to a single group.
///
/// Changing a number, finding the largest number and finding its position each visit a few neighbors per level.
///
/// Invariant: after [`MaxTree::rebuild`] and [`MaxTree::set`], every maximum is that of the numbers below it.
#[derive(Debug)]
pub(crate) struct MaxTree {
    /// The numbers first, then their maxima; the last level has at most [`FAN`] entries.
    levels: Vec<Vec<i64>>,
}

impl MaxTree {
    /// Creates `len` numbers with the same value.
    pub(crate) fn new(len: usize, number: i64) -> Self {
        let mut levels = vec![vec![number; len]];
        while let Some(below) = levels.last().map(Vec::len).filter(|below| *below > FAN) {
            levels.push(vec![number; below.div_ceil(FAN)]);
        }
        Self { levels }
    }

    /// The numbers.
    pub(crate) fn numbers(&self) -> &[i64] {
        &self.levels[0]
    }

    /// The numbers, for changing many of them together. Call [`Self::rebuild`] afterwards.
    pub(crate) fn numbers_mut(&mut self) -> &mut [i64] {
        &mut self.levels[0]
    }

    /// Recomputes all maxima.
    pub(crate) fn rebuild(&mut self) {
        for level in 1..self.levels.len() {
            let (below, above) = self.levels.split_at_mut(level);
            for (maximum, group) in above[0].iter_mut().zip(below[level - 1].chunks(FAN)) {
                *maximum = largest(group);
            }
        }
    }

    /// Recomputes the maxima of some numbers that have changed.
    pub(crate) fn refresh(&mut self, changed: &NodeSet) {
        let mut changed = changed.clone();
        for level in 1..self.levels.len() {
            let (below, above) = self.levels.split_at_mut(level);
            let mut groups = NodeSet::empty(above[0].len());
            for group in groups_of(&changed) {
                let numbers = &below[level - 1][group * FAN..];
                above[0][group] = largest(&numbers[..FAN.min(numbers.len())]);
                groups.insert(NodeIdx::from(group));
            }
            changed = groups;
        }
    }

    /// Changes one number.
    pub(crate) fn set(&mut self, at: usize, number: i64) {
        self.levels[0][at] = number;
        let mut at = at;
        for level in 1..self.levels.len() {
            at /= FAN;
            let below = &self.levels[level - 1];
            let maximum = largest(&below[at * FAN..below.len().min((at + 1) * FAN)]);
            if std::mem::replace(&mut self.levels[level][at], maximum) == maximum {
                return;
            }
        }
    }

    /// Returns the largest number and its first position at or after `start` (wrapping around); `None` if there are no
    /// numbers.
    pub(crate) fn largest_from(&self, start: usize) -> Option<(i64, usize)> {
        let best = self.levels.last()?.iter().copied().max()?;
        let start = if start < self.numbers().len() { start } else { 0 };
        let at = self.first_from(best, start).or_else(|| self.first_from(best, 0))?;
        Some((best, at))
    }

    /// Returns the first position of `best`, the largest number, at or after `start`.
    fn first_from(&self, best: i64, start: usize) -> Option<usize> {
        let (mut level, mut at) = (0, start);
        // Go up to the first group of neighbors that contains `best`.
        let mut found = loop {
            let numbers = &self.levels[level];
            let end = numbers.len().min((at / FAN + 1) * FAN);
            if let Some(found) = position(numbers, at..end, best) {
                break found;
            }
            (level, at) = (level + 1, at / FAN + 1);
            if level == self.levels.len() || at >= self.levels[level].len() {
                return None;
            }
        };
        // Go down again.
        while level > 0 {
            level -= 1;
            let numbers = &self.levels[level];
            let group = found * FAN..numbers.len().min((found + 1) * FAN);
            found = position(numbers, group, best)?;
        }
        Some(found)
    }

    /// Approximate size in bytes.
    pub(crate) fn size(&self) -> usize {
        8 * self.levels.iter().map(Vec::len).sum::<usize>()
    }
}

/// Returns the groups of neighbors that contain a member of `numbers`, in ascending order.
fn groups_of(numbers: &NodeSet) -> impl Iterator<Item = usize> {
    let per_word = 64 / FAN;
    numbers.words().iter().enumerate().flat_map(move |(at, word)| {
        (0..per_word)
            .filter(move |part| word >> (FAN * part) & ((1 << FAN) - 1) != 0)
            .map(move |part| per_word * at + part)
    })
}

fn largest(numbers: &[i64]) -> i64 {
    // Four maxima at a time do not wait for each other.
    let (fours, rest) = numbers.as_chunks();
    let pairwise = |known: [i64; 4], more: &[i64; 4]| std::array::from_fn(|at| known[at].max(more[at]));
    let largest = fours.iter().fold([i64::MIN; 4], pairwise);
    largest.iter().chain(rest).copied().fold(i64::MIN, i64::max)
}

fn position(numbers: &[i64], range: std::ops::Range<usize>, number: i64) -> Option<usize> {
    let from = range.start;
    numbers.get(range)?.iter().position(|n| *n == number).map(|at| from + at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn naive(numbers: &[i64], start: usize) -> Option<(i64, usize)> {
        let best = *numbers.iter().max()?;
        let start = if start < numbers.len() { start } else { 0 };
        let places = (start..numbers.len()).chain(0..start);
        places.into_iter().find(|at| numbers[*at] == best).map(|at| (best, at))
    }

    proptest! {
        #[test]
        fn the_largest_number_matches_a_linear_search(
            len in prop_oneof![0usize..40, 250usize..600],
            changes in prop::collection::vec((any::<prop::sample::Index>(), -2i64..3, 0usize..700), 0..60),
        ) {
            let mut best = MaxTree::new(len, 0);
            let mut numbers = vec![0; len];
            for (at, number, start) in changes {
                if len > 0 {
                    let at = at.index(len);
                    numbers[at] = number;
                    best.set(at, number);
                }
                prop_assert_eq!(best.largest_from(start), naive(&numbers, start));
            }
            let third: NodeSet = (0..len).step_by(3).map(NodeIdx::from).collect();
            third.iter().for_each(|at| (best.numbers_mut()[at.at()], numbers[at.at()]) = (-1, -1));
            best.refresh(&third);
            prop_assert_eq!(best.largest_from(0), naive(&numbers, 0));
            best.numbers_mut().reverse();
            numbers.reverse();
            best.rebuild();
            prop_assert_eq!(best.largest_from(len / 2), naive(&numbers, len / 2));
        }
    }
}
