//! Each node's value for a label key, as a small number.

use std::ops::Range;

use harbormaster_api::Str;
use harbormaster_framework::prelude::*;
use harbormaster_framework::table::NodeTable;
use rustc_hash::FxHashMap;

/// A value of a topology key. IDs are dense and are reused once no node has the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub u32);

impl ValueId {
    /// Returns the ID as an index into a vector with [`TopologyKey::values`] entries.
    pub fn at(self) -> usize {
        self.0 as usize
    }
}

/// Marks a row without a value.
const NONE: u32 = u32::MAX;

/// The values of one label key on all nodes.
#[derive(Debug, Default)]
pub struct TopologyKey {
    by_row: Vec<u32>,
    /// Number of rows with a value.
    labeled: usize,
    ids: FxHashMap<Str, u32>,
    /// Number of rows by ID; zero if the ID is free.
    rows: Vec<u32>,
    /// For each ID, the exclusive or of its rows. If the ID has only one row, this is that row.
    rows_xor: Vec<u32>,
    names: Vec<Str>,
    free: Vec<u32>,
}

impl TopologyKey {
    /// Returns the value of a row, or `None` if the node lacks the label or does not exist.
    pub fn value(&self, row: NodeIdx) -> Option<ValueId> {
        self.by_row.get(row.at()).copied().filter(|id| *id != NONE).map(ValueId)
    }

    /// Returns the values of consecutive rows, for columnar code. May be shorter than `rows` if the last rows have no
    /// value.
    pub fn run(&self, rows: Range<usize>) -> impl ExactSizeIterator<Item = Option<ValueId>> + '_ {
        let end = rows.end.min(self.by_row.len());
        let ids = self.by_row.get(rows.start..end).unwrap_or_default();
        ids.iter().map(|id| (*id != NONE).then_some(ValueId(*id)))
    }

    /// Returns the number of rows that have a value.
    pub fn labeled(&self) -> usize {
        self.labeled
    }

    /// Returns the number of different values.
    pub fn distinct(&self) -> usize {
        self.ids.len()
    }

    /// Returns the length that a vector indexed by [`ValueId::at`] needs.
    pub fn values(&self) -> usize {
        self.rows.len()
    }

    /// Returns the only row with the value, or `None` if there is not exactly one. A host name, for example, usually
    /// has one row.
    pub fn only_row(&self, value: ValueId) -> Option<NodeIdx> {
        (self.rows.get(value.at()) == Some(&1)).then(|| NodeIdx(self.rows_xor[value.at()]))
    }

    fn set(&mut self, row: NodeIdx, value: Option<&Str>) {
        if row.at() >= self.by_row.len() {
            self.by_row.resize(row.at() + 1, NONE);
        }
        let new = value.map_or(NONE, |value| self.id_of(value));
        let old = std::mem::replace(&mut self.by_row[row.at()], new);
        if new != NONE {
            self.labeled += 1;
            self.rows[new as usize] += 1;
            self.rows_xor[new as usize] ^= row.0;
        }
        if old != NONE {
            self.labeled -= 1;
            self.rows_xor[old as usize] ^= row.0;
            self.release(old);
        }
    }

    fn id_of(&mut self, value: &Str) -> u32 {
        if let Some(id) = self.ids.get(value) {
            return *id;
        }
        let id = self.free.pop().unwrap_or_else(|| {
            self.rows.push(0);
            self.rows_xor.push(0);
            self.names.push(Str::default());
            self.rows.len() as u32 - 1
        });
        self.names[id as usize] = value.clone();
        self.ids.insert(value.clone(), id);
        id
    }

    fn release(&mut self, id: u32) {
        self.rows[id as usize] -= 1;
        if self.rows[id as usize] == 0 {
            self.ids.remove(&self.names[id as usize]);
            self.free.push(id);
        }
    }
}

/// A watched key with its column.
#[derive(Debug)]
struct WatchedKey {
    column: TopologyKey,
    /// Number of affinity terms that use the key. Only the terms of pods on nodes count.
    held: usize,
    /// Value of [`Topology::clock`] at the last use. The clock counts uses.
    last_used: u64,
}

/// The watched keys: those used recently, and those used by affinity terms of pods on nodes.
#[derive(Debug, Default)]
pub(super) struct Topology {
    keys: FxHashMap<Str, WatchedKey>,
    clock: u64,
}

