//! An index of the pods on each node, used by PodTopologySpread and InterPodAffinity.
//!
//! Reading order: `topology` (each node's value for a label key), `row_counts` (a sum per node), `selector` (pod
//! selectors), `label_map` and `selector_map` (lookup by label), `groups` (pods with equal namespace and labels),
//! `watched` (selectors in use), `held_terms` (affinity terms of pods on nodes).
//!
//! Pods are matched to selectors and held terms through the labels that the selectors require, so no operation on a pod
//! visits all selectors or terms. For an added or removed pod, the index looks under each of the pod's labels for
//! selectors that count the pod. The index watches a selector from its first use on. To find the groups of pods that
//! the selector counts, it looks under only one label: of the labels that the selector requires, the one with the
//! fewest groups. Only selectors that require no label (empty ones, or ones with only `NotIn` and `DoesNotExist`) are
//! tried on every pod and group of their namespaces. Groups and terms are dropped with their last pod. If there are too
//! many selectors or node label keys, those that were used least recently are dropped.
//!
//! Counts are kept per node, not per topology value, so that a relabeled node keeps its counts and each pod can choose
//! the nodes whose counts matter to it.
//!
//! Invariant: after any sequence of changes the index gives the same answers as a rebuilt one.

mod groups;
mod held_terms;
mod label_map;
mod recount;
mod row_counts;
mod selector;
mod selector_map;
#[cfg(test)]
pub(crate) mod tests;
mod topology;
mod watched;

use std::sync::Arc;

use harbormaster_api::{ObjectKind, Str};
use harbormaster_framework::prelude::*;

pub use held_terms::HeldTerm;
pub use row_counts::RowCounts;
pub use selector::{PodSelector, PodTerm, well_formed};
pub use topology::{TopologyKey, ValueId};

use groups::Groups;
use held_terms::HeldTerms;
use topology::Topology;
use watched::Selectors;

/// An index of the pods on each node. See the [module documentation](self).
#[derive(Debug, Default)]
pub struct PodIndex {
    topology: Topology,
    groups: Groups,
    selectors: Selectors,
    held: HeldTerms,
}

impl PodIndex {
    /// Starts keeping a column for a node label key.
    pub fn watch_key(&mut self, known: ClusterView<'_>, key: &Str) {
        self.topology.watch(known.nodes, key);
    }

    /// Returns each node's value for the key, or `None` if the key is not watched.
    pub fn key(&self, key: &str) -> Option<&TopologyKey> {
        self.topology.key(key)
    }

    /// Starts counting the pods that the selector matches.
    pub fn watch_pods(&mut self, selector: &PodSelector) {
        self.selectors.watch(&self.groups, selector);
    }

    /// Returns the number of matching pods by row, or `None` if the selector is not watched. A row need not have a
    /// node object.
    pub fn pods(&self, selector: &PodSelector) -> Option<&RowCounts> {
        self.selectors.pods(selector)
    }

    /// Returns the held terms that select `pod`. A held term is an affinity term of a pod that is on a node.
    pub fn terms_about(&self, objects: &Objects, pod: &PodInfo) -> impl Iterator<Item = &HeldTerm> {
        self.held.candidates_for(objects, pod)
    }
}

impl Index for PodIndex {
    fn pod_joined(&mut self, known: ClusterView<'_>, row: NodeIdx, pod: &PodInfo) {
        let namespace = self.groups.joined(known.objects, row, pod);
        self.selectors.joined(namespace, row, pod);
        for term in self.held.joined(row, pod) {
            self.topology.hold(known.nodes, &term.key);
        }
        self.topology.make_room();
    }

    fn pod_left(&mut self, _: ClusterView<'_>, row: NodeIdx, pod: &PodInfo) {
        if let Some(namespace) = self.groups.left(row, pod) {
            self.selectors.left(&namespace, row, pod);
        }
        for term in self.held.left(row, pod) {
            self.topology.release(&term.key);
        }
        self.topology.make_room();
    }

    fn pod_changed(&mut self, known: ClusterView<'_>, row: NodeIdx, old: &PodInfo, new: &PodInfo) {
        let same_group = old.namespace == new.namespace && old.labels == new.labels;
        let same_state = old.is_terminating() == new.is_terminating() && Arc::ptr_eq(&old.spec, &new.spec);
        if !(same_group && same_state) {
            self.pod_left(known, row, old);
            self.pod_joined(known, row, new);
        }
    }

    fn node_changed(&mut self, known: ClusterView<'_>, row: NodeIdx) {
        self.topology.make_room();
        self.topology.node_changed(known.nodes, row);
    }

    fn object_changed(&mut self, known: ClusterView<'_>, id: &ObjectId) {
        if let ObjectId::BuiltIn(key) = id
            && key.kind == ObjectKind::Namespace
            && let Some((was, is)) = self.groups.namespace_changed(known.objects, &key.name)
        {
            self.selectors.namespace_changed(&self.groups, &was, &is);
        }
    }
}
