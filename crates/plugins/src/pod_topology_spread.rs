//! PodTopologySpread: spreads similar pods over zones, nodes or other domains.
//!
//! # What it does
//! Extension points: PreFilter, Filter, PreScore, Score. Applies `spec.topologySpreadConstraints` of the pod. A pod
//! without constraints gets the plugin's defaults. With `defaultingType: System`, these are preferences for different
//! nodes and zones; with `List`, they are the constraints in `defaultConstraints`. The selector of default constraints
//! combines the selectors of the pod's services and of its owner (ReplicationController, ReplicaSet, StatefulSet). If
//! there are no such selectors, the pod has no constraints.
//!
//! For each value of its `topologyKey`, a constraint counts the pods in the pod's namespace that its selector matches,
//! except for terminating pods. The nodes with the same value form a *domain*. Nodes that lack the key of at least one
//! constraint of the same kind are ignored. So are nodes that the pod's node selector or required node affinity
//! excludes, unless the constraint has `nodeAffinityPolicy: Ignore`. With `nodeTaintsPolicy: Honor`, nodes with taints
//! that the pod does not tolerate are also ignored. A missing selector matches nothing. An empty selector counts no
//! pods on nodes either, but it matches the pod itself and pods that are added or removed in what-if questions.
//!
//! # Rejects when
//! Constraints with `whenUnsatisfiable: DoNotSchedule` are checked in order:
//! - The node lacks the key: `node(s) didn't match pod topology spread constraints (missing required label)`, which no
//!   eviction resolves.
//! - The number of pods in the node's domain, including this pod if the constraint's selector matches it, would exceed
//!   the number in the domain with the fewest pods by more than `maxSkew`: `node(s) didn't match pod topology spread
//!   constraints`. If there are fewer than `minDomains` domains, the smallest number is taken to be zero.
//!
//! # Scores by
//! Each constraint with `whenUnsatisfiable: ScheduleAnyway` contributes the number of pods in the node's domain,
//! multiplied by `ln(domains + 2)`, plus `maxSkew - 1`. The contributions are added up and rounded. Fewer pods are
//! better: the result is `100 * (largest + smallest - score) / largest`. Only the domains of the candidates count; for
//! `kubernetes.io/hostname` every candidate is a domain, and the policies do not apply. Candidates that lack a key
//! score 0, except under system defaults, where a missing key is ignored.
//!
//! # Requeued by
//! A pod that a hard constraint selects, if that pod is bound, deleted, terminated or relabeled. A change to the
//! pending pod's own labels, or to its tolerations if a constraint honors taints. A node with all keys, if it is added
//! or removed, or if its taints or its values for the keys change; a node that gains its last missing key or loses a
//! key.
//!
//! # Differs from kube-scheduler
//! A pod with hard default constraints is requeued whenever any pod in its namespace is bound, deleted, terminated or
//! relabeled, whether or not the selectors of its own services and owner match the other pod.

mod constraints;
mod default_selector;
mod filter;
mod hints;
mod inclusion;
mod score;
#[cfg(test)]
mod tests;

use harbormaster_api::{
    Release,
    args::{DefaultingType, PodTopologySpreadArgs},
    features::Feature,
    node::{LABEL_HOSTNAME, LABEL_ZONE},
};
use harbormaster_framework::prelude::*;

use crate::pod_index::{PodIndex, TopologyKey};
use constraints::{Constraint, Kind};

/// Spreads similar pods over domains. See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct PodTopologySpread {
    /// Constraints for pods that have none of their own. The selectors are added later, since they depend on the pod.
    defaults: Vec<(Kind, Constraint)>,
    /// True if the defaults are the built-in defaults of Kubernetes.
    system_defaulted: bool,
    match_label_keys: bool,
    inclusion_policies: bool,
    compare_numbers: bool,
    /// True if changes to the tolerations of bound pods are events for the plugin, as in Kubernetes 1.36.
    hears_others_tolerations: bool,
}

