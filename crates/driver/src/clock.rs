//! The engine's clock.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use harbormaster_api::Timestamp;

/// Maximum lead of the system clock over the engine's clock; beyond it, the engine's clock jumps forward.
const FOLLOW: Duration = Duration::from_secs(1);

/// Wall time that never goes back. It advances with the monotonic clock, so setting the system clock back does not make
/// pods wait longer. It follows a system clock that is set forward.
#[derive(Debug)]
pub struct Clock {
    wall: Timestamp,
    at: Instant,
}

impl Default for Clock {
    fn default() -> Self {
        Self { wall: system_time(), at: Instant::now() }
    }
}

impl Clock {
    /// Returns the current time.
    pub fn now(&mut self) -> Timestamp {
        let steady = self.wall + self.at.elapsed();
        let system = system_time();
        if system.since(steady) > FOLLOW {
            *self = Self { wall: system, at: Instant::now() };
            return system;
        }
        steady
    }
}

/// Returns the system's wall time.
pub(crate) fn system_time() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::default() + since_epoch
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_follows_forward_jumps_and_never_goes_back() {
        let mut clock = Clock::default();
        let hour = Duration::from_secs(3600);
        clock.wall = Timestamp(clock.wall.0 - 3_600_000_000_000);
        assert!(system_time().since(clock.now()) < FOLLOW);
        clock.wall = clock.wall + hour;
        let ahead = clock.now();
        assert!(ahead.since(system_time()) > hour / 2 && clock.now() >= ahead);
    }
}
