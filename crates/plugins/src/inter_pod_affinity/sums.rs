//! Numbers per topology domain: for each label key of nodes, one per value.

use harbormaster_api::Str;
use harbormaster_framework::prelude::*;

use crate::pod_index::{PodIndex, PodSelector, RowCounts, TopologyKey, ValueId};

/// Numbers per topology domain. A key is listed as soon as something is added under it, be it zero.
#[derive(Debug, Default)]
pub struct Sums(Vec<KeySums>);

#[derive(Debug)]
struct KeySums {
    key: Str,
    numbers: Numbers,
}

/// As many domains are kept one by one; with more of them there is an entry for each that exists.
const FEW: usize = if cfg!(test) { 3 } else { 64 };
/// With as many values there is an entry for each anyway: it costs nothing to make. Tests have small clusters, and try both.
const SMALL: usize = if cfg!(test) { 1 } else { 512 };

/// A number per value of a key. Most pods are of a group that is on a few nodes only.
#[derive(Debug)]
enum Numbers {
    /// By value, in order; all others are zero.
    Few(Vec<(ValueId, i64)>),
    All(Vec<i64>),
}

impl Numbers {
    fn add(&mut self, value: ValueId, n: i64, values: usize) {
        match self {
            Self::All(all) => all[value.at()] += n,
            Self::Few(few) => match few.binary_search_by_key(&value, |(value, _)| *value) {
                Ok(at) => few[at].1 += n,
                Err(gap) if few.len() < FEW => few.insert(gap, (value, n)),
                Err(_) => {
                    let mut all = vec![0; values];
                    few.iter().for_each(|(value, n)| all[value.at()] = *n);
                    all[value.at()] += n;
                    *self = Self::All(all);
                }
            },
        }
    }

    fn of(&self, value: ValueId) -> i64 {
        match self {
            Self::All(all) => all.get(value.at()).copied().unwrap_or(0),
            Self::Few(few) => few.binary_search_by_key(&value, |(value, _)| *value).map_or(0, |at| few[at].1),
        }
    }

    fn iter(&self) -> impl Iterator<Item = i64> + '_ {
        let (few, all) = match self {
            Self::Few(few) => (&few[..], &[][..]),
            Self::All(all) => (&[][..], &all[..]),
        };
        few.iter().map(|(_, n)| *n).chain(all.iter().copied())
    }
}

impl Sums {
    /// Adds `factor` times the number of each row to the row's domain under `key`. Rows without the key, or without a
    /// node, add nothing.
    ///
    /// # Errors
    /// When the index does not watch the key.
    pub(super) fn add(
        &mut self,
        index: &PodIndex,
        key: &Str,
        rows: &RowCounts,
        factor: i64,
    ) -> PluginResult<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let column = column(index, key)?;
        let mut placed = rows.iter().filter_map(|(row, n)| Some((column.value(row)?, n))).peekable();
        if placed.peek().is_some() {
            let numbers = self.under(key, column.values());
            placed.for_each(|(value, n)| numbers.add(value, factor * n, column.values()));
        }
        Ok(())
    }

    fn under(&mut self, key: &Str, values: usize) -> &mut Numbers {
        let at = self.0.iter().position(|k| k.key == *key).unwrap_or_else(|| {
            let numbers = match values <= SMALL {
                true => Numbers::All(vec![0; values]),
                false => Numbers::Few(Vec::new()),
            };
            self.0.push(KeySums { key: key.clone(), numbers });
            self.0.len() - 1
        });
        &mut self.0[at].numbers
    }

    /// Whether nothing was ever added.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many domains have another number than zero.
    pub(super) fn domains(&self) -> usize {
        self.0.iter().flat_map(|k| k.numbers.iter()).filter(|n| *n != 0).count()
    }

    /// The numbers under one key; also for a key that is not listed.
    ///
    /// # Errors
    /// When the index does not watch the key.
    pub(super) fn axis<'a>(&'a self, index: &'a PodIndex, key: &'a Str) -> PluginResult<Axis<'a>> {
        let numbers = self.0.iter().find(|k| k.key == *key).map(|k| &k.numbers);
        Ok(Axis { key, column: column(index, key)?, numbers })
    }

    /// The numbers under all keys that are listed.
    ///
    /// # Errors
    /// When the index does not watch a key.
    pub(super) fn axes<'a>(&'a self, index: &'a PodIndex) -> PluginResult<Vec<Axis<'a>>> {
        let axis = |k: &'a KeySums| {
            Ok(Axis { key: &k.key, column: column(index, &k.key)?, numbers: Some(&k.numbers) })
        };
        self.0.iter().map(axis).collect()
    }
}

/// The numbers under one key, to be looked up by row.
pub(super) struct Axis<'a> {
    pub(super) key: &'a Str,
    column: &'a TopologyKey,
    numbers: Option<&'a Numbers>,
}

impl Axis<'_> {
    /// The number of the row's domain; `None` if the node lacks the key.
    pub(super) fn at(&self, row: NodeIdx) -> Option<i64> {
        let value = self.column.value(row)?;
        Some(self.numbers.map_or(0, |numbers| numbers.of(value)))
    }

    /// Adds those of `rows` to `found` whose domain has a number above zero. Where few domains have one, and each of them is
    /// a node of its own, no other rows are looked at.
    pub(super) fn add_rows_above_zero(&self, rows: &NodeSet, found: &mut NodeSet) {
        let alone = match self.numbers {
            None => return,
            Some(Numbers::All(_)) => None,
            Some(Numbers::Few(few)) => {
                let above = few.iter().filter(|(_, n)| *n > 0);
                above.map(|(value, _)| self.column.only_row(*value)).collect::<Option<Vec<NodeIdx>>>()
            }
        };
        match alone {
            Some(alone) => {
                alone.into_iter().filter(|row| rows.contains(*row)).for_each(|row| found.insert(row));
            }
            None => {
                let above = rows.iter().filter(|row| self.at(*row).is_some_and(|n| n > 0));
                above.for_each(|row| found.insert(row));
            }
        }
    }
}

/// The rows with pods that are meant.
///
/// # Errors
/// When the index was not prepared for the pod.
pub(super) fn rows<'a>(index: &'a PodIndex, pods: &PodSelector) -> PluginResult<&'a RowCounts> {
    Ok(index.pods(pods).ok_or("the pod index was not prepared for the pod")?)
}

fn column<'a>(index: &'a PodIndex, key: &Str) -> PluginResult<&'a TopologyKey> {
    index.key(key).ok_or_else(|| format!("the topology key {key:?} is not watched").into())
}
