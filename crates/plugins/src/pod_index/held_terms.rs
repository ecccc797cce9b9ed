//! The affinity and anti-affinity terms of pods on nodes, counted per distinct term.

use std::sync::Arc;

use harbormaster_api::{
    Str,
    pod::{PodAffinity, PodAffinityTerm},
};
use harbormaster_framework::{pod::SpecInfo, prelude::*};
use rustc_hash::FxHashMap;

use super::{
    PodTerm, RowCounts,
    selector::well_formed,
    selector_map::{MapPosition, SelectorMap},
};

/// ID of a distinct term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct TermId(u32);

/// A term, with sums over the pods that have it.
#[derive(Debug, Default)]
pub struct HeldTerm {
    pub(super) term: Arc<Term>,
    position: MapPosition,
    /// For each row, the number of pods that have the term as required anti-affinity.
    pub anti: RowCounts,
    /// For each row, the number of pods that have the term as required affinity.
    pub affinity: RowCounts,
    /// For each row, the sum of the weights of the pods that have the term as a preferred term. Weights of
    /// anti-affinity count as negative.
    pub preferred: RowCounts,
}

/// A distinct term.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Term {
    pub(super) pods: PodTerm,
    pub(super) key: Str,
}

impl HeldTerm {
    /// Returns the `topologyKey`, which the index watches.
    pub fn key(&self) -> &Str {
        &self.term.key
    }

    /// Returns true if no pod holds the term.
    fn is_empty(&self) -> bool {
        self.anti.is_empty() && self.affinity.is_empty() && self.preferred.is_empty()
    }
}

/// Role of a term in a pod's spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TermRole {
    Anti,
    Affinity,
    Preferred(i64),
}

/// One term of one pod.
#[derive(Clone, Debug)]
pub(super) struct SpecTerm {
    pub(super) term: Arc<Term>,
    role: TermRole,
}

/// All distinct terms of pods on nodes, and the terms of each spec.
#[derive(Debug, Default)]
pub(super) struct HeldTerms {
    by_term: FxHashMap<Arc<Term>, TermId>,
    terms: Vec<Option<HeldTerm>>,
    free: Vec<TermId>,
    by_labels: SelectorMap<TermId>,
    by_spec: FxHashMap<SpecKey, SpecHolders>,
}

/// The address of the spec, and the namespace of the pod.
type SpecKey = (usize, Str);

/// Pods with the same spec and namespace.
#[derive(Debug)]
struct SpecHolders {
    /// Keeps the spec alive, so that its address is not reused.
    _spec: Arc<SpecInfo>,
    held: Arc<[SpecTerm]>,
    /// Number of pods.
    pods: usize,
}

impl HeldTerms {
    /// Returns all terms.
    pub(super) fn iter(&self) -> impl Iterator<Item = &HeldTerm> {
        self.terms.iter().flatten()
    }

    /// Returns the terms that select the pod.
    pub(super) fn candidates_for(&self, objects: &Objects, pod: &PodInfo) -> impl Iterator<Item = &HeldTerm> {
        let found = self.by_labels.candidates_for(&pod.namespace, &pod.labels);
        let terms = found.filter_map(|id| self.terms.get(id.0 as usize)?.as_ref());
        terms.filter(|held| held.term.pods.matches_pod(objects, &pod.pod))
    }

    /// Adds a pod on `row`. Returns the terms that no pod held before.
    pub(super) fn joined(&mut self, row: NodeIdx, pod: &PodInfo) -> Vec<Arc<Term>> {
        let mut fresh = Vec::new();
        if !holds_any(pod) {
            return fresh;
        }
        let holders = self.by_spec.entry(spec_key(pod)).or_insert_with(|| SpecHolders {
            _spec: pod.derived.clone(),
            held: held_by(pod).into(),
            pods: 0,
        });
        holders.pods += 1;
        for held in holders.held.clone().iter() {
            let known = self.by_term.get(&held.term).copied();
            let id = known.unwrap_or_else(|| self.insert(&held.term));
            if let Some(term) = &mut self.terms[id.0 as usize] {
                match held.role {
                    TermRole::Anti => term.anti.add(row, 1),
                    TermRole::Affinity => term.affinity.add(row, 1),
                    TermRole::Preferred(weight) => term.preferred.add(row, weight),
                }
            }
            if known.is_none() {
                fresh.push(held.term.clone());
            }
        }
        fresh
    }

