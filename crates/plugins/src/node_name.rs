//! NodeName: accepts only the node that the pod names.
//!
//! # What it does
//! Extension point: Filter. Compares `spec.nodeName` with the node's name.
//!
//! # Rejects when
//! The pod names another node: `node(s) didn't match the requested node name`, which no eviction resolves. Pending pods
//! name no node, since naming a node binds the pod; the plugin matters only for what-if questions about bound pods.
//!
//! # Scores by
//! It does not score.
//!
//! # Requeued by
//! A new node.
//!
//! # Differs from kube-scheduler
//! No differences.

use harbormaster_api::Str;
use harbormaster_framework::prelude::*;

use crate::sign;

const REASON: &str = "node(s) didn't match the requested node name";

/// Accepts only the node that the pod names. See the [module documentation](self).
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeName;

impl Plugin for NodeName {
    const NAME: &'static str = "NodeName";
    const MAY_BLOCK: bool = false;
    implemented_points!();

    fn events(&self) -> Option<Vec<Registration<Self>>> {
        Some(vec![Registration::always(EventResource::Node, Action::ADD)])
    }

    fn reads(&self, pod: RowPod<'_>, reads: &mut Reads) {
        reads.of(&pod.node_name);
    }

    fn sign(&self, pod: &PodInfo) -> Result<Vec<SignFragment>, Unsignable> {
        Ok(vec![sign::node_name(pod)])
    }
}

/// Returns the node that the pod names, if any. An empty name is treated as absent.
fn requested_node(pod: RowPod<'_>) -> Option<&str> {
    pod.node_name.map(Str::as_str).filter(|name| !name.is_empty())
}

impl Filter<Row> for NodeName {
    fn filter(&self, cx: &RowCycle<'_>, (): &(), node: NodeRef<'_>) -> Verdict {
        let fits = requested_node(cx.pod).is_none_or(|name| name == node.name().as_str());
        if fits { Ok(()) } else { Err(Reject::unresolvable(REASON).into()) }
    }

    fn filter_batch(&self, cx: &RowCycle<'_>, (): &(), sweep: &mut Sweep<'_>) -> PluginResult<()> {
        if let Some(name) = requested_node(cx.pod) {
            let rows = sweep.rows();
            let others = rows.iter().filter(|row| cx.nodes.node(*row).name().as_str() != name);
            sweep.reject_each(others, &Reject::unresolvable(REASON));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use harbormaster_framework::events::ClusterEvent;
    use harbormaster_testkit::{Trial, batch_equals_single, cluster, node, pod};

    use super::*;

    #[test]
    fn only_the_named_node_fits_and_without_a_name_every_node_fits() {
        let nodes = cluster([node("a"), node("b")], []);
        let trial = Trial::of(NodeName);
        for (pod, on_a) in [
            (pod("p"), Ok(())),
            (pod("p").on(""), Ok(())),
            (pod("p").on("a"), Ok(())),
            (pod("p").on("b"), Err(Reject::unresolvable("node(s) didn't match the requested node name"))),
        ] {
            let pod = pod.info();
            assert_eq!(trial.verdict(&nodes, &pod, "a"), on_a);
            batch_equals_single(&trial, &nodes, &pod);
        }
    }

    #[test]
    fn every_new_node_wakes_the_pod() {
        let added = node("n").build();
        let change = Change::Node { old: None, new: Some(&added) };
        let event = ClusterEvent::new(EventResource::Node, Action::ADD);
        assert_eq!(Trial::of(NodeName).hint(event, &pod("p").info(), &change), Some(Hint::Queue));
    }
}
