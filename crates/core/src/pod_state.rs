//! What the engine knows about one pod that has no node yet. The JSON form is stable, since tools read it.

use harbormaster_api::{Pod, Str, Timestamp};
use serde::Serialize;

use crate::{
    Engine,
    event_words::words,
    note::QueueState,
    queue::{QueuedPod, Standing},
};

/// Type of the condition that says why a pod has no node.
const POD_SCHEDULED: &str = "PodScheduled";

/// State of a pod, as [`Engine::pod_state`] returns it. Times are in RFC 3339.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodState {
    /// `namespace/name`.
    pub pod: String,
    /// `spec.schedulerName`.
    pub profile: String,
    /// Group of pods to which the pod belongs (`namespace/name`).
    pub group: Option<String>,
    /// `active`, `backoff`, `unschedulable` (waits for an event), `gated`, `incomplete` (its group does not exist),
    /// `asking` (extenders are being asked about it), `permit` (has a node and waits on Permit) or `binding`.
    pub state: &'static str,
    /// Number of attempts.
    pub attempts: u32,
    /// Time at which the pod entered the queue, or returned to it after its last failed attempt.
    pub since: Option<String>,
    /// End of the backoff.
    pub backoff_until: Option<String>,
    /// The latest time at which the pod is tried again, even if nothing happens.
    pub tried_again_by: Option<String>,
    /// PreEnqueue plugin that gates the pod.
    pub gated_by: Option<&'static str>,
    /// The node that the pod gets, if Permit allows it and the binding succeeds.
    pub node: Option<String>,
    /// Plugins that delay the pod on Permit.
    pub permit: Vec<PermitWait>,
    /// Node that other pods leave for this pod.
    pub nominated_node: Option<String>,
    /// The reason why the last attempt failed, in kube-scheduler's words.
    pub message: Option<String>,
    /// The reasons in the message, each with its number of nodes.
    pub reasons: Vec<Reason>,
    /// Plugins that rejected or gate the pod, with the events after which it may fit.
    pub woken_by: Vec<Waker>,
}

/// A plugin that delays a pod on Permit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PermitWait {
    /// Name of the plugin.
    pub plugin: &'static str,
    /// End of the wait, after which the pod fails.
    pub until: String,
}

/// A reason why nodes do not fit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// Number of nodes.
    pub nodes: usize,
    /// The reason.
    pub reason: String,
}

/// A plugin and the events to which it listens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Waker {
    /// Name of the plugin.
    pub plugin: &'static str,
    /// The events, for example `a node appears or gets other labels`.
    pub events: Vec<String>,
}

impl Engine {
    /// Returns the state of a pod that waits for a node or for its binding; `None` for any other pod. The cost does not
    /// depend on the number of pods or nodes.
    pub fn pod_state(&self, namespace: &str, name: &str) -> Option<PodState> {
        let uid = self.queue().uid_of(&namespace.into(), &name.into())?.clone();
        match self.binding(&uid) {
            Some(binding) => {
                let waits = binding.waits().iter();
                let permit: Vec<PermitWait> = waits
                    .map(|wait| PermitWait { plugin: wait.plugin, until: wait.until.to_rfc3339() })
                    .collect();
                Some(PodState {
                    state: if permit.is_empty() { "binding" } else { "permit" },
                    node: Some(binding.chosen.node().to_string()),
                    permit,
                    ..self.told(&binding.entry)
                })
            }
            None => self.queued_state(&uid),
        }
    }