impl Plugin for PodTopologySpread {
    const NAME: &'static str = "PodTopologySpread";
    const MAY_BLOCK: bool = false;
    implemented_points!();

    fn events(&self) -> Option<Vec<Registration<Self>>> {
        use EventResource::{AssignedPod, Node, TargetPod};
        let mut pod = Action::ADD | Action::DELETE | Action::UPDATE_POD_LABEL;
        if self.hears_others_tolerations {
            pod = pod | Action::UPDATE_POD_TOLERATION;
        }
        let own = Action::UPDATE_POD_LABEL | Action::UPDATE_POD_TOLERATION;
        let node = Action::ADD | Action::DELETE | Action::UPDATE_NODE_LABEL | Action::UPDATE_NODE_TAINT;
        Some(vec![
            Registration::hinted(AssignedPod, pod, Self::after_pod),
            Registration::hinted(TargetPod, own, Self::after_own_update),
            Registration::hinted(Node, node, Self::after_node),
        ])
    }

    /// A pod with constraints has no signature, because the answers for it depend on other pods. If there are default
    /// constraints, no pod has a signature.
    fn sign(&self, pod: &PodInfo) -> Result<Vec<SignFragment>, Unsignable> {
        let spread = !pod.spec.topology_spread.is_empty() || !self.defaults.is_empty();
        if spread { Err(Unsignable) } else { Ok(Vec::new()) }
    }
}

impl Build for PodTopologySpread {
    type Args = PodTopologySpreadArgs;

    fn build(args: Self::Args, cx: &BuildCycle) -> Result<Self, PluginError> {
        let enabled = |feature| cx.features.enabled(feature);
        let inclusion_policies = enabled(Feature::NodeInclusionPolicyInPodTopologySpread);
        let system_defaulted = args.defaulting_type == DefaultingType::System;
        let defaults = match args.defaulting_type {
            DefaultingType::System => system_defaults(),
            DefaultingType::List => {
                let listed = args.default_constraints.iter();
                listed.map(|c| Constraint::default_of(c, inclusion_policies)).collect()
            }
            DefaultingType::Unknown(name) => return Err(format!("unknown defaultingType {name:?}").into()),
        };
        Ok(Self {
            defaults,
            system_defaulted,
            match_label_keys: enabled(Feature::MatchLabelKeysInPodTopologySpread),
            inclusion_policies,
            compare_numbers: enabled(Feature::TaintTolerationComparisonOperators),
            hears_others_tolerations: cx.features.release() < Release::V1_37,
        })
    }
}

/// Returns the built-in defaults of Kubernetes, which prefer different nodes and zones.
fn system_defaults() -> Vec<(Kind, Constraint)> {
    [(LABEL_HOSTNAME, 3), (LABEL_ZONE, 5)]
        .map(|(key, max_skew)| (Kind::Soft, Constraint::new(key.into(), max_skew)))
        .into()
}

impl Indexed for PodTopologySpread {
    type Index = PodIndex;

    fn prepare(&self, index: &mut PodIndex, known: ClusterView<'_>, pod: &PodInfo) {
        for kind in [Kind::Hard, Kind::Soft] {
            // Errors in constraints are reported by the extension point that applies them.
            for constraint in self.constraints(pod, kind, known.objects).unwrap_or_default() {
                index.watch_key(known, &constraint.key);
                if let Some(pods) = constraint.counted(&pod.namespace) {
                    index.watch_pods(&pods);
                }
            }
        }
    }
}

/// Returns the columns of the constraints' keys, in the order of the constraints.
fn columns<'a>(
    index: &'a PodIndex,
    constraints: impl IntoIterator<Item = &'a Constraint>,
) -> PluginResult<Vec<&'a TopologyKey>> {
    let column = |c: &Constraint| index.key(&c.key).ok_or_else(|| not_prepared(&c.key));
    constraints.into_iter().map(column).collect()
}

fn not_prepared(what: &str) -> PluginError {
    format!("the pod index was not prepared for {what:?}").into()
}
