//! A table of per-node results for a plugin's state.

use std::{
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

use rustc_hash::FxHashMap;

use crate::{nodeset::NodeIdx, table::NodeRef};

/// A table in a plugin's state that Filter fills and that PreScore and Reserve read, for example the devices that a pod
/// would get on each node. Only the latest value for a node is stored.
pub struct PerNode<T>(Mutex<FxHashMap<NodeIdx, T>>);

impl<T> PerNode<T> {
    /// Stores the value for a node.
    pub fn set(&self, node: NodeRef<'_>, found: T) {
        self.rows().insert(node.idx(), found);
    }

    fn rows(&self) -> MutexGuard<'_, FxHashMap<NodeIdx, T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Clone> PerNode<T> {
    /// Returns the value for a node.
    pub fn get(&self, node: NodeRef<'_>) -> Option<T> {
        self.rows().get(&node.idx()).cloned()
    }
}

impl<T> Default for PerNode<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> Clone for PerNode<T> {
    fn clone(&self) -> Self {
        Self(Mutex::new(self.rows().clone()))
    }
}

impl<T: fmt::Debug> fmt::Debug for PerNode<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rows().fmt(f)
    }
}
