//! Reasons for returning a pod to the queue.

use harbormaster_framework::{
    attempt::AttemptError,
    diagnosis::Diagnosis,
    guard::{PointError, Stopped},
    outcome::Reject,
};

use crate::{meter::AttemptResult, outcome::Outcome};

/// Reason for returning a pod to the queue.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Plugins rejected the pod. The events that these plugins listen to may wake it.
    Unschedulable(Box<Diagnosis>),
    /// There are no nodes. Reported like a rejection, but retried like an error.
    NoNodes,
    /// PreBind or Bind rejected the pod. Reported like a rejection, but retried like an error.
    BindRejected(Reject),
    /// The pod's group was rejected. The group's own reasons say which events may wake it.
    GroupRejected(String),
    /// An error.
    Error(String),
}

impl Failure {
    /// Creates the failure of a pod that a plugin rejected after its node was chosen.
    pub(crate) fn rejected_on_node(plugin: &'static str, reject: &Reject) -> Self {
        Self::Unschedulable(Box::new(Diagnosis::of_one(plugin, reject)))
    }

    /// Human-readable message.
    pub(crate) fn message(&self) -> String {
        match self {
            Self::Unschedulable(diagnosis) => diagnosis.message(),
            Self::NoNodes => AttemptError::NoNodes.to_string(),
            Self::BindRejected(reject) => reject.message(),
            Self::GroupRejected(message) | Self::Error(message) => message.clone(),
        }
    }

    /// The `reason` field of the pod's condition.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Unschedulable(_) | Self::NoNodes | Self::BindRejected(_) | Self::GroupRejected(_) => {
                "Unschedulable"
            }
            Self::Error(_) => "SchedulerError",
        }
    }

    /// Result of the attempt for measurements.
    pub(crate) fn result(&self) -> AttemptResult {
        match self {
            Self::Unschedulable(_) | Self::NoNodes | Self::BindRejected(_) | Self::GroupRejected(_) => {
                AttemptResult::Unschedulable
            }
            Self::Error(_) => AttemptResult::Error,
        }
    }

    /// Outcome of the attempt.
    pub(crate) fn outcome(&self) -> Outcome {
        match self {
            Self::Error(message) => Outcome::Error(message.clone()),
            Self::NoNodes => Outcome::NoNodes,
            Self::Unschedulable(_) | Self::BindRejected(_) | Self::GroupRejected(_) => {
                Outcome::Unschedulable(self.message())
            }
        }
    }

    /// The plugins whose events may wake the pod, and the subset whose events wake it without backoff.
    pub(crate) fn rejectors(&self) -> (Vec<&'static str>, Vec<&'static str>) {
        match self {
            Self::Unschedulable(diagnosis) => (diagnosis.rejectors.clone(), diagnosis.pending.clone()),
            Self::NoNodes | Self::BindRejected(_) | Self::GroupRejected(_) | Self::Error(_) => {
                (Vec::new(), Vec::new())
            }
        }
    }
}

impl From<PointError> for Failure {
    fn from(error: PointError) -> Self {
        Self::Error(error.to_string())
    }
}

impl From<Stopped> for Failure {
    fn from(stopped: Stopped) -> Self {
        match stopped {
            Stopped::Reject(plugin, reject) => Self::rejected_on_node(plugin, &reject),
            Stopped::Error(error) => error.into(),
        }
    }
}
