//! TaintToleration: keeps pods off nodes whose taints they do not tolerate.
//!
//! # What it does
//! Extension points: Filter, PreScore, Score. Compares `spec.taints` of the node with `spec.tolerations` of the pod.
//! Tolerations with the `Lt` and `Gt` operators take effect only with the `TaintTolerationComparisonOperators` feature
//! gate (KEP-5471).
//!
//! # Rejects when
//! A `NoSchedule` or `NoExecute` taint is not tolerated: `node(s) had untolerated taint(s)`, which no eviction
//! resolves.
//!
//! # Scores by
//! The number of `PreferNoSchedule` taints that the pod does not tolerate; fewer are better. A node without such taints
//! scores 100, and the node with the most among the candidates scores 0. Only tolerations for the `PreferNoSchedule`
//! effect or for all effects count.
//!
//! # Requeued by
//! A new node whose taints the pod tolerates; a node whose taints have changed so that the pod now tolerates them; a
//! change to the pod's tolerations.
//!
//! # Differs from kube-scheduler
//! No differences.

use harbormaster_api::{
    features::Feature,
    taint::{Taint, TaintEffect, Toleration, find_untolerated},
};
use harbormaster_framework::prelude::*;

use crate::{rows::both, sign};

const REASON: &str = "node(s) had untolerated taint(s)";

/// Keeps pods off nodes whose taints they do not tolerate. See the [module documentation](self).
#[derive(Clone, Copy, Debug)]
pub struct TaintToleration {
    compare_numbers: bool,
}

impl Plugin for TaintToleration {
    const NAME: &'static str = "TaintToleration";
    const MAY_BLOCK: bool = false;
    implemented_points!();

    fn events(&self) -> Option<Vec<Registration<Self>>> {
        use EventResource::{Node, TargetPod};
        Some(vec![
            Registration::hinted(Node, Action::ADD | Action::UPDATE_NODE_TAINT, Self::after_node),
            Registration::always(TargetPod, Action::UPDATE_POD_TOLERATION),
        ])
    }

    fn reads(&self, pod: RowPod<'_>, reads: &mut Reads) {
        reads.of(&pod.spec.tolerations);
    }

    fn sign(&self, pod: &PodInfo) -> Result<Vec<SignFragment>, Unsignable> {
        Ok(vec![sign::tolerations(pod)])
    }
}

impl Build for TaintToleration {
    type Args = NoArgs;
    fn build(_: NoArgs, cx: &BuildCycle) -> Result<Self, PluginError> {
        let compare_numbers = cx.features.enabled(Feature::TaintTolerationComparisonOperators);
        Ok(Self { compare_numbers })
    }
}

impl Filter<Row> for TaintToleration {
    fn filter(&self, cx: &RowCycle<'_>, (): &(), node: NodeRef<'_>) -> Verdict {
        let rejected = self.has_untolerated(node.taints(), &cx.pod.spec.tolerations);
        if rejected { Err(Reject::unresolvable(REASON).into()) } else { Ok(()) }
    }

    fn filter_batch(&self, cx: &RowCycle<'_>, (): &(), sweep: &mut Sweep<'_>) -> PluginResult<()> {
        let tolerations = &cx.pod.spec.tolerations;
        let tainted = both(sweep.rows(), &cx.nodes.columns().tainted);
        let rejected = tainted.filter(|row| self.has_untolerated(cx.nodes.node(*row).taints(), tolerations));
        sweep.reject_each(rejected, &Reject::unresolvable(REASON));
        Ok(())
    }
}

impl PreScore<Row, (), Vec<Toleration>> for TaintToleration {
    fn pre_score(&self, cx: &RowCycle<'_>, _: &(), _: &NodeSet) -> PluginResult<PreScored<Vec<Toleration>>> {
        let tolerations = cx.pod.spec.tolerations.iter().filter(|t| matters_for_scores(t));
        Ok(PreScored::Continue(tolerations.cloned().collect()))
    }
}

impl Score<Row, Vec<Toleration>> for TaintToleration {
    const NORMALIZE: Normalize = Normalize::Proportional { reverse: true };

