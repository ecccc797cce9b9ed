//! State of a scheduler, for health checks.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// State of a scheduler. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Health(Arc<State>);

#[derive(Debug)]
struct State {
    begun: Instant,
    synced: AtomicBool,
    /// Time when the engine began its current step, in milliseconds after `begun`, plus one; 0 while the engine waits.
    working_since: AtomicU64,
}

impl Default for State {
    fn default() -> Self {
        Self { begun: Instant::now(), synced: AtomicBool::new(false), working_since: AtomicU64::new(0) }
    }
}

impl Health {
    /// Returns true if all watches have delivered their initial objects.
    pub fn is_synced(&self) -> bool {
        self.0.synced.load(Ordering::Relaxed)
    }

    /// Returns the time since the engine began its current step, for example an attempt; zero while the engine waits.
    pub fn busy_for(&self) -> Duration {
        match self.0.working_since.load(Ordering::Relaxed).checked_sub(1) {
            Some(since) => self.0.begun.elapsed().saturating_sub(Duration::from_millis(since)),
            None => Duration::ZERO,
        }
    }

    pub(crate) fn synced(&self) {
        self.0.synced.store(true, Ordering::Relaxed);
    }

    pub(crate) fn works(&self) {
        let now = u64::try_from(self.0.begun.elapsed().as_millis()).unwrap_or(u64::MAX - 1);
        self.0.working_since.store(now + 1, Ordering::Relaxed);
    }

    pub(crate) fn waits(&self) {
        self.0.working_since.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_is_busy_from_the_start_of_a_step_until_it_waits() {
        let health = Health::default();
        assert_eq!((health.is_synced(), health.busy_for()), (false, Duration::ZERO));
        health.works();
        std::thread::sleep(Duration::from_millis(5));
        assert!(health.busy_for() >= Duration::from_millis(4));
        health.waits();
        health.synced();
        assert_eq!((health.is_synced(), health.busy_for()), (true, Duration::ZERO));
    }
}
