//! Which pods are where, kept instead of recounted: what PodTopologySpread and InterPodAffinity decide from.
//!
//! Reading order: [`topology`] (which value each node has under a label key), [`row_counts`] (a number per node),
//! [`selector`] (which pods are meant), [`groups`] (pods that no selector can tell apart), [`held_terms`] (what pods on
//! nodes say about other pods).
//!
//! Pods of equal namespace and labels form a *group*. Which selectors select a group, and which held terms do, is found
//! once per pair; after that a pod that comes or goes adds to a handful of numbers. Selectors are watched from the first
//! time somebody asks for them. Everything is counted per node, not per topology value: a node that is relabelled moves
//! with all its numbers, and which nodes count may differ from pod to pod.
//!
//! Invariant: after any sequence of changes every answer equals that of an index made anew.

mod groups;
mod held_terms;
mod recount;
mod row_counts;
mod selector;
#[cfg(test)]
pub(crate) mod tests;
mod topology;

use harbormaster_api::{ObjectKey, ObjectKind, Str};
use harbormaster_framework::prelude::*;

pub use held_terms::HeldTerm;
pub use row_counts::RowCounts;
pub use selector::{PodSelector, PodTerm, well_formed};
pub use topology::{TopologyKey, ValueId};

use groups::Groups;
use held_terms::HeldTerms;
use topology::Topology;

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub struct PodIndex {
    topology: Topology,
    groups: Groups,
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
    pub fn watch_pods(&mut self, known: ClusterView<'_>, selector: &PodSelector) {
        self.groups.watch(known.objects, selector);
    }

    /// On which rows how many pods match; `None` if nobody watches them. Rows may lack a node object.
    pub fn pods(&self, selector: &PodSelector) -> Option<&RowCounts> {
        self.groups.pods(selector)
    }

    /// Gets ready to say what pods on nodes say about a pod like this one.
    pub fn watch_terms_about(&mut self, known: ClusterView<'_>, pod: &PodInfo) {
        self.groups.watch_terms_about(known.objects, &self.held, pod);
    }

    /// The terms held by pods on nodes that select `pod`. Nothing if the pod was not announced by
    /// [`Self::watch_terms_about`].
    pub fn terms_about(&self, pod: &PodInfo) -> impl Iterator<Item = &HeldTerm> {
        let terms = self.groups.terms_about(pod).iter();
        terms.filter_map(|id| self.held.get(*id)).filter(|term| !term.is_empty())
    }
}

impl Index for PodIndex {
    fn pod_joined(&mut self, known: ClusterView<'_>, row: NodeIdx, pod: &PodInfo) {
        self.groups.joined(known.objects, row, pod);
        for held in self.held.of(pod).iter() {
            let fresh = self.held.joined(row, held);
            if let Some(id) = fresh {
                self.topology.watch(known.nodes, &held.term.key);
                self.groups.term_appeared(known.objects, id, &held.term.pods);
            }
        }
        if let Some(gone) = self.held.collect_garbage() {
            self.groups.terms_vanished(&gone);
        }
    }

    fn pod_left(&mut self, _: ClusterView<'_>, row: NodeIdx, pod: &PodInfo) {
        self.groups.left(row, pod);
        for held in self.held.of(pod).iter() {
            self.held.left(row, held);
        }
    }

    fn node_changed(&mut self, known: ClusterView<'_>, row: NodeIdx) {
        self.topology.node_changed(known.nodes, row);
    }

    fn object_changed(&mut self, known: ClusterView<'_>, key: &ObjectKey) {
        if key.kind == ObjectKind::Namespace {
            self.groups.namespace_changed(known.objects, &self.held, &key.name);
        }
    }
}
