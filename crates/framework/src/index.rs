//! Indexes: what plugins keep of the cluster instead of recounting it for every pod.
//!
//! An index is a type of its own. A plugin that uses one implements [`crate::plugin::Indexed`]; plugins that name the same
//! type share one instance, whatever their profiles. The cluster owns the instances and tells them of every change: pods
//! that join and leave rows (assumed, confirmed and forgotten ones alike), nodes, other objects. Questions of the form
//! "what if" do not reach an index; they change a plugin's filter state.
//!
//! Invariant: an index always equals one that is made anew from the cluster.

use std::any::{Any, TypeId};

use harbormaster_api::ObjectKey;

use crate::{
    nodeset::NodeIdx,
    objects::Objects,
    outcome::{PluginError, PluginResult},
    pod::PodInfo,
    table::NodeTable,
};

/// What is known of the cluster, without the indexes.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// All nodes and the pods on them.
    pub nodes: &'a NodeTable,
    /// Everything else.
    pub objects: &'a Objects,
}

/// Something kept. See the [module documentation](self).
pub trait Index: Any + Default + Send + Sync {
    /// A pod is on a row now. The row may lack its node object: the pod is then on a node that is not known yet.
    fn pod_joined(&mut self, known: Known<'_>, row: NodeIdx, pod: &PodInfo) {
        let _ = (known, row, pod);
    }

    /// A pod is on a row no more. Called with the very object that joined.
    fn pod_left(&mut self, known: Known<'_>, row: NodeIdx, pod: &PodInfo) {
        let _ = (known, row, pod);
    }

    /// A row's node appeared, changed, or is gone: `known.nodes` has what it is now.
    fn node_changed(&mut self, known: Known<'_>, row: NodeIdx) {
        let _ = (known, row);
    }

    /// Another object appeared, changed, or is gone: `known.objects` has what it is now.
    fn object_changed(&mut self, known: Known<'_>, key: &ObjectKey) {
        let _ = (known, key);
    }
}

/// [`Index`] with its type erased.
trait ErasedIndex: Any + Send + Sync {
    fn pod_joined(&mut self, known: Known<'_>, row: NodeIdx, pod: &PodInfo);
    fn pod_left(&mut self, known: Known<'_>, row: NodeIdx, pod: &PodInfo);
    fn node_changed(&mut self, known: Known<'_>, row: NodeIdx);
    fn object_changed(&mut self, known: Known<'_>, key: &ObjectKey);
    fn as_any(&self) -> &dyn Any;
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

impl<I: Index> ErasedIndex for I {
    fn pod_joined(&mut self, known: Known<'_>, row: NodeIdx, pod: &PodInfo) {
        Index::pod_joined(self, known, row, pod);
    }
    fn pod_left(&mut self, known: Known<'_>, row: NodeIdx, pod: &PodInfo) {
        Index::pod_left(self, known, row, pod);
    }
    fn node_changed(&mut self, known: Known<'_>, row: NodeIdx) {
        Index::node_changed(self, known, row);
    }
    fn object_changed(&mut self, known: Known<'_>, key: &ObjectKey) {
        Index::object_changed(self, known, key);
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// A kind of index: its type, and how it is made.
#[derive(Clone, Copy)]
pub struct IndexKind {
    type_id: TypeId,
    make: fn() -> Box<dyn ErasedIndex>,
}

impl IndexKind {
    /// The kind of index `I`.
    pub fn of<I: Index>() -> Self {
        Self { type_id: TypeId::of::<I>(), make: || Box::new(I::default()) }
    }
}

impl std::fmt::Debug for IndexKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "IndexKind({:?})", self.type_id)
    }
}

/// All indexes in use, one per kind.
#[derive(Default)]
pub struct Indexes(Vec<(TypeId, Box<dyn ErasedIndex>)>);

impl Indexes {
    /// The index of that type.
    ///
    /// # Errors
    /// When no plugin in use has listed it: the asking plugin forgot `points.indexed()`.
    pub fn get<I: Index>(&self) -> PluginResult<&I> {
        let found = self.0.iter().find(|(id, _)| *id == TypeId::of::<I>());
        found.and_then(|(_, index)| index.as_any().downcast_ref()).ok_or_else(|| unlisted::<I>())
    }

    /// The index of that type, to be changed.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn get_mut<I: Index>(&mut self) -> PluginResult<&mut I> {
        let found = self.0.iter_mut().find(|(id, _)| *id == TypeId::of::<I>());
        found.and_then(|(_, index)| index.as_any_mut().downcast_mut()).ok_or_else(|| unlisted::<I>())
    }

    /// Makes an index of that kind from what is known, unless there is one.
    pub fn add(&mut self, kind: IndexKind, known: Known<'_>) {
        if self.0.iter().any(|(id, _)| *id == kind.type_id) {
            return;
        }
        let mut index = (kind.make)();
        for row in (0..known.nodes.rows()).map(NodeIdx::from) {
            let node = known.nodes.node(row);
            if node.object().is_some() {
                index.node_changed(known, row);
            }
            node.pods().iter().for_each(|pod| index.pod_joined(known, row, pod));
        }
        self.0.push((kind.type_id, index));
    }

    pub(crate) fn pod_joined(&mut self, known: Known<'_>, row: NodeIdx, pod: &PodInfo) {
        self.0.iter_mut().for_each(|(_, index)| index.pod_joined(known, row, pod));
    }

    pub(crate) fn pod_left(&mut self, known: Known<'_>, row: NodeIdx, pod: &PodInfo) {
        self.0.iter_mut().for_each(|(_, index)| index.pod_left(known, row, pod));
    }

    pub(crate) fn node_changed(&mut self, known: Known<'_>, row: NodeIdx) {
        self.0.iter_mut().for_each(|(_, index)| index.node_changed(known, row));
    }

    pub(crate) fn object_changed(&mut self, known: Known<'_>, key: &ObjectKey) {
        self.0.iter_mut().for_each(|(_, index)| index.object_changed(known, key));
    }
}

fn unlisted<I>() -> PluginError {
    format!("the index {} is not kept: no plugin lists it", std::any::type_name::<I>()).into()
}

impl std::fmt::Debug for Indexes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Indexes({})", self.0.len())
    }
}
