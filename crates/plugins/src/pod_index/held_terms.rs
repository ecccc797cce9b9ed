//! What pods on nodes say about other pods: their affinity and anti-affinity, counted per distinct term.

use std::sync::Arc;

use harbormaster_api::{
    Str,
    pod::{PodAffinity, PodAffinityTerm},
};
use harbormaster_framework::{pod::SpecInfo, prelude::*};
use rustc_hash::FxHashMap;

use super::{PodTerm, RowCounts, selector::well_formed};

/// A distinct term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct TermId(u32);

/// What all holders of one term add up to.
#[derive(Debug, Default)]
pub struct HeldTerm {
    pub(super) term: Arc<Term>,
    /// Rows with pods that hold the term as required anti-affinity, and how many.
    pub anti: RowCounts,
    /// Rows with pods that hold it as required affinity, and how many.
    pub affinity: RowCounts,
    /// Rows with pods that hold it as preferred affinity or anti-affinity, and the sum of their weights, those of
    /// anti-affinity negative.
    pub preferred: RowCounts,
}

/// What makes a term distinct.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Term {
    pub(super) pods: PodTerm,
    pub(super) key: Str,
}

impl HeldTerm {
    /// `topologyKey`, which the index watches.
    pub fn key(&self) -> &Str {
        &self.term.key
    }

    /// Whether nobody holds it any more.
    pub fn is_empty(&self) -> bool {
        self.anti.is_empty() && self.affinity.is_empty() && self.preferred.is_empty()
    }
}

/// How a pod holds a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Anti,
    Affinity,
    Preferred(i64),
}

/// One term of one pod.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) term: Arc<Term>,
    how: How,
}

/// All distinct terms, and what is held by pods of which spec.
#[derive(Debug, Default)]
pub(super) struct HeldTerms {
    by_term: FxHashMap<Arc<Term>, TermId>,
    terms: Vec<Option<HeldTerm>>,
    free: Vec<TermId>,
    empty: usize,
    /// By the spec's address and the namespace; the spec is held so that its address stays its own.
    by_spec: FxHashMap<(usize, Str), (Arc<SpecInfo>, Arc<[Held]>)>,
}

/// How many terms that nobody holds are kept before they are thrown away.
const GARBAGE: usize = 256;
/// For how many pairs of spec and namespace the terms are kept ready.
const SPECS: usize = 4096;

impl HeldTerms {
    pub(super) fn get(&self, id: TermId) -> Option<&HeldTerm> {
        self.terms.get(id.0 as usize)?.as_ref()
    }

    /// Every term with its number.
    pub(super) fn iter(&self) -> impl Iterator<Item = (TermId, &HeldTerm)> {
        let numbered = self.terms.iter().enumerate();
        numbered.filter_map(|(at, term)| Some((TermId(at as u32), term.as_ref()?)))
    }

    /// What that pod holds.
    pub(super) fn of(&mut self, pod: &PodInfo) -> Arc<[Held]> {
        let spec = &pod.spec;
        if spec.pod_affinity.is_none() && spec.pod_anti_affinity.is_none() {
            return Arc::default();
        }
        let key = (Arc::as_ptr(&pod.spec) as usize, pod.namespace.clone());
        if let Some((_, held)) = self.by_spec.get(&key) {
            return held.clone();
        }
        if self.by_spec.len() >= SPECS {
            self.by_spec.clear();
        }
        let held: Arc<[Held]> = held_by(pod).into();
        self.by_spec.insert(key, (pod.spec.clone(), held.clone()));
        held
    }

    /// A pod that holds the term is on `row`; the term's number if it was not known.
    pub(super) fn joined(&mut self, row: NodeIdx, held: &Held) -> Option<TermId> {
        let known = self.by_term.get(&held.term).copied();
        let id = known.unwrap_or_else(|| self.new_id());
        if known.is_none() {
            self.terms[id.0 as usize] = Some(HeldTerm { term: held.term.clone(), ..HeldTerm::default() });
            self.by_term.insert(held.term.clone(), id);
            self.empty += 1;
        }
        if let Some(term) = &mut self.terms[id.0 as usize] {
            self.empty -= usize::from(term.is_empty());
            match held.how {
                How::Anti => term.anti.add(row, 1),
                How::Affinity => term.affinity.add(row, 1),
                How::Preferred(weight) => term.preferred.add(row, weight),
            }
        }
        known.is_none().then_some(id)
    }

    /// A pod that held the term is gone from `row`.
    pub(super) fn left(&mut self, row: NodeIdx, held: &Held) {
        let Some(id) = self.by_term.get(&held.term) else { return };
        if let Some(term) = &mut self.terms[id.0 as usize] {
            match held.how {
                How::Anti => term.anti.subtract(row, 1),
                How::Affinity => term.affinity.subtract(row, 1),
                How::Preferred(weight) => term.preferred.subtract(row, weight),
            }
            self.empty += usize::from(term.is_empty());
        }
    }

    /// Throws terms away that nobody holds, if there are many; which.
    pub(super) fn collect_garbage(&mut self) -> Option<Vec<TermId>> {
        if self.empty < GARBAGE || self.empty * 2 < self.by_term.len() {
            return None;
        }
        let gone: Vec<TermId> = self.iter().filter(|(_, t)| t.is_empty()).map(|(id, _)| id).collect();
        for id in &gone {
            if let Some(term) = self.terms[id.0 as usize].take() {
                self.by_term.remove(&term.term);
            }
        }
        self.free.extend(&gone);
        self.empty = 0;
        Some(gone)
    }

    fn new_id(&mut self) -> TermId {
        self.free.pop().unwrap_or_else(|| {
            self.terms.push(None);
            TermId(self.terms.len() as u32 - 1)
        })
    }
}

/// The terms of a pod's four lists. A list with a syntax error counts as empty, as in kube-scheduler.
fn held_by(pod: &PodInfo) -> Vec<Held> {
    let spec = &pod.spec;
    let mut all = Vec::new();
    let mut add = |term: &PodAffinityTerm, how: How| {
        if let Some(pods) = PodTerm::new(term, &pod.namespace, false) {
            all.push(Held { term: Arc::new(Term { pods, key: term.topology_key.clone() }), how });
        }
    };
    let mut add_lists = |affinity: &PodAffinity, required: How, sign: i64| {
        if well_formed(affinity.required.iter()) {
            affinity.required.iter().for_each(|term| add(term, required));
        }
        if well_formed(affinity.preferred.iter().map(|(_, term)| term)) {
            let preferred = affinity.preferred.iter();
            preferred.for_each(|(weight, term)| add(term, How::Preferred(sign * i64::from(*weight))));
        }
    };
    if let Some(affinity) = &spec.pod_affinity {
        add_lists(affinity, How::Affinity, 1);
    }
    if let Some(affinity) = &spec.pod_anti_affinity {
        add_lists(affinity, How::Anti, -1);
    }
    all
}
