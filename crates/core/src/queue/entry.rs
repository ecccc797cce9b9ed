//! A pod in the queue.

use std::sync::Arc;

use harbormaster_api::{Str, Timestamp};
use harbormaster_framework::{meter::Stamp, pod::PodInfo};

/// A pod with what the queue knows of it.
#[derive(Clone, Debug)]
pub struct QueuedPod {
    /// The pod.
    pub pod: Arc<PodInfo>,
    /// Which profile it goes through.
    pub profile: usize,
    /// When it entered the queue: at first, or after its last failed attempt.
    pub since: Timestamp,
    /// When it first became active: time behind gates does not count as waiting for the scheduler.
    pub first_active: Option<Timestamp>,
    /// How often it was handed out.
    pub attempts: u32,
    /// How often it was rejected. Grows the backoff; never falls.
    pub rejections: u32,
    /// How often it failed with an error since it was last rejected.
    pub consecutive_errors: u32,
    /// The plugins that rejected it in the last attempt.
    pub rejectors: Vec<&'static str>,
    /// Those that wait for something asynchronous.
    pub pending: Vec<&'static str>,
    /// The PreEnqueue plugin that holds it back.
    pub gated_by: Option<&'static str>,
    /// A PreEnqueue plugin failed when it was last asked: it is asked again when the backoff ends.
    pub gate_failed: bool,
    /// It is to be tried because it has waited for very long.
    pub after_timeout: bool,
    /// When its last attempt began, if anybody measures.
    pub attempt_begun: Option<Stamp>,
    /// When its backoff ends, while it has one.
    pub backoff_until: Option<Timestamp>,
    /// Order of arrival, to break ties.
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
            attempt_begun: None,
            backoff_until: None,
            sequence,
        }
    }

    /// Whether a plugin rejected it, as opposed to an error.
    pub fn has_rejectors(&self) -> bool {
        !self.rejectors.is_empty() || !self.pending.is_empty()
    }

    /// All plugins whose events may wake it, each once.
    pub fn all_rejectors(&self) -> impl Iterator<Item = &'static str> + '_ {
        let pending = self.pending.iter().filter(|p| !self.rejectors.contains(p));
        self.rejectors.iter().chain(pending).copied()
    }

    /// The pod's identity.
    pub fn uid(&self) -> &Str {
        &self.pod.uid
    }
}
