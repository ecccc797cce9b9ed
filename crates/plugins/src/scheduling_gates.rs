//! SchedulingGates: holds pods back until their gates are removed (KEP-3521).
//!
//! # What it does
//! Extension point: PreEnqueue. A pod with `spec.schedulingGates` does not enter the active queue.
//!
//! # Rejects when
//! The pod has a gate: `waiting for scheduling gates: [a b]`, with the names in the order of the spec. Nothing that
//! the scheduler does can help.
//!
//! # Scores by
//! It does not score.
//!
//! # Requeued by
//! The update that removes the pod's last gate.
//!
//! # Differs from kube-scheduler
//! No differences.

use harbormaster_framework::prelude::*;

/// Holds pods back until their gates are removed. See the [module documentation](self).
#[derive(Clone, Copy, Debug, Default)]
pub struct SchedulingGates;

impl Plugin for SchedulingGates {
    const NAME: &'static str = "SchedulingGates";
    const MAY_BLOCK: bool = false;
    implemented_points!();

    fn events(&self) -> Option<Vec<Registration<Self>>> {
        Some(vec![Registration::always(EventResource::TargetPod, Action::UPDATE_POD_GATES_ELIMINATED)])
    }
}

impl PreEnqueue for SchedulingGates {
    fn pre_enqueue(&self, cx: EnqueueCycle<'_>) -> Verdict {
        if cx.pod.scheduling_gates.is_empty() {
            return Ok(());
        }
        let gates = cx.pod.scheduling_gates.join(" ");
        Err(Reject::unresolvable(format!("waiting for scheduling gates: [{gates}]")).into())
    }
}

#[cfg(test)]
mod tests {
    use harbormaster_framework::events::ClusterEvent;
    use harbormaster_testkit::{Trial, pod, rejection};

    use super::*;

    fn verdict(pod: &PodInfo) -> Result<(), Reject> {
        let objects = Objects::default();
        let cx = EnqueueCycle::new(pod, &objects);
        Trial::of(SchedulingGates).plugin().pre_enqueue(cx).map_err(rejection)
    }

    #[test]
    fn a_pod_waits_while_it_has_gates_and_the_reason_lists_them_in_order() {
        assert_eq!(verdict(&pod("p").info()), Ok(()));
        let gated = pod("p").gate("foo").gate("bar").info();
        let reject = verdict(&gated).unwrap_err();
        assert_eq!(reject, Reject::unresolvable("waiting for scheduling gates: [foo bar]"));
    }

    #[test]
    fn only_the_removal_of_the_pods_own_last_gate_wakes_it() {
        let trial = Trial::of(SchedulingGates);
        let (gated, free) = (pod("p").gate("g").info(), pod("p").build());
        use EventResource::{AssignedPod, TargetPod, UnschedulablePod};
        for (resource, action, expected) in [
            (UnschedulablePod, Action::UPDATE_POD_GATES_ELIMINATED, Some(Hint::Queue)),
            (TargetPod, Action::UPDATE_POD_GATES_ELIMINATED, Some(Hint::Queue)),
            (TargetPod, Action::UPDATE_POD_LABEL, None),
            (AssignedPod, Action::UPDATE_POD_GATES_ELIMINATED, None),
        ] {
            let event = ClusterEvent::new(resource, action);
            let change = Change::Pod { old: Some(&gated.pod), new: Some(&free) };
            assert_eq!(trial.hint(event, &gated, &change), expected, "{event}");
        }
    }
}
