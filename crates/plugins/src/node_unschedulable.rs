//! NodeUnschedulable: keeps new pods off cordoned nodes.
//!
//! # What it does
//! Extension point: Filter. Checks `spec.unschedulable` of the node, which `kubectl cordon` sets.
//!
//! # Rejects when
//! The node is cordoned and the pod does not tolerate the `node.kubernetes.io/unschedulable:NoSchedule` taint (with an
//! empty value): `node(s) were unschedulable`, which no eviction resolves. The node's actual taints do not matter.
//!
//! # Scores by
//! It does not score.
//!
//! # Requeued by
//! A new node that is not cordoned; a node that is uncordoned; new tolerations of the pod that match the taint.
//!
//! # Differs from kube-scheduler
//! No differences.

use harbormaster_api::{
    features::Feature,
    taint::{Toleration, UNSCHEDULABLE},
};
use harbormaster_framework::prelude::*;

use crate::{rows::both, sign};

const REASON: &str = "node(s) were unschedulable";

/// Keeps pods off cordoned nodes. See the [module documentation](self).
#[derive(Clone, Copy, Debug)]
pub struct NodeUnschedulable {
    compare_numbers: bool,
}

impl Plugin for NodeUnschedulable {
    const NAME: &'static str = "NodeUnschedulable";
    const MAY_BLOCK: bool = false;
    implemented_points!();

    fn events(&self) -> Option<Vec<Registration<Self>>> {
        use EventResource::{Node, TargetPod};
        Some(vec![
            Registration::hinted(Node, Action::ADD | Action::UPDATE_NODE_TAINT, Self::after_node),
            Registration::hinted(TargetPod, Action::UPDATE_POD_TOLERATION, Self::after_toleration),
        ])
    }

    fn reads(&self, pod: RowPod<'_>, reads: &mut Reads) {
        reads.of(&pod.spec.tolerations);
    }

    fn sign(&self, pod: &PodInfo) -> Result<Vec<SignFragment>, Unsignable> {
        Ok(vec![sign::tolerations(pod)])
    }
}

impl Build for NodeUnschedulable {
    type Args = NoArgs;
    fn build(_: NoArgs, cx: &BuildCycle) -> Result<Self, PluginError> {
        let compare_numbers = cx.features.enabled(Feature::TaintTolerationComparisonOperators);
        Ok(Self { compare_numbers })
    }
}

impl Filter<Row> for NodeUnschedulable {
    fn filter(&self, cx: &RowCycle<'_>, (): &(), node: NodeRef<'_>) -> Verdict {
        let fits = !node.unschedulable() || self.tolerated(&cx.pod.spec.tolerations);
        if fits { Ok(()) } else { Err(Reject::unresolvable(REASON).into()) }
    }

    fn filter_batch(&self, cx: &RowCycle<'_>, (): &(), sweep: &mut Sweep<'_>) -> PluginResult<()> {
        if !self.tolerated(&cx.pod.spec.tolerations) {
            let cordoned = both(sweep.rows(), &cx.nodes.columns().unschedulable);
            sweep.reject_each(cordoned, &Reject::unresolvable(REASON));
        }
        Ok(())
    }
}

impl NodeUnschedulable {
    fn tolerated(&self, tolerations: &[Toleration]) -> bool {
        tolerations.iter().any(|t| t.tolerates(&UNSCHEDULABLE, self.compare_numbers))
    }

    fn after_node(&self, _: &PodInfo, change: &Change<'_>) -> PluginResult<Hint> {
        let Change::Node { old, new: Some(new) } = change else { return Ok(Hint::Queue) };
        let opened = !new.unschedulable && old.is_none_or(|old| old.unschedulable);
        Ok(if opened { Hint::Queue } else { Hint::Skip })
    }

