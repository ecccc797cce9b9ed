//! The end of an outage of the API server.
//!
//! During an outage, every request would fail, so callers that want to retry wait, and only one of them asks the server
//! whether it is ready. When it is, all of them go on within [`SPREAD`] instead of at the end of their own delays, which
//! have become long by then.

use std::time::Duration;

use tokio::{
    sync::{Mutex, watch},
    time::{Instant, sleep, sleep_until},
};

use crate::backoff::{Backoff, Jitter};

/// Interval between two probes, lengthened by up to its own length. If requests succeed again before the first probe,
/// there was no outage.
const INTERVAL: Duration = Duration::from_millis(600);
/// Longest interval between two probes.
const LONGEST_INTERVAL: Duration = Duration::from_secs(16);
/// An outage that begins sooner than this after the last one is the same trouble: a server may say that it is ready and
/// still fail requests. Then probes become rarer.
const RELAPSE: Duration = Duration::from_secs(20);
/// Time over which the waiting requests are spread after an outage, so that many clients do not overload the server.
const SPREAD: Duration = Duration::from_millis(500);

/// Whether the API server is away, and who waits for it. The clones of a client share it.
#[derive(Debug)]
pub(crate) struct Recovery {
    /// Time since which the server has been away; `None` if it is not.
    away: watch::Sender<Option<Instant>>,
    probes: Mutex<Probes>,
}

/// Schedule of the probes; the caller that holds it sends them.
#[derive(Debug)]
struct Probes {
    next: Option<Instant>,
    interval: Backoff,
    ended: Option<Instant>,
}

impl Default for Recovery {
    fn default() -> Self {
        let interval = Backoff::new(INTERVAL, 2.0, LONGEST_INTERVAL, 1.0);
        Self {
            away: watch::Sender::new(None),
            probes: Mutex::new(Probes { next: None, interval, ended: None }),
        }
    }
}

impl Recovery {
    /// Records that a request failed as all requests do during an outage.
    pub(crate) fn lost(&self) {
        self.away.send_if_modified(|away| {
            let is_new = away.is_none();
            away.get_or_insert_with(Instant::now);
            is_new
        });
    }

    /// Records that a request succeeded.
    pub(crate) fn found(&self) {
        self.away.send_if_modified(|away| away.take().is_some());
    }

    /// Returns true during an outage.
    pub(crate) fn is_away(&self) -> bool {
        self.away.borrow().is_some()
    }

    /// Waits until the server is away, unless it is already.
    pub(crate) async fn begun(&self) {
        // The sender is in `self`, so waiting cannot fail.
        let _ = self.away.subscribe().wait_for(Option::is_some).await;
    }

    /// Waits until the server is no longer away. `probe` returns true if the server is ready. Returns false if there was
    /// no outage, because only some requests failed; otherwise, waits for a moment (see [`SPREAD`]) and returns true.
    pub(crate) async fn ended<F>(&self, probe: impl Fn() -> F) -> bool
    where
        F: Future<Output = bool>,
    {
        let mut away = self.away.subscribe();
        let Some(since) = *away.borrow_and_update() else { return false };
        tokio::select! {
            _ = away.wait_for(Option::is_none) => {}
            () = self.probe_until_found(probe) => {}
        }
        let was_outage = since.elapsed() >= INTERVAL;
        if was_outage {
            sleep(Jitter::default().between(Duration::ZERO, SPREAD)).await;
        }
        was_outage
    }

    /// Waits until no other caller probes, then probes. The schedule outlives a caller that gives up.
    async fn probe_until_found<F>(&self, probe: impl Fn() -> F)
    where
        F: Future<Output = bool>,
    {
        let mut probes = self.probes.lock().await;
        while self.is_away() {
            let next = match probes.next {
                Some(next) => next,
                None => probes.begin(),
            };
            sleep_until(next).await;
            if probe().await {
                self.found();
            } else {
                probes.next = Some(Instant::now() + Jitter::default().between(INTERVAL, INTERVAL * 2));
            }
        }
        probes.end();
    }
}

impl Probes {
    /// Schedules the first probe of an outage.
    fn begin(&mut self) -> Instant {
        if self.ended.is_none_or(|ended| ended.elapsed() > RELAPSE) {
            self.interval.reset();
        }
        *self.next.insert(Instant::now() + self.interval.delay())
    }

