//! Images, and the number of nodes that have each image.

use harbormaster_api::{Str, node::Image};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::nodeset::NodeIdx;

/// An image on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowImage {
    /// Name as the kubelet reports it.
    pub name: Str,
    /// Size in bytes, as reported by the first node that had the image.
    pub size_bytes: i64,
    /// Number of nodes that had the image when this row last changed.
    pub nodes: i64,
    id: ImageId,
}

/// Identifies an image while some node has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ImageId(u32);

/// All images of all nodes.
#[derive(Debug, Default)]
pub(super) struct ImageIndex {
    by_name: FxHashMap<Str, ImageId>,
    entries: Vec<ImageEntry>,
    free: Vec<ImageId>,
}

#[derive(Debug, Default)]
struct ImageEntry {
    size_bytes: i64,
    nodes: FxHashSet<NodeIdx>,
}

impl ImageIndex {
    pub(super) fn add_node(&mut self, row: NodeIdx, images: &[Image]) {
        for image in images {
            for name in &image.names {
                let id =
                    self.by_name.get(name).copied().unwrap_or_else(|| self.insert(name, image.size_bytes));
                self.entries[id.0 as usize].nodes.insert(row);
            }
        }
    }

    pub(super) fn remove_node(&mut self, row: NodeIdx, images: &[Image]) {
        for name in images.iter().flat_map(|i| &i.names) {
            let Some(id) = self.by_name.get(name).copied() else { continue };
            let entry = &mut self.entries[id.0 as usize];
            entry.nodes.remove(&row);
            if entry.nodes.is_empty() {
                self.by_name.remove(name);
                self.free.push(id);
            }
        }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// The images of one node, sorted by name.
    pub(super) fn of_row(&self, images: &[Image]) -> Vec<RowImage> {
        let names = images.iter().flat_map(|i| &i.names);
        let mut found: Vec<RowImage> = names
            .filter_map(|name| {
                let id = *self.by_name.get(name)?;
                Some(RowImage { name: name.clone(), size_bytes: 0, nodes: 0, id })
            })
            .collect();
        found.sort_by(|a, b| a.name.cmp(&b.name));
        found.dedup_by(|a, b| a.name == b.name);
        self.recount(&mut found);
        found
    }

    /// Updates the sizes and node counts of a node's images, which must still be those that [`Self::of_row`] listed.
    pub(super) fn recount(&self, images: &mut [RowImage]) {
        for image in images {
            let entry = &self.entries[image.id.0 as usize];
            (image.size_bytes, image.nodes) = (entry.size_bytes, entry.nodes.len() as i64);
        }
    }

    fn insert(&mut self, name: &Str, size_bytes: i64) -> ImageId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.entries.push(ImageEntry::default());
            ImageId(self.entries.len() as u32 - 1)
        });
        self.entries[id.0 as usize].size_bytes = size_bytes;
        self.by_name.insert(name.clone(), id);
        id
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use harbormaster_api::{Node, Pod};

    use crate::{
        pod::{PodInfo, SpecTable},
        table::NodeTable,
    };

    use super::*;

    fn node(name: &str, images: &[(&str, i64)]) -> Arc<Node> {
        let image = |(name, size): &(&str, i64)| Image { names: vec![(*name).into()], size_bytes: *size };
        let images = images.iter().map(image).collect();
        Arc::new(Node { name: name.into(), images, ..Node::default() })
    }

    /// Returns every image of a node with its size and the number of nodes that have it.
    fn seen(table: &mut NodeTable, name: &str) -> Vec<(String, i64, i64)> {
        table.refresh();
        let row = table.find(name).expect("the node exists");
        let images = table.rows[row.at()].images.iter();
        images.map(|image| (image.name.to_string(), image.size_bytes, image.nodes)).collect()
    }

    fn place_a_pod(table: &mut NodeTable, on: &str) {
        table.add_pod(&on.into(), Arc::new(PodInfo::new(Pod::default(), &mut SpecTable::default())));
    }

    #[test]
    fn the_image_counts_of_a_row_are_updated_when_a_pod_is_placed_on_it() {
        let mut table = NodeTable::default();
        table.set_node(node("a", &[("web", 1), ("db", 2)]));
        assert_eq!(seen(&mut table, "a"), [("db".to_owned(), 2, 1), ("web".to_owned(), 1, 1)]);
        table.set_node(node("b", &[("web", 9)]));
        assert_eq!(seen(&mut table, "a")[1], ("web".to_owned(), 1, 1), "row a has not changed");
        place_a_pod(&mut table, "a");
        assert_eq!(seen(&mut table, "a"), [("db".to_owned(), 2, 1), ("web".to_owned(), 1, 2)]);
        table.remove_node("b");
        place_a_pod(&mut table, "a");
        assert_eq!(seen(&mut table, "a")[1], ("web".to_owned(), 1, 1));
    }

    #[test]
    fn a_row_whose_images_change_drops_the_old_ones_even_if_their_ids_are_reused() {
        let mut table = NodeTable::default();
        table.set_node(node("a", &[("one", 1), ("two", 2)]));
        table.set_node(node("b", &[("two", 2)]));
        table.refresh();
        table.set_node(node("a", &[("three", 3), ("four", 4)]));
        assert_eq!(seen(&mut table, "a"), [("four".to_owned(), 4, 1), ("three".to_owned(), 3, 1)]);
        place_a_pod(&mut table, "b");
        assert_eq!(seen(&mut table, "b"), [("two".to_owned(), 2, 1)]);
        assert!(!table.has_image("one") && table.has_image("two"));
    }
}
