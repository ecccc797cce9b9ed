//! Delays after failed attempts.

use std::time::Duration;

use harbormaster_api::Timestamp;

use super::{Entity, Standing};

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
    fn duration(&self, entity: &Entity) -> Duration {
        let Standing { consecutive_errors, rejections, .. } = **entity;
        let failures = if consecutive_errors > 0 { consecutive_errors } else { rejections };
        let Some(doublings) = failures.checked_sub(1) else { return Duration::ZERO };
        let factor = 1u32.checked_shl(doublings).unwrap_or(u32::MAX);
        let max = self.max_for(entity);
        self.initial.checked_mul(factor).unwrap_or(max).min(max)
    }

    /// Maximum delay. A group waits longer the more members it has, because an attempt costs more.
    fn max_for(&self, entity: &Entity) -> Duration {
        match entity {
            Entity::Pod(_) => self.max,
            Entity::Group(group) => {
                let nanos = self.max.as_nanos() as f64 * (group.members.len() as f64).sqrt();
                Duration::from_nanos(nanos as u64)
            }
        }
    }

    /// Returns the end of the entry's backoff, rounded down to whole seconds, so that pods that failed together are
    /// retried together and in order.
    pub(super) fn end(&self, entity: &Entity) -> Option<Timestamp> {
        let duration = self.duration(entity);
        (!duration.is_zero()).then(|| (entity.since + duration).truncate_to_second())
    }

    pub(super) fn is_backing_off(&self, entry: &Standing, now: Timestamp) -> bool {
        entry.backoff_until.is_some_and(|until| until >= now.truncate_to_second())
    }

    /// The first whole second at which the entry no longer backs off.
    pub(super) fn release(&self, entry: &Standing) -> Timestamp {
        entry.backoff_until.unwrap_or(entry.since).truncate_to_second() + Duration::from_secs(1)
    }
}
