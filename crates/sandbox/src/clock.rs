//! The clock of those stand-ins that wait for minutes and hours.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use harbormaster_api::Timestamp;
use tokio::{sync::watch, time::sleep};

/// The time by which tolerations run out and CronJobs start: that of the machine, ahead of it as far as somebody has
/// moved it. Clones share everything.
#[derive(Clone, Debug)]
pub struct Clock {
    ahead: Arc<watch::Sender<Duration>>,
}

impl Default for Clock {
    fn default() -> Self {
        Self { ahead: Arc::new(watch::Sender::new(Duration::ZERO)) }
    }
}

impl Clock {
    /// Moves the clock ahead. What is due by then happens at once.
    pub fn advance(&self, by: Duration) {
        self.ahead.send_modify(|ahead| *ahead = ahead.saturating_add(by));
    }

    /// What time it is.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Timestamp::default() + since + *self.ahead.borrow()
    }

    /// Waits for a time; for ever if there is none.
    pub(crate) async fn reaches(&self, at: Option<Timestamp>) {
        let Some(at) = at else { return std::future::pending().await };
        let mut moved = self.ahead.subscribe();
        loop {
            let left = at.since(self.now());
            if left.is_zero() {
                return;
            }
            tokio::select! {
                () = sleep(left) => {}
                // Nobody lets go of the sender while this waits.
                _ = moved.changed() => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_waits_for_a_time_goes_on_when_the_clock_is_moved_there() {
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
}
