//! The lines of a recording.

use std::{borrow::Cow, sync::Arc, time::Duration};

use harbormaster_api::{Node, Object, ObjectKey, Pod, Str, Timestamp};
use harbormaster_framework::{
    extender::Extender,
    outcome::{Fix, Reject},
    pod::PodInfo,
    resource::{CustomKey, RawObject},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::extenders::ExtenderExchange;
use crate::{
    effect::{Effect, EvictTask},
    engine::EngineConfig,
    input::{BindOutcome, EvictOutcome, Input},
    outcome::{Attempted, Outcome},
};

/// Version of the format, increased with every change to it.
const FORMAT: u32 = 6;

/// A line: the engine's settings, a call to the engine, or the results of a call.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::large_enum_variant, reason = "one is alive at a time")]
pub(super) enum Line<'a> {
    /// The engine's settings; always the first line.
    Setup(Setup),
    Input(Timestamp, RecordedInput<'a>),
    Tick(Timestamp),
    /// Exchanges with extenders during the attempt on the next line.
    #[serde(rename = "requested")]
    Extenders(Vec<ExtenderExchange>),
    /// Times that were read during the attempt, and the attempt's result.
    Attempt(Vec<Timestamp>, Value),
    /// A new configuration was applied.
    #[serde(rename = "takeOver")]
    Reconfigure(Timestamp, Setup),
    Effects(Vec<Value>),
}

/// The engine's settings, except for the plugins and their arguments.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Setup {
    format: u32,
    release: String,
    profiles: Vec<Str>,
    percentage_of_nodes_to_score: Option<i32>,
    parity: bool,
    batching: bool,
    initial_backoff: Duration,
    max_backoff: Duration,
    max_wait: Duration,
    extenders: Vec<Extender>,
}

impl Setup {
    pub(super) fn of(config: &EngineConfig) -> Self {
        Self {
            format: FORMAT,
            release: config.release().to_string(),
            profiles: config.profiles.iter().map(|profile| profile.name().clone()).collect(),
            percentage_of_nodes_to_score: config.percentage_of_nodes_to_score,
            parity: config.parity,
            batching: config.batching,
            initial_backoff: config.backoff.initial,
            max_backoff: config.backoff.max,
            max_wait: config.max_wait,
            extenders: config.extenders.all().to_vec(),
        }
    }

