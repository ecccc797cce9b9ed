//! The cluster as plugins see it: nodes with their pods, other objects, and indexes over both.

use std::{ops::Deref, sync::Arc};

use harbormaster_api::{Node, Object, ObjectKey, Str, Timestamp};

use crate::{
    assume::Assume,
    guard::PointError,
    index::{ClusterView, IndexKind, Indexes},
    nodeset::NodeIdx,
    nominations::Nominations,
    objects::{ObjectId, Objects},
    pod::PodInfo,
    resource::{CustomChange, CustomKey, RawObject, Resource, ResourceKind, Undecodable, Watched},
    table::NodeTable,
};

/// The complete state of the cluster. All changes go through its methods, so that no index misses a change. Derefs to
/// its [`NodeTable`].
#[derive(Debug, Default)]
pub struct Cluster {
    nodes: NodeTable,
    objects: Objects,
    indexes: Indexes,
    nominations: Nominations,
    errors: Vec<PointError>,
    undecodable: Vec<Undecodable>,
    now: Timestamp,
    group_cycle: Option<u64>,
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

    /// Time of the current attempt; see [`Cycle::now`](crate::cycle::Cycle::now).
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Sets the time for the next attempt.
    pub fn set_now(&mut self, now: Timestamp) {
        self.now = now;
    }

    /// Number of the group's cycle that is in progress; see [`Cycle::group_cycle`](crate::cycle::Cycle::group_cycle).
    pub fn group_cycle(&self) -> Option<u64> {
        self.group_cycle
    }

    /// Sets the number of the group's cycle for the next attempts; `None` for pods on their own.
    pub fn set_group_cycle(&mut self, number: Option<u64>) {
        self.group_cycle = number;
    }

    /// The nominated pods, as of the last [`Self::set_nominations`].
    pub fn nominations(&self) -> &Nominations {
        &self.nominations
    }

    /// Replaces the nominated pods. Call this before an attempt if they have changed.
    pub fn set_nominations(&mut self, nominations: Nominations) {
        self.nominations = nominations;
    }

