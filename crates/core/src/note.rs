//! What else can be told of what the engine does: material for log lines, made only for those who ask.

use std::{fmt, sync::Arc};

use harbormaster_api::Str;
use harbormaster_framework::{events::ClusterEvent, pod::PodInfo};

/// Which notes are taken. None by default: a note that is not wanted costs nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// [`Note::Rejected`].
    pub rejections: bool,
    /// [`Note::Moved`].
    pub moves: bool,
    /// [`Note::Scored`] and [`Note::Total`]. Scores that are kept are computed anew for them.
    pub scores: bool,
}

impl Notes {
    /// What kube-scheduler's log tells at that verbosity: rejections from 4 on, moves from 5 on, scores from 10 on.
    pub fn at(verbosity: i64) -> Self {
        Self { rejections: verbosity >= 4, moves: verbosity >= 5, scores: verbosity >= 10 }
    }
}

/// Something that happened to a pod.
#[derive(Clone, Debug)]
pub enum Note {
    /// A plugin has rejected nodes, or the pod altogether.
    Rejected {
        /// The pod.
        pod: Arc<PodInfo>,
        /// Who; empty for the framework itself.
        plugin: &'static str,
        /// Why.
        reason: String,
        /// How many nodes.
        nodes: usize,
    },
    /// The pod has gone from one part of the queue to another.
    Moved {
        /// The pod.
        pod: Arc<PodInfo>,
        /// Where it was.
        from: Place,
        /// Where it is.
        to: Place,
        /// What for.
        event: Cause,
    },
    /// What a plugin thinks of a node.
    Scored {
        /// The pod.
        pod: Arc<PodInfo>,
        /// The node.
        node: Str,
        /// Who.
        plugin: &'static str,
        /// From 0 to 100 times the plugin's weight.
        score: i64,
    },
    /// What all plugins together think of a node.
    Total {
        /// The pod.
        pod: Arc<PodInfo>,
        /// The node.
        node: Str,
        /// The sum.
        score: i64,
    },
}

/// Where a pod is, in kube-scheduler's words where it has some.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Place {
    /// It was not known before.
    #[default]
    New,
    /// It is being tried or bound.
    InFlight,
    /// It is to be tried.
    Active,
    /// It waits until its backoff ends.
    Backoff,
    /// It waits for an event.
    Unschedulable,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What moves a pod in the queue; prints as kube-scheduler's label of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Cause {
    /// It is new.
    #[default]
    Added,
    /// An attempt or a binding failed.
    AttemptFailed,
    /// Its backoff is over.
    BackoffComplete,
    /// Nothing else was to be tried, so its backoff was cut short.
    PoppedFromBackoff,
    /// It was asked for.
    Activated,
    /// It has waited for very long.
    Timeout,
    /// Another configuration has taken over.
    Configured,
    /// Something happened in the cluster.
    Event(ClusterEvent),
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Added => f.write_str("UnschedulablePodAdd"),
            Self::AttemptFailed => f.write_str("ScheduleAttemptFailure"),
            Self::BackoffComplete => f.write_str("BackoffComplete"),
            Self::PoppedFromBackoff => f.write_str("PopFromBackoffQ"),
            Self::Activated => f.write_str("ForceActivate"),
            Self::Timeout => f.write_str("UnschedulableTimeout"),
            Self::Configured => f.write_str("ConfigurationChange"),
            Self::Event(event) => event.fmt(f),
        }
    }
}