    pub(super) fn value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

/// The recorded form of an [`Input`].
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum RecordedInput<'a> {
    Pod(Cow<'a, Pod>),
    PodGone(Cow<'a, Str>),
    Node(Cow<'a, Node>),
    NodeGone(Cow<'a, Str>),
    Object(Cow<'a, Object>),
    ObjectGone(Cow<'a, ObjectKey>),
    Custom(Cow<'a, RawObject>),
    CustomGone(Cow<'a, CustomKey>),
    BindFinished(Cow<'a, Str>, RecordedBindOutcome<'a>),
    EvictFinished(EvictionId, Cow<'a, EvictOutcome>),
}

/// The recorded form of a [`BindOutcome`].
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum RecordedBindOutcome<'a> {
    Bound,
    /// The status code and the reasons.
    Rejected(Cow<'a, str>, Vec<Cow<'a, str>>),
    Failed(Cow<'a, str>),
}

/// Identifies a requested [`EvictTask`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct EvictionId {
    preemptor: Str,
    round: u64,
    victim: Str,
}

impl EvictionId {
    pub(super) fn of(task: &EvictTask) -> Self {
        Self { preemptor: task.preemptor.clone(), round: task.round, victim: task.victim.uid.clone() }
    }
}

/// The reason why a valid line cannot become an input.
#[derive(Debug)]
pub(super) struct InvalidLine(pub(super) String);

impl<'a> From<&'a Input> for RecordedInput<'a> {
    fn from(input: &'a Input) -> Self {
        match input {
            Input::Pod(pod) => Self::Pod(Cow::Borrowed(pod)),
            Input::PodGone(uid) => Self::PodGone(Cow::Borrowed(uid)),
            Input::Node(node) => Self::Node(Cow::Borrowed(node)),
            Input::NodeGone(name) => Self::NodeGone(Cow::Borrowed(name)),
            Input::Object(object) => Self::Object(Cow::Borrowed(object)),
            Input::ObjectGone(key) => Self::ObjectGone(Cow::Borrowed(key)),
            Input::Custom(object) => Self::Custom(Cow::Borrowed(object)),
            Input::CustomGone(key) => Self::CustomGone(Cow::Borrowed(key)),
            Input::BindFinished { uid, outcome } => Self::BindFinished(Cow::Borrowed(uid), outcome.into()),
            Input::EvictFinished { task, outcome } => {
                Self::EvictFinished(EvictionId::of(task), Cow::Borrowed(outcome))
            }
        }
    }
}

impl RecordedInput<'_> {
    /// Converts to an input; `requested` returns the eviction with a given identity.
    pub(super) fn into_input(
        self,
        requested: impl FnOnce(&EvictionId) -> Option<EvictTask>,
    ) -> Result<Input, InvalidLine> {
        Ok(match self {
            Self::Pod(pod) => Input::Pod(pod.into_owned()),
            Self::PodGone(uid) => Input::PodGone(uid.into_owned()),
            Self::Node(node) => Input::Node(node.into_owned()),
            Self::NodeGone(name) => Input::NodeGone(name.into_owned()),
            Self::Object(object) => Input::Object(object.into_owned()),
            Self::ObjectGone(key) => Input::ObjectGone(key.into_owned()),
            Self::Custom(object) => Input::Custom(object.into_owned()),
            Self::CustomGone(key) => Input::CustomGone(key.into_owned()),
            Self::BindFinished(uid, end) => {
                Input::BindFinished { uid: uid.into_owned(), outcome: end.into_outcome()? }
            }
            Self::EvictFinished(id, outcome) => {
                let task = requested(&id).ok_or_else(|| InvalidLine(format!("{id:?} was not requested")))?;
                Input::EvictFinished { task, outcome: outcome.into_owned() }
            }
        })
    }
}

impl<'a> From<&'a BindOutcome> for RecordedBindOutcome<'a> {
    fn from(outcome: &'a BindOutcome) -> Self {
        match outcome {
            BindOutcome::Bound => Self::Bound,
            BindOutcome::Rejected(Reject { fix, reasons }) => {
                let reasons = reasons.iter().map(|reason| Cow::Borrowed(&**reason)).collect();
                Self::Rejected(Cow::Borrowed(fix.code()), reasons)
            }
            BindOutcome::Failed(why) => Self::Failed(Cow::Borrowed(why)),
        }
    }
}

impl RecordedBindOutcome<'_> {
    fn into_outcome(self) -> Result<BindOutcome, InvalidLine> {
        Ok(match self {
            Self::Bound => BindOutcome::Bound,
            Self::Rejected(code, reasons) => {
                let fixes = [Fix::EvictionMayHelp, Fix::NothingHelps, Fix::Pending];
                let fix = fixes.into_iter().find(|fix| fix.code() == code);
                let fix = fix.ok_or_else(|| InvalidLine(format!("no status code is called {code:?}")))?;
                let reasons = reasons.into_iter().map(|reason| Cow::Owned(reason.into_owned())).collect();
                BindOutcome::Rejected(Reject { fix, reasons })
            }
            Self::Failed(why) => BindOutcome::Failed(why.into_owned()),
        })
    }
}

/// Result of an attempt; null if there was no pod to try.
pub(super) fn attempted(attempted: Option<&Attempted>) -> Value {
    match attempted {
        Some(Attempted { pod, outcome, others }) if others.is_empty() => {
            json!({ "pod": pod.uid, "outcome": outcome })
        }
        Some(attempted) => {
            let member =
                |(pod, outcome): (&Arc<PodInfo>, &Outcome)| json!({ "pod": pod.uid, "outcome": outcome });
            attempted.all().map(member).collect()
        }
        None => Value::Null,
    }
}

/// Recorded form of effects; pods are reduced to their UIDs.
pub(super) fn effects(effects: &[Effect]) -> Vec<Value> {
    effects.iter().map(effect).collect()
}

fn effect(effect: &Effect) -> Value {
    match effect {
        Effect::Bind(task) => {
            let groups: Vec<Vec<usize>> =
                task.pre_bind.iter().map(|group| group.iter().map(|plugin| plugin.at()).collect()).collect();
            json!({ "bind": {
                "pod": task.pod().uid,
                "node": task.node(),
                "profile": task.profile.name(),
                "preBind": groups,
                "evaluated": task.evaluated,
                "feasible": task.feasible,
            } })
        }
        Effect::PatchStatus(patch) => {
            let condition = patch.condition.as_ref().map(
                |c| json!({ "reason": c.reason, "message": c.message, "lastTransition": c.last_transition }),
            );
            json!({ "patchStatus": {
                "pod": patch.pod.uid,
                "condition": condition,
                "nominatedNode": patch.nominated_node.as_ref().map(|node| json!({ "to": node })),
            } })
        }
        Effect::Event(event) => json!({ "event": {
            "pod": event.pod.uid,
            "warning": event.warning,
            "reason": event.reason,
            "action": event.action,
            "note": event.note,
            "reporter": event.reporter,
        } }),
        Effect::Evict(task) => json!({ "evict": { "id": EvictionId::of(task), "message": task.message } }),
        Effect::CallOff(task) => json!({ "callOff": { "pod": task.pod, "why": task.why } }),
        Effect::Call(task) => json!({ "call": { "pod": task.pod.uid, "calls": task.calls } }),
        Effect::Group(task) => json!({ "group": { "group": task.group.id.to_string(), "call": task.call } }),
    }
}
