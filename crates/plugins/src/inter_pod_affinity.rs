//! InterPodAffinity: attracts pods to other pods, or keeps them apart.
//!
//! # What it does
//! Extension points: PreFilter, Filter, PreScore, Score. Applies `spec.affinity.podAffinity` and `podAntiAffinity` of
//! the pod to the pods on nodes, and the terms of the pods on nodes to the pod. For a term, two nodes are in the same
//! topology domain if they have the same value for the label in its `topologyKey`. Terminating pods are counted until
//! they are gone. The [pod index](crate::pod_index) counts the pods that match a term, and finds the terms of other
//! pods that select a pod.
//!
//! # Rejects when
//! In this order:
//! - The pod's required affinity is not satisfied: `node(s) didn't match pod affinity rules`, which no eviction
//!   resolves. The node must have the key of every term, and its domain under each key must contain a pod that matches
//!   all terms. The first pod of a group with affinity to itself is an exception: if no pod in any domain matches and
//!   the pod matches its own terms, the node only needs the keys.
//! - One of the pod's required anti-affinity terms selects a pod in the node's domain: `node(s) didn't match pod
//!   anti-affinity rules`.
//! - A pod in the node's domain has a required anti-affinity term that selects this pod: `node(s) didn't satisfy
//!   existing pods anti-affinity rules`.
//!
//! Evictions may resolve the last two. If a selector of the pod has a syntax error, the pod is rejected on all nodes:
//! `parsing pod: requiredAffinityTerms: …`. If a pod on a node has an invalid term, the list that contains the term is
//! ignored.
//!
//! A term applies to the namespaces that it lists and to the namespaces that its `namespaceSelector` matches. If it has
//! neither a list nor a selector, it applies to the namespace of its pod. For a term of the pod being scheduled, a
//! namespace selector that matches an empty set of labels (one with only `NotIn` and `DoesNotExist`) matches every
//! namespace, whatever its labels.
//!
//! # Scores by
//! The sum over all other pods in the node's domains. Each other pod contributes the weight of every preferred term of
//! the incoming pod that matches the other pod, the weight of every preferred term of the other pod that matches the
//! incoming pod (both negative for anti-affinity), and `hardPodAffinityWeight` for every required affinity term of the
//! other pod that matches the incoming pod. The highest sum among the candidates scores 100 and the lowest 0; if all
//! sums are equal, all candidates score 0. The pod is not scored if nothing contributes to any sum, or, with
//! `ignorePreferredTermsOfExistingPods`, if the pod has no preferred terms.
//!
//! # Requeued by
//! - A change to the pod's own labels.
//! - Another pod that is bound or nominated is added or relabeled, and now matches all required affinity terms of this
//!   pod.
//! - Another pod that is bound or nominated is relabeled or deleted, and no longer matches all required anti-affinity
//!   terms of this pod.
//! - Another pod that is bound or nominated is deleted, and all its required anti-affinity terms matched this pod.
//! - A new node has the key of an affinity term, or a node gains the key or gets another value for it.
//! - For a pod with anti-affinity: a new node, or a node that loses the key of a term or gets another value for it.
//!
//! Hints do not look up namespace labels, so a namespace selector that requires labels matches nothing here.
//!
//! # Differs from kube-scheduler
//! No differences.

mod counts;
mod filter;
mod hints;
mod score;
mod sums;
mod terms;

use harbormaster_api::{Release, args::InterPodAffinityArgs};
use harbormaster_framework::prelude::*;

use crate::{pod_index::PodIndex, sign};
pub use filter::{REASON_AFFINITY, REASON_ANTI};
use terms::{Required, Term};

/// Attracts pods to other pods, or keeps them apart. See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct InterPodAffinity {
    args: InterPodAffinityArgs,
    /// True if a namespace selector of the pod being scheduled is evaluated not only on the labels of namespaces but
    /// also on empty labels (Kubernetes 1.36).
    selects_as_unlabeled: bool,
    /// True if a pod that matched one anti-affinity term wakes the pods that it kept away; false if it must have
    /// matched all terms (Kubernetes 1.36).
    any_anti_term_wakes: bool,
}

impl Plugin for InterPodAffinity {
    const NAME: &'static str = "InterPodAffinity";
    const MAY_BLOCK: bool = false;
    implemented_points!();

    fn events(&self) -> Option<Vec<Registration<Self>>> {
        use EventResource::{AssignedPod, Node, TargetPod};
        let pods = Action::ADD | Action::UPDATE_POD_LABEL | Action::DELETE;
        let nodes = Action::ADD | Action::UPDATE_NODE_LABEL;
        Some(vec![
            Registration::hinted(AssignedPod, pods, Self::after_pod),
            Registration::always(TargetPod, Action::UPDATE_POD_LABEL),
            Registration::hinted(Node, nodes, |_, pod, change| hints::after_node(pod, change)),
        ])
    }

    fn sign(&self, pod: &PodInfo) -> Result<Vec<SignFragment>, Unsignable> {
        let spec = &pod.spec;
        if spec.pod_affinity.is_some() || spec.pod_anti_affinity.is_some() {
            return Err(Unsignable);
        }
        let by_labels = !self.args.ignore_preferred_terms_of_existing_pods;
        Ok(if by_labels { vec![sign::labels(pod)] } else { Vec::new() })
    }
}

impl Build for InterPodAffinity {
    type Args = InterPodAffinityArgs;

    fn build(args: Self::Args, cx: &BuildCycle) -> Result<Self, PluginError> {
        let newer = cx.features.release() >= Release::V1_37;
        Ok(Self { args, selects_as_unlabeled: !newer, any_anti_term_wakes: newer })
    }
}

impl Indexed for InterPodAffinity {
    type Index = PodIndex;

    fn prepare(&self, index: &mut PodIndex, known: ClusterView<'_>, pod: &PodInfo) {
        let Required { affinity_keys, affinity, anti } = self.required(pod);
        affinity_keys.iter().for_each(|key| index.watch_key(known, key));
        if let Some(pods) = &affinity {
            index.watch_pods(pods);
        }
        let preferred = self.preferred(pod).into_iter().map(|(_, term)| term);
        for Term { key, pods } in anti.into_iter().chain(preferred) {
            index.watch_key(known, &key);
            index.watch_pods(&pods);
        }
    }
}

#[cfg(test)]
mod tests;
