//! Numbers per topology domain: for each label key of nodes, one per value.

use harbormaster_api::Str;
use harbormaster_framework::prelude::*;

use crate::pod_index::{PodIndex, PodSelector, RowCounts, TopologyKey};

/// Numbers per topology domain. A key is listed as soon as something is added under it, be it zero.
#[derive(Debug, Default)]
pub struct Sums(Vec<KeySums>);

#[derive(Debug)]
struct KeySums {
    key: Str,
    by_value: Vec<i64>,
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
            let by_value = self.under(key, column.values());
            placed.for_each(|(value, n)| by_value[value.at()] += factor * n);
        }
        Ok(())
    }

    fn under(&mut self, key: &Str, values: usize) -> &mut [i64] {
        let at = self.0.iter().position(|k| k.key == *key).unwrap_or_else(|| {
            self.0.push(KeySums { key: key.clone(), by_value: vec![0; values] });
            self.0.len() - 1
        });
        &mut self.0[at].by_value
    }

    /// Whether nothing was ever added.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many domains have another number than zero.
    pub(super) fn domains(&self) -> usize {
        self.0.iter().flat_map(|k| &k.by_value).filter(|n| **n != 0).count()
    }

    /// The numbers under one key; also for a key that is not listed.
    ///
    /// # Errors
    /// When the index does not watch the key.
    pub(super) fn axis<'a>(&'a self, index: &'a PodIndex, key: &'a Str) -> PluginResult<Axis<'a>> {
        let by_value = self.0.iter().find(|k| k.key == *key).map_or(&[][..], |k| &k.by_value);
        Ok(Axis { key, column: column(index, key)?, by_value })
    }

    /// The numbers under all keys that are listed.
    ///
    /// # Errors
    /// When the index does not watch a key.
    pub(super) fn axes<'a>(&'a self, index: &'a PodIndex) -> PluginResult<Vec<Axis<'a>>> {
        let axis =
            |k: &'a KeySums| Ok(Axis { key: &k.key, column: column(index, &k.key)?, by_value: &k.by_value });
        self.0.iter().map(axis).collect()
    }
}

/// The numbers under one key, to be looked up by row.
pub(super) struct Axis<'a> {
    pub(super) key: &'a Str,
    column: &'a TopologyKey,
    by_value: &'a [i64],
}

impl Axis<'_> {
    /// The number of the row's domain; `None` if the node lacks the key.
    pub(super) fn at(&self, row: NodeIdx) -> Option<i64> {
        let value = self.column.value(row)?;
        Some(self.by_value.get(value.at()).copied().unwrap_or(0))
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
