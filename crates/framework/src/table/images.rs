//! Which image is on how many nodes.

use harbormaster_api::{Str, node::Image};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::nodeset::NodeIdx;

/// An image on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowImage {
    /// As the kubelet reports it.
    pub name: Str,
    /// Bytes, as the first node that had the image reported them.
    pub size_bytes: i64,
    /// On how many nodes the image was when this row last changed.
    pub nodes: i64,
}

/// All images of all nodes.
#[derive(Debug, Default)]
pub(super) struct ImageIndex(FxHashMap<Str, ImageEntry>);

#[derive(Debug)]
struct ImageEntry {
    size_bytes: i64,
    nodes: FxHashSet<NodeIdx>,
}

impl ImageIndex {
    pub(super) fn add_node(&mut self, row: NodeIdx, images: &[Image]) {
        for image in images {
            for name in &image.names {
                let entry = self.0.entry(name.clone()).or_insert_with(|| ImageEntry {
                    size_bytes: image.size_bytes,
                    nodes: FxHashSet::default(),
                });
                entry.nodes.insert(row);
            }
        }
    }

    pub(super) fn remove_node(&mut self, row: NodeIdx, images: &[Image]) {
        for name in images.iter().flat_map(|i| &i.names) {
            if let Some(entry) = self.0.get_mut(name) {
                entry.nodes.remove(&row);
                if entry.nodes.is_empty() {
                    self.0.remove(name);
                }
            }
        }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The images of one node, sorted by name.
    pub(super) fn of_row(&self, images: &[Image]) -> Vec<RowImage> {
        let names = images.iter().flat_map(|i| &i.names);
        let mut found: Vec<RowImage> = names
            .filter_map(|name| {
                let entry = self.0.get(name)?;
                Some(RowImage {
                    name: name.clone(),
                    size_bytes: entry.size_bytes,
                    nodes: entry.nodes.len() as i64,
                })
            })
            .collect();
        found.sort_by(|a, b| a.name.cmp(&b.name));
        found.dedup_by(|a, b| a.name == b.name);
        found
    }
}
