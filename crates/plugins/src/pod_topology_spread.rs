//! PodTopologySpread: pods of one kind are spread over zones, nodes or other domains.
//!
//! # What it does
//! PreFilter, Filter, PreScore, Score. Applies `spec.topologySpreadConstraints` of the pod. A pod without any gets the
//! plugin's default constraints instead: with `defaultingType: System` a preference for nodes and zones, with `List`
//! those of `defaultConstraints`. Default constraints count the pods that the pod's services and its owner
//! (ReplicationController, ReplicaSet, StatefulSet) select; where nothing selects the pod there are none.
//!
//! A constraint counts the pods of the pod's namespace that its selector matches, terminating ones left out, per value
//! of its `topologyKey`: a *domain*. Nodes that lack the key of any constraint of the same kind count for none of them.
//! Nor does a constraint count nodes that the pod's node selector and required node affinity exclude, unless
//! `nodeAffinityPolicy: Ignore`, or with `nodeTaintsPolicy: Honor` nodes with taints that the pod does not tolerate. An
//! absent selector matches nothing. An empty one finds no pods either, but does match the pod itself and pods that come
//! and go while evictions are tried.
//!
//! # Rejects when
//! Constraints with `whenUnsatisfiable: DoNotSchedule` are looked at in order:
//! - The node lacks the key: `node(s) didn't match pod topology spread constraints (missing required label)`, which no
//!   eviction resolves.
//! - The pods in the node's domain, with this one if it matches the constraint's own selector, would be more than
//!   `maxSkew` above the domain with the fewest: `node(s) didn't match pod topology spread constraints`. The fewest are
//!   zero while there are fewer than `minDomains` domains.
//!
//! # Scores by
//! Constraints with `whenUnsatisfiable: ScheduleAnyway`: the sum over them of the pods in the node's domain, weighted by
//! `ln(domains + 2)`, plus `maxSkew - 1`, rounded. The fewest pods score best:
//! `100 * (largest + smallest - score) / largest`. Domains are those of the candidates; for `kubernetes.io/hostname`
//! every candidate is one, and all pods on it count. Candidates that lack a key score 0, except under system defaults,
//! where the key is just left out.
//!
//! # Requeued by
//! Pods that some hard constraint selects: bound, gone or relabelled. Other labels of the pod itself, and other
//! tolerations if a constraint honours taints. Nodes with all keys that come or go, change the value of a key or their
//! taints, and nodes that gain or lose a key.
//!
//! # Differs from kube-scheduler
//! A pod under hard default constraints is requeued by every pod of its namespace that is bound, gone or relabelled,
//! whether or not its services and owner select it.

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

/// See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct PodTopologySpread {
    /// The constraints of pods that have none, without their selector.
    defaults: Vec<(Kind, Constraint)>,
    /// The defaults are Kubernetes' own.
    system_defaulted: bool,
    match_label_keys: bool,
    inclusion_policies: bool,
    compare_numbers: bool,
}

impl Plugin for PodTopologySpread {
    const NAME: &'static str = "PodTopologySpread";
    type FilterState = filter::SpreadState;
    type ScoreState = score::Worth;

    fn points(points: &mut Points<Self>) {
        points.indexed().pre_filter().filter().pre_score().score();
    }

    fn events(&self) -> Option<Vec<Registration<Self>>> {
        let pod = Action::ADD | Action::DELETE | Action::UPDATE_POD_LABEL | Action::UPDATE_POD_TOLERATION;
        let node = Action::ADD | Action::DELETE | Action::UPDATE_NODE_LABEL | Action::UPDATE_NODE_TAINT;
        Some(vec![
            Registration::hinted(EventResource::Pod, pod, Self::after_pod),
            Registration::hinted(EventResource::Node, node, Self::after_node),
        ])
    }

    /// What a constraint says depends on other pods: no two attempts are alike.
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

/// Kubernetes' own: rather another node, and rather another zone.
fn system_defaults() -> Vec<(Kind, Constraint)> {
    [(LABEL_HOSTNAME, 3), (LABEL_ZONE, 5)]
        .map(|(key, max_skew)| (Kind::Soft, Constraint::new(key.into(), max_skew)))
        .into()
}

impl Indexed for PodTopologySpread {
    type Index = PodIndex;

    fn prepare(&self, index: &mut PodIndex, known: ClusterView<'_>, pod: &PodInfo) {
        for kind in [Kind::Hard, Kind::Soft] {
            // Constraints with an error are told of by the point that applies them.
            for constraint in self.constraints(pod, kind, known.objects).unwrap_or_default() {
                index.watch_key(known, &constraint.key);
                if let Some(pods) = constraint.counted(&pod.namespace) {
                    index.watch_pods(&pods);
                }
            }
        }
    }
}

/// The columns of the constraints' keys, in order.
fn columns<'a>(
    index: &'a PodIndex,
    constraints: impl IntoIterator<Item = &'a Constraint>,
) -> PluginResult<Vec<&'a TopologyKey>> {
    let column = |c: &Constraint| index.key(&c.key).ok_or_else(|| unprepared(&c.key));
    constraints.into_iter().map(column).collect()
}

fn unprepared(what: &str) -> PluginError {
    format!("the pod index was not prepared for {what:?}").into()
}