    /// Removes a pod from `row`. Drops the terms that no pod holds any longer, and returns them.
    pub(super) fn left(&mut self, row: NodeIdx, pod: &PodInfo) -> Vec<Arc<Term>> {
        let mut gone = Vec::new();
        if !holds_any(pod) {
            return gone;
        }
        let key = spec_key(pod);
        let Some(holders) = self.by_spec.get_mut(&key) else { return gone };
        holders.pods -= 1;
        let (held, last) = (holders.held.clone(), holders.pods == 0);
        if last {
            self.by_spec.remove(&key);
        }
        gone.extend(held.iter().filter(|held| self.release(row, held)).map(|held| held.term.clone()));
        gone
    }

    /// Removes one pod from the sums of a term. Returns true if no pod holds the term any longer.
    fn release(&mut self, row: NodeIdx, held: &SpecTerm) -> bool {
        let Some(id) = self.by_term.get(&held.term).copied() else { return false };
        let Some(term) = &mut self.terms[id.0 as usize] else { return false };
        match held.role {
            TermRole::Anti => term.anti.subtract(row, 1),
            TermRole::Affinity => term.affinity.subtract(row, 1),
            TermRole::Preferred(weight) => term.preferred.subtract(row, weight),
        }
        let is_gone = term.is_empty();
        if is_gone {
            self.by_labels.remove(std::slice::from_ref(&held.term.pods), term.position, id);
            self.by_term.remove(&held.term);
            self.terms[id.0 as usize] = None;
            self.free.push(id);
        }
        is_gone
    }

    /// Checks that a lookup by label finds all held terms and nothing else.
    pub(super) fn check(&self) -> Result<(), String> {
        let known = self.by_term.iter().filter_map(|(term, id)| {
            let held = self.terms.get(id.0 as usize)?.as_ref()?;
            Some((std::slice::from_ref(&term.pods), held.position, *id))
        });
        if known.clone().count() != self.iter().count() {
            return Err(format!(
                "{} terms exist, but {} are found by term",
                self.iter().count(),
                known.count()
            ));
        }
        if self.by_spec.values().any(|holders| holders.pods == 0) {
            return Err("a spec without pods has terms".to_owned());
        }
        self.by_labels.check(known)
    }

    fn insert(&mut self, term: &Arc<Term>) -> TermId {
        let id = self.new_id();
        let position = self.by_labels.insert(std::slice::from_ref(&term.pods), id);
        self.terms[id.0 as usize] = Some(HeldTerm { term: term.clone(), position, ..HeldTerm::default() });
        self.by_term.insert(term.clone(), id);
        id
    }

    fn new_id(&mut self) -> TermId {
        self.free.pop().unwrap_or_else(|| {
            self.terms.push(None);
            TermId(self.terms.len() as u32 - 1)
        })
    }
}

/// Returns true if the pod may have terms. Most pods have none.
fn holds_any(pod: &PodInfo) -> bool {
    let spec = &pod.spec;
    spec.pod_affinity.is_some() || spec.pod_anti_affinity.is_some()
}

fn spec_key(pod: &PodInfo) -> SpecKey {
    (Arc::as_ptr(&pod.derived) as usize, pod.namespace.clone())
}

/// Returns the terms in a pod's four lists. Like kube-scheduler, treats a list with a syntax error as empty.
fn held_by(pod: &PodInfo) -> Vec<SpecTerm> {
    let spec = &pod.spec;
    let mut all = Vec::new();
    let mut add = |term: &PodAffinityTerm, role: TermRole| {
        if let Some(pods) = PodTerm::new(term, &pod.namespace) {
            all.push(SpecTerm { term: Arc::new(Term { pods, key: term.topology_key.clone() }), role });
        }
    };
    let mut add_lists = |affinity: &PodAffinity, required: TermRole, sign: i64| {
        if well_formed(affinity.required.iter()) {
            affinity.required.iter().for_each(|term| add(term, required));
        }
        if well_formed(affinity.preferred.iter().map(|(_, term)| term)) {
            let preferred = affinity.preferred.iter();
            preferred.for_each(|(weight, term)| add(term, TermRole::Preferred(sign * i64::from(*weight))));
        }
    };
    if let Some(affinity) = &spec.pod_affinity {
        add_lists(affinity, TermRole::Affinity, 1);
    }
    if let Some(affinity) = &spec.pod_anti_affinity {
        add_lists(affinity, TermRole::Anti, -1);
    }
    all
}
