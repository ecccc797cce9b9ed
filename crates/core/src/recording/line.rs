//! The lines of a recording.

use std::{sync::Arc, time::Duration};

use harbormaster_api::{Node, Object, ObjectKey, Pod, PodSpec, Str, Timestamp};
use harbormaster_framework::{
    extender::{Answer, Extender},
    outcome::{Fix, Reject},
    resource::{CustomKey, RawObject},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    extenders::ExtenderExchange,
    results::{RecordedAttempt, RecordedEffect},
};
use crate::{
    effect::EvictTask,
    engine::EngineConfig,
    input::{BindOutcome, EvictOutcome, Input},
};

/// Version of the format, increased with every change that older programs cannot read.
pub(super) const FORMAT: u32 = 8;
/// The oldest version that can be read.
pub(super) const OLDEST_FORMAT: u32 = 7;

/// A line: the engine's settings, a call to the engine, or the results of a call.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Line {
    /// Number of the file, 1 if the engine starts with it, and the engine's settings. Always the first line of a file.
    Setup(u64, Setup),
    /// A spec and the number by which the pods after it refer to it.
    Spec(u32, Arc<PodSpec>),
    /// An object that existed at the beginning of the file.
    Base(Timestamp, RecordedInput),
    Input(Timestamp, RecordedInput),
    Tick(Timestamp),
    /// Exchanges with extenders during the attempt on the next line.
    #[serde(rename = "requested")]
    Extenders(Vec<ExtenderExchange>),
    /// Times that were read during the attempt, and the attempt's result.
    Attempt(Vec<Timestamp>, Told<RecordedAttempt>),
    /// A new configuration was applied.
    #[serde(rename = "takeOver")]
    Reconfigure(Timestamp, Setup),
    Effects(Told<Vec<RecordedEffect>>),
    /// Number of lines that are missing here, because they could not be written in time. Ends a file.
    Gap(u64),
}

impl Line {
    /// Time of the line, if it has one.
    pub(super) fn time(&self) -> Option<Timestamp> {
        match self {
            Self::Base(at, _) | Self::Input(at, _) | Self::Tick(at) | Self::Reconfigure(at, _) => Some(*at),
            Self::Attempt(times, _) => times.first().copied(),
            Self::Setup(..) | Self::Spec(..) | Self::Extenders(_) | Self::Effects(_) | Self::Gap(_) => None,
        }
    }
}

/// A result: of this engine, or read from a recording.
#[derive(Serialize, Deserialize)]
#[serde(untagged, bound(deserialize = ""))]
pub(super) enum Told<T> {
    #[serde(skip_deserializing)]
    Here(T),
    Recorded(Value),
}

impl<T: Serialize> Told<T> {
    pub(super) fn value(self) -> Value {
        match self {
            Self::Here(result) => serde_json::to_value(result).unwrap_or_default(),
            Self::Recorded(value) => value,
        }
    }
}

/// The engine's settings, except for the plugins and their arguments.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Setup {
    pub(super) format: u32,
    release: String,
    profiles: Vec<Str>,
    percentage_of_nodes_to_score: Option<i32>,
    parity: bool,
    batching: bool,
    initial_backoff: Duration,
    max_backoff: Duration,
    max_wait: Duration,
    extenders: Vec<Extender>,
    /// See [`EngineConfig::concurrent_extenders`]. Absent in format 7.
    #[serde(default)]
    pub(super) concurrent_extenders: bool,
    /// See [`EngineConfig::origin`].
    #[serde(default)]
    pub(super) origin: Option<Arc<Value>>,
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
            concurrent_extenders: config.concurrent_extenders,
            origin: config.origin.clone(),
        }
    }

    /// The settings that a replay must have, too.
    pub(super) fn value(&self) -> Value {
        let settings = Self { format: FORMAT, origin: None, ..self.clone() };
        serde_json::to_value(settings).unwrap_or_default()
    }
}

/// The recorded form of an [`Input`].
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum RecordedInput {
    /// Number of the spec, and the pod without it.
    Pod(u32, Pod),
    PodGone(Str),
    Node(Node),
    NodeGone(Str),
    Object(Object),
    ObjectGone(ObjectKey),
    Custom(RawObject),
    CustomGone(CustomKey),
    BindFinished(Str, RecordedBindOutcome),
    EvictFinished(EvictionId, EvictOutcome),
    /// Number of the question, and the answer.
    Answered(u64, Answer),
}

