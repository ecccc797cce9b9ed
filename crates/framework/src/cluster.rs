//! The cluster as plugins see it: nodes with their pods, other objects, and the indexes kept of both.

use std::{ops::Deref, sync::Arc};

use harbormaster_api::{Node, Object, ObjectKey, Str};

use crate::{
    assume::Assume,
    guard::PointError,
    index::{ClusterView, IndexKind, Indexes},
    nodeset::NodeIdx,
    objects::{ObjectId, Objects},
    pod::PodInfo,
    resource::{CustomChange, CustomKey, RawObject, ResourceKind, Undecodable},
    table::NodeTable,
};

/// Everything known. It is changed only through its methods, so that no index misses a change; it reads like its
/// [`NodeTable`].
#[derive(Debug, Default)]
pub struct Cluster {
    nodes: NodeTable,
    objects: Objects,
    indexes: Indexes,
    troubles: Vec<PointError>,
    undecodable: Vec<Undecodable>,
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
    pub fn split(&mut self) -> (ClusterView<'_>, &mut Indexes) {
        (ClusterView { nodes: &self.nodes, objects: &self.objects }, &mut self.indexes)
    }

    /// The node table, for questions of the form "what if": whoever changes it changes it back.
    pub fn what_if(&mut self) -> &mut NodeTable {
        &mut self.nodes
    }

    /// Keeps an index of that kind from now on. An item that it cannot bear is a [trouble](Self::take_troubles).
    pub fn keep(&mut self, kind: IndexKind) {
        let (view, indexes) = self.split();
        let kept = indexes.add(kind, view);
        self.troubles.extend(kept.err());
    }

    /// What went wrong in indexes since the last call. Everything else took its course.
    pub fn take_troubles(&mut self) -> Vec<PointError> {
        std::mem::take(&mut self.troubles)
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
        let (view, indexes) = self.split();
        let told = indexes.pod_joined(view, row, &pod);
        self.troubles.extend(told.err());
    }

    /// Takes over what a pod on that node looks like now; `false` when it is not there.
    pub fn replace_pod(&mut self, node_name: &str, pod: &Arc<PodInfo>) -> bool {
        let Some((row, old)) = self.nodes.replace_pod(node_name, pod.clone()) else { return false };
        let (view, indexes) = self.split();
        let told = indexes.pod_changed(view, row, &old, pod);
        self.troubles.extend(told.err());
        true
    }

    /// Takes a pod off a node; `false` when it is not there.
    pub fn remove_pod(&mut self, node_name: &str, uid: &str) -> bool {
        let Some((row, pod)) = self.nodes.remove_pod(node_name, uid) else { return false };
        let (view, indexes) = self.split();
        let told = indexes.pod_left(view, row, &pod);
        self.troubles.extend(told.err());
        true
    }

    /// Another object is new or changed.
    pub fn set_object(&mut self, object: Object) {
        self.objects.set(object.clone());
        let (view, indexes) = self.split();
        let told = indexes.object_changed(view, &ObjectId::BuiltIn(object.key()));
        self.troubles.extend(told.err());
    }

    /// Another object is gone.
    pub fn remove_object(&mut self, key: &ObjectKey) {
        self.objects.remove(key);
        let (view, indexes) = self.split();
        let told = indexes.object_changed(view, &ObjectId::BuiltIn(key.clone()));
        self.troubles.extend(told.err());
    }

    /// Keeps custom objects of that kind from now on; those that come before are not looked at.
    pub fn keep_resource(&mut self, kind: ResourceKind) {
        self.objects.keep(kind);
    }

    /// Keeps custom objects of these kinds and no others: as an engine does whose plugins name no others.
    pub fn keep_only(&mut self, kinds: &[ResourceKind]) {
        self.objects.keep_only(kinds);
    }

    /// A custom object is new or changed. Returns what that changes for plugins: nothing if no kept kind is that of the
    /// object.
    pub fn set_custom(&mut self, raw: &RawObject) -> Vec<CustomChange> {
        let outcome = self.objects.set_custom(raw);
        self.undecodable.extend(outcome.undecodable);
        self.troubles.extend(outcome.troubles);
        if !outcome.changes.is_empty() {
            self.custom_changed(raw.key.clone());
        }
        outcome.changes
    }

    /// A custom object is gone. Returns what that changes for plugins.
    pub fn remove_custom(&mut self, key: &CustomKey) -> Vec<CustomChange> {
        let outcome = self.objects.remove_custom(key);
        if !outcome.changes.is_empty() {
            self.custom_changed(key.clone());
        }
        outcome.changes
    }

    /// Custom objects look different from now on because of what was decided for a pod.
    ///
    /// # Errors
    /// When a plugin's assumption panics.
    pub fn assume(&mut self, pod: &Str, assume: Assume) -> Result<(), PointError> {
        for assumption in assume.into_assumptions() {
            let key = assumption.key.clone();
            if self.objects.assume(pod, assumption)? {
                self.custom_changed(key);
            }
        }
        Ok(())
    }

    /// Nothing is assumed any more because of what was decided for a pod.
    pub fn give_back(&mut self, pod: &str) {
        let (different, troubles) = self.objects.give_back(pod);
        self.troubles.extend(troubles);
        different.into_iter().for_each(|key| self.custom_changed(key));
    }

    /// Custom objects that count as absent because they do not decode, and that were not told of before.
    pub fn take_undecodable(&mut self) -> Vec<Undecodable> {
        std::mem::take(&mut self.undecodable)
    }

    fn custom_changed(&mut self, key: CustomKey) {
        let (view, indexes) = self.split();
        let told = indexes.object_changed(view, &ObjectId::Custom(key));
        self.troubles.extend(told.err());
    }

    /// Brings derived facts up to date: call before every scheduling cycle.
    pub fn refresh(&mut self) {
        self.nodes.refresh();
    }

    fn node_changed(&mut self, row: NodeIdx) {
        let (view, indexes) = self.split();
        let told = indexes.node_changed(view, row);
        self.troubles.extend(told.err());
    }
}
