//! The clock by which the stand-ins for kubelets and controllers wait for minutes or hours.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use harbormaster_api::Timestamp;
use tokio::{sync::watch, time::sleep};

/// Clock by which pods run and fail, tolerations expire and CronJobs start. It starts at the machine's time, can run
/// faster by a factor, and can be moved ahead. All clones show the same time.
#[derive(Clone, Debug)]
pub struct Clock {
    began: SystemTime,
    speed: u32,
    ahead: Arc<watch::Sender<Duration>>,
}

impl Default for Clock {
    fn default() -> Self {
        Self::with_speed(1)
    }
}

impl Clock {
    /// Returns a clock that starts at the machine's time and runs faster by a factor of at least 1.
    #[must_use]
    pub fn with_speed(speed: u32) -> Self {
        let ahead = Arc::new(watch::Sender::new(Duration::ZERO));
        Self { began: SystemTime::now(), speed: speed.max(1), ahead }
    }

    /// Moves the clock ahead. Everything due by the new time happens immediately.
    pub fn advance(&self, by: Duration) {
        self.ahead.send_modify(|ahead| *ahead = ahead.saturating_add(by));
    }

    /// Returns the current time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let began = self.began.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let passed = self.began.elapsed().unwrap_or_default().saturating_mul(self.speed);
        Timestamp::default() + began + passed + *self.ahead.borrow()
    }

    /// Waits until the given time, or forever if there is none.
    pub(crate) async fn reaches(&self, at: Option<Timestamp>) {
        let Some(at) = at else { return std::future::pending().await };
        let mut moved = self.ahead.subscribe();
        loop {
            let left = at.since(self.now());
            if left.is_zero() {
                return;
            }
            tokio::select! {
                () = sleep(left / self.speed) => {}
                // The sender cannot be dropped during this wait.
                _ = moved.changed() => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_wait_for_a_time_ends_when_the_clock_is_moved_there() {
        let clock = Clock::default();
        let at = clock.now() + Duration::from_secs(3600);
        let other = clock.clone();
        let waiting = tokio::spawn(async move { other.reaches(Some(at)).await });
        clock.advance(Duration::from_secs(1800));
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        clock.advance(Duration::from_secs(1800));
        waiting.await.unwrap();
        assert!(clock.now() >= at);
    }

    #[tokio::test]
    async fn a_fast_clock_reaches_a_time_sooner() {
        let clock = Clock::with_speed(600);
        let (begin, at) = (std::time::Instant::now(), clock.now() + Duration::from_secs(300));
        clock.reaches(Some(at)).await;
        assert!(begin.elapsed() < Duration::from_secs(30));
        assert!(clock.now() >= at);
    }
}
