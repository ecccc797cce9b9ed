//! What an attempt came to.

use std::sync::Arc;

use harbormaster_api::Str;
use harbormaster_framework::{attempt::AttemptError, pod::PodInfo};
use serde::{Deserialize, Serialize};

/// What [`crate::Engine::schedule_one`] did.
#[derive(Clone, Debug)]
pub struct Attempted {
    /// The pod.
    pub pod: Arc<PodInfo>,
    /// How it went.
    pub outcome: Outcome,
}

/// How an attempt went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// Decided for that node; the binding follows.
    Assumed {
        /// The node.
        node: Str,
        /// How many nodes were looked at.
        evaluated: usize,
        /// How many of them fit.
        feasible: usize,
    },
    /// There are no nodes.
    NoNodes,
    /// No node fits, with the message that the pod's condition gets.
    Unschedulable(String),
    /// The attempt failed with this error.
    Error(String),
    /// The pod is being deleted or was decided for a node already.
    Skipped,
}

impl Outcome {
    /// Why the pod has no node; `None` if it has one or was passed over.
    pub fn message(&self) -> Option<String> {
        match self {
            Self::NoNodes => Some(AttemptError::NoNodes.to_string()),
            Self::Unschedulable(message) | Self::Error(message) => Some(message.clone()),
            Self::Assumed { .. } | Self::Skipped => None,
        }
    }
}
