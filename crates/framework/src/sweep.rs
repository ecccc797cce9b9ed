//! Filtering a batch of rows, and the resulting verdicts.

use rustc_hash::FxHashMap;

use crate::{
    nodeset::{NodeIdx, NodeSet},
    outcome::Reject,
};

/// A position in a profile's list of plugins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PluginIdx(pub u16);

impl PluginIdx {
    /// The position as an index.
    pub fn at(self) -> usize {
        self.0 as usize
    }
}

/// Rejections by row: the plugin and its reasons. Equal rejections are stored once.
#[derive(Clone, Debug)]
pub struct Verdicts {
    /// The code of each row: 0 if the row fits, otherwise the position of its rejection in `distinct` plus one. Rows
    /// after the last rejected row have no entry.
    by_row: Vec<u32>,
    distinct: Vec<(PluginIdx, Reject)>,
    /// Code of each rejection; empty while there are only a few rejections.
    code_by_rejection: FxHashMap<(PluginIdx, Reject), u32>,
    compact_at: usize,
}

/// Maximum number of distinct rejections that are searched linearly.
const MAX_LINEAR_SEARCH: usize = 8;
/// Minimum number of distinct rejections for compaction.
const MIN_FOR_COMPACTION: usize = 256;

impl Default for Verdicts {
    fn default() -> Self {
        Self {
            by_row: Vec::new(),
            distinct: Vec::new(),
            code_by_rejection: FxHashMap::default(),
            compact_at: MIN_FOR_COMPACTION,
        }
    }
}

impl Verdicts {
    /// Clears all rows and rejections and keeps the allocations.
    pub fn reset(&mut self) {
        self.by_row.clear();
        self.forget_rejections();
    }

    fn forget_rejections(&mut self) {
        self.distinct.clear();
        self.code_by_rejection.clear();
    }

    /// Returns true if no rejection was recorded.
    pub fn is_empty(&self) -> bool {
        self.distinct.is_empty()
    }

    /// Returns the rejection of a row; `None` if it fits.
    pub fn get(&self, row: NodeIdx) -> Option<&(PluginIdx, Reject)> {
        self.distinct.get(self.code(row).checked_sub(1)?)
    }

    /// Returns true if `plugin` rejected the row.
    pub fn is_by(&self, row: NodeIdx, plugin: PluginIdx) -> bool {
        self.get(row).is_some_and(|(by, _)| *by == plugin)
    }

    /// Records a rejection of `row`.
    pub fn set(&mut self, row: NodeIdx, plugin: PluginIdx, reject: Reject) {
        let code = self.code_of(plugin, reject);
        self.write(row, code);
    }

    fn write(&mut self, row: NodeIdx, code: u32) {
        if self.by_row.len() <= row.at() {
            self.by_row.resize(row.at() + 1, 0);
        }
        self.by_row[row.at()] = code;
    }

    fn code(&self, row: NodeIdx) -> usize {
        self.by_row.get(row.at()).map_or(0, |code| *code as usize)
    }

    /// Copies the entries of `rows` from `others`.
    pub fn copy_rows(&mut self, others: &Verdicts, rows: impl Iterator<Item = NodeIdx>) {
        let mut codes = vec![0; others.distinct.len() + 1];
        for row in rows {
            let other_code = others.code(row);
            if other_code != 0 && codes[other_code] == 0 {
                let (plugin, reject) = &others.distinct[other_code - 1];
                codes[other_code] = self.code_of(*plugin, reject.clone());
            }
            self.write(row, codes[other_code]);
        }
    }

    /// Counts the rejections of `rows`. Returns each distinct rejection with its number of rows, in the order in which
    /// the rejections were first recorded; [`Self::compact`] may change this order.
    pub fn count(&self, rows: impl Iterator<Item = NodeIdx>) -> Vec<(&(PluginIdx, Reject), usize)> {
        let mut counts = vec![0usize; self.distinct.len() + 1];
        for row in rows {
            counts[self.code(row)] += 1;
        }
        self.distinct.iter().zip(&counts[1..]).filter(|(_, n)| **n > 0).map(|(why, n)| (why, *n)).collect()
    }

    /// Drops rejections that no row has anymore. Does nothing until there are many rejections, and twice as many as the
    /// last compaction kept, so that the cost per rejection is small.
    pub fn compact(&mut self) {
        if self.distinct.len() < self.compact_at {
            return;
        }
        let old = std::mem::take(&mut self.distinct);
        self.code_by_rejection.clear();
        let mut codes = vec![0; old.len() + 1];
        for at in 0..self.by_row.len() {
            let code = self.by_row[at] as usize;
            if code != 0 && codes[code] == 0 {
                let (plugin, reject) = old[code - 1].clone();
                codes[code] = self.code_of(plugin, reject);
            }
            self.by_row[at] = codes[code];
        }
        self.compact_at = MIN_FOR_COMPACTION.max(2 * self.distinct.len());
    }