    fn score(&self, _: &RowCycle<'_>, state: &Vec<Toleration>, node: NodeRef<'_>) -> PluginResult<i64> {
        Ok(self.untolerated_soft_taints(node.taints(), state))
    }

    fn score_batch(
        &self,
        cx: &RowCycle<'_>,
        state: &Vec<Toleration>,
        scores: &mut Scores<'_>,
    ) -> PluginResult<()> {
        scores.iter_mut().for_each(|(_, score)| *score = 0);
        for row in both(scores.rows(), &cx.nodes.columns().tainted) {
            scores.set(row, self.untolerated_soft_taints(cx.nodes.node(row).taints(), state));
        }
        Ok(())
    }
}

fn matters_for_scores(toleration: &Toleration) -> bool {
    toleration.effect.is_none_or(|effect| effect == TaintEffect::PreferNoSchedule)
}

impl TaintToleration {
    fn has_untolerated(&self, taints: &[Taint], tolerations: &[Toleration]) -> bool {
        find_untolerated(taints, tolerations, self.compare_numbers, |t| t.effect.forbids()).is_some()
    }

    /// Returns the number of untolerated `PreferNoSchedule` taints.
    fn untolerated_soft_taints(&self, taints: &[Taint], tolerations: &[Toleration]) -> i64 {
        let tolerated = |taint: &Taint| tolerations.iter().any(|t| t.tolerates(taint, self.compare_numbers));
        taints.iter().filter(|t| !t.effect.forbids() && !tolerated(t)).count() as i64
    }

    fn after_node(&self, pod: &PodInfo, change: &Change<'_>) -> PluginResult<Hint> {
        let Change::Node { old, new: Some(new) } = change else { return Ok(Hint::Queue) };
        let tolerations = &pod.spec.tolerations;
        let was_rejected = old.is_none_or(|old| self.has_untolerated(&old.taints, tolerations));
        let helps = was_rejected && !self.has_untolerated(&new.taints, tolerations);
        Ok(if helps { Hint::Queue } else { Hint::Skip })
    }
}

#[cfg(test)]
mod tests {
    use harbormaster_api::{features::Features, taint::TolerationOperator};
    use harbormaster_framework::events::ClusterEvent;
    use harbormaster_testkit::{
        NodeBuilder, PodBuilder, Trial, cluster, node, pod, tolerates, tolerates_all,
    };

    use super::*;

    fn trial() -> Trial {
        Trial::of(TaintToleration { compare_numbers: false })
    }

    fn toleration(key: &str, operator: TolerationOperator, value: &str, effect: &str) -> Toleration {
        Toleration { key: key.into(), operator, value: value.into(), effect: TaintEffect::parse(effect) }
    }

    fn equal(key: &str, value: &str, effect: &str) -> Toleration {
        toleration(key, TolerationOperator::Equal, value, effect)
    }

    fn fits(trial: &Trial, node: NodeBuilder, pod: PodBuilder) -> bool {
        let nodes = cluster([node.node(|n| n.name = "n".into())], []);
        match trial.verdict(&nodes, &pod.info(), "n") {
            Ok(()) => true,
            Err(reject) => {
                assert_eq!(reject, Reject::unresolvable("node(s) had untolerated taint(s)"));
                false
            }
        }
    }

    #[test]
    fn untolerated_taints_reject_the_pod_if_they_forbid_scheduling() {
        let tainted = |effect| node("n").taint("dedicated", "user1", effect);
        for (node, pod, expected) in [
            (tainted("NoSchedule"), pod("none"), false),
            (tainted("NoExecute"), pod("none"), false),
            (tainted("PreferNoSchedule"), pod("none"), true),
            (tainted("NoSchedule"), pod("equal").tolerate(equal("dedicated", "user1", "NoSchedule")), true),
            (
                tainted("NoSchedule"),
                pod("other value").tolerate(equal("dedicated", "user2", "NoSchedule")),
                false,
            ),
            (tainted("NoSchedule"), pod("exists").tolerate(tolerates("dedicated", "NoSchedule")), true),
            (
                tainted("NoSchedule"),
                pod("other effect").tolerate(equal("dedicated", "user1", "PreferNoSchedule")),
                false,
            ),
            (tainted("NoSchedule"), pod("all").tolerate(tolerates_all()), true),
            (
                tainted("NoSchedule").taint("x", "", "NoExecute"),
                pod("only one of two").tolerate(tolerates("dedicated", "")),
                false,
            ),
            (node("n"), pod("clean"), true),
        ] {
            let name = pod.clone().build().name;
            assert_eq!(fits(&trial(), node, pod), expected, "{name}");
        }
    }

