//! Which pods are where, kept instead of recounted: what PodTopologySpread and InterPodAffinity decide from.
//!
//! Reading order: `topology` (which value each node has under a label key), `row_counts` (a number per node),
//! `selector` (which pods are meant), `label_map` and `selector_map` (what is found by labels), `groups` (pods that
//! no selector can tell apart), `watched` (selectors that somebody asks about), `held_terms` (what pods on nodes say
//! about other pods).
//!
//! Pods, selectors and held terms find each other by the labels that selectors name, so nothing done per pod looks at all
//! of them. A pod that comes or goes looks under each of its labels for the selectors that count it. A selector is watched
//! from the first time somebody asks for it; its pods are then found as groups of equal namespace and labels, under the
//! rarest label that it names. Only selectors that name no label (`NotIn`, `DoesNotExist`, or nothing at all) are tried on
//! every pod, and on every group, of the namespaces they are for. Groups and terms are forgotten with their last pod,
//! selectors and label keys of nodes when many others have been asked for since.
//!
//! Everything is counted per node, not per topology value: a node that is relabelled moves with all its numbers, and which
//! nodes count may differ from pod to pod.
//!
//! Invariant: after any sequence of changes every answer equals that of an index made anew.

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

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub struct PodIndex {
    topology: Topology,
    groups: Groups,
    selectors: Selectors,
    held: HeldTerms,
}

impl PodIndex {
    /// Keeps a column for a label key of nodes from now on.
    pub fn watch_key(&mut self, known: ClusterView<'_>, key: &Str) {
        self.topology.watch(known.nodes, key);
    }

    /// Which value each node has under that key; `None` if nobody watches it.
    pub fn key(&self, key: &str) -> Option<&TopologyKey> {
        self.topology.key(key)
    }

    /// Counts the pods that match from now on.
    pub fn watch_pods(&mut self, selector: &PodSelector) {
        self.selectors.watch(&self.groups, selector);
    }

    /// On which rows how many pods match; `None` if nobody watches them. Rows may lack a node object.
    pub fn pods(&self, selector: &PodSelector) -> Option<&RowCounts> {
        self.selectors.pods(selector)
    }

    /// The terms held by pods on nodes that select `pod`.
    pub fn terms_about(&self, objects: &Objects, pod: &PodInfo) -> impl Iterator<Item = &HeldTerm> {
        self.held.about(objects, pod)
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
