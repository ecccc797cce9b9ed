//! The affinity terms of the pod being scheduled.

use harbormaster_api::{
    PodSpec, Str,
    pod::{PodAffinity, PodAffinityTerm},
    selector::{LabelSelector, SelectorError},
};
use harbormaster_framework::prelude::*;

use super::InterPodAffinity;
use crate::pod_index::{PodSelector, PodTerm};

/// A required anti-affinity term, or a preferred term of either kind.
#[derive(Debug)]
pub(super) struct Term {
    /// `topologyKey`.
    pub(super) key: Str,
    /// Pods that match.
    pub(super) pods: PodSelector,
}

/// The required terms.
#[derive(Debug, Default)]
pub(super) struct Required {
    /// Distinct keys of the affinity terms.
    pub(super) affinity_keys: Vec<Str>,
    /// Pods that match every affinity term; `None` if there are no terms, or if a term matches nothing.
    pub(super) affinity: Option<PodSelector>,
    /// Anti-affinity terms, except for terms that match nothing.
    pub(super) anti: Vec<Term>,
}

impl InterPodAffinity {
    /// Returns the required terms of the pod.
    pub(super) fn required(&self, pod: &PodInfo) -> Required {
        let spec = &pod.spec;
        let affinity = required(&spec.pod_affinity);
        let mut affinity_keys: Vec<Str> = Vec::with_capacity(affinity.len());
        for term in affinity {
            if !affinity_keys.contains(&term.topology_key) {
                affinity_keys.push(term.topology_key.clone());
            }
        }
        let all_of: Option<Vec<PodTerm>> =
            affinity.iter().map(|term| self.incoming_term(term, pod)).collect();
        let affinity = all_of.filter(|terms| !terms.is_empty()).map(selector_of);
        let anti = required(&spec.pod_anti_affinity).iter();
        let anti = anti.filter_map(|term| self.term(term, pod)).collect();
        Required { affinity_keys, affinity, anti }
    }

    /// Returns the preferred terms with their weights, negative for anti-affinity. Omits terms that match nothing.
    pub(super) fn preferred(&self, pod: &PodInfo) -> Vec<(i64, Term)> {
        let spec = &pod.spec;
        let signed = |affinity, sign: i64| {
            let terms = list(affinity).iter();
            terms.filter_map(move |(weight, term)| Some((sign * i64::from(*weight), self.term(term, pod)?)))
        };
        signed(&spec.pod_affinity, 1).chain(signed(&spec.pod_anti_affinity, -1)).collect()
    }

    fn incoming_term(&self, term: &PodAffinityTerm, pod: &PodInfo) -> Option<PodTerm> {
        let term = PodTerm::new(term, &pod.namespace)?;
        Some(PodTerm { selects_as_unlabeled: self.selects_as_unlabeled, ..term })
    }

    fn term(&self, term: &PodAffinityTerm, pod: &PodInfo) -> Option<Term> {
        let pods = selector_of(vec![self.incoming_term(term, pod)?]);
        Some(Term { key: term.topology_key.clone(), pods })
    }
}

fn list(affinity: &Option<PodAffinity>) -> &[(i32, PodAffinityTerm)] {
    affinity.as_ref().map_or(&[], |affinity| &affinity.preferred)
}

/// Returns the required terms of an affinity.
pub(super) fn required(affinity: &Option<PodAffinity>) -> &[PodAffinityTerm] {
    affinity.as_ref().map_or(&[], |affinity| &affinity.required)
}

/// Returns true if the pod has preferred terms.
pub(super) fn prefers(spec: &PodSpec) -> bool {
    !list(&spec.pod_affinity).is_empty() || !list(&spec.pod_anti_affinity).is_empty()
}

/// Returns the selector of the pods that match all terms, including terminating pods.
fn selector_of(all_of: Vec<PodTerm>) -> PodSelector {
    PodSelector { all_of, live_only: false }
}

/// Checks all terms of the pod for syntax errors.
///
/// # Errors
/// The first error in each list, prefixed with kube-scheduler's name for the list.
pub(super) fn check(spec: &PodSpec) -> Result<(), SelectorError> {
    let (affinity, anti) = (&spec.pod_affinity, &spec.pod_anti_affinity);
    if affinity.is_none() && anti.is_none() {
        return Ok(());
    }
    let results = [
        ("requiredAffinityTerms", check_terms(required(affinity))),
        ("requiredAntiAffinityTerms", check_terms(required(anti))),
        ("preferredAffinityTerms", check_terms(list(affinity).iter().map(|(_, term)| term))),
        ("preferredAntiAffinityTerms", check_terms(list(anti).iter().map(|(_, term)| term))),
    ];
    let errors = results.into_iter().filter_map(|(list, result)| Some(format!("{list}: {}", result.err()?)));
    let errors: Vec<String> = errors.collect();
    if errors.is_empty() { Ok(()) } else { Err(SelectorError(errors)) }
}

/// Checks one list for syntax errors.
///
/// # Errors
/// The first error.
pub(super) fn check_terms<'a>(
    terms: impl IntoIterator<Item = &'a PodAffinityTerm>,
) -> Result<(), SelectorError> {
    let check = |selector: &Option<LabelSelector>| selector.as_ref().map_or(Ok(()), LabelSelector::check);
    terms.into_iter().try_for_each(|term| {
        check(&term.label_selector)?;
        check(&term.namespace_selector)
    })
}