    fn code_of(&mut self, plugin: PluginIdx, reject: Reject) -> u32 {
        if self.distinct.len() <= MAX_LINEAR_SEARCH {
            // Search from the end: neighboring rows usually have the same rejection.
            if let Some(at) = self.distinct.iter().rposition(|(p, r)| *p == plugin && *r == reject) {
                return at as u32 + 1;
            }
        } else if let Some(code) = self.code_by_rejection.get(&(plugin, reject.clone())) {
            return *code;
        }
        self.distinct.push((plugin, reject));
        let code = self.distinct.len() as u32;
        if self.distinct.len() == MAX_LINEAR_SEARCH + 1 {
            let all = self.distinct.iter().cloned().zip(1..);
            self.code_by_rejection.extend(all);
        } else if self.distinct.len() > MAX_LINEAR_SEARCH {
            self.code_by_rejection.extend(self.distinct.last().cloned().map(|last| (last, code)));
        }
        code
    }

    /// Approximate size in bytes.
    pub(crate) fn size(&self) -> usize {
        4 * self.by_row.capacity() + 128 * self.distinct.len()
    }
}

/// One plugin's pass over rows that still fit.
///
/// A batch may be split, so the rows may be only part of the node table. Other rows are never touched.
pub struct Sweep<'a> {
    plugin: PluginIdx,
    rows: &'a NodeSet,
    fits: &'a mut NodeSet,
    verdicts: &'a mut Verdicts,
}

impl<'a> Sweep<'a> {
    /// Creates a pass of `plugin` over `rows`. Rejected rows leave `fits` and enter `verdicts`.
    pub fn new(
        plugin: PluginIdx,
        rows: &'a NodeSet,
        fits: &'a mut NodeSet,
        verdicts: &'a mut Verdicts,
    ) -> Self {
        Self { plugin, rows, fits, verdicts }
    }

    /// The rows to evaluate.
    pub fn rows(&self) -> &'a NodeSet {
        self.rows
    }

    /// Rejects a row. Does nothing if the row is not in [`Self::rows`].
    pub fn reject(&mut self, row: NodeIdx, reject: Reject) {
        if self.rows.contains(row) {
            self.fits.remove(row);
            self.verdicts.set(row, self.plugin, reject);
        }
    }

    /// Rejects every row of `rows` with the same reason. Rows that are not in [`Self::rows`] are ignored.
    pub fn reject_each(&mut self, rows: impl Iterator<Item = NodeIdx>, reject: &Reject) {
        let mut code = None;
        for row in rows.filter(|row| self.rows.contains(*row)) {
            let code = *code.get_or_insert_with(|| self.verdicts.code_of(self.plugin, reject.clone()));
            self.fits.remove(row);
            self.verdicts.write(row, code);
        }
    }

    /// Rejects, with the same reason, every row of [`Self::rows`] that is not in `only`.
    pub fn reject_all_but(&mut self, only: &NodeSet, reject: &Reject) {
        let mut out = self.rows.clone();
        out.subtract(only);
        if out.is_empty() {
            return;
        }
        self.fits.subtract(&out);
        let code = self.verdicts.code_of(self.plugin, reject.clone());
        for row in &out {
            self.verdicts.write(row, code);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(rows: &[u32]) -> NodeSet {
        rows.iter().copied().map(NodeIdx).collect()
    }

    #[test]
    fn only_rows_of_the_batch_are_rejected() {
        let (mut fits, mut verdicts) = (NodeSet::all(9), Verdicts::default());
        let rows = set(&[2, 3, 5]);
        let mut part = Sweep::new(PluginIdx(7), &rows, &mut fits, &mut verdicts);
        part.reject(NodeIdx(1), Reject::evictable("one"));
        part.reject(NodeIdx(2), Reject::evictable("one"));
        part.reject_each([3, 4, 200].map(NodeIdx).into_iter(), &Reject::evictable("many"));
        assert_eq!(fits, set(&[0, 1, 4, 5, 6, 7, 8]));
        let rejected = (0..9).filter_map(|row| Some((row, verdicts.get(row.into())?.1.message())));
        assert_eq!(rejected.collect::<Vec<_>>(), [(2, "one".to_owned()), (3, "many".to_owned())]);
    }

    #[test]
    fn all_but_some_rows_of_the_batch_are_rejected() {
        let (mut fits, mut verdicts) = (NodeSet::all(9), Verdicts::default());
        let rows = set(&[2, 3, 5]);
        let mut part = Sweep::new(PluginIdx(7), &rows, &mut fits, &mut verdicts);
        part.reject_all_but(&set(&[1, 3, 200]), &Reject::evictable("one"));
        assert_eq!(fits, set(&[0, 1, 3, 4, 6, 7, 8]));
        let rejected = (0..9).filter(|row| verdicts.get(NodeIdx(*row)).is_some());
        assert_eq!(rejected.collect::<Vec<_>>(), [2, 5]);
    }
}
