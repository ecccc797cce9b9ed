//! Numbers per topology domain: one for each value of each node label key.

use harbormaster_api::Str;
use harbormaster_framework::prelude::*;

use crate::pod_index::{PodIndex, PodSelector, RowCounts, TopologyKey, ValueId};

/// Numbers per topology domain. A key is present once a number has been added under it, even if that number is zero.
#[derive(Debug, Default)]
pub struct Sums(Vec<KeySums>);

#[derive(Debug)]
struct KeySums {
    key: Str,
    numbers: Numbers,
}

/// Maximum number of domains stored as a sparse list.
const MAX_SPARSE: usize = if cfg!(test) { 3 } else { 64 };
/// Maximum number of values for which numbers are always stored densely, which is cheap for so few. Both limits are
/// lower in tests, so that small clusters cover both forms.
const ALWAYS_DENSE: usize = if cfg!(test) { 1 } else { 512 };

/// A number per value of a key. Often sparse: most pods belong to a group that is on only a few nodes.
#[derive(Debug)]
enum Numbers {
    /// Values with their numbers, in order of value. All other values have the number zero.
    Sparse(Vec<(ValueId, i64)>),
    Dense(Vec<i64>),
}

impl Numbers {
    fn add(&mut self, value: ValueId, n: i64, values: usize) {
        match self {
            Self::Dense(dense) => dense[value.at()] += n,
            Self::Sparse(sparse) => match sparse.binary_search_by_key(&value, |(value, _)| *value) {
                Ok(at) => sparse[at].1 += n,
                Err(gap) if sparse.len() < MAX_SPARSE => sparse.insert(gap, (value, n)),
                Err(_) => {
                    let mut dense = vec![0; values];
                    sparse.iter().for_each(|(value, n)| dense[value.at()] = *n);
                    dense[value.at()] += n;
                    *self = Self::Dense(dense);
                }
            },
        }
    }

    fn of(&self, value: ValueId) -> i64 {
        match self {
            Self::Dense(dense) => dense.get(value.at()).copied().unwrap_or(0),
            Self::Sparse(sparse) => {
                sparse.binary_search_by_key(&value, |(value, _)| *value).map_or(0, |at| sparse[at].1)
            }
        }
    }

    fn iter(&self) -> impl Iterator<Item = i64> + '_ {
        let (sparse, dense) = match self {
            Self::Sparse(sparse) => (&sparse[..], &[][..]),
            Self::Dense(dense) => (&[][..], &dense[..]),
        };
        sparse.iter().map(|(_, n)| *n).chain(dense.iter().copied())
    }
}

impl Sums {
    /// Adds `factor` times the number of each row to the row's domain under `key`. Ignores rows without a node and
    /// nodes without the key.
    ///
    /// # Errors
    /// If the index does not watch the key.
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
            let numbers = match values <= ALWAYS_DENSE {
                true => Numbers::Dense(vec![0; values]),
                false => Numbers::Sparse(Vec::new()),
            };
            self.0.push(KeySums { key: key.clone(), numbers });
            self.0.len() - 1
        });
        &mut self.0[at].numbers
    }

    /// Returns true if nothing was added.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of domains with a non-zero number.
    pub(super) fn domains(&self) -> usize {
        self.0.iter().flat_map(|k| k.numbers.iter()).filter(|n| *n != 0).count()
    }

    /// Returns the numbers of one key. If the key is absent, all numbers are zero.
    ///
    /// # Errors
    /// If the index does not watch the key.
    pub(super) fn axis<'a>(&'a self, index: &'a PodIndex, key: &'a Str) -> PluginResult<Axis<'a>> {
        let numbers = self.0.iter().find(|k| k.key == *key).map(|k| &k.numbers);
        Ok(Axis { key, column: column(index, key)?, numbers })
    }

    /// Returns the numbers of all keys.
    ///
    /// # Errors
    /// If the index does not watch a key.
    pub(super) fn axes<'a>(&'a self, index: &'a PodIndex) -> PluginResult<Vec<Axis<'a>>> {
        let axis = |k: &'a KeySums| {
            Ok(Axis { key: &k.key, column: column(index, &k.key)?, numbers: Some(&k.numbers) })
        };
        self.0.iter().map(axis).collect()
    }
}

/// The numbers of one key, looked up by row.
pub(super) struct Axis<'a> {
    pub(super) key: &'a Str,
    column: &'a TopologyKey,
    numbers: Option<&'a Numbers>,
}

impl Axis<'_> {
    /// Returns the number of the row's domain, or `None` if the node lacks the key.
    pub(super) fn at(&self, row: NodeIdx) -> Option<i64> {
        let value = self.column.value(row)?;
        Some(self.numbers.map_or(0, |numbers| numbers.of(value)))
    }

    /// Adds to `found` the rows in `rows` whose domain has a positive number. If only a few domains have a positive
    /// number, and each of them has a single node, visits only those nodes.
    pub(super) fn add_rows_above_zero(&self, rows: &NodeSet, found: &mut NodeSet) {
        let alone = match self.numbers {
            None => return,
            Some(Numbers::Dense(_)) => None,
            Some(Numbers::Sparse(sparse)) => {
                let above = sparse.iter().filter(|(_, n)| *n > 0);
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

/// Returns the number of matching pods by row.
///
/// # Errors
/// If the index was not prepared for the pod.
pub(super) fn rows<'a>(index: &'a PodIndex, pods: &PodSelector) -> PluginResult<&'a RowCounts> {
    Ok(index.pods(pods).ok_or("the pod index was not prepared for the pod")?)
}

fn column<'a>(index: &'a PodIndex, key: &Str) -> PluginResult<&'a TopologyKey> {
    index.key(key).ok_or_else(|| format!("the topology key {key:?} is not watched").into())
}
