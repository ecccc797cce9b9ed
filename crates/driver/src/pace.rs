//! Rests of the runtime's thread, so that messages that arrive soon after each other are handled together.
//!
//! If a thread handles each message when it arrives, most of its time goes into fetching code and data that other
//! processes have displaced from the processor's caches. The thread therefore rests before it waits for messages, as a
//! network card delays its interrupts, in two situations:
//!
//! - no pod has been tried for a while, but many messages arrive. Most of them are about the status of objects and
//!   change nothing;
//! - pods arrive so fast that several can be handled together.
//!
//! A pod that arrives at another time is handled at once. Rests grow with the time in which no pod has been tried.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

/// Duration of a rest. A pod that arrives meanwhile waits for half of it on average.
const REST: Duration = Duration::from_millis(8);
/// Longest rest.
const LONG_REST: Duration = Duration::from_millis(24);
/// Part of the time without pods that a rest lasts, within these limits. The longer no pod has come, the fewer pods will
/// be delayed by a longer rest.
const QUIET_PART: u32 = 125;
/// Period over which pods are counted.
const PERIOD: Duration = Duration::from_millis(32);
/// Number of pods in a period above which pods are handled together.
const MANY: u32 = 8;

/// The rests of a runtime's thread. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Pace(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// Number of pods that have been tried since the period began.
    tried: AtomicU32,
    /// Number of [`Hurry`] values.
    hurries: AtomicUsize,
    rhythm: Mutex<Rhythm>,
}

/// Prevents rests until it is dropped.
#[derive(Debug)]
pub(crate) struct Hurry(Arc<Shared>);

impl Drop for Hurry {
    fn drop(&mut self) {
        self.0.hurries.fetch_sub(1, Relaxed);
    }
}

impl Pace {
    /// Rests if it is time to. Call this on the runtime's thread whenever it is about to wait, for example from
    /// [`on_thread_park`](tokio::runtime::Builder::on_thread_park).
    pub fn rest(&self) {
        let Shared { tried, hurries, rhythm } = &*self.0;
        let rest = rhythm.lock().unwrap_or_else(PoisonError::into_inner).rest_at(Instant::now(), tried);
        if !rest.is_zero() && hurries.load(Relaxed) == 0 {
            thread::sleep(rest);
        }
    }

    /// Notes that a pod has been tried.
    pub(crate) fn note_attempt(&self) {
        self.0.tried.fetch_add(1, Relaxed);
    }

    /// Prevents rests while much data is read.
    pub(crate) fn hurry(&self) -> Hurry {
        self.0.hurries.fetch_add(1, Relaxed);
        Hurry(self.0.clone())
    }
}

/// What decides about the next rest.
#[derive(Debug)]
struct Rhythm {
    /// Time when the thread was about to wait for the last time.
    waited: Instant,
    /// The rest that it took then.
    rested: Duration,
    /// Last time when it was known that a pod had been tried recently.
    active: Instant,
    /// Time when the period began.
    period: Instant,
    /// Number of pods in the period before.
    before: u32,
}

impl Default for Rhythm {
    fn default() -> Self {
        let now = Instant::now();
        Self { waited: now, rested: Duration::ZERO, active: now, period: now, before: 0 }
    }
}

impl Rhythm {
    /// Returns how long to rest. `tried` counts the pods since the last period began.
    fn rest_at(&mut self, now: Instant, tried: &AtomicU32) -> Duration {
        let since_wait = now - std::mem::replace(&mut self.waited, now);
        let period = now - self.period;
        if period >= PERIOD {
            self.period = now;
            let pods = tried.swap(0, Relaxed);
            // A period can be longer than `PERIOD`, but a single pod counts.
            self.before = ((f64::from(pods) * PERIOD.div_duration_f64(period)) as u32).max(pods.min(1));
        }
        let rest = match (self.before, tried.load(Relaxed)) {
            (0, 0) => ((now - self.active) / QUIET_PART).clamp(REST, LONG_REST),
            (before, _) => {
                self.active = now;
                if before >= MANY { REST } else { Duration::ZERO }
            }
        };
        // If messages are far apart, a rest would only delay them.
        let is_dense = since_wait < self.rested.max(REST) + REST;
        self.rested = if is_dense { rest } else { Duration::ZERO };
        self.rested
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A thread that handles a message, then rests if it should, then waits for the next message.
    struct Worker {
        now: Instant,
        rhythm: Rhythm,
        tried: AtomicU32,
    }

    impl Worker {
        fn new() -> Self {
            Self { now: Instant::now(), rhythm: Rhythm::default(), tried: AtomicU32::new(0) }
        }

        /// Handles messages that arrive at multiples of `every`, each of which lets `pods` be tried, at `times`
        /// different times. Returns the last rest.
        fn handles(&mut self, times: u32, every: Duration, pods: u32) -> Duration {
            let mut last = Duration::ZERO;
            for _ in 0..times {
                let messages = last.div_duration_f64(every).max(1.0) as u32;
                self.tried.fetch_add(pods * messages, Relaxed);
                last = self.rhythm.rest_at(self.now, &self.tried);
                self.now += every.max(last);
            }
            last
        }
    }

    #[test]
    fn messages_about_nothing_are_handled_together() {
        assert_eq!(Worker::new().handles(10, 2 * MS, 0), REST);
    }

    #[test]
    fn rests_grow_with_the_time_without_pods() {
        let mut worker = Worker::new();
        assert_eq!(worker.handles(120, 2 * MS, 0), REST);
        let some_time_later = worker.handles(60, 2 * MS, 0);
        assert!(REST < some_time_later && some_time_later < LONG_REST, "{some_time_later:?}");
        assert_eq!(worker.handles(120, 2 * MS, 0), LONG_REST);
        assert_eq!(worker.handles(1, 2 * MS, 1), Duration::ZERO);
        assert_eq!(worker.handles(60, 2 * MS, 0), REST);
    }

    #[test]
    fn messages_that_are_far_apart_are_handled_at_once() {
        assert_eq!(Worker::new().handles(10, 20 * MS, 0), Duration::ZERO);
        assert_eq!(Worker::new().handles(100, 20 * MS, 0), Duration::ZERO);
    }

    #[test]
    fn pods_that_come_one_by_one_are_handled_at_once() {
        assert_eq!(Worker::new().handles(100, 5 * MS, 1), Duration::ZERO);
    }

    #[test]
    fn many_pods_are_handled_together() {
        assert_eq!(Worker::new().handles(100, MS, 1), REST);
        assert_eq!(Worker::new().handles(100, 5 * MS, 3), REST);
    }

    #[test]
    fn a_pod_ends_a_quiet_time() {
        let mut worker = Worker::new();
        assert_eq!(worker.handles(20, 2 * MS, 0), REST);
        assert_eq!(worker.handles(1, 2 * MS, 1), Duration::ZERO);
        assert_eq!(worker.handles(10, 2 * MS, 0), Duration::ZERO);
        assert_eq!(worker.handles(60, 2 * MS, 0), REST);
    }

    #[test]
    fn a_few_pods_after_a_long_wait_are_not_many() {
        let mut worker = Worker::new();
        worker.handles(1, 1000 * MS, 0);
        assert_eq!(worker.handles(2, MS, 9), Duration::ZERO);
    }

    #[test]
    fn nothing_rests_while_somebody_is_in_a_hurry() {
        let pace = Pace::default();
        let hurry = pace.hurry();
        let begun = Instant::now();
        let rests = || (0..3).for_each(|_| pace.rest());
        rests();
        let hurried = begun.elapsed();
        drop(hurry);
        rests();
        assert!(begun.elapsed() > hurried + REST);
    }
}
