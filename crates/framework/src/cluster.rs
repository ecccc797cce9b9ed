//! The cluster as plugins see it: nodes with their pods, other objects, and the indexes kept of both.

use std::{ops::Deref, sync::Arc};

use harbormaster_api::{Node, Object, ObjectKey, Str};

use crate::{
    index::{IndexKind, Indexes, Known},
    nodeset::NodeIdx,
    objects::Objects,
    pod::PodInfo,
    table::NodeTable,
};

/// Everything known. It is changed only through its methods, so that no index misses a change; it reads like its
/// [`NodeTable`].
#[derive(Debug, Default)]
pub struct Cluster {
    nodes: NodeTable,
    objects: Objects,
    indexes: Indexes,
}

impl Deref for Cluster {
    type Target = NodeTable;
    fn deref(&self) -> &NodeTable {
        &self.nodes
    }
}

impl Cluster {
    /// All nodes and the pods on them.
    pub fn nodes(&self) -> &NodeTable {
        &self.nodes
    }

    /// What plugins look up beside nodes and pods.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// What plugins keep.
    pub fn indexes(&self) -> &Indexes {
        &self.indexes
    }

    /// What is known, and the indexes kept of it.
    pub fn split(&mut self) -> (Known<'_>, &mut Indexes) {
        (Known { nodes: &self.nodes, objects: &self.objects }, &mut self.indexes)
    }

    /// The node table, for questions of the form "what if": whoever changes it changes it back.
    pub fn what_if(&mut self) -> &mut NodeTable {
        &mut self.nodes
    }

    /// Keeps an index of that kind from now on.
    pub fn keep(&mut self, kind: IndexKind) {
        let (known, indexes) = self.split();
        indexes.add(kind, known);
    }

    /// Adds a node or replaces its object.
    pub fn set_node(&mut self, node: Arc<Node>) -> NodeIdx {
        let row = self.nodes.set_node(node);
        self.node_changed(row);
        row
    }

    /// Removes a node. Its pods stay in the row until they are removed one by one.
    pub fn remove_node(&mut self, name: &str) -> bool {
        let Some(row) = self.nodes.find(name) else { return false };
        self.nodes.remove_node(name);
        self.node_changed(row);
        true
    }

    /// Puts a pod on the node it names. A node that is not known yet gets a row without an object.
    pub fn add_pod(&mut self, node_name: &Str, pod: Arc<PodInfo>) {
        let row = self.nodes.add_pod(node_name, pod.clone());
        let (known, indexes) = self.split();
        indexes.pod_joined(known, row, &pod);
    }

    /// Takes a pod off a node; `false` when it is not there.
    pub fn remove_pod(&mut self, node_name: &str, uid: &str) -> bool {
        let Some((row, pod)) = self.nodes.remove_pod(node_name, uid) else { return false };
        let (known, indexes) = self.split();
        indexes.pod_left(known, row, &pod);
        true
    }

    /// Another object is new or changed.
    pub fn set_object(&mut self, object: Object) {
        self.objects.set(object.clone());
        let (known, indexes) = self.split();
        indexes.object_changed(known, &object.key());
    }

    /// Another object is gone.
    pub fn remove_object(&mut self, key: &ObjectKey) {
        self.objects.remove(key);
        let (known, indexes) = self.split();
        indexes.object_changed(known, key);
    }

    /// See [`NodeTable::refresh`].
    pub fn refresh(&mut self) {
        self.nodes.refresh();
    }

    fn node_changed(&mut self, row: NodeIdx) {
        let (known, indexes) = self.split();
        indexes.node_changed(known, row);
    }
}
