//! Sums by row.

use harbormaster_framework::prelude::*;

/// For each row, a sum over the row's contributors, such as its pods. A row is present as long as it has contributors,
/// even if the sum is zero.
///
/// Rows are kept in order, in blocks of neighbors, so that an insertion among 100,000 rows moves only a few of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowCounts(Vec<Block>);

/// The rows whose row number, divided by [`BLOCK`], is `number`. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Block {
    number: usize,
    entries: Vec<Entry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    row: NodeIdx,
    /// Number of contributors.
    parts: u32,
    sum: i64,
}

/// Number of rows per block: small enough for fast insertion, large enough for fast iteration.
const BLOCK: usize = 256;

impl RowCounts {
    /// Returns the rows in ascending order with their sums.
    pub fn iter(&self) -> impl Iterator<Item = (NodeIdx, i64)> + '_ {
        self.0.iter().flat_map(|block| &block.entries).map(|entry| (entry.row, entry.sum))
    }

    /// Returns the sum of a row, or zero if the row has no contributors.
    pub fn get(&self, row: NodeIdx) -> i64 {
        let Ok(at) = self.block_of(row) else { return 0 };
        let entries = &self.0[at].entries;
        entries.binary_search_by_key(&row, |e| e.row).map_or(0, |at| entries[at].sum)
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a contributor with this amount to the row.
    pub(super) fn add(&mut self, row: NodeIdx, amount: i64) {
        self.merge(Entry { row, parts: 1, sum: amount });
    }

    /// Removes a contributor with this amount.
    pub(super) fn subtract(&mut self, row: NodeIdx, amount: i64) {
        self.unmerge(Entry { row, parts: 1, sum: amount });
    }

    /// Adds all contributors of `other`.
    pub(super) fn add_all(&mut self, other: &RowCounts) {
        other.entries().for_each(|entry| self.merge(*entry));
    }

    /// Removes all contributors of `other`.
    pub(super) fn subtract_all(&mut self, other: &RowCounts) {
        other.entries().for_each(|entry| self.unmerge(*entry));
    }

    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.0.iter().flat_map(|block| &block.entries)
    }

    /// Returns the position of the row's block, or the position at which to insert it.
    fn block_of(&self, row: NodeIdx) -> Result<usize, usize> {
        self.0.binary_search_by_key(&(row.at() / BLOCK), |block| block.number)
    }

    fn merge(&mut self, new: Entry) {
        let at = self.block_of(new.row).unwrap_or_else(|gap| {
            // Most `RowCounts` have only a few rows.
            if self.0.is_empty() {
                self.0.reserve_exact(1);
            }
            let entries = Vec::with_capacity(1);
            self.0.insert(gap, Block { number: new.row.at() / BLOCK, entries });
            gap
        });
        let entries = &mut self.0[at].entries;
        match entries.binary_search_by_key(&new.row, |e| e.row) {
            Ok(at) => {
                entries[at].parts += new.parts;
                entries[at].sum += new.sum;
            }
            Err(gap) => entries.insert(gap, new),
        }
    }

    fn unmerge(&mut self, old: Entry) {
        let Ok(block) = self.block_of(old.row) else { return };
        let entries = &mut self.0[block].entries;
        let Ok(at) = entries.binary_search_by_key(&old.row, |e| e.row) else { return };
        let entry = &mut entries[at];
        entry.parts = entry.parts.saturating_sub(old.parts);
        entry.sum -= old.sum;
        if entry.parts == 0 {
            entries.remove(at);
        }
        if entries.is_empty() {
            self.0.remove(block);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use harbormaster_testkit::random::Dice;

    use super::*;

    #[test]
    fn sums_equal_those_of_a_sorted_map_after_any_additions_and_removals() {
        let mut dice = Dice::new(1);
        let (mut counts, mut expected) = (RowCounts::default(), BTreeMap::<usize, Vec<i64>>::new());
        for _ in 0..20_000 {
            let row = dice.below(4 * BLOCK as u64) as usize;
            let parts = expected.entry(row).or_default();
            if dice.one_in(2) || parts.is_empty() {
                let amount = dice.below(3) as i64 - 1;
                parts.push(amount);
                counts.add(row.into(), amount);
            } else if let Some(amount) = parts.pop() {
                counts.subtract(row.into(), amount);
            }
            expected.retain(|_, parts| !parts.is_empty());
        }
        let sums = || expected.iter().map(|(row, parts)| (NodeIdx::from(*row), parts.iter().sum::<i64>()));
        assert!(counts.iter().eq(sums()));
        assert!(
            (0..5 * BLOCK).map(NodeIdx::from).all(|row| {
                counts.get(row) == expected.get(&row.at()).map_or(0, |parts| parts.iter().sum())
            })
        );
        let copy = counts.clone();
        counts.subtract_all(&copy);
        assert!(counts.is_empty());
    }
}
