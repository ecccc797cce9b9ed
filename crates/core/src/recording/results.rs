//! The recorded form of attempts and effects. Pods are reduced to their UIDs.

use harbormaster_api::{Str, Timestamp};
use harbormaster_framework::{api_call::ApiCall, extender::Question, pod::PodInfo};
use serde::{Deserialize, Serialize};

use super::line::EvictionId;
use crate::{
    effect::{AskTask, Effect, StatusPatch},
    outcome::{Attempted, Outcome},
};

/// Result of an attempt; null if there was no pod to try.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum RecordedAttempt {
    None,
    Pod(RecordedOutcome),
    /// The members of a group.
    Group(Vec<RecordedOutcome>),
}

/// Outcome of an attempt for one pod.
#[derive(Serialize)]
pub(super) struct RecordedOutcome {
    pod: Str,
    outcome: Outcome,
}

impl RecordedOutcome {
    fn of(pod: &PodInfo, outcome: &Outcome) -> Self {
        Self { pod: pod.uid.clone(), outcome: outcome.clone() }
    }
}

impl RecordedAttempt {
    pub(super) fn of(attempted: Option<&Attempted>) -> Self {
        match attempted {
            Some(Attempted { pod, outcome, others }) if others.is_empty() => {
                Self::Pod(RecordedOutcome::of(pod, outcome))
            }
            Some(attempted) => {
                Self::Group(attempted.all().map(|(pod, outcome)| RecordedOutcome::of(pod, outcome)).collect())
            }
            None => Self::None,
        }
    }
}

/// The recorded form of an [`Effect`].
#[derive(Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(super) enum RecordedEffect {
    Bind { pod: Str, node: Str, profile: Str, pre_bind: Vec<Vec<usize>>, evaluated: usize, feasible: usize },
    PatchStatus { pod: Str, condition: Option<RecordedCondition>, nominated_node: Option<Nominated> },
    Event { pod: Str, warning: bool, reason: &'static str, action: &'static str, note: String, reporter: Str },
    Evict { id: EvictionId, message: String },
    CallOff { pod: Str, why: &'static str },
    Call { pod: Str, calls: Vec<ApiCall> },
    Group { group: String, call: ApiCall },
    Ask(RecordedQuestion),
}

/// A question to extenders.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct RecordedQuestion {
    pub(super) number: u64,
    pub(super) pod: Str,
    pub(super) question: Question,
}

/// A `PodScheduled` condition.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RecordedCondition {
    reason: &'static str,
    message: String,
    last_transition: Timestamp,
}

/// A node that is nominated; null if the nomination is cleared.
#[derive(Serialize)]
pub(super) struct Nominated {
    to: Option<Str>,
}

impl From<&Effect> for RecordedEffect {
    fn from(effect: &Effect) -> Self {
        match effect {
            Effect::Bind(task) => Self::Bind {
                pod: task.pod().uid.clone(),
                node: task.node().clone(),
                profile: task.profile.name().clone(),
                pre_bind: task
                    .pre_bind
                    .iter()
                    .map(|group| group.iter().map(|plugin| plugin.at()).collect())
                    .collect(),
                evaluated: task.evaluated,
                feasible: task.feasible,
            },
            Effect::PatchStatus(patch) => Self::of_patch(patch),
            Effect::Event(event) => Self::Event {
                pod: event.pod.uid.clone(),
                warning: event.warning,
                reason: event.reason,
                action: event.action,
                note: event.note.clone(),
                reporter: event.reporter.clone(),
            },
            Effect::Evict(task) => Self::Evict { id: EvictionId::of(task), message: task.message.clone() },
            Effect::CallOff(task) => Self::CallOff { pod: task.pod.clone(), why: task.why },
            Effect::Call(task) => Self::Call { pod: task.pod.uid.clone(), calls: task.calls.clone() },
            Effect::Group(task) => Self::Group { group: task.group.id.to_string(), call: task.call.clone() },
            Effect::Ask(AskTask { number, pod, question, .. }) => Self::Ask(RecordedQuestion {
                number: *number,
                pod: pod.uid.clone(),
                question: question.clone(),
            }),
        }
    }
}

impl RecordedEffect {
    fn of_patch(patch: &StatusPatch) -> Self {
        Self::PatchStatus {
            pod: patch.pod.uid.clone(),
            condition: patch.condition.as_ref().map(|condition| RecordedCondition {
                reason: condition.reason,
                message: condition.message.clone(),
                last_transition: condition.last_transition,
            }),
            nominated_node: patch.nominated_node.as_ref().map(|node| Nominated { to: node.clone() }),
        }
    }

    /// Recorded form of several effects.
    pub(super) fn all(effects: &[Effect]) -> Vec<Self> {
        effects.iter().map(Self::from).collect()
    }
}
