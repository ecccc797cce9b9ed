//! Eligibility of a pod for preemption.

use harbormaster_framework::prelude::*;

use super::{EvictionTerms, unit::Population};

const REASON_NEVER: &str = "not eligible due to preemptionPolicy=Never.";
const REASON_TERMINATING: &str = "not eligible due to a terminating pod on the nominated node.";
const REASON_WORKLOAD_AWARE: &str = "not eligible due to workload aware preemption enabled";

/// Returns why the pod may not preempt others, or `None` if it may.
pub(super) fn ineligible_reason(
    cx: &PostFilterCycle<'_>,
    workload_aware: bool,
    terms: &impl EvictionTerms,
) -> Option<&'static str> {
    let spec = &cx.pod.spec;
    if workload_aware && spec.pod_group.is_some() {
        return Some(REASON_WORKLOAD_AWARE);
    }
    if spec.never_preempts {
        return Some(REASON_NEVER);
    }
    has_terminating_victims(cx, terms).then_some(REASON_TERMINATING)
}

/// Returns true if preempted pods are still terminating on the pod's nominated node, and evictions may make room there.
fn has_terminating_victims(cx: &PostFilterCycle<'_>, terms: &impl EvictionTerms) -> bool {
    let nodes = cx.what_if.nodes();
    let Some(row) = cx.pod.status.nominated_node_name.as_ref().and_then(|name| nodes.find(name)) else {
        return false;
    };
    if cx.what_if.rejection(row).is_none_or(|reject| reject.fix == Fix::NothingHelps) {
        return false;
    }
    has_preempted(row, terms, cx.what_if)
}

/// Returns true if pods that were preempted, and may be on these terms, are still terminating on the row.
pub(super) fn has_preempted<P: Population + ?Sized>(
    row: NodeIdx,
    terms: &impl EvictionTerms,
    there: &P,
) -> bool {
    let mut pods = there.nodes().node(row).pods().iter();
    pods.any(|pod| there.priority_of(pod) < terms.ceiling() && is_preempted(pod) && !terms.spares(pod))
}

/// Returns true if a scheduler preempted the pod. Pods deleted for other reasons do not count.
fn is_preempted(pod: &PodInfo) -> bool {
    pod.is_terminating()
        && pod
            .condition("DisruptionTarget")
            .is_some_and(|c| c.status == "True" && c.reason == "PreemptionByScheduler")
}