    /// Ends the schedule of an outage. Each caller that waited for its turn calls this; the first one counts.
    fn end(&mut self) {
        if self.next.take().is_some() {
            self.ended = Some(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    };

    use super::*;

    // Timers have a resolution of a millisecond and round up, so a wait may be as long as its upper bound.

    /// Counts probes; the server is ready from a given time on.
    async fn waits(recovery: &Arc<Recovery>, callers: usize, ready: Instant) -> (Vec<Duration>, u32) {
        let (probes, begun) = (Arc::new(AtomicU32::new(0)), Instant::now());
        let waiting = (0..callers).map(|_| {
            let (recovery, probes) = (recovery.clone(), probes.clone());
            tokio::spawn(async move {
                recovery
                    .ended(|| async {
                        probes.fetch_add(1, Ordering::Relaxed);
                        Instant::now() >= ready
                    })
                    .await;
                begun.elapsed()
            })
        });
        let waited = futures_util::future::join_all(waiting).await;
        (waited.into_iter().map(Result::unwrap).collect(), probes.load(Ordering::Relaxed))
    }

    #[tokio::test(start_paused = true)]
    async fn all_go_on_soon_after_the_server_is_ready_and_one_probes_for_all() {
        for outage in [Duration::from_secs(1), Duration::from_secs(20), Duration::from_secs(3600)] {
            let recovery = Arc::new(Recovery::default());
            recovery.lost();
            let (waited, probes) = waits(&recovery, 20, Instant::now() + outage).await;
            for waited in waited {
                assert!(
                    waited >= outage && waited <= outage + INTERVAL * 2 + SPREAD,
                    "{waited:?} of {outage:?}"
                );
            }
            let most = outage.as_millis() / INTERVAL.as_millis() + 2;
            assert!(u128::from(probes) <= most, "{probes} probes, at most {most}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_succeeds_ends_the_outage() {
        let recovery = Arc::new(Recovery::default());
        recovery.lost();
        let begun = Instant::now();
        let never = begun + Duration::from_secs(1_000_000);
        let waiting = tokio::spawn({
            let recovery = recovery.clone();
            async move { waits(&recovery, 3, never).await.0 }
        });
        sleep(Duration::from_secs(5)).await;
        recovery.found();
        for waited in waiting.await.unwrap() {
            assert!(
                waited >= Duration::from_secs(5) && waited <= Duration::from_secs(5) + SPREAD,
                "{waited:?}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_fails_while_others_succeed_is_no_outage() {
        let recovery = Recovery::default();
        recovery.lost();
        let (is_outage, ()) = tokio::join!(recovery.ended(|| async { true }), async { recovery.found() });
        assert!(!is_outage);
        assert!(!recovery.ended(|| async { true }).await, "the server is not away");
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_gives_up_leaves_the_schedule_to_the_others() {
        let recovery = Arc::new(Recovery::default());
        recovery.lost();
        let patient = tokio::spawn({
            let recovery = recovery.clone();
            let ready = Instant::now() + Duration::from_secs(2);
            async move { waits(&recovery, 1, ready).await.0 }
        });
        for _ in 0..40 {
            let hasty = recovery.ended(|| async { false });
            let _ = tokio::time::timeout(Duration::from_millis(100), hasty).await;
        }
        assert!(patient.await.unwrap()[0] <= Duration::from_secs(2) + INTERVAL * 2 + SPREAD);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_is_ready_but_fails_requests_is_probed_more_and_more_rarely() {
        let recovery = Arc::new(Recovery::default());
        let begun = Instant::now();
        let mut relapses = 0;
        while begun.elapsed() < Duration::from_secs(600) {
            recovery.lost();
            waits(&recovery, 1, begun).await;
            relapses += 1;
        }
        assert!(relapses < 600 / 16 + 12, "{relapses} in ten minutes");
        sleep(RELAPSE * 2).await;
        recovery.lost();
        let (waited, _) = waits(&recovery, 1, begun).await;
        assert!(waited[0] <= INTERVAL * 2 + SPREAD, "a new outage starts over: {waited:?}");
    }
}