    /// Objects other than nodes and pods.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// The custom objects of a kind, for hosts and tests. Plugins read the objects that they
    /// [watch](crate::resource::Watches).
    pub fn watched<R: Resource>(&self) -> Watched<'_, R> {
        Watched::new(&self.objects)
    }

    /// The indexes of plugins.
    pub fn indexes(&self) -> &Indexes {
        &self.indexes
    }

    /// Borrows the nodes and objects, and separately the indexes.
    pub fn split(&mut self) -> (ClusterView<'_>, &mut Indexes) {
        (ClusterView { nodes: &self.nodes, objects: &self.objects }, &mut self.indexes)
    }

    /// The node table for dry runs: every change must be undone.
    pub fn what_if(&mut self) -> &mut NodeTable {
        &mut self.nodes
    }

    /// Adds an index of the given kind. If the index panics on a pod, node or object, the panic becomes an
    /// [error](Self::take_errors).
    pub fn add_index(&mut self, kind: IndexKind) {
        let (view, indexes) = self.split();
        let added = indexes.add(kind, view);
        self.errors.extend(added.err());
    }

    /// Returns true if [`Self::take_errors`] or [`Self::take_undecodable`] would return something.
    pub fn has_failures(&self) -> bool {
        !self.errors.is_empty() || !self.undecodable.is_empty()
    }

    /// Returns the errors of indexes and assumptions since the last call, for reporting.
    pub fn take_errors(&mut self) -> Vec<PointError> {
        std::mem::take(&mut self.errors)
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

    /// Puts a pod on the named node. An unknown node gets a row without an object.
    pub fn add_pod(&mut self, node_name: &Str, pod: Arc<PodInfo>) {
        let row = self.nodes.add_pod(node_name, pod.clone());
        let (view, indexes) = self.split();
        let result = indexes.pod_joined(view, row, &pod);
        self.errors.extend(result.err());
    }

    /// Replaces a pod on a node with its current version. Returns false if the pod is not on the node.
    pub fn replace_pod(&mut self, node_name: &str, pod: &Arc<PodInfo>) -> bool {
        let Some((row, old)) = self.nodes.replace_pod(node_name, pod.clone()) else { return false };
        let (view, indexes) = self.split();
        let result = indexes.pod_changed(view, row, &old, pod);
        self.errors.extend(result.err());
        true
    }

    /// Removes a pod from a node. Returns false if the pod is not on the node.
    pub fn remove_pod(&mut self, node_name: &str, uid: &str) -> bool {
        let Some((row, pod)) = self.nodes.remove_pod(node_name, uid) else { return false };
        let (view, indexes) = self.split();
        let result = indexes.pod_left(view, row, &pod);
        self.errors.extend(result.err());
        true
    }

    /// Adds or replaces an object other than a node, pod or custom object.
    pub fn set_object(&mut self, object: Object) {
        self.objects.set(object.clone());
        let (view, indexes) = self.split();
        let result = indexes.object_changed(view, &ObjectId::BuiltIn(object.key()));
        self.errors.extend(result.err());
    }

    /// Removes an object other than a node, pod or custom object.
    pub fn remove_object(&mut self, key: &ObjectKey) {
        self.objects.remove(key);
        let (view, indexes) = self.split();
        let result = indexes.object_changed(view, &ObjectId::BuiltIn(key.clone()));
        self.errors.extend(result.err());
    }

    /// Stores custom objects of the given kind from now on. Objects that were set before this call are not stored.
    pub fn add_resource(&mut self, kind: ResourceKind) {
        self.objects.add_resource(kind);
    }

    /// Adds or replaces a custom object. Returns the resulting changes for plugins; none if the object's kind is not
    /// stored.
    pub fn set_custom(&mut self, raw: &RawObject) -> Vec<CustomChange> {
        let outcome = self.objects.set_custom(raw);
        self.undecodable.extend(outcome.undecodable);
        self.errors.extend(outcome.errors);
        if !outcome.changes.is_empty() {
            self.custom_changed(raw.key.clone());
        }
        outcome.replaced.into_iter().for_each(|key| self.custom_changed(key));
        outcome.changes
    }

    /// Removes a custom object. Returns the resulting changes for plugins.
    pub fn remove_custom(&mut self, key: &CustomKey) -> Vec<CustomChange> {
        let outcome = self.objects.remove_custom(key);
        if !outcome.changes.is_empty() {
            self.custom_changed(key.clone());
        }
        outcome.changes
    }

    /// Applies the assumptions made for a pod to custom objects.
    ///
    /// # Errors
    /// When a plugin's assumption panics.
    pub fn assume(&mut self, pod: &Str, assume: Assume) -> Result<(), PointError> {
        let (assumptions, creations) = assume.into_parts();
        for assumption in assumptions {
            let key = assumption.key.clone();
            if self.objects.assume(pod, assumption)? {
                self.custom_changed(key);
            }
        }
        for creation in creations {
            let key = creation.key.clone();
            if self.objects.expect(pod, creation) {
                self.custom_changed(key);
            }
        }
        Ok(())
    }

    /// Reverts the assumptions made for a pod.
    pub fn revert_assumptions(&mut self, pod: &str) {
        let (different, errors) = self.objects.revert_assumptions(pod);
        self.errors.extend(errors);
        different.into_iter().for_each(|key| self.custom_changed(key));
    }

    /// Returns the errors for custom objects that cannot be decoded and are therefore treated as absent. Each error is
    /// returned once.
    pub fn take_undecodable(&mut self) -> Vec<Undecodable> {
        std::mem::take(&mut self.undecodable)
    }

    fn custom_changed(&mut self, key: CustomKey) {
        let (view, indexes) = self.split();
        let result = indexes.object_changed(view, &ObjectId::Custom(key));
        self.errors.extend(result.err());
    }

    /// Updates the data that is derived from all nodes: the node order and the image counts. Call this before every
    /// scheduling cycle.
    pub fn refresh(&mut self) {
        self.nodes.refresh();
    }

    fn node_changed(&mut self, row: NodeIdx) {
        let (view, indexes) = self.split();
        let result = indexes.node_changed(view, row);
        self.errors.extend(result.err());
    }
}
