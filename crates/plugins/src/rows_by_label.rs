//! Which nodes have which values of some labels: who asks for a value finds its rows without looking at any other.

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
    rows: FxHashMap<Str, Rows>,
    values: FxHashMap<NodeIdx, Str>,
    /// The rows that have a value.
    having: NodeSet,
}

/// The rows that have one value: listed while they are few, as they are for host names.
#[derive(Debug)]
enum Rows {
    /// In ascending order.
    Few(Vec<NodeIdx>),
    /// And how many they are.
    Many(NodeSet, usize),
}

/// At most so many rows are listed.
const FEW: usize = 32;

impl RowsByLabel {
    /// Keeps these keys for ever. There is no node yet.
    pub(crate) fn of(keys: &[&str]) -> Self {
        let key = || Key { asked: 1, ..Key::default() };
        Self(keys.iter().map(|name| ((*name).into(), key())).collect())
    }

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

    /// The rows with one of these values of a key that is kept.
    pub(crate) fn with<'a>(&self, key: &str, values: impl IntoIterator<Item = &'a Str>) -> NodeSet {
        let mut all = NodeSet::default();
        let Some(known) = self.0.get(key) else { return all };
        for value in values {
            match known.rows.get(value) {
                Some(Rows::Few(rows)) => rows.iter().for_each(|row| all.insert(*row)),
                Some(Rows::Many(rows, _)) => all.unite(rows),
                None => {}
            }
        }
        all
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
            rows.remove(row);
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

/// Sets of rows are equal whatever room they have.
impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.asked == other.asked
            && self.rows == other.rows
            && self.values == other.values
            && self.having.iter().eq(&other.having)
    }
}

impl Default for Rows {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl Rows {
    /// Adds a row that is not there.
    fn insert(&mut self, row: NodeIdx) {
        match self {
            Self::Few(rows) => {
                rows.insert(rows.partition_point(|other| *other < row), row);
                if rows.len() > FEW {
                    *self = Self::Many(rows.iter().copied().collect(), rows.len());
                }
            }
            Self::Many(rows, count) => {
                rows.insert(row);
                *count += 1;
            }
        }
    }

    /// Removes a row that is there.
    fn remove(&mut self, row: NodeIdx) {
        match self {
            Self::Few(rows) => rows.retain(|other| *other != row),
            Self::Many(rows, count) => {
                rows.remove(row);
                *count -= 1;
                if *count <= FEW {
                    *self = Self::Few(rows.iter().collect());
                }
            }
        }
    }

    fn is_empty(&self) -> bool {
        matches!(self, Self::Few(rows) if rows.is_empty())
    }
}

impl PartialEq for Rows {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Few(a), Self::Few(b)) => a == b,
            (Self::Many(a, m), Self::Many(b, n)) => m == n && a.iter().eq(b),
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
    fn rows_are_found_by_value_however_many_nodes_come_go_and_change() {
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
                    let found: Vec<_> = kept.with("zone", &[zone.into()]).iter().collect();
                    assert_eq!(found, expected, "{seed} {step}");
                }
                let having: Vec<_> = kept.having("zone").unwrap().iter().collect();
                assert_eq!(having, rows.filter(|row| value(row).is_some()).collect::<Vec<_>>());
            }
            let mut anew = RowsByLabel::default();
            anew.ask(cluster.nodes(), &"zone".into());
            assert_eq!(kept, anew, "{seed}");
        }
        assert!(most > FEW, "{most}");
    }
}
