//! Whether a pod may preempt others at all.

use harbormaster_framework::prelude::*;

const REASON_NEVER: &str = "not eligible due to preemptionPolicy=Never.";
const REASON_TERMINATING: &str = "not eligible due to a terminating pod on the nominated node.";
const REASON_WORKLOAD_AWARE: &str = "not eligible due to workload aware preemption enabled";

/// Why the pod may not; `None` if it may.
pub(super) fn obstacle(cx: &PostFilterCycle<'_>, workload_aware: bool) -> Option<&'static str> {
    let spec = &cx.pod.spec;
    if workload_aware && spec.pod_group.is_some() {
        return Some(REASON_WORKLOAD_AWARE);
    }
    if spec.never_preempts {
        return Some(REASON_NEVER);
    }
    has_victims_on_their_way_out(cx).then_some(REASON_TERMINATING)
}

/// Whether the pod waits for pods that were preempted, presumably for it, on the node it is nominated to. There is no
/// point in waiting for a node that no eviction opens up.
fn has_victims_on_their_way_out(cx: &PostFilterCycle<'_>) -> bool {
    let nodes = cx.what_if.nodes();
    let Some(row) = cx.pod.status.nominated_node_name.as_ref().and_then(|name| nodes.find(name)) else {
        return false;
    };
    if cx.what_if.rejection(row).is_none_or(|reject| reject.fix == Fix::NothingHelps) {
        return false;
    }
    nodes.node(row).pods().iter().any(|pod| pod.priority() < cx.pod.priority() && is_preempted(pod))
}

/// Whether the pod terminates because a scheduler preempted it; pods that are deleted for other reasons do not count.
fn is_preempted(pod: &PodInfo) -> bool {
    pod.is_terminating()
        && pod
            .condition("DisruptionTarget")
            .is_some_and(|c| c.status == "True" && c.reason == "PreemptionByScheduler")
}
