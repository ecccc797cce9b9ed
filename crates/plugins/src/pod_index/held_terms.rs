//! What pods on nodes say about other pods: their affinity and anti-affinity, counted per distinct term.

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
    selector_map::{SelectorMap, Spot},
};

/// A distinct term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct TermId(u32);

/// What all holders of one term add up to.
#[derive(Debug, Default)]
pub struct HeldTerm {
    pub(super) term: Arc<Term>,
    spot: Spot,
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
    fn is_empty(&self) -> bool {
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

/// All distinct terms that somebody holds, and what is held by pods of which spec.
#[derive(Debug, Default)]
pub(super) struct HeldTerms {
    by_term: FxHashMap<Arc<Term>, TermId>,
    terms: Vec<Option<HeldTerm>>,
    free: Vec<TermId>,
    by_labels: SelectorMap<TermId>,
    by_spec: FxHashMap<SpecKey, Holders>,
}

/// The spec's address, and the namespace of the pod.
type SpecKey = (usize, Str);

/// Pods of one spec in one namespace.
#[derive(Debug)]
struct Holders {
    /// Held so that its address stays its own.
    _spec: Arc<SpecInfo>,
    held: Arc<[Held]>,
    /// How many pods there are.
    pods: usize,
}

impl HeldTerms {
    /// Every term.
    pub(super) fn iter(&self) -> impl Iterator<Item = &HeldTerm> {
        self.terms.iter().flatten()
    }

    /// The terms that select that pod.
    pub(super) fn about(&self, objects: &Objects, pod: &PodInfo) -> impl Iterator<Item = &HeldTerm> {
        let found = self.by_labels.about(&pod.namespace, &pod.labels);
        let terms = found.filter_map(|id| self.terms.get(id.0 as usize)?.as_ref());
        terms.filter(|held| held.term.pods.matches_pod(objects, &pod.pod))
    }

    /// A pod is on `row`: the terms that nobody held before.
    pub(super) fn joined(&mut self, row: NodeIdx, pod: &PodInfo) -> Vec<Arc<Term>> {
        let mut fresh = Vec::new();
        if !holds_any(pod) {
            return fresh;
        }
        let holders = self.by_spec.entry(spec_key(pod)).or_insert_with(|| Holders {
            _spec: pod.spec.clone(),
            held: held_by(pod).into(),
            pods: 0,
        });
        holders.pods += 1;
        for held in holders.held.clone().iter() {
            let known = self.by_term.get(&held.term).copied();
            let id = known.unwrap_or_else(|| self.insert(&held.term));
            if let Some(term) = &mut self.terms[id.0 as usize] {
                match held.how {
                    How::Anti => term.anti.add(row, 1),
                    How::Affinity => term.affinity.add(row, 1),
                    How::Preferred(weight) => term.preferred.add(row, weight),
                }
            }
            if known.is_none() {
                fresh.push(held.term.clone());
            }
        }
        fresh
    }

    /// A pod is on `row` no more: the terms that nobody holds now, which are forgotten.
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

    /// Whether nobody holds it any more.
    fn release(&mut self, row: NodeIdx, held: &Held) -> bool {
        let Some(id) = self.by_term.get(&held.term).copied() else { return false };
        let Some(term) = &mut self.terms[id.0 as usize] else { return false };
        match held.how {
            How::Anti => term.anti.subtract(row, 1),
            How::Affinity => term.affinity.subtract(row, 1),
            How::Preferred(weight) => term.preferred.subtract(row, weight),
        }
        let is_gone = term.is_empty();
        if is_gone {
            self.by_labels.remove(std::slice::from_ref(&held.term.pods), term.spot, id);
            self.by_term.remove(&held.term);
            self.terms[id.0 as usize] = None;
            self.free.push(id);
        }
        is_gone
    }

    /// Whether exactly the terms that are held are found by labels.
    pub(super) fn check(&self) -> Result<(), String> {
        let known = self.by_term.iter().filter_map(|(term, id)| {
            let held = self.terms.get(id.0 as usize)?.as_ref()?;
            Some((std::slice::from_ref(&term.pods), held.spot, *id))
        });
        if known.clone().count() != self.iter().count() {
            return Err(format!("of {} terms {} are known", self.iter().count(), known.count()));
        }
        if self.by_spec.values().any(|holders| holders.pods == 0) {
            return Err("the terms of a spec without pods are kept".to_owned());
        }
        self.by_labels.check(known)
    }

    fn insert(&mut self, term: &Arc<Term>) -> TermId {
        let id = self.new_id();
        let spot = self.by_labels.insert(std::slice::from_ref(&term.pods), id);
        self.terms[id.0 as usize] = Some(HeldTerm { term: term.clone(), spot, ..HeldTerm::default() });
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

/// Most pods say nothing about others.
fn holds_any(pod: &PodInfo) -> bool {
    let spec = &pod.spec;
    spec.pod_affinity.is_some() || spec.pod_anti_affinity.is_some()
}

fn spec_key(pod: &PodInfo) -> SpecKey {
    (Arc::as_ptr(&pod.spec) as usize, pod.namespace.clone())
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