/// Maximum number of watched keys that are not used by any affinity term of a pod on a node. If there are more, the
/// least recently used half of them is dropped.
pub(super) const KEYS: usize = 64;

impl Topology {
    /// Starts keeping a column for a key, or marks it as used.
    pub(super) fn watch(&mut self, nodes: &NodeTable, key: &Str) {
        self.clock += 1;
        let last_used = self.clock;
        self.watched(nodes, key).last_used = last_used;
    }

    /// Records that one more affinity term of a pod on a node uses the key.
    pub(super) fn hold(&mut self, nodes: &NodeTable, key: &Str) {
        self.watched(nodes, key).held += 1;
    }

    /// Records that one affinity term of a pod on a node no longer uses the key.
    pub(super) fn release(&mut self, key: &str) {
        if let Some(watched) = self.keys.get_mut(key) {
            watched.held -= 1;
        }
    }

    fn watched(&mut self, nodes: &NodeTable, key: &Str) -> &mut WatchedKey {
        self.keys.entry(key.clone()).or_insert_with(|| {
            let mut column = TopologyKey::default();
            for row in (0..nodes.rows()).map(NodeIdx::from) {
                column.set(row, nodes.node(row).labels().and_then(|labels| labels.get(key)));
            }
            WatchedKey { column, held: 0, last_used: 0 }
        })
    }

    /// If there are too many keys, drops those that were used least recently. Must not run during an attempt, which may
    /// need all of its keys.
    pub(super) fn make_room(&mut self) {
        if self.keys.len() <= KEYS {
            return;
        }
        let idle = |watched: &&WatchedKey| watched.held == 0;
        let mut last_used: Vec<u64> =
            self.keys.values().filter(idle).map(|watched| watched.last_used).collect();
        if last_used.len() <= KEYS {
            return;
        }
        last_used.sort_unstable();
        let oldest_kept = last_used[last_used.len() / 2];
        self.keys.retain(|_, watched| watched.held > 0 || watched.last_used >= oldest_kept);
    }

    pub(super) fn key(&self, key: &str) -> Option<&TopologyKey> {
        self.keys.get(key).map(|watched| &watched.column)
    }

    pub(super) fn node_changed(&mut self, nodes: &NodeTable, row: NodeIdx) {
        let labels = nodes.node(row).labels();
        for (key, watched) in &mut self.keys {
            watched.column.set(row, labels.and_then(|labels| labels.get(key)));
        }
    }

    /// Checks the recorded number of terms for each key. `keys` contains the key of every affinity term of pods on
    /// nodes, with repetitions.
    pub(super) fn check_held<'a>(&self, keys: impl Iterator<Item = &'a Str>) -> Result<(), String> {
        let mut counted: FxHashMap<&Str, usize> = FxHashMap::default();
        keys.for_each(|key| *counted.entry(key).or_default() += 1);
        for (key, watched) in &self.keys {
            let held = counted.remove(key).unwrap_or_default();
            if watched.held != held {
                return Err(format!("{key}: {} terms are recorded, but {held} use the key", watched.held));
            }
        }
        counted.keys().next().map_or(Ok(()), |key| Err(format!("{key} is used by terms but not watched")))
    }

    /// Checks that two rows have equal values if and only if their labels are equal.
    pub(super) fn check(&self, nodes: &NodeTable) -> Result<(), String> {
        for (key, WatchedKey { column, .. }) in &self.keys {
            let mut seen = FxHashMap::default();
            for row in (0..nodes.rows()).map(NodeIdx::from) {
                let label = nodes.node(row).labels().and_then(|labels| labels.get(key));
                let value = column.value(row);
                if let Some(only) = value.and_then(|value| column.only_row(value))
                    && only != row
                {
                    return Err(format!(
                        "{key}: {only:?} is recorded as the only row with {label:?}, but {row:?} also has it"
                    ));
                }
                if label.is_some() != value.is_some() || *seen.entry(value).or_insert(label) != label {
                    return Err(format!("{key}: row {row:?} has {label:?}, but {value:?} is recorded"));
                }
            }
            let labels: std::collections::BTreeSet<_> = seen.values().flatten().collect();
            if labels.len() != seen.values().flatten().count() {
                return Err(format!("{key}: one label has several values"));
            }
        }
        Ok(())
    }
}
