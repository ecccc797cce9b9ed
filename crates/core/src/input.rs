//! The engine's input.

use harbormaster_api::{Node, Object, ObjectKey, Pod, Str};
use harbormaster_framework::{
    extender::Answer,
    outcome::Reject,
    resource::{CustomKey, RawObject},
};
use serde::{Deserialize, Serialize};

use crate::effect::EvictTask;

/// A change in the cluster or the result of an effect. Every input is a value, so it can be recorded and replayed: see
/// [`crate::recording`].
#[derive(Clone, Debug)]
pub enum Input {
    /// A pod was added or changed.
    Pod(Pod),
    /// The pod with this UID was deleted.
    PodGone(Str),
    /// A node was added or changed.
    Node(Node),
    /// The node with this name was deleted.
    NodeGone(Str),
    /// A built-in object other than a pod or node was added or changed.
    Object(Object),
    /// A built-in object other than a pod or node was deleted.
    ObjectGone(ObjectKey),
    /// A custom object was added or changed. Ignored if no plugin reads its kind.
    Custom(RawObject),
    /// A custom object was deleted.
    CustomGone(CustomKey),
    /// A binding requested by [`crate::Effect::Bind`] has ended. Before this input, the host sends the changes
    /// that the binding made to custom objects.
    BindFinished {
        /// UID of the pod.
        uid: Str,
        /// Outcome of the binding.
        outcome: BindOutcome,
    },
    /// An eviction requested by [`crate::Effect::Evict`] has ended.
    EvictFinished {
        /// The requested eviction.
        task: EvictTask,
        /// Outcome of the eviction.
        outcome: EvictOutcome,
    },
    /// Extenders have answered a question that [`crate::Effect::Ask`] contained.
    Answered {
        /// Number of the question.
        number: u64,
        /// The answer.
        answer: Answer,
    },
}

/// Outcome of evicting one pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EvictOutcome {
    /// This eviction deleted the pod, or started its deletion.
    Evicted,
    /// The pod's binding was called off before PreBind had ended; the pod returns to the queue.
    CalledOff,
    /// The pod no longer existed.
    Gone,
    /// The API server rejected the request.
    Failed(String),
}

/// Outcome of a binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindOutcome {
    /// The pod is bound.
    Bound,
    /// A PreBind or Bind plugin rejected the pod.
    Rejected(Reject),
    /// The binding failed with this message.
    Failed(String),
}