/// The recorded form of a [`BindOutcome`].
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum RecordedBindOutcome {
    Bound,
    /// The status code and the reasons.
    Rejected(String, Vec<String>),
    Failed(String),
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

impl From<&Input> for RecordedInput {
    /// Keeps the spec of a pod in the pod; the number 0 means this.
    fn from(input: &Input) -> Self {
        match input {
            Input::Pod(pod) => Self::Pod(0, pod.clone()),
            Input::PodGone(uid) => Self::PodGone(uid.clone()),
            Input::Node(node) => Self::Node(node.clone()),
            Input::NodeGone(name) => Self::NodeGone(name.clone()),
            Input::Object(object) => Self::Object(object.clone()),
            Input::ObjectGone(key) => Self::ObjectGone(key.clone()),
            Input::Custom(object) => Self::Custom(object.clone()),
            Input::CustomGone(key) => Self::CustomGone(key.clone()),
            Input::BindFinished { uid, outcome } => Self::BindFinished(uid.clone(), outcome.into()),
            Input::EvictFinished { task, outcome } => {
                Self::EvictFinished(EvictionId::of(task), outcome.clone())
            }
            Input::Answered { number, answer } => Self::Answered(*number, answer.clone()),
        }
    }
}

impl RecordedInput {
    /// Returns true if an object changes. Changes of objects are never left out of a recording.
    pub(super) fn is_change(&self) -> bool {
        !matches!(self, Self::BindFinished(..) | Self::EvictFinished(..) | Self::Answered(..))
    }

    /// Converts to an input. `spec_of` returns the spec with a given number, `requested` the eviction with a given
    /// identity.
    pub(super) fn into_input(
        self,
        spec_of: impl FnOnce(u32) -> Option<Arc<PodSpec>>,
        requested: impl FnOnce(&EvictionId) -> Option<EvictTask>,
    ) -> Result<Input, InvalidLine> {
        Ok(match self {
            Self::Pod(0, pod) => Input::Pod(pod),
            Self::Pod(number, pod) => {
                let spec =
                    spec_of(number).ok_or_else(|| InvalidLine(format!("no spec has the number {number}")))?;
                Input::Pod(Pod { spec, ..pod })
            }
            Self::PodGone(uid) => Input::PodGone(uid),
            Self::Node(node) => Input::Node(node),
            Self::NodeGone(name) => Input::NodeGone(name),
            Self::Object(object) => Input::Object(object),
            Self::ObjectGone(key) => Input::ObjectGone(key),
            Self::Custom(object) => Input::Custom(object),
            Self::CustomGone(key) => Input::CustomGone(key),
            Self::BindFinished(uid, end) => Input::BindFinished { uid, outcome: end.into_outcome()? },
            Self::EvictFinished(id, outcome) => {
                let task = requested(&id).ok_or_else(|| InvalidLine(format!("{id:?} was not requested")))?;
                Input::EvictFinished { task, outcome }
            }
            Self::Answered(number, answer) => Input::Answered { number, answer },
        })
    }
}

impl From<&BindOutcome> for RecordedBindOutcome {
    fn from(outcome: &BindOutcome) -> Self {
        match outcome {
            BindOutcome::Bound => Self::Bound,
            BindOutcome::Rejected(Reject { fix, reasons }) => {
                let reasons = reasons.iter().map(|reason| reason.to_string()).collect();
                Self::Rejected(fix.code().to_owned(), reasons)
            }
            BindOutcome::Failed(why) => Self::Failed(why.clone()),
        }
    }
}

impl RecordedBindOutcome {
    fn into_outcome(self) -> Result<BindOutcome, InvalidLine> {
        Ok(match self {
            Self::Bound => BindOutcome::Bound,
            Self::Rejected(code, reasons) => {
                let fixes = [Fix::EvictionMayHelp, Fix::NothingHelps, Fix::Pending];
                let fix = fixes.into_iter().find(|fix| fix.code() == code);
                let fix = fix.ok_or_else(|| InvalidLine(format!("no status code is called {code:?}")))?;
                let reasons = reasons.into_iter().map(Into::into).collect();
                BindOutcome::Rejected(Reject { fix, reasons })
            }
            Self::Failed(why) => BindOutcome::Failed(why),
        })
    }
}
