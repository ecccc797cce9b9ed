//! Timings of the last attempt, for log lines about slow attempts and for traces of sampled attempts.
//!
//! An attempt that is not traced costs only a few stores, because extension points are reported only once per attempt.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, SystemTime},
};

use harbormaster_framework::meter::{Stage, Stamp, Status};

use crate::plugins::Sampling;

/// Reads the timings of the attempts that a meter measures; see [`crate::Metrics::meter_with_attempts`]. For use by
/// whoever runs the engine.
#[derive(Clone, Debug)]
pub struct Attempts(Arc<Sampling>);

/// Timings of one attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttemptTimes {
    /// Start of the attempt.
    pub begun: Stamp,
    /// Time spent searching for a node, without PostFilter: kube-scheduler's `schedulePod`.
    pub search: Duration,
    /// Part of `search` spent on scoring; `None` if nothing was scored.
    pub scoring: Option<Duration>,
    /// True if Filter completed without an error.
    pub filtered: bool,
    /// Extension points and plugins, in the order in which they were first recorded; empty unless the attempt is
    /// traced.
    pub parts: Vec<Part>,
}

/// An extension point, or a plugin's work at an extension point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The extension point.
    pub stage: Stage,
    /// The plugin; `None` for all plugins at the point.
    pub plugin: Option<&'static str>,
    /// Start of the first call.
    pub begun: Stamp,
    /// End of the last call. Calls at several points, or to several plugins at a point, may alternate.
    pub ended: Stamp,
    /// Total time of the calls.
    pub spent: Duration,
    /// Status; for a plugin, the worst status of its calls.
    pub status: Status,
}

impl Attempts {
    pub(crate) fn of(sampling: Arc<Sampling>) -> Self {
        Self(sampling)
    }

    /// Requests a trace of the next attempt.
    pub fn trace_next(&self) {
        self.0.last.traced.store(true, Relaxed);
    }

    /// Takes the timings of the last attempt; `None` if there was no attempt since the last call, or if the attempt
    /// ended before the search.
    pub fn take(&self) -> Option<AttemptTimes> {
        self.0.last.take()
    }

    /// Converts a stamp to wall-clock time.
    pub fn wall(&self, stamp: Stamp) -> SystemTime {
        SystemTime::now() - self.0.now().since(stamp)
    }
}

/// The running or last attempt.
#[derive(Debug, Default)]
pub(crate) struct LastAttempt {
    begun: AtomicU64,
    /// In nanoseconds; zero if there was no search for a node.
    search: AtomicU64,
    post_filter: AtomicU64,
    /// Nanoseconds plus one; zero if nothing was scored.
    scoring: AtomicU64,
    filtered: AtomicBool,
    traced: AtomicBool,
    parts: Mutex<Vec<Part>>,
}

impl LastAttempt {
    pub(crate) fn begin(&self, now: Stamp) {
        self.begun.store(now.0, Relaxed);
        self.search.store(0, Relaxed);
        self.post_filter.store(0, Relaxed);
        self.scoring.store(0, Relaxed);
        self.filtered.store(false, Relaxed);
    }

    /// Returns true if all parts are recorded.
    pub(crate) fn is_traced(&self) -> bool {
        self.traced.load(Relaxed)
    }

    pub(crate) fn record_search(&self, took: Duration) {
        self.search.store(nanoseconds(took).max(1), Relaxed);
    }

    /// Records an extension point. `now` is called only for a traced attempt.
    pub(crate) fn record_point(
        &self,
        stage: Stage,
        status: Status,
        spent: Duration,
        now: impl FnOnce() -> Stamp,
    ) {
        match stage {
            Stage::Filter => self.filtered.store(status != Status::Error, Relaxed),
            Stage::PreScore | Stage::Score => {
                let before = self.scoring.load(Relaxed).max(1);
                self.scoring.store(before.saturating_add(nanoseconds(spent)), Relaxed);
            }
            Stage::PostFilter => self.post_filter.store(nanoseconds(spent), Relaxed),
            _ => {}
        }
        if self.is_traced() {
            let ended = now();
            let begun = Stamp(ended.0.saturating_sub(nanoseconds(spent)));
            self.parts().push(Part { stage, plugin: None, begun, ended, spent, status });
        }
    }

