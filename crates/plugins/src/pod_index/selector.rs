//! Which pods are meant: namespaces and labels.

use harbormaster_api::{Labels, Namespace, Pod, Str, pod::PodAffinityTerm, selector::LabelSelector};
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

    /// Whether that pod is meant.
    pub fn matches_pod(&self, objects: &Objects, pod: &Pod) -> bool {
        let none = Labels::default();
        let of_namespace = || objects.namespace_labels(&pod.namespace).unwrap_or(&none);
        self.labels.matches(&pod.labels) && self.has_namespace(&pod.namespace, of_namespace)
    }

    /// Whether pods of that namespace are meant, whose labels are asked for where they matter.
    fn has_namespace<'a>(&self, name: &Str, labels: impl FnOnce() -> &'a Labels) -> bool {
        self.namespaces.contains(name)
            || self.namespace_selector.as_ref().is_some_and(|selector| {
                selector.matches(labels()) || (self.incoming && selector.matches(&Labels::default()))
            })
    }
}

impl PodSelector {
    /// Whether pods of these labels in that namespace match.
    pub(super) fn matches(&self, namespace: &Namespace, labels: &Labels, terminating: bool) -> bool {
        self.matches_labels(labels, terminating) && self.has_namespace(namespace)
    }

    /// Whether pods of these labels match where they are in a namespace that does.
    pub(super) fn matches_labels(&self, labels: &Labels, terminating: bool) -> bool {
        let counts = !self.live_only || !terminating;
        counts && !self.all_of.is_empty() && self.all_of.iter().all(|term| term.labels.matches(labels))
    }

    /// Whether pods of that namespace match where their labels do.
    pub(super) fn has_namespace(&self, namespace: &Namespace) -> bool {
        self.all_of.iter().all(|term| term.has_namespace(&namespace.name, || &namespace.labels))
    }
}

/// Whether no term of a list has a syntax error. kube-scheduler ignores the whole list of a pod on a node otherwise.
pub fn well_formed<'a>(terms: impl Iterator<Item = &'a PodAffinityTerm> + Clone) -> bool {
    let good = |selector: &Option<LabelSelector>| selector.as_ref().is_none_or(|s| s.check().is_ok());
    terms.clone().all(|term| good(&term.label_selector) && good(&term.namespace_selector))
}
