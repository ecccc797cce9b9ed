//! A pod in the queue.

use std::sync::Arc;

use harbormaster_api::{Str, Timestamp};
use harbormaster_framework::{meter::Stamp, pod::PodInfo};

/// A pod with its queue data.
#[derive(Clone, Debug)]
pub struct QueuedPod {
    /// The pod.
    pub pod: Arc<PodInfo>,
    /// Index of the pod's profile.
    pub profile: usize,
    /// Time at which the pod entered the queue, or returned to the queue after its last failed attempt.
    pub since: Timestamp,
    /// Time at which the pod first became active. Its waiting time is measured from then on, so time spent gated before
    /// that does not count.
    pub first_active: Option<Timestamp>,
    /// Number of times that the queue has handed out the pod.
    pub attempts: u32,
    /// Number of attempts in which plugins rejected the pod. Increases the backoff and is never reset.
    pub rejections: u32,
    /// Number of errors, and of failures that are retried like errors, since the last rejection.
    pub consecutive_errors: u32,
    /// Plugins that rejected the pod in the last attempt, or have gated it since.
    pub rejectors: Vec<&'static str>,
    /// The subset of `rejectors` that waits for an asynchronous step.
    pub pending: Vec<&'static str>,
    /// PreEnqueue plugin that gates the pod.
    pub gated_by: Option<&'static str>,
    /// True if a PreEnqueue plugin or the QueueSort plugin failed on its last call. PreEnqueue is called again when the
    /// backoff ends.
    pub gate_failed: bool,
    /// True if the pod is retried because it has waited too long.
    pub after_timeout: bool,
    /// Time at which the pod was last retried because it had waited too long.
    pub flushed: Option<Timestamp>,
    /// Start of the last attempt, if it is measured.
    pub attempt_begun: Option<Stamp>,
    /// End of the backoff, if the pod has one.
    pub backoff_until: Option<Timestamp>,
    /// Position in the order of arrival, which breaks ties.
    pub(super) sequence: u64,
}

impl QueuedPod {
    pub(crate) fn new(pod: Arc<PodInfo>, profile: usize, now: Timestamp, sequence: u64) -> Self {
        Self {
            pod,
            profile,
            since: now,
            first_active: None,
            attempts: 0,
            rejections: 0,
            consecutive_errors: 0,
            rejectors: Vec::new(),
            pending: Vec::new(),
            gated_by: None,
            gate_failed: false,
            after_timeout: false,
            flushed: None,
            attempt_begun: None,
            backoff_until: None,
            sequence,
        }
    }

    /// Returns true if there are plugins whose events may wake the pod.
    pub fn has_rejectors(&self) -> bool {
        !self.rejectors.is_empty() || !self.pending.is_empty()
    }

    /// All plugins whose events may wake the pod, each once.
    pub fn all_rejectors(&self) -> impl Iterator<Item = &'static str> + '_ {
        let pending = self.pending.iter().filter(|p| !self.rejectors.contains(p));
        self.rejectors.iter().chain(pending).copied()
    }

    /// The pod's UID.
    pub fn uid(&self) -> &Str {
        &self.pod.uid
    }
}
