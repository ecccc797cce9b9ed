//! The engine's output: tasks for the host.

use std::sync::Arc;

use harbormaster_api::{Str, Timestamp};
use harbormaster_framework::{
    api_call::ApiCall,
    cycle::Reservation,
    extender::{ExtenderClient, Question},
    group::PodGroup,
    pod::PodInfo,
    profile::Profile,
    sweep::PluginIdx,
};

/// A task for the host. Effects are values: the driver carries them out, and the simulator records them. Information
/// that requires no action is a [`crate::Note`].
#[derive(Clone, Debug)]
pub enum Effect {
    /// Run PreBind, Bind and PostBind, then report with [`crate::Input::BindFinished`].
    Bind(BindTask),
    /// Patch the pod's status. No answer is expected. The host retries a failed request, and logs the failure if the
    /// retries fail.
    PatchStatus(StatusPatch),
    /// Emit an event about the pod.
    Event(PodEvent),
    /// Evict a pod, or call off its binding if that is still possible, then report with
    /// [`crate::Input::EvictFinished`].
    Evict(EvictTask),
    /// Stop a pod's PreBind, so that its binding fails. Later steps of the binding are not stopped.
    CallOff(CallOffTask),
    /// Send the API requests of Unreserve and PostFilter plugins, before any other task for the pod. No answer is
    /// expected; failures are logged.
    Call(CallTask),
    /// Send an API request about a group. No answer is expected; the host retries a failed request, and logs the failure
    /// if the retries fail. Requests about one group must not overtake each other.
    Group(GroupCall),
    /// Put a question to extenders, then report with [`crate::Input::Answered`]. Requested only if
    /// [`crate::EngineConfig::concurrent_extenders`] is true.
    Ask(AskTask),
}

/// A question to extenders about a pod. Other pods are decided in the meantime.
#[derive(Clone, Debug)]
pub struct AskTask {
    /// Number of the question.
    pub number: u64,
    /// The pod.
    pub pod: Arc<PodInfo>,
    /// The question.
    pub question: Question,
    /// The client of the extenders that the question names.
    pub client: Arc<dyn ExtenderClient>,
}

/// A request about a group.
#[derive(Clone, Debug)]
pub struct GroupCall {
    /// The group.
    pub group: Arc<PodGroup>,
    /// The request.
    pub call: ApiCall,
}

/// A binding that is no longer needed.
#[derive(Clone, Debug)]
pub struct CallOffTask {
    /// UID of the pod.
    pub pod: Str,
    /// Error with which the binding fails.
    pub why: &'static str,
}

/// Requests that plugins make to the API server after a pod has given up its node or has found none.
#[derive(Clone, Debug)]
pub struct CallTask {
    /// The pod that gave up its node or found none.
    pub pod: Arc<PodInfo>,
    /// The requests, in order.
    pub calls: Vec<ApiCall>,
}

/// A pod to evict: its status gets the `DisruptionTarget` condition, unless the pod already has it with this message;
/// then the pod is deleted.
#[derive(Clone, Debug)]
pub struct EvictTask {
    /// UID of the pod that needs the resources.
    pub preemptor: Str,
    /// Number of the round, which distinguishes the evictions of one attempt from those of the preemptor's other
    /// attempts.
    pub round: u64,
    /// The engine's version of the pod to evict.
    pub victim: Arc<PodInfo>,
    /// Message of the condition; its reason is `PreemptionByScheduler`.
    pub message: String,
}

/// A binding cycle to run concurrently with scheduling.
#[derive(Clone, Debug)]
pub struct BindTask {
    /// The pod (not bound yet), the chosen node, and the reservations of plugins.
    pub reservation: Reservation,
    /// The profile whose plugins run.
    pub profile: Arc<Profile>,
    /// PreBind plugins with work to do. The groups run in order, the members of a group in parallel.
    pub pre_bind: Vec<Vec<PluginIdx>>,
    /// Number of nodes that were evaluated for the decision.
    pub evaluated: usize,
    /// Number of evaluated nodes that fit.
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

/// A change to a pod's `status`. Contains only the fields that differ from the engine's version of the pod.
#[derive(Clone, Debug)]
pub struct StatusPatch {
    /// The engine's version of the pod.
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
    /// Human-readable message.
    pub message: String,
    /// Time at which the status last changed.
    pub last_transition: Timestamp,
}

/// An event (events.k8s.io) about a pod.
#[derive(Clone, Debug)]
pub struct PodEvent {
    /// The pod.
    pub pod: Arc<PodInfo>,
    /// True for type `Warning`, false for `Normal`.
    pub warning: bool,
    /// Reason, for example `FailedScheduling`.
    pub reason: &'static str,
    /// Action, for example `Scheduling`.
    pub action: &'static str,
    /// Human-readable note of at most 1024 bytes.
    pub note: String,
    /// Scheduler name of the profile.
    pub reporter: Str,
}

/// Maximum length of a note in the API server, in bytes.
const MAX_NOTE: usize = 1024;

/// Cuts a note that exceeds the API server's maximum to at most 1020 bytes and appends ` ...`, as kube-scheduler does.
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
    fn long_notes_are_cut_at_a_character_boundary() {
        assert_eq!(cut_note("short"), "short");
        assert_eq!(cut_note(&"x".repeat(2000)).len(), 1024);
        assert!(cut_note(&format!("x{}", "é".repeat(1000))).ends_with("é ..."));
    }
}
