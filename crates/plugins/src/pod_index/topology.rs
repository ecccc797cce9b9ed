//! Which value each node has under a label key, as small numbers.

use harbormaster_api::Str;
use harbormaster_framework::prelude::*;
use harbormaster_framework::table::NodeTable;
use rustc_hash::FxHashMap;

/// A value of a topology key. Numbers are dense, and used again when no node has the value any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub u32);

impl ValueId {
    /// The number as an index into vectors of [`TopologyKey::values`] entries.
    pub fn at(self) -> usize {
        self.0 as usize
    }
}

/// Marks a row without a value.
const NONE: u32 = u32::MAX;

/// One label key over all nodes.
#[derive(Debug, Default)]
pub struct TopologyKey {
    by_row: Vec<u32>,
    ids: FxHashMap<Str, u32>,
    /// How many rows have the value; zero where the number is free.
    rows: Vec<u32>,
    /// All rows that have the value, exclusive-ored: the row itself where there is just one.
    mixed: Vec<u32>,
    names: Vec<Str>,
    free: Vec<u32>,
}

impl TopologyKey {
    /// The value of a row; `None` if the node lacks the label, or there is no node.
    pub fn value(&self, row: NodeIdx) -> Option<ValueId> {
        self.by_row.get(row.at()).copied().filter(|id| *id != NONE).map(ValueId)
    }

    /// How many numbers are in use or were: the length of vectors with an entry per value.
    pub fn values(&self) -> usize {
        self.rows.len()
    }

    /// The row that has the value, if just one has: as with host names.
    pub fn only_row(&self, value: ValueId) -> Option<NodeIdx> {
        (self.rows.get(value.at()) == Some(&1)).then(|| NodeIdx(self.mixed[value.at()]))
    }

    fn set(&mut self, row: NodeIdx, value: Option<&Str>) {
        if row.at() >= self.by_row.len() {
            self.by_row.resize(row.at() + 1, NONE);
        }
        let new = value.map_or(NONE, |value| self.id_of(value));
        let old = std::mem::replace(&mut self.by_row[row.at()], new);
        if new != NONE {
            self.rows[new as usize] += 1;
            self.mixed[new as usize] ^= row.0;
        }
        if old != NONE {
            self.mixed[old as usize] ^= row.0;
            self.release(old);
        }
    }

    fn id_of(&mut self, value: &Str) -> u32 {
        if let Some(id) = self.ids.get(value) {
            return *id;
        }
        let id = self.free.pop().unwrap_or_else(|| {
            self.rows.push(0);
            self.mixed.push(0);
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

/// A key with its column.
#[derive(Debug)]
struct Watched {
    column: TopologyKey,
    /// Number of terms of pods on nodes that name it.
    held: usize,
    /// When somebody last asked for it.
    asked: u64,
}

/// The keys that somebody asks about, or that pods on nodes name.
#[derive(Debug, Default)]
pub(super) struct Topology {
    keys: FxHashMap<Str, Watched>,
    clock: u64,
}

/// Most keys that are kept beside those that pods on nodes name. When there are more, half of them go, the least recently
/// used first.
pub(super) const KEYS: usize = 64;

impl Topology {
    /// Keeps a column for a key that somebody asks about.
    pub(super) fn watch(&mut self, nodes: &NodeTable, key: &Str) {
        self.clock += 1;
        let asked = self.clock;
        self.watched(nodes, key).asked = asked;
    }

    /// A term that pods on nodes hold names the key.
    pub(super) fn hold(&mut self, nodes: &NodeTable, key: &Str) {
        self.watched(nodes, key).held += 1;
    }

    /// Nobody holds that term any more.
    pub(super) fn release(&mut self, key: &str) {
        if let Some(watched) = self.keys.get_mut(key) {
            watched.held -= 1;
        }
    }

    fn watched(&mut self, nodes: &NodeTable, key: &Str) -> &mut Watched {
        self.keys.entry(key.clone()).or_insert_with(|| {
            let mut column = TopologyKey::default();
            for row in (0..nodes.rows()).map(NodeIdx::from) {
                column.set(row, nodes.node(row).labels().and_then(|labels| labels.get(key)));
            }
            Watched { column, held: 0, asked: 0 }
        })
    }

    /// Forgets keys that were asked for long ago, if there are many. Not while an attempt lasts, which may need all of its own.
    pub(super) fn make_room(&mut self) {
        if self.keys.len() <= KEYS {
            return;
        }
        let idle = |watched: &&Watched| watched.held == 0;
        let mut asked: Vec<u64> = self.keys.values().filter(idle).map(|watched| watched.asked).collect();
        if asked.len() <= KEYS {
            return;
        }
        asked.sort_unstable();
        let oldest_kept = asked[asked.len() / 2];
        self.keys.retain(|_, watched| watched.held > 0 || watched.asked >= oldest_kept);
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

    /// Whether exactly these keys, one for each term, are held.
    pub(super) fn check_held<'a>(&self, keys: impl Iterator<Item = &'a Str>) -> Result<(), String> {
        let mut counted: FxHashMap<&Str, usize> = FxHashMap::default();
        keys.for_each(|key| *counted.entry(key).or_default() += 1);
        for (key, watched) in &self.keys {
            let held = counted.remove(key).unwrap_or_default();
            if watched.held != held {
                return Err(format!("{key}: {} terms are said to name it, but {held} do", watched.held));
            }
        }
        counted.keys().next().map_or(Ok(()), |key| Err(format!("{key} is named by terms, but not watched")))
    }

    /// Whether rows have the same value exactly where their labels are the same.
    pub(super) fn check(&self, nodes: &NodeTable) -> Result<(), String> {
        for (key, Watched { column, .. }) in &self.keys {
            let mut seen = FxHashMap::default();
            for row in (0..nodes.rows()).map(NodeIdx::from) {
                let label = nodes.node(row).labels().and_then(|labels| labels.get(key));
                let value = column.value(row);
                if let Some(only) = value.and_then(|value| column.only_row(value))
                    && only != row
                {
                    return Err(format!(
                        "{key}: {only:?} is said to be the only one with {label:?}, but so is {row:?}"
                    ));
                }
                if label.is_some() != value.is_some() || *seen.entry(value).or_insert(label) != label {
                    return Err(format!("{key}: row {row:?} has {label:?}, kept as {value:?}"));
                }
            }
            let labels: std::collections::BTreeSet<_> = seen.values().flatten().collect();
            if labels.len() != seen.values().flatten().count() {
                return Err(format!("{key}: one label is kept as several values"));
            }
        }
        Ok(())
    }
}
