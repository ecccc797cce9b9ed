//! Delays after failed attempts.

use std::time::Duration;

use harbormaster_api::Timestamp;

use super::QueuedPod;

/// Doubling delays between the attempts of one pod (`podInitialBackoffSeconds`, `podMaxBackoffSeconds`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Delay after the first failure.
    pub initial: Duration,
    /// Maximum delay; zero turns backoff off.
    pub max: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { initial: Duration::from_secs(1), max: Duration::from_secs(10) }
    }
}

impl Backoff {
    fn duration(&self, entry: &QueuedPod) -> Duration {
        let failures = if entry.consecutive_errors > 0 { entry.consecutive_errors } else { entry.rejections };
        let Some(doublings) = failures.checked_sub(1) else { return Duration::ZERO };
        let factor = 1u32.checked_shl(doublings).unwrap_or(u32::MAX);
        self.initial.checked_mul(factor).unwrap_or(self.max).min(self.max)
    }

    /// Returns the end of the entry's backoff, rounded down to whole seconds, so that pods that failed together are
    /// retried together and in order.
    pub(super) fn end(&self, entry: &QueuedPod) -> Option<Timestamp> {
        let duration = self.duration(entry);
        (!duration.is_zero()).then(|| (entry.since + duration).truncate_to_second())
    }

    pub(super) fn is_backing_off(&self, entry: &QueuedPod, now: Timestamp) -> bool {
        entry.backoff_until.is_some_and(|until| until >= now.truncate_to_second())
    }

    /// The first whole second at which the entry no longer backs off.
    pub(super) fn release(&self, entry: &QueuedPod) -> Timestamp {
        entry.backoff_until.unwrap_or(entry.since).truncate_to_second() + Duration::from_secs(1)
    }
}
