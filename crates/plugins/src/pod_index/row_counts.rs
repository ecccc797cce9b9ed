//! A number per row, for the rows that have one.

use harbormaster_framework::prelude::*;

/// A sum per row over those who add to it. A row is listed while somebody does, even if the sum is zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowCounts(Vec<Entry>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    row: NodeIdx,
    /// How many add to the sum.
    parts: u32,
    sum: i64,
}

impl RowCounts {
    /// The rows in ascending order with their sums.
    pub fn iter(&self) -> impl Iterator<Item = (NodeIdx, i64)> + '_ {
        self.0.iter().map(|entry| (entry.row, entry.sum))
    }

    /// The sum of a row.
    pub fn get(&self, row: NodeIdx) -> i64 {
        self.0.binary_search_by_key(&row, |e| e.row).map_or(0, |at| self.0[at].sum)
    }

    /// Whether no row is listed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Somebody more adds `amount` to the sum of `row`.
    pub(super) fn add(&mut self, row: NodeIdx, amount: i64) {
        self.merge(Entry { row, parts: 1, sum: amount });
    }

    /// Somebody who added `amount` no longer does.
    pub(super) fn subtract(&mut self, row: NodeIdx, amount: i64) {
        self.unmerge(Entry { row, parts: 1, sum: amount });
    }

    /// Takes in all of `other`.
    pub(super) fn add_all(&mut self, other: &RowCounts) {
        other.0.iter().for_each(|entry| self.merge(*entry));
    }

    /// Takes out all of `other`.
    pub(super) fn subtract_all(&mut self, other: &RowCounts) {
        other.0.iter().for_each(|entry| self.unmerge(*entry));
    }

    fn merge(&mut self, new: Entry) {
        match self.0.binary_search_by_key(&new.row, |e| e.row) {
            Ok(at) => {
                self.0[at].parts += new.parts;
                self.0[at].sum += new.sum;
            }
            Err(at) => self.0.insert(at, new),
        }
    }

    fn unmerge(&mut self, old: Entry) {
        let Ok(at) = self.0.binary_search_by_key(&old.row, |e| e.row) else { return };
        let entry = &mut self.0[at];
        entry.parts = entry.parts.saturating_sub(old.parts);
        entry.sum -= old.sum;
        if entry.parts == 0 {
            self.0.remove(at);
        }
    }
}
