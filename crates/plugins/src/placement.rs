//! Pods that lose their nodes.

use harbormaster_api::Pod;

/// Type of the condition that is true for a bound pod.
const SCHEDULED: &str = "PodScheduled";

/// Returns true if a pod that has left its node was never bound to it. The API server may then not know what plugins
/// chose for the pod.
pub(crate) fn left_unbound(gone: &Pod) -> bool {
    let was_bound = gone.condition(SCHEDULED).is_some_and(|condition| &*condition.status == "True");
    gone.node_name.is_some() && !was_bound
}
