//! Information about the engine's work that requires no action, for use in log lines. Failures are always recorded,
//! other notes only on request.

use std::{fmt, sync::Arc};

use harbormaster_api::Str;
use harbormaster_framework::{
    events::ClusterEvent, index::Contradiction, pod::PodInfo, resource::Undecodable,
};

use crate::watchdog::Stuck;

/// Notes to record besides failures. None by default. A note that is not requested costs nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// [`Note::Rejected`].
    pub rejections: bool,
    /// [`Note::Moved`].
    pub moves: bool,
    /// [`Note::Scored`] and [`Note::Total`]. They make every attempt that compares nodes slower.
    pub scores: bool,
}

impl Notes {
    /// Returns the notes that kube-scheduler logs at the given verbosity: rejections from 4, moves from 5, scores from
    /// 10.
    pub fn at(verbosity: i64) -> Self {
        Self { rejections: verbosity >= 4, moves: verbosity >= 5, scores: verbosity >= 10 }
    }
}

/// Information for the host.
#[derive(Clone, Debug)]
pub enum Note {
    /// A plugin has failed outside of an attempt, for example in a hint, an index or Unreserve. Always recorded.
    PluginFailed {
        /// The pod concerned, if there is one.
        pod: Option<Arc<PodInfo>>,
        /// The error, with plugin and point.
        error: String,
    },
    /// A custom object is treated as absent because it cannot be decoded. Always recorded, once per error.
    Undecodable(Undecodable),
    /// Objects contradict each other. Always recorded, once until the contradiction is resolved.
    Contradiction(Contradiction),
    /// The pod would wait for ever. Always recorded.
    Stuck {
        /// The pod.
        pod: Arc<PodInfo>,
        /// The reason.
        why: Stuck,
    },
    /// A plugin has rejected the pod on some or all nodes.
    Rejected {
        /// The pod.
        pod: Arc<PodInfo>,
        /// Name of the plugin; empty for the framework itself.
        plugin: &'static str,
        /// Reason.
        reason: String,
        /// Number of nodes that were rejected for this reason.
        nodes: usize,
    },
    /// The pod has moved between parts of the queue.
    Moved {
        /// The pod.
        pod: Arc<PodInfo>,
        /// Old part.
        from: QueueState,
        /// New part.
        to: QueueState,
        /// Cause of the move.
        event: Cause,
    },
    /// A plugin's score of a node.
    Scored {
        /// The pod.
        pod: Arc<PodInfo>,
        /// The node.
        node: Str,
        /// Name of the plugin.
        plugin: &'static str,
        /// Weighted score: 0 to 100 times the plugin's weight.
        score: i64,
    },
    /// The total score of a node.
    Total {
        /// The pod.
        pod: Arc<PodInfo>,
        /// The node.
        node: Str,
        /// Sum of the weighted scores.
        score: i64,
    },
}

/// Part of the queue that contains a pod, in kube-scheduler's words where they exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum QueueState {
    /// The pod is new.
    #[default]
    New,
    /// The pod is being scheduled or bound.
    InFlight,
    /// The pod is ready to be scheduled.
    Active,
    /// The pod is in backoff.
    Backoff,
    /// The pod waits for an event.
    Unschedulable,
}

impl fmt::Display for QueueState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Cause of a move in the queue, displayed as kube-scheduler's label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// An attempt or a binding failed.
    AttemptFailed,
    /// The pod's backoff has ended.
    BackoffComplete,
    /// The pod's backoff was cut short because no other pod was ready.
    PoppedFromBackoff,
    /// A plugin or the engine activated the pod.
    Activated,
    /// The pod has waited too long.
    Timeout,
    /// The time has come at which a plugin wants the pod to be tried again.
    Due,
    /// A new configuration was applied.
    ConfigChanged,
    /// A change in the cluster, or the creation of the pod.
    Event(ClusterEvent),
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AttemptFailed => f.write_str("ScheduleAttemptFailure"),
            Self::BackoffComplete => f.write_str("BackoffComplete"),
            Self::PoppedFromBackoff => f.write_str("PopFromBackoffQ"),
            Self::Activated => f.write_str("ForceActivate"),
            Self::Timeout => f.write_str("UnschedulableTimeout"),
            Self::Due => f.write_str("RetryTimeReached"),
            Self::ConfigChanged => f.write_str("ConfigurationChange"),
            Self::Event(event) => event.fmt(f),
        }
    }
}