    /// Records one call of a plugin, for the pod or for some nodes.
    pub(crate) fn record_plugin(
        &self,
        plugin: &'static str,
        stage: Stage,
        (begun, ended): (Stamp, Stamp),
        status: Status,
    ) {
        let spent = ended.since(begun);
        let mut parts = self.parts();
        match parts.iter_mut().find(|part| part.plugin == Some(plugin) && part.stage == stage) {
            Some(part) => {
                part.ended = ended;
                part.spent += spent;
                part.status = part.status.max(status);
            }
            None => parts.push(Part { stage, plugin: Some(plugin), begun, ended, spent, status }),
        }
    }

    fn take(&self) -> Option<AttemptTimes> {
        self.traced.store(false, Relaxed);
        let parts = std::mem::take(&mut *self.parts());
        let search = self.search.swap(0, Relaxed);
        (search > 0).then(|| {
            let post_filter = self.post_filter.load(Relaxed);
            AttemptTimes {
                begun: Stamp(self.begun.load(Relaxed)),
                search: Duration::from_nanos(search.saturating_sub(post_filter)),
                scoring: self.scoring.load(Relaxed).checked_sub(1).map(Duration::from_nanos),
                filtered: self.filtered.load(Relaxed),
                parts,
            }
        })
    }

    fn parts(&self) -> MutexGuard<'_, Vec<Part>> {
        // A panic cannot leave the list partially updated.
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    fn pass(attempt: &LastAttempt, stage: Stage, spent: Duration) {
        attempt.record_point(stage, Status::Success, spent, || Stamp(50_000_000));
    }

    #[test]
    fn time_spent_in_post_filter_is_not_part_of_the_search() {
        let attempt = LastAttempt::default();
        attempt.begin(Stamp(7));
        for (stage, spent) in [(Stage::PreFilter, ms(1)), (Stage::Filter, ms(2)), (Stage::PostFilter, ms(40))]
        {
            pass(&attempt, stage, spent);
        }
        attempt.record_search(ms(45));
        let expected =
            AttemptTimes { begun: Stamp(7), search: ms(5), filtered: true, ..AttemptTimes::default() };
        assert_eq!(attempt.take(), Some(expected));
        assert_eq!(attempt.take(), None, "an attempt is reported once");
    }

    #[test]
    fn both_scoring_points_count_and_nothing_carries_over_to_the_next_attempt() {
        let attempt = LastAttempt::default();
        attempt.begin(Stamp(1));
        for stage in [Stage::Filter, Stage::PreScore, Stage::Score] {
            pass(&attempt, stage, ms(3));
        }
        attempt.record_search(ms(9));
        assert_eq!(attempt.take().unwrap().scoring, Some(ms(6)));
        attempt.begin(Stamp(2));
        attempt.record_point(Stage::Filter, Status::Error, ms(1), || Stamp(0));
        attempt.record_search(ms(1));
        let times = attempt.take().unwrap();
        assert_eq!((times.scoring, times.filtered, times.parts), (None, false, Vec::new()));
        attempt.begin(Stamp(3));
        assert_eq!(attempt.take(), None, "there was no search for a node");
    }

    #[test]
    fn a_trace_has_a_part_for_each_point_and_for_each_plugin_at_it() {
        let attempt = LastAttempt::default();
        attempt.traced.store(true, Relaxed);
        attempt.begin(Stamp(0));
        attempt.record_plugin("A", Stage::Filter, (Stamp(10), Stamp(12)), Status::Unschedulable);
        attempt.record_plugin("B", Stage::Filter, (Stamp(12), Stamp(13)), Status::Success);
        attempt.record_plugin("A", Stage::Filter, (Stamp(20), Stamp(25)), Status::Success);
        attempt.record_plugin("A", Stage::Score, (Stamp(30), Stamp(31)), Status::Success);
        attempt.record_point(Stage::Filter, Status::Success, Duration::from_nanos(18), || Stamp(26));
        attempt.record_search(ms(1));
        let parts = attempt.take().unwrap().parts;
        let part = |part: &Part| (part.plugin, part.stage, part.begun.0, part.ended.0, part.spent.as_nanos());
        assert_eq!(
            parts.iter().map(part).collect::<Vec<_>>(),
            [
                (Some("A"), Stage::Filter, 10, 25, 7),
                (Some("B"), Stage::Filter, 12, 13, 1),
                (Some("A"), Stage::Score, 30, 31, 1),
                (None, Stage::Filter, 8, 26, 18),
            ]
        );
        assert_eq!(parts[0].status, Status::Unschedulable);
        assert!(!attempt.is_traced());
    }
}
