//! Which nodes have which values of some labels: who asks for a value finds its rows without looking at any other.

use std::collections::BTreeSet;

use harbormaster_api::{Labels, Str};
use harbormaster_framework::{prelude::*, table::NodeTable};
use rustc_hash::FxHashMap;

/// See the [module documentation](self). A key is kept as long as somebody asks for it.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct RowsByLabel(FxHashMap<Str, Key>);

/// One label key over all nodes.
#[derive(Debug, Default)]
struct Key {
    /// How often it is asked for.
    asked: usize,
    rows: FxHashMap<Str, BTreeSet<NodeIdx>>,
    values: FxHashMap<NodeIdx, Str>,
    /// The rows that have a value.
    having: NodeSet,
}

/// Sets of rows are equal whatever room they have.
impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.asked == other.asked
            && self.rows == other.rows
            && self.values == other.values
            && self.having.iter().eq(&other.having)
    }
}

impl RowsByLabel {
    /// Keeps a key once more.
    pub(crate) fn ask(&mut self, nodes: &NodeTable, key: &Str) {
        if let Some(known) = self.0.get_mut(key) {
            known.asked += 1;
            return;
        }
        let mut new = Key { asked: 1, ..Key::default() };
        for row in (0..nodes.rows()).map(NodeIdx::from) {
            new.set(row, nodes.node(row).labels().and_then(|labels| labels.get(key)));
        }
        self.0.insert(key.clone(), new);
    }

    /// Keeps a key once less.
    pub(crate) fn release(&mut self, key: &str) {
        let Some(known) = self.0.get_mut(key) else { return };
        known.asked -= 1;
        if known.asked == 0 {
            self.0.remove(key);
        }
    }

    /// A row has other labels now, or no node.
    pub(crate) fn set(&mut self, row: NodeIdx, labels: Option<&Labels>) {
        for (key, known) in &mut self.0 {
            known.set(row, labels.and_then(|labels| labels.get(key)));
        }
    }

    /// The rows with that value of a key that is kept.
    pub(crate) fn with(&self, key: &str, value: &str) -> impl Iterator<Item = NodeIdx> + '_ {
        let rows = self.0.get(key).and_then(|known| known.rows.get(value));
        rows.into_iter().flatten().copied()
    }

    /// The rows that have a key that is kept.
    pub(crate) fn having(&self, key: &str) -> Option<&NodeSet> {
        self.0.get(key).map(|known| &known.having)
    }
}

impl Key {
    fn set(&mut self, row: NodeIdx, value: Option<&Str>) {
        if self.values.get(&row) == value {
            return;
        }
        if let Some(old) = self.values.remove(&row)
            && let Some(rows) = self.rows.get_mut(&old)
        {
            rows.remove(&row);
            if rows.is_empty() {
                self.rows.remove(&old);
            }
        }
        if let Some(value) = value {
            self.rows.entry(value.clone()).or_default().insert(row);
            self.values.insert(row, value.clone());
        }
        self.having.set(row, value.is_some());
    }
}
