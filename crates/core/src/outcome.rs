//! Outcomes of attempts.

use std::sync::Arc;

use harbormaster_api::Str;
use harbormaster_framework::{attempt::AttemptError, pod::PodInfo};
use serde::{Deserialize, Serialize};

/// Result of [`crate::Engine::schedule_one`].
#[derive(Clone, Debug)]
pub struct Attempted {
    /// The pod.
    pub pod: Arc<PodInfo>,
    /// Outcome of the attempt.
    pub outcome: Outcome,
    /// The other members of the pod's group that the same cycle has decided about, each with its outcome.
    pub others: Vec<(Arc<PodInfo>, Outcome)>,
}

impl Attempted {
    /// The attempt for a pod on its own.
    pub fn new(pod: Arc<PodInfo>, outcome: Outcome) -> Self {
        Self { pod, outcome, others: Vec::new() }
    }

    /// All pods with their outcomes.
    pub fn all(&self) -> impl Iterator<Item = (&Arc<PodInfo>, &Outcome)> {
        std::iter::once((&self.pod, &self.outcome))
            .chain(self.others.iter().map(|(pod, outcome)| (pod, outcome)))
    }
}

/// Outcome of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// A node was chosen; the binding follows.
    Assumed {
        /// The node.
        node: Str,
        /// Number of nodes that were evaluated.
        evaluated: usize,
        /// Number of evaluated nodes that fit.
        feasible: usize,
    },
    /// There are no nodes.
    NoNodes,
    /// Plugins rejected the pod; contains the message of the pod's condition.
    Unschedulable(String),
    /// The attempt failed with this error.
    Error(String),
    /// The pod is being deleted or already has a node.
    Skipped,
    /// An extender must be asked first. The pod is tried again when it has answered; this attempt does not count.
    Asking,
}

impl Outcome {
    /// Returns the reason why the pod has no node; `None` if it has a node or was skipped.
    pub fn message(&self) -> Option<String> {
        match self {
            Self::NoNodes => Some(AttemptError::NoNodes.to_string()),
            Self::Unschedulable(message) | Self::Error(message) => Some(message.clone()),
            Self::Assumed { .. } | Self::Skipped | Self::Asking => None,
        }
    }
}
