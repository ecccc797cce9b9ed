//! Why a pod goes back to the queue.

use harbormaster_framework::{
    attempt::AttemptError,
    diagnosis::Diagnosis,
    guard::{PointError, Stopped},
    outcome::Reject,
};

use crate::{meter::AttemptResult, outcome::Outcome};

/// Why a pod goes back to the queue.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Plugins rejected it: their events may wake it.
    Unfit(Box<Diagnosis>),
    /// There are no nodes: reported as a rejection, retried as an error.
    NoNodes,
    /// PreBind or Bind said no: reported as a rejection, retried as an error.
    Refused(Reject),
    /// Something failed.
    Error(String),
}

impl Failure {
    /// A rejection after the node was chosen.
    pub(crate) fn unfit_here(plugin: &'static str, reject: &Reject) -> Self {
        Self::Unfit(Box::new(Diagnosis::of_one(plugin, reject)))
    }

    /// For people.
    pub(crate) fn message(&self) -> String {
        match self {
            Self::Unfit(diagnosis) => diagnosis.message(),
            Self::NoNodes => AttemptError::NoNodes.to_string(),
            Self::Refused(reject) => reject.message(),
            Self::Error(message) => message.clone(),
        }
    }

    /// The reason of the pod's condition.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Unfit(_) | Self::NoNodes | Self::Refused(_) => "Unschedulable",
            Self::Error(_) => "SchedulerError",
        }
    }

    /// How an attempt that ended so counts.
    pub(crate) fn result(&self) -> AttemptResult {
        match self {
            Self::Unfit(_) | Self::NoNodes | Self::Refused(_) => AttemptResult::Unschedulable,
            Self::Error(_) => AttemptResult::Error,
        }
    }

    /// How an attempt went that ended so.
    pub(crate) fn outcome(&self) -> Outcome {
        match self {
            Self::Error(message) => Outcome::Error(message.clone()),
            Self::NoNodes => Outcome::NoNodes,
            Self::Unfit(_) | Self::Refused(_) => Outcome::Unschedulable(self.message()),
        }
    }

    /// The plugins whose events may wake the pod, and those of them whose events do so without backoff.
    pub(crate) fn into_rejectors(self) -> (Vec<&'static str>, Vec<&'static str>) {
        match self {
            Self::Unfit(diagnosis) => (diagnosis.rejectors, diagnosis.pending),
            Self::NoNodes | Self::Refused(_) | Self::Error(_) => (Vec::new(), Vec::new()),
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
            Stopped::Reject(plugin, reject) => Self::unfit_here(plugin, &reject),
            Stopped::Error(error) => error.into(),
        }
    }
}
