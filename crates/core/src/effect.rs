//! What the outside world must do: the engine's output.

use std::sync::Arc;

use harbormaster_api::{Str, Timestamp};
use harbormaster_framework::{
    api_call::ApiCall, cycle::Reservation, pod::PodInfo, profile::Profile, resource::Undecodable,
    sweep::PluginIdx,
};

/// Something to be done. Effects are values: the driver carries them out, the simulator records them.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Run PreBind, Bind and PostBind, then report with [`crate::Input::BindFinished`].
    Bind(BindTask),
    /// Patch the pod's status. No answer is expected; failures are retried by the host and then logged.
    PatchStatus(StatusPatch),
    /// Emit an event about the pod.
    Event(PodEvent),
    /// Evict a pod, or call its binding off if that is still possible, then report with [`crate::Input::EvictFinished`].
    Evict(EvictTask),
    /// Stop PreBind for a pod, which then has failed so; what has gone further goes on.
    CallOff(CallOffTask),
    /// Make calls to the API server that Unreserve plugins ask for, before anything else that is still to be done for the pod.
    /// No answer is expected; failures are logged.
    Call(CallTask),
    /// A plugin failed where nothing but a log line can tell of it.
    Trouble(Trouble),
    /// A custom object counts as absent. Told once for as long as the same is wrong with it.
    Undecodable(Undecodable),
}

/// A binding that nobody needs any more.
#[derive(Clone, Debug)]
pub struct CallOffTask {
    /// The UID of the pod.
    pub pod: Str,
    /// How the binding fails.
    pub why: &'static str,
}

/// Calls to the API server because a decision was given up.
#[derive(Clone, Debug)]
pub struct CallTask {
    /// The pod that gives its node up.
    pub pod: Arc<PodInfo>,
    /// What to call for, in order.
    pub calls: Vec<ApiCall>,
}

/// A plugin's failure that concerns no attempt: in a hint, in an index, when a pod was given up.
#[derive(Clone, Debug)]
pub struct Trouble {
    /// The pod that it was about, if it was about one.
    pub pod: Option<Arc<PodInfo>>,
    /// What failed, with plugin and point.
    pub error: String,
}

/// A pod to be evicted: its status gets the condition `DisruptionTarget` (unless it says so already), then it is deleted.
#[derive(Clone, Debug)]
pub struct EvictTask {
    /// The UID of the pod that needs the room.
    pub preemptor: Str,
    /// Tells apart the evictions of one preemptor that tried twice.
    pub round: u64,
    /// The pod to be evicted, as the engine knows it.
    pub victim: Arc<PodInfo>,
    /// The condition's message; its reason is `PreemptionByScheduler`.
    pub message: String,
}

/// A binding cycle to be run beside the scheduling cycle.
#[derive(Clone, Debug)]
pub struct BindTask {
    /// The pod, not yet bound, the chosen node, and what plugins have reserved there.
    pub reservation: Reservation,
    /// Whose plugins run.
    pub profile: Arc<Profile>,
    /// PreBind plugins with work to do: groups in order, the members of a group side by side.
    pub pre_bind: Vec<Vec<PluginIdx>>,
    /// How many nodes were looked at for the decision.
    pub evaluated: usize,
    /// How many of them fit.
    pub feasible: usize,
}

impl BindTask {
    /// The pod, not yet bound.
    pub fn pod(&self) -> &Arc<PodInfo> {
        self.reservation.pod()
    }

    /// The chosen node.
    pub fn node(&self) -> &Str {
        self.reservation.node()
    }
}

/// A change of `status`, against the pod as the engine knows it.
#[derive(Clone, Debug)]
pub struct StatusPatch {
    /// The pod that the patch is a difference to.
    pub pod: Arc<PodInfo>,
    /// The new `PodScheduled` condition, if it changes.
    pub condition: Option<Condition>,
    /// The new `nominatedNodeName`, if it changes; `Some(None)` clears it.
    pub nominated_node: Option<Option<Str>>,
}

/// A `PodScheduled` condition with status `False`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// `Unschedulable` or `SchedulerError`.
    pub reason: &'static str,
    /// For people.
    pub message: String,
    /// When the status last changed.
    pub last_transition: Timestamp,
}

/// An event (events.k8s.io) about a pod.
#[derive(Clone, Debug)]
pub struct PodEvent {
    /// The pod it is about.
    pub pod: Arc<PodInfo>,
    /// `Warning` instead of `Normal`.
    pub warning: bool,
    /// For example `FailedScheduling`.
    pub reason: &'static str,
    /// For example `Scheduling`.
    pub action: &'static str,
    /// For people; at most 1024 bytes.
    pub note: String,
    /// The profile's scheduler name.
    pub reporter: Str,
}

/// The longest note that the API server takes, in bytes.
const MAX_NOTE: usize = 1024;

/// Cuts a note to what the API server takes, as kube-scheduler does: 1020 bytes and ` ...`.
pub fn cut_note(note: &str) -> String {
    if note.len() <= MAX_NOTE {
        return note.to_owned();
    }
    let mut end = MAX_NOTE - 4;
    while !note.is_char_boundary(end) {
        end -= 1;
    }
    format!("{} ...", &note[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_notes_are_cut_at_a_character() {
        assert_eq!(cut_note("short"), "short");
        assert_eq!(cut_note(&"x".repeat(2000)).len(), 1024);
        assert!(cut_note(&"é".repeat(1000)).ends_with("é ..."));
    }
}
