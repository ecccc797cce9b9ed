//! Which pods are meant: namespaces and labels.

use harbormaster_api::{Labels, Pod, Str, pod::PodAffinityTerm, selector::LabelSelector};
use harbormaster_framework::prelude::*;

/// Pods that match every one of some terms.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodSelector {
    /// All of them must match.
    pub all_of: Vec<PodTerm>,
    /// Leaves terminating pods out.
    pub live_only: bool,
}

/// Pods of some namespaces with some labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodTerm {
    /// These namespaces, sorted.
    pub namespaces: Vec<Str>,
    /// And those whose labels match. A namespace without an object has no labels.
    pub namespace_selector: Option<LabelSelector>,
    /// The labels of the pods.
    pub labels: LabelSelector,
    /// The term is one of the pod that is being scheduled: kube-scheduler then resolves the namespace selector to names
    /// and evaluates it once more on no labels at all, so that one of nothing but `NotIn` and `DoesNotExist` selects
    /// every namespace.
    pub incoming: bool,
}

impl PodTerm {
    /// A term of `v1.PodAffinity`, held by a pod of `namespace`; `None` if it matches nothing.
    pub fn new(term: &PodAffinityTerm, namespace: &Str, incoming: bool) -> Option<Self> {
        let labels = term.label_selector.clone()?;
        let own = term.namespaces.is_empty() && term.namespace_selector.is_none();
        let mut namespaces = if own { vec![namespace.clone()] } else { term.namespaces.clone() };
        namespaces.sort();
        namespaces.dedup();
        Some(Self { namespaces, namespace_selector: term.namespace_selector.clone(), labels, incoming })
    }

    /// Whether pods of these labels in that namespace are meant.
    pub fn matches(&self, objects: &Objects, namespace: &Str, labels: &Labels) -> bool {
        self.labels.matches(labels) && self.has_namespace(objects, namespace)
    }

    /// Whether that pod is meant.
    pub fn matches_pod(&self, objects: &Objects, pod: &Pod) -> bool {
        self.matches(objects, &pod.namespace, &pod.labels)
    }

    fn has_namespace(&self, objects: &Objects, namespace: &Str) -> bool {
        self.namespaces.contains(namespace)
            || self.namespace_selector.as_ref().is_some_and(|selector| {
                let none = Labels::default();
                selector.matches(objects.namespace_labels(namespace).unwrap_or(&none))
                    || (self.incoming && selector.matches(&none))
            })
    }
}

impl PodSelector {
    /// Whether pods of these labels in that namespace match.
    pub(super) fn matches(
        &self,
        objects: &Objects,
        namespace: &Str,
        labels: &Labels,
        terminating: bool,
    ) -> bool {
        let counts = !self.live_only || !terminating;
        counts
            && !self.all_of.is_empty()
            && self.all_of.iter().all(|term| term.matches(objects, namespace, labels))
    }
}

/// Whether no term of a list has a syntax error. kube-scheduler ignores the whole list of a pod on a node otherwise.
pub fn well_formed<'a>(terms: impl Iterator<Item = &'a PodAffinityTerm> + Clone) -> bool {
    let good = |selector: &Option<LabelSelector>| selector.as_ref().is_none_or(|s| s.check().is_ok());
    terms.clone().all(|term| good(&term.label_selector) && good(&term.namespace_selector))
}