    fn after_toleration(&self, _: &PodInfo, change: &Change<'_>) -> PluginResult<Hint> {
        let Change::Pod { new: Some(new), .. } = change else { return Ok(Hint::Queue) };
        let helps = self.tolerated(&new.spec.tolerations);
        Ok(if helps { Hint::Queue } else { Hint::Skip })
    }
}

#[cfg(test)]
mod tests {
    use harbormaster_api::taint::TAINT_NODE_UNSCHEDULABLE as KEY;
    use harbormaster_framework::events::ClusterEvent;
    use harbormaster_testkit::{Trial, cluster, node, pod, tolerates};

    use super::*;

    fn trial() -> Trial {
        Trial::of(NodeUnschedulable { compare_numbers: false })
    }

    #[test]
    fn a_cordoned_node_rejects_pods_that_do_not_tolerate_it() {
        let nodes = cluster([node("open"), node("cordoned").unschedulable()], []);
        let plain = pod("p").info();
        assert_eq!(trial().verdict(&nodes, &plain, "open"), Ok(()));
        let reject = Reject::unresolvable("node(s) were unschedulable");
        assert_eq!(trial().verdict(&nodes, &plain, "cordoned"), Err(reject.clone()));
        let tolerant = pod("p").tolerate(tolerates(KEY, "NoSchedule")).info();
        assert_eq!(trial().verdict(&nodes, &tolerant, "cordoned"), Ok(()));
        let wrong_effect = pod("p").tolerate(tolerates(KEY, "NoExecute")).info();
        assert_eq!(trial().verdict(&nodes, &wrong_effect, "cordoned"), Err(reject));
    }

    #[test]
    fn the_actual_taints_of_the_node_do_not_matter() {
        let tainted = node("tainted").taint(KEY, "", "NoSchedule");
        let nodes = cluster([tainted], []);
        assert_eq!(trial().verdict(&nodes, &pod("p").info(), "tainted"), Ok(()));
    }

    #[test]
    fn an_uncordoned_node_wakes_the_pod_and_an_unchanged_one_does_not() {
        let (open, cordoned) = (node("n").build(), node("n").unschedulable().build());
        let waiting = pod("p").info();
        let hint = |action, old, new| {
            trial().hint(ClusterEvent::new(EventResource::Node, action), &waiting, &Change::Node { old, new })
        };
        for (action, old, new, expected) in [
            (Action::ADD, None, &open, Hint::Queue),
            (Action::ADD, None, &cordoned, Hint::Skip),
            (Action::UPDATE_NODE_TAINT, Some(&cordoned), &open, Hint::Queue),
            (Action::UPDATE_NODE_TAINT, Some(&cordoned), &cordoned, Hint::Skip),
            (Action::UPDATE_NODE_TAINT, Some(&open), &open, Hint::Skip),
            (Action::UPDATE_NODE_TAINT, Some(&open), &cordoned, Hint::Skip),
        ] {
            assert_eq!(hint(action, old, Some(new)), Some(expected), "{action}");
        }
        assert_eq!(hint(Action::UPDATE_NODE_LABEL, Some(&cordoned), Some(&open)), None);
    }

    #[test]
    fn only_the_pods_own_toleration_of_the_cordon_wakes_it() {
        let event = |resource| ClusterEvent::new(resource, Action::UPDATE_POD_TOLERATION);
        let waiting = pod("p").info();
        for (resource, key, expected) in [
            (EventResource::UnschedulablePod, KEY, Some(Hint::Queue)),
            (EventResource::TargetPod, KEY, Some(Hint::Queue)),
            (EventResource::TargetPod, "unrelated", Some(Hint::Skip)),
            (EventResource::AssignedPod, KEY, None),
        ] {
            let new = pod("p").tolerate(tolerates(key, "NoSchedule")).build();
            let change = Change::Pod { old: Some(&waiting.pod), new: Some(&new) };
            assert_eq!(trial().hint(event(resource), &waiting, &change), expected, "{resource} {key}");
        }
    }
}
