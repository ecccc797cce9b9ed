//! Filtering many rows at once, and the verdicts that come of it.

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

/// Why rows were rejected: which plugin, and with which reasons. Equal rejections are stored once.
#[derive(Clone, Debug, Default)]
pub struct Verdicts {
    /// Per row: 0 fits, otherwise one more than the position in `distinct`.
    by_row: Vec<u32>,
    distinct: Vec<(PluginIdx, Reject)>,
}

impl Verdicts {
    /// Makes room; new rows fit.
    pub fn resize(&mut self, rows: usize) {
        self.by_row.resize(rows, 0);
    }

    /// Forgets everything and every row, keeping the allocations.
    pub fn reset(&mut self) {
        self.by_row.clear();
        self.distinct.clear();
    }

    /// Whether no rejection was recorded.
    pub fn is_empty(&self) -> bool {
        self.distinct.is_empty()
    }

    /// Why that row was rejected; `None` if it fits.
    pub fn get(&self, row: NodeIdx) -> Option<&(PluginIdx, Reject)> {
        let code = *self.by_row.get(row.at())?;
        self.distinct.get((code as usize).checked_sub(1)?)
    }

    /// Records a rejection of `row`.
    pub fn set(&mut self, row: NodeIdx, plugin: PluginIdx, reject: Reject) {
        let code = self.code_of(plugin, reject);
        self.by_row[row.at()] = code;
    }

    /// The row fits.
    pub fn unset(&mut self, row: NodeIdx) {
        self.by_row[row.at()] = 0;
    }

    /// The plugins that rejected rows, perhaps repeated; some of their rejections may be of the past.
    pub fn plugins(&self) -> impl Iterator<Item = PluginIdx> {
        self.distinct.iter().map(|(plugin, _)| *plugin)
    }

    /// Counts the rejections of `rows`: each distinct one with its number of rows, in the order first seen.
    pub fn count(&self, rows: impl Iterator<Item = NodeIdx>) -> Vec<(&(PluginIdx, Reject), usize)> {
        let mut counts = vec![0usize; self.distinct.len() + 1];
        for row in rows {
            counts[self.by_row[row.at()] as usize] += 1;
        }
        self.distinct.iter().zip(&counts[1..]).filter(|(_, n)| **n > 0).map(|(why, n)| (why, *n)).collect()
    }

    /// Drops rejections that no row has any more, when they pile up.
    pub fn compact(&mut self) {
        if self.distinct.len() < 256 {
            return;
        }
        let old = std::mem::take(&mut self.distinct);
        for code in &mut self.by_row {
            if let Some((plugin, reject)) = (*code as usize).checked_sub(1).and_then(|at| old.get(at)) {
                *code = intern(&mut self.distinct, *plugin, reject.clone());
            }
        }
    }

    fn code_of(&mut self, plugin: PluginIdx, reject: Reject) -> u32 {
        intern(&mut self.distinct, plugin, reject)
    }
}

fn intern(distinct: &mut Vec<(PluginIdx, Reject)>, plugin: PluginIdx, reject: Reject) -> u32 {
    // Searching backwards: neighbours are usually rejected alike.
    let known = distinct.iter().rposition(|(p, r)| *p == plugin && *r == reject);
    let at = known.unwrap_or_else(|| {
        distinct.push((plugin, reject));
        distinct.len() - 1
    });
    at as u32 + 1
}

/// One plugin's pass over the rows that still fit.
pub struct Sweep<'a> {
    plugin: PluginIdx,
    rows: &'a NodeSet,
    fits: &'a mut NodeSet,
    verdicts: &'a mut Verdicts,
}

impl<'a> Sweep<'a> {
    /// A pass of `plugin` over `rows`; rejected rows leave `fits` and enter `verdicts`.
    pub fn new(
        plugin: PluginIdx,
        rows: &'a NodeSet,
        fits: &'a mut NodeSet,
        verdicts: &'a mut Verdicts,
    ) -> Self {
        Self { plugin, rows, fits, verdicts }
    }

    /// The rows to look at.
    pub fn rows(&self) -> &'a NodeSet {
        self.rows
    }

    /// `row` does not fit.
    pub fn reject(&mut self, row: NodeIdx, reject: Reject) {
        self.fits.remove(row);
        self.verdicts.set(row, self.plugin, reject);
    }

    /// Rejects every row of `rows` with the same reason.
    pub fn reject_each(&mut self, rows: impl Iterator<Item = NodeIdx>, reject: &Reject) {
        let mut code = None;
        for row in rows {
            let code = *code.get_or_insert_with(|| self.verdicts.code_of(self.plugin, reject.clone()));
            self.fits.remove(row);
            self.verdicts.by_row[row.at()] = code;
        }
    }
}
