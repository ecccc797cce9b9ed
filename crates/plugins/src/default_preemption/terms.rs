//! Terms of preemption: which pods may be evicted, and what must hold once they are gone.

use harbormaster_framework::prelude::*;

/// Terms on which pods are evicted, for plugins that take the place of DefaultPreemption; see
/// [`DefaultPreemption::post_filter_with`](super::DefaultPreemption::post_filter_with).
///
/// A search imagines that pods leave their nodes, the least important first, and that those return which need not leave.
/// The terms are told, so that they can depend on which pods have left.
pub trait EvictionTerms {
    /// The priority from which pods are spared. A pod of a group has the group's priority. With [`i32::MAX`], pods are
    /// evicted whatever their priority is.
    fn ceiling(&self) -> i32;

    /// Returns true if the pod must not be evicted in addition to those that have left. A pod that is spared while all
    /// pods are there must be spared at any time.
    fn spares(&self, pod: &PodInfo) -> bool {
        let _ = pod;
        false
    }

    /// Returns true if pods that are evicted together must stay for now, given those that have left. They are asked for
    /// again once more pods have left.
    fn keeps(&self, pods: &[&PodInfo]) -> bool {
        pods.iter().any(|pod| self.spares(pod))
    }

    /// Returns true if [`Self::keeps`] and [`Self::rejection`] depend on which pods have left. Those whose eviction
    /// violates a disruption budget are then the last to leave, and the search takes more time.
    fn keeps_some(&self) -> bool {
        false
    }

    /// Returns true if a pod of a gang is evicted only together with the whole gang, even if the gang's description does
    /// not say so. Every pod of the gang must then be one that may be evicted.
    fn takes_whole_gangs(&self) -> bool {
        false
    }

    /// All pods are there again.
    fn restart(&mut self) {}

    /// A pod has left.
    fn pod_left(&mut self, pod: &PodInfo) {
        let _ = pod;
    }

    /// A pod that had left is there again.
    fn pod_returned(&mut self, pod: &PodInfo) {
        let _ = pod;
    }

    /// Rejects the pod, wherever it fits, because too few pods have left. `None` if enough have.
    fn rejection(&self) -> Option<Reject> {
        None
    }

    /// Returns true if a pod may have to leave whatever node it is on, because [`Self::rejection`] is not about nodes.
    /// Pods of other nodes are evicted only if no node has enough pods that may be.
    fn reaches_other_nodes(&self) -> bool {
        false
    }
}

/// kube-scheduler's terms: pods of lower priority than this are evicted.
#[derive(Clone, Copy, Debug)]
pub(super) struct ByPriority(pub(super) i32);

impl EvictionTerms for ByPriority {
    fn ceiling(&self) -> i32 {
        self.0
    }
}
