//! Pod selectors: namespaces and labels.

use harbormaster_api::{Labels, Namespace, Pod, Str, pod::PodAffinityTerm, selector::LabelSelector};
use harbormaster_framework::prelude::*;

/// Selects pods that match all of several terms.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodSelector {
    /// Terms that must all match.
    pub all_of: Vec<PodTerm>,
    /// True to exclude terminating pods.
    pub live_only: bool,
}

/// Selects pods by namespace and labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodTerm {
    /// Names of namespaces, sorted.
    pub namespaces: Vec<Str>,
    /// Selects additional namespaces by label. A namespace without an object has no labels.
    pub namespace_selector: Option<LabelSelector>,
    /// Selector of the pods' labels.
    pub labels: LabelSelector,
    /// True if the namespace selector is evaluated not only on the labels of namespaces but also on empty labels, so
    /// that a selector with only `NotIn` and `DoesNotExist` selects every namespace.
    pub selects_as_unlabeled: bool,
}

impl PodTerm {
    /// Converts a term of a pod in `namespace`. Returns `None` if the term matches nothing.
    pub fn new(term: &PodAffinityTerm, namespace: &Str) -> Option<Self> {
        let labels = term.label_selector.clone()?;
        let own = term.namespaces.is_empty() && term.namespace_selector.is_none();
        let mut namespaces = if own { vec![namespace.clone()] } else { term.namespaces.clone() };
        namespaces.sort();
        namespaces.dedup();
        let namespace_selector = term.namespace_selector.clone();
        Some(Self { namespaces, namespace_selector, labels, selects_as_unlabeled: false })
    }

    /// Returns true if the term selects the pod.
    pub fn matches_pod(&self, objects: &Objects, pod: &Pod) -> bool {
        let none = Labels::default();
        let of_namespace = || objects.namespace_labels(&pod.namespace).unwrap_or(&none);
        self.labels.matches(&pod.labels) && self.has_namespace(&pod.namespace, of_namespace)
    }

    /// Returns true if the term applies to the namespace. Calls `labels` only if needed.
    fn has_namespace<'a>(&self, name: &Str, labels: impl FnOnce() -> &'a Labels) -> bool {
        self.namespaces.contains(name)
            || self.namespace_selector.as_ref().is_some_and(|selector| {
                selector.matches(labels())
                    || (self.selects_as_unlabeled && selector.matches(&Labels::default()))
            })
    }
}

impl PodSelector {
    /// Returns true if the selector matches pods with these labels in the namespace.
    pub(super) fn matches(&self, namespace: &Namespace, labels: &Labels, terminating: bool) -> bool {
        self.matches_labels(labels, terminating) && self.has_namespace(namespace)
    }

    /// Returns true if the selector matches pods with these labels in the namespaces that it applies to.
    pub(super) fn matches_labels(&self, labels: &Labels, terminating: bool) -> bool {
        let counts = !self.live_only || !terminating;
        counts && !self.all_of.is_empty() && self.all_of.iter().all(|term| term.labels.matches(labels))
    }

    /// Returns true if the selector applies to the namespace.
    pub(super) fn has_namespace(&self, namespace: &Namespace) -> bool {
        self.all_of.iter().all(|term| term.has_namespace(&namespace.name, || &namespace.labels))
    }
}

/// Returns true if no term of a list has a syntax error. If the list belongs to a pod on a node, a single error makes
/// kube-scheduler ignore the whole list.
pub fn well_formed<'a>(terms: impl Iterator<Item = &'a PodAffinityTerm> + Clone) -> bool {
    let good = |selector: &Option<LabelSelector>| selector.as_ref().is_none_or(|s| s.check().is_ok());
    terms.clone().all(|term| good(&term.label_selector) && good(&term.namespace_selector))
}
