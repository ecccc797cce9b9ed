//! InterPodAffinity: attracts pods to other pods, or keeps them apart.
//!
//! # What it does
//! PreFilter, Filter, PreScore, Score. Applies `spec.affinity.podAffinity` and `podAntiAffinity` of the pod to the pods
//! on nodes, and the terms of the pods on nodes to the pod. For a term, two nodes are in one topology domain if they
//! have the same value for the label in its `topologyKey`. Terminating pods count until they are gone. The [pod
//! index](crate::pod_index) keeps the number of pods that match a term, and the terms that select a pod.
//!
//! # Rejects when
//! In this order:
//! - Required affinity is not satisfied: `node(s) didn't match pod affinity rules`, which no eviction resolves. The
//!   node must have the key of every term, and each of these domains must have a pod that matches all terms. The first
//!   pod of a group with affinity to itself is accepted: if no pod matches in any domain and the pod matches its own
//!   terms, the keys are sufficient.
//! - The domain has a pod that a required anti-affinity term selects: `node(s) didn't match pod anti-affinity rules`.
//! - The domain has a pod with a required anti-affinity term that selects this pod: `node(s) didn't satisfy existing
//!   pods anti-affinity rules`.
//!
//! Evictions may resolve the last two. A selector with a syntax error rejects the pod on all nodes: `parsing pod:
//! requiredAffinityTerms: …`. In pods on nodes, the list with the invalid term is ignored.
//!
//! A term applies to the namespaces that it lists and those that its `namespaceSelector` matches, or else to its pod's
//! namespace. In terms of the pod being scheduled, a namespace selector that matches empty labels (only `NotIn` and
//! `DoesNotExist`) matches every namespace, whatever its labels.
//!
//! # Scores by
//! The sum over all pods in the node's domains of: the weight of each preferred term of the pod that matches them, the
//! weight of each of their preferred terms that matches the pod (negative for anti-affinity), and
//! `hardPodAffinityWeight` for each of their required affinity terms that matches the pod. The highest sum among the
//! candidates scores 100, the lowest 0; equal sums score 0. A pod is not scored if nothing contributes, or, with
//! `ignorePreferredTermsOfExistingPods`, if it has no preferred terms.
//!
//! # Requeued by
//! - Changed labels of the pod itself.
//! - A pod with a node or a nominated node that is added or relabelled so that it matches all required affinity terms;
//!   is relabelled or deleted and matched all required anti-affinity terms; or is deleted and had required
//!   anti-affinity terms that all match the pod. Namespace labels are not looked up, so a namespace selector that
//!   requires labels matches nothing here.
//! - A node that is added with, gains, or changes the key of an affinity term; for a pod with anti-affinity, any new
//!   node and one that changes or loses the key.
//!
//! # Differs from kube-scheduler
//! No differences.

mod counts;
mod filter;
mod hints;
mod score;
mod sums;
mod terms;

use harbormaster_api::args::InterPodAffinityArgs;
use harbormaster_framework::prelude::*;

use crate::{pod_index::PodIndex, sign};
pub use filter::{REASON_AFFINITY, REASON_ANTI};
use terms::{Required, Term};

/// Attracts pods to other pods, or keeps them apart. See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct InterPodAffinity {
    args: InterPodAffinityArgs,
}

impl Plugin for InterPodAffinity {
    const NAME: &'static str = "InterPodAffinity";
    implemented_points!();

    fn events(&self) -> Option<Vec<Registration<Self>>> {
        let pods = Action::ADD | Action::UPDATE_POD_LABEL | Action::DELETE;
        let nodes = Action::ADD | Action::UPDATE_NODE_LABEL;
        Some(vec![
            Registration::hinted(EventResource::Pod, pods, |_, pod, change| hints::after_pod(pod, change)),
            Registration::hinted(EventResource::Node, nodes, |_, pod, change| hints::after_node(pod, change)),
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

    fn build(args: Self::Args, _: &BuildCycle) -> Result<Self, PluginError> {
        Ok(Self { args })
    }
}

impl Indexed for InterPodAffinity {
    type Index = PodIndex;

    fn prepare(&self, index: &mut PodIndex, known: ClusterView<'_>, pod: &PodInfo) {
        let Required { affinity_keys, affinity, anti } = Required::of(pod);
        affinity_keys.iter().for_each(|key| index.watch_key(known, key));
        if let Some(pods) = &affinity {
            index.watch_pods(pods);
        }
        let preferred = terms::preferred(pod).into_iter().map(|(_, term)| term);
        for Term { key, pods } in anti.into_iter().chain(preferred) {
            index.watch_key(known, &key);
            index.watch_pods(&pods);
        }
    }
}

#[cfg(test)]
mod tests;