    #[test]
    fn numeric_operators_count_only_with_their_gate() {
        let gated = |on| {
            let features = Features::default().with(Feature::TaintTolerationComparisonOperators, on);
            let plugin = TaintToleration::build(NoArgs, &BuildCycle { features }).unwrap();
            let greater = toleration("sla", TolerationOperator::Gt, "90", "NoSchedule");
            fits(&Trial::of(plugin), node("n").taint("sla", "95", "NoSchedule"), pod("p").tolerate(greater))
        };
        assert!(gated(true));
        assert!(!gated(false));
    }

    #[test]
    fn scores_count_untolerated_soft_taints_and_the_fewest_win() {
        let soft = |n: u32| {
            (0..n)
                .fold(node(&format!("n{n}")), |node, i| node.taint(&format!("k{i}"), "v", "PreferNoSchedule"))
        };
        let nodes = cluster([soft(0), soft(1), soft(2)], []);
        let scores = |pod: PodBuilder| trial().scores(&nodes, &pod.info()).unwrap().unwrap();
        assert_eq!(scores(pod("none")), [100, 50, 0]);
        assert_eq!(scores(pod("all").tolerate(tolerates_all())), [100, 100, 100]);
        assert_eq!(scores(pod("one").tolerate(tolerates("k0", "PreferNoSchedule"))), [100, 100, 0]);
        let hard = pod("other effect").tolerate(tolerates("k0", "NoSchedule")).tolerate(tolerates("k1", ""));
        assert_eq!(scores(hard), [100, 0, 0]);
        let nodes = cluster([node("hard").taint("k", "v", "NoSchedule"), soft(0)], []);
        let raw = trial().raw_scores(&nodes, &pod("p").info()).unwrap();
        assert_eq!(raw, Some(vec![0, 0]), "taints that forbid scheduling do not count");
    }

    #[test]
    fn a_node_wakes_pods_when_its_taints_become_tolerable() {
        let (clean, tainted) = (node("n").build(), node("n").taint("k", "v", "NoSchedule").build());
        let soft = node("n").taint("k", "v", "PreferNoSchedule").build();
        let waiting = pod("p").info();
        let hint = |action, old, new| {
            trial().hint(ClusterEvent::new(EventResource::Node, action), &waiting, &Change::Node { old, new })
        };
        for (action, old, new, expected) in [
            (Action::ADD, None, &clean, Hint::Queue),
            (Action::ADD, None, &tainted, Hint::Skip),
            (Action::UPDATE_NODE_TAINT, Some(&tainted), &clean, Hint::Queue),
            (Action::UPDATE_NODE_TAINT, Some(&tainted), &soft, Hint::Queue),
            (Action::UPDATE_NODE_TAINT, Some(&clean), &soft, Hint::Skip),
            (Action::UPDATE_NODE_TAINT, Some(&clean), &tainted, Hint::Skip),
        ] {
            assert_eq!(hint(action, old, Some(new)), Some(expected), "{action} {:?}", new.taints);
        }
    }

    #[test]
    fn any_change_of_the_pods_own_tolerations_wakes_it() {
        let waiting = pod("p").info();
        for (resource, expected) in [
            (EventResource::UnschedulablePod, Some(Hint::Queue)),
            (EventResource::TargetPod, Some(Hint::Queue)),
            (EventResource::AssignedPod, None),
        ] {
            let event = ClusterEvent::new(resource, Action::UPDATE_POD_TOLERATION);
            let new = pod("p").tolerate(tolerates("unrelated", "NoSchedule")).build();
            let change = Change::Pod { old: None, new: Some(&new) };
            assert_eq!(trial().hint(event, &waiting, &change), expected, "{resource}");
        }
    }
}
