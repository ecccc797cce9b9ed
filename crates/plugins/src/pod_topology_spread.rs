//! PodTopologySpread: spreads similar pods over zones, nodes or other domains.
//!
//! # What it does
//! PreFilter, Filter, PreScore, Score. Applies `spec.topologySpreadConstraints` of the pod. A pod without constraints
//! gets the plugin's defaults: with `defaultingType: System` a preference for different nodes and zones, with `List`
//! the constraints in `defaultConstraints`. Default constraints count the pods that the pod's services and its owner
//! (ReplicationController, ReplicaSet, StatefulSet) select; if these select nothing, there are no constraints.
//!
//! A constraint counts the pods in the pod's namespace that its selector matches, without terminating ones, per value
//! of its `topologyKey`: a *domain*. Nodes that lack the key of any constraint of the same kind are ignored. So are
//! nodes that the pod's node selector and required node affinity exclude, unless `nodeAffinityPolicy: Ignore`, and with
//! `nodeTaintsPolicy: Honor` nodes with taints that the pod does not tolerate. A missing selector matches nothing. An
//! empty selector finds no pods either, but matches the pod itself and pods that are added or removed in what-if
//! questions.
//!
//! # Rejects when
//! Constraints with `whenUnsatisfiable: DoNotSchedule` are checked in order:
//! - The node lacks the key: `node(s) didn't match pod topology spread constraints (missing required label)`, which no
//!   eviction resolves.
//! - The number of pods in the node's domain, including this pod if it matches the constraint's selector, would exceed
//!   that of the domain with the fewest pods by more than `maxSkew`: `node(s) didn't match pod topology spread
//!   constraints`. The fewest pods are zero while there are fewer than `minDomains` domains.
//!
//! # Scores by
//! Constraints with `whenUnsatisfiable: ScheduleAnyway`: the sum of the pods in the node's domains, each weighted by
//! `ln(domains + 2)`, plus `maxSkew - 1`, rounded. Fewer pods are better: `100 * (largest + smallest - score) /
//! largest`. Domains are those of the candidates; for `kubernetes.io/hostname` every candidate is a domain, and all its
//! pods count. Candidates that lack a key score 0, except under system defaults, where that key is ignored.
//!
//! # Requeued by
//! A pod that a hard constraint selects, if it is bound, ends or is relabelled. Changed labels of the pod itself, and
//! changed tolerations if a constraint honours taints. A node with all keys that is added or removed, or changes a
//! key's value or its taints; a node that gains or loses a key.
//!
//! # Differs from kube-scheduler
//! A pod with hard default constraints is requeued by every pod of its namespace that is bound, ends or is relabelled,
//! whether or not its services and owner select that pod.

mod constraints;
mod default_selector;
mod filter;
mod hints;
mod inclusion;
mod score;
#[cfg(test)]
mod tests;

use harbormaster_api::{
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
    /// Constraints of pods that have none, without their selectors.
    defaults: Vec<(Kind, Constraint)>,
    /// True if the defaults are Kubernetes' own.
    system_defaulted: bool,
    match_label_keys: bool,
    inclusion_policies: bool,
    compare_numbers: bool,
}

impl Plugin for PodTopologySpread {
    const NAME: &'static str = "PodTopologySpread";
    implemented_points!();

    fn events(&self) -> Option<Vec<Registration<Self>>> {
        let pod = Action::ADD | Action::DELETE | Action::UPDATE_POD_LABEL | Action::UPDATE_POD_TOLERATION;
        let node = Action::ADD | Action::DELETE | Action::UPDATE_NODE_LABEL | Action::UPDATE_NODE_TAINT;
        Some(vec![
            Registration::hinted(EventResource::Pod, pod, Self::after_pod),
            Registration::hinted(EventResource::Node, node, Self::after_node),
        ])
    }

    /// A pod with constraints has no signature: its answers depend on other pods.
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
        })
    }
}

/// Returns Kubernetes' own defaults: prefer other nodes and other zones.
fn system_defaults() -> Vec<(Kind, Constraint)> {
    [(LABEL_HOSTNAME, 3), (LABEL_ZONE, 5)]
        .map(|(key, max_skew)| (Kind::Soft, Constraint::new(key.into(), max_skew)))
        .into()
}

impl Indexed for PodTopologySpread {
    type Index = PodIndex;

    fn prepare(&self, index: &mut PodIndex, known: ClusterView<'_>, pod: &PodInfo) {
        for kind in [Kind::Hard, Kind::Soft] {
            // The point that applies the constraints reports their errors.
            for constraint in self.constraints(pod, kind, known.objects).unwrap_or_default() {
                index.watch_key(known, &constraint.key);
                if let Some(pods) = constraint.counted(&pod.namespace) {
                    index.watch_pods(&pods);
                }
            }
        }
    }
}

/// Returns the columns of the constraints' keys, in order.
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