    fn queued_state(&self, uid: &Str) -> Option<PodState> {
        if let Some(entry) = self.inquiries().get(uid) {
            return Some(PodState { state: "asking", ..self.told(entry) });
        }
        let queue = self.queue();
        let entry = queue.get(uid)?;
        let Some((entity, part)) = queue.place_of(uid) else {
            return Some(PodState { state: "incomplete", ..self.told(entry) });
        };
        let standing: &Standing = entity;
        let state = match part {
            QueueState::Active => "active",
            QueueState::Backoff => "backoff",
            _ if standing.gated_by.is_some() => "gated",
            _ => "unschedulable",
        };
        let backoff_until = standing.backoff_until.filter(|_| state == "backoff");
        let tried_again_by = match state {
            "unschedulable" => Some(queue.tried_again_by(standing)),
            "backoff" => backoff_until,
            _ => None,
        };
        let time = |time: Timestamp| time.to_rfc3339();
        // An active pod has been woken already.
        let woken_by = if state == "active" { Vec::new() } else { self.wakers(standing) };
        Some(PodState {
            state,
            since: Some(time(standing.since)),
            backoff_until: backoff_until.map(time),
            tried_again_by: tried_again_by.map(time),
            gated_by: standing.gated_by,
            woken_by,
            ..self.told(entry)
        })
    }

    /// Returns what is known about a pod whatever its state is.
    fn told(&self, entry: &QueuedPod) -> PodState {
        let pod = &entry.pod;
        let message = message(pod).map(str::to_owned);
        PodState {
            pod: pod.full_name(),
            profile: pod.spec.scheduler_name.to_string(),
            group: pod.group().map(ToString::to_string),
            attempts: entry.attempts,
            nominated_node: self.nominator().node_of(&pod.uid).map(ToString::to_string),
            reasons: message.as_deref().map(reasons).unwrap_or_default(),
            message,
            ..PodState::default()
        }
    }

    fn wakers(&self, standing: &Standing) -> Vec<Waker> {
        let Some(profile) = self.queue().profile(standing.profile) else { return Vec::new() };
        let rejectors: Vec<&str> = standing.all_rejectors().chain(standing.gated_by).collect();
        let all = profile.registrations();
        let of_rejectors = all.iter().filter_map(|(plugin, registrations)| {
            let plugin = profile.plugin(*plugin).name();
            let events = registrations.iter().map(|registration| words(registration.event)).collect();
            rejectors.contains(&plugin).then_some(Waker { plugin, events })
        });
        of_rejectors.collect()
    }
}

/// Returns the reason why the last attempt for a pod failed, as its condition tells it.
pub fn message(pod: &Pod) -> Option<&str> {
    let is_it = |type_: &str, status: &str| type_ == POD_SCHEDULED && status == "False";
    let mut conditions = pod.status.conditions.iter();
    let condition = conditions.find(|condition| is_it(&condition.type_, &condition.status))?;
    Some(condition.message.as_str()).filter(|text| !text.is_empty())
}

/// Returns the reasons in a scheduler's message such as `0/5 nodes are available: 3 Insufficient cpu, 2 node(s) were unschedulable.`
pub fn reasons(message: &str) -> Vec<Reason> {
    let Some((_, rest)) = message.split_once(" nodes are available: ") else { return Vec::new() };
    // What follows is about preemption.
    let first = rest.split(". ").next().unwrap_or_default();
    let parts = first.trim_end_matches('.').split(", ");
    let counted = parts.filter_map(|part| {
        let (nodes, reason) = part.split_once(' ')?;
        Some(Reason { nodes: nodes.parse().ok()?, reason: reason.to_owned() })
    });
    counted.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_consists_of_reasons_with_numbers_of_nodes() {
        let message = "0/5 nodes are available: 2 node(s) were unschedulable, 3 Insufficient cpu. preemption: 0/5 nodes are \
                       available: 5 Preemption is not helpful for scheduling.";
        let told: Vec<(usize, String)> =
            reasons(message).into_iter().map(|one| (one.nodes, one.reason)).collect();
        assert_eq!(told, [(2, "node(s) were unschedulable".to_owned()), (3, "Insufficient cpu".to_owned())]);
        assert_eq!(reasons("0/5 nodes are available: pod affinity terms conflict."), []);
        assert_eq!(reasons("running PreBind plugin"), []);
    }
}
