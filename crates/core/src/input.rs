//! What the engine is told.

use harbormaster_api::{Node, Object, ObjectKey, Pod, Str};
use harbormaster_framework::{
    outcome::Reject,
    resource::{CustomKey, RawObject},
};
use serde::{Deserialize, Serialize};

use crate::effect::EvictTask;

/// Something that happened. Every input is a value, so an incident can be written down and played again: see [`crate::recording`].
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "inputs are handed over once, and most are pods")]
pub enum Input {
    /// A pod as the API server has it now: new or changed.
    Pod(Pod),
    /// A pod is gone (the UID).
    PodGone(Str),
    /// A node as the API server has it now: new or changed.
    Node(Node),
    /// A node is gone (the name).
    NodeGone(Str),
    /// Another object as the API server has it now: new or changed.
    Object(Object),
    /// Another object is gone.
    ObjectGone(ObjectKey),
    /// A custom object as the API server has it now: new or changed. Of no interest if no plugin names its kind.
    Custom(RawObject),
    /// A custom object is gone.
    CustomGone(CustomKey),
    /// A binding that [`crate::Effect::Bind`] asked for has ended.
    BindFinished {
        /// The pod.
        uid: Str,
        /// How it ended.
        outcome: BindOutcome,
    },
    /// A call that [`crate::Effect::Evict`] asked for has ended.
    EvictFinished {
        /// What was asked for.
        task: EvictTask,
        /// How it ended.
        outcome: EvictOutcome,
    },
}

/// How the eviction of one pod ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EvictOutcome {
    /// The pod is gone or on its way out because of this.
    Evicted,
    /// The pod was about to be bound, and that was called off: it is given back to the queue.
    CalledOff,
    /// There was no such pod any more.
    Gone,
    /// The API server did not take it.
    Failed(String),
}

/// How a binding ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindOutcome {
    /// The pod is bound.
    Bound,
    /// A PreBind or Bind plugin said no.
    Rejected(Reject),
    /// It failed, with this text.
    Failed(String),
}
