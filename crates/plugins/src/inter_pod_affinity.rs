//! InterPodAffinity: pods choose where other pods are, or are not.
//!
//! # What it does
//! PreFilter, Filter, PreScore, Score. Applies `spec.affinity.podAffinity` and `podAntiAffinity` of the pod to the pods
//! on nodes, and those of the pods on nodes to the pod. Two nodes are together, for a term, when they have the same
//! value under the label that is its `topologyKey`: they are in one topology domain. Terminating pods count as long as
//! they are there. How many pods match a term, and who says what about a pod, is kept by the
//! [pod index](crate::pod_index).
//!
//! # Rejects when
//! In this order:
//! - The required affinity does not hold: `node(s) didn't match pod affinity rules`, which no eviction resolves. The
//!   node must have the key of every term, and in each of those domains must be a pod that matches all the terms. The
//!   first pod of a group that wants to be with itself is let pass: when no pod matches in any domain, and the pod
//!   matches its own terms, the keys are enough.
//! - A pod that a required anti-affinity term selects is in the domain: `node(s) didn't match pod anti-affinity rules`.
//! - A pod in the domain has a required anti-affinity term that selects this pod: `node(s) didn't satisfy existing pods
//!   anti-affinity rules`.
//!
//! Evictions may resolve the latter two. A selector with a syntax error: `parsing pod: requiredAffinityTerms: …`, on no
//! node; of pods on nodes, the list of terms in which it stands is passed over.
//!
//! A term's namespaces are those it lists and those its `namespaceSelector` matches, or else the namespace of its pod.
//! In terms of the pod that is being scheduled, a namespace selector that matches no labels at all (nothing but `NotIn`
//! and `DoesNotExist`) matches every namespace, whatever its labels.
//!
//! # Scores by
//! The sum over all pods on nodes in the node's domains of: the weight of each preferred term of the pod that matches
//! them and of each of theirs that matches the pod, negative for anti-affinity; and `hardPodAffinityWeight` for each of
//! their required affinity terms that matches the pod. The highest sum among the candidates gives 100, the lowest 0,
//! and equal sums give 0. Not scored: a pod without a single contribution, and, with
//! `ignorePreferredTermsOfExistingPods`, a pod without preferred terms.
//!
//! # Requeued by
//! - Changed labels of the pod itself.
//! - A pod with a node, or a nominated one, that is added or relabelled so that it matches all required affinity
//!   terms, or relabelled or deleted when it matched all required anti-affinity terms, or deleted when the pod matches
//!   all required anti-affinity terms of it. Namespace labels are not looked at, so a namespace selector that needs
//!   some matches nothing here.
//! - A node that is new with, or gets, or changes the key of an affinity term; for a pod with anti-affinity any new
//!   node, and one that changes or loses the key.
//!
//! # Differs from kube-scheduler
//! In nothing.

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

/// See the [module documentation](self).
#[derive(Clone, Debug, Default)]
pub struct InterPodAffinity {
    args: InterPodAffinityArgs,
}

impl Plugin for InterPodAffinity {
    const NAME: &'static str = "InterPodAffinity";
    type FilterState = counts::Counts;
    /// The sum per topology domain.
    type ScoreState = sums::Sums;

    fn points(points: &mut Points<Self>) {
        points.indexed().pre_filter().filter().pre_score().score();
    }

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
