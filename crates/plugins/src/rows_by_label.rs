//! Finds the rows that have a label, without visiting other rows.

use harbormaster_api::{Labels, Str};
use harbormaster_framework::{prelude::*, table::NodeTable};
use rustc_hash::FxHashMap;

/// Rows by label, for the label keys in use. See the [module documentation](self).
#[derive(Debug, Default, PartialEq)]
pub(crate) struct RowsByLabel(FxHashMap<Str, Key>);

/// One label key, with its values on all nodes.
#[derive(Debug, Default)]
struct Key {
    /// Number of [`RowsByLabel::acquire`] calls for the key without a matching release. At zero, the key is dropped.
    users: usize,
    rows: FxHashMap<Str, Rows>,
    values: FxHashMap<NodeIdx, Str>,
    /// Rows that have the key.
    rows_with_key: NodeSet,
}

/// The rows with one value: a list while there are only a few rows, as for host names.
#[derive(Debug)]
enum Rows {
    /// Rows in ascending order.
    List(Vec<NodeIdx>),
    /// The rows and their number.
    Set(NodeSet, usize),
}

/// Maximum length of a list.
const MAX_LIST: usize = 32;

impl RowsByLabel {
    /// Returns a map that keeps these keys permanently. Must be called before there are nodes.
    pub(crate) fn of(keys: &[&str]) -> Self {
        let key = || Key { users: 1, ..Key::default() };
        Self(keys.iter().map(|name| ((*name).into(), key())).collect())
    }

    /// Starts keeping the rows of a label key, if they are not kept yet. Every call needs a matching [`Self::release`].
    pub(crate) fn acquire(&mut self, nodes: &NodeTable, key: &Str) {
        if let Some(known) = self.0.get_mut(key) {
            known.users += 1;
            return;
        }
        let mut new = Key { users: 1, ..Key::default() };
        for row in (0..nodes.rows()).map(NodeIdx::from) {
            new.set(row, nodes.node(row).labels().and_then(|labels| labels.get(key)));
        }
        self.0.insert(key.clone(), new);
    }

    /// Undoes one [`Self::acquire`] of a key. After the last one, the rows of the key are no longer kept.
    pub(crate) fn release(&mut self, key: &str) {
        let Some(known) = self.0.get_mut(key) else { return };
        known.users -= 1;
        if known.users == 0 {
            self.0.remove(key);
        }
    }

    /// Updates the labels of a row. The labels are `None` if the row has no node.
    pub(crate) fn set(&mut self, row: NodeIdx, labels: Option<&Labels>) {
        for (key, known) in &mut self.0 {
            known.set(row, labels.and_then(|labels| labels.get(key)));
        }
    }

    /// Returns the rows that have one of these values for the key. There are none if the key is not kept.
    pub(crate) fn rows_with<'a>(&self, key: &str, values: impl IntoIterator<Item = &'a Str>) -> NodeSet {
        let mut all = NodeSet::default();
        let Some(known) = self.0.get(key) else { return all };
        for value in values {
            match known.rows.get(value) {
                Some(Rows::List(rows)) => rows.iter().for_each(|row| all.insert(*row)),
                Some(Rows::Set(rows, _)) => all.unite(rows),
                None => {}
            }
        }
        all
    }

    /// Returns the rows that have the key, or `None` if the key is not kept.
    pub(crate) fn rows_with_key(&self, key: &str) -> Option<&NodeSet> {
        self.0.get(key).map(|known| &known.rows_with_key)
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
            rows.remove(row);
            if rows.is_empty() {
                self.rows.remove(&old);
            }
        }
        if let Some(value) = value {
            self.rows.entry(value.clone()).or_default().insert(row);
            self.values.insert(row, value.clone());
        }
        self.rows_with_key.set(row, value.is_some());
    }
}

/// Ignores the capacity of the row sets.
impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.users == other.users
            && self.rows == other.rows
            && self.values == other.values
            && self.rows_with_key.iter().eq(&other.rows_with_key)
    }
}

impl Default for Rows {
    fn default() -> Self {
        Self::List(Vec::new())
    }
}

impl Rows {
    /// Adds a row, which must not be present.
    fn insert(&mut self, row: NodeIdx) {
        match self {
            Self::List(rows) => {
                rows.insert(rows.partition_point(|other| *other < row), row);
                if rows.len() > MAX_LIST {
                    *self = Self::Set(rows.iter().copied().collect(), rows.len());
                }
            }
            Self::Set(rows, count) => {
                rows.insert(row);
                *count += 1;
            }
        }
    }

    /// Removes a row, which must be present.
    fn remove(&mut self, row: NodeIdx) {
        match self {
            Self::List(rows) => rows.retain(|other| *other != row),
            Self::Set(rows, count) => {
                rows.remove(row);
                *count -= 1;
                if *count <= MAX_LIST {
                    *self = Self::List(rows.iter().collect());
                }
            }
        }
    }

    fn is_empty(&self) -> bool {
        matches!(self, Self::List(rows) if rows.is_empty())
    }
}

impl PartialEq for Rows {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::List(a), Self::List(b)) => a == b,
            (Self::Set(a, m), Self::Set(b, n)) => m == n && a.iter().eq(b),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use harbormaster_framework::cluster::Cluster;
    use harbormaster_testkit::{node, random::Dice};

    use super::*;

    #[test]
    fn rows_are_found_by_value_after_any_change_of_nodes() {
        let mut most = 0;
        for seed in 0..20 {
            let (mut dice, mut cluster) = (Dice::new(seed), Cluster::default());
            let mut kept = RowsByLabel::of(&["zone"]);
            for step in 0..300 {
                let name = format!("n{}", dice.below(90));
                match dice.below(if step < 150 { 9 } else { 3 }) {
                    0 => drop(cluster.remove_node(&name)),
                    1 => drop(cluster.set_node(node(&name).into())),
                    _ => drop(cluster.set_node(node(&name).label("zone", dice.pick(&["a", "b"])).into())),
                }
                let rows = (0..cluster.rows()).map(NodeIdx::from);
                rows.clone().for_each(|row| kept.set(row, cluster.node(row).labels()));
                let value = |row: &NodeIdx| cluster.node(*row).labels().and_then(|labels| labels.get("zone"));
                for zone in ["a", "b"] {
                    let expected: Vec<_> =
                        rows.clone().filter(|row| value(row).is_some_and(|has| *has == zone)).collect();
                    most = most.max(expected.len());
                    let found: Vec<_> = kept.rows_with("zone", &[zone.into()]).iter().collect();
                    assert_eq!(found, expected, "{seed} {step}");
                }
                let rows_with_key: Vec<_> = kept.rows_with_key("zone").unwrap().iter().collect();
                assert_eq!(rows_with_key, rows.filter(|row| value(row).is_some()).collect::<Vec<_>>());
            }
            let mut anew = RowsByLabel::default();
            anew.acquire(cluster.nodes(), &"zone".into());
            assert_eq!(kept, anew, "{seed}");
        }
        assert!(most > MAX_LIST, "{most}");
    }
}
