//! How long the parts of the last attempt took: for log lines about slow ones, and for traces of those that are sampled.
//!
//! An attempt of which nobody wants a trace costs a few numbers that are stored; points are told once per attempt anyway.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, SystemTime},
};

use harbormaster_framework::meter::{Stage, Stamp, Status};

use crate::plugins::Sampling;

/// What a meter knows of attempts; see [`crate::Metrics::measured`]. For the thread of the engine.
#[derive(Clone, Debug)]
pub struct Attempts(Arc<Sampling>);

/// One attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttemptTimes {
    /// When it began.
    pub begun: Stamp,
    /// How long a node was looked for, PostFilter left out: kube-scheduler's `schedulePod`.
    pub search: Duration,
    /// How long scores took of that; `None` if nothing was scored.
    pub scoring: Option<Duration>,
    /// Whether Filter came to an end.
    pub filtered: bool,
    /// Points and plugins, in the order in which they ended; empty unless a trace is wanted.
    pub parts: Vec<Part>,
}

/// A point, or what a plugin did at one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The point.
    pub stage: Stage,
    /// The plugin; `None` for all plugins of the point together.
    pub plugin: Option<&'static str>,
    /// When it began first.
    pub begun: Stamp,
    /// When it ended last. Points, and plugins at a point, may take turns.
    pub ended: Stamp,
    /// How long it was at work.
    pub spent: Duration,
    /// How it went; the worst of a plugin's answers.
    pub status: Status,
}

impl Attempts {
    pub(crate) fn of(sampling: Arc<Sampling>) -> Self {
        Self(sampling)
    }

    /// A trace of the next attempt is wanted.
    pub fn trace_next(&self) {
        self.0.last.traced.store(true, Relaxed);
    }

    /// The last attempt, once; `None` if there was none since, or it came to nothing before a node was looked for.
    pub fn take(&self) -> Option<AttemptTimes> {
        self.0.last.take()
    }

    /// The moment as others know it.
    pub fn wall(&self, stamp: Stamp) -> SystemTime {
        SystemTime::now() - self.0.now().since(stamp)
    }
}

/// The attempt that is under way, or was last.
#[derive(Debug, Default)]
pub(crate) struct LastAttempt {
    begun: AtomicU64,
    /// In nanoseconds. Zero: nothing was looked for.
    search: AtomicU64,
    post_filter: AtomicU64,
    /// One more than it took, in nanoseconds; zero: nothing was scored.
    scoring: AtomicU64,
    filtered: AtomicBool,
    traced: AtomicBool,
    parts: Mutex<Vec<Part>>,
}

impl LastAttempt {
    pub(crate) fn begins(&self, now: Stamp) {
        self.begun.store(now.0, Relaxed);
        self.search.store(0, Relaxed);
        self.post_filter.store(0, Relaxed);
        self.scoring.store(0, Relaxed);
        self.filtered.store(false, Relaxed);
    }

    /// Whether all its parts are wanted.
    pub(crate) fn is_traced(&self) -> bool {
        self.traced.load(Relaxed)
    }

    pub(crate) fn searched(&self, took: Duration) {
        self.search.store(nanoseconds(took).max(1), Relaxed);
    }

    /// `now` is asked for where it is needed.
    pub(crate) fn passed(&self, stage: Stage, status: Status, spent: Duration, now: impl FnOnce() -> Stamp) {
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

    /// A plugin has answered once, for the pod or for some nodes.
    pub(crate) fn answered(
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
        // A panic can leave nothing half done in there.
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
        attempt.passed(stage, Status::Success, spent, || Stamp(50_000_000));
    }

    #[test]
    fn what_was_spent_on_eviction_is_no_part_of_the_search() {
        let attempt = LastAttempt::default();
        attempt.begins(Stamp(7));
        for (stage, spent) in [(Stage::PreFilter, ms(1)), (Stage::Filter, ms(2)), (Stage::PostFilter, ms(40))]
        {
            pass(&attempt, stage, spent);
        }
        attempt.searched(ms(45));
        let expected =
            AttemptTimes { begun: Stamp(7), search: ms(5), filtered: true, ..AttemptTimes::default() };
        assert_eq!(attempt.take(), Some(expected));
        assert_eq!(attempt.take(), None, "it is told of once");
    }

    #[test]
    fn both_points_of_scoring_count_and_nothing_is_left_for_the_next_attempt() {
        let attempt = LastAttempt::default();
        attempt.begins(Stamp(1));
        for stage in [Stage::Filter, Stage::PreScore, Stage::Score] {
            pass(&attempt, stage, ms(3));
        }
        attempt.searched(ms(9));
        assert_eq!(attempt.take().unwrap().scoring, Some(ms(6)));
        attempt.begins(Stamp(2));
        attempt.passed(Stage::Filter, Status::Error, ms(1), || Stamp(0));
        attempt.searched(ms(1));
        let times = attempt.take().unwrap();
        assert_eq!((times.scoring, times.filtered, times.parts), (None, false, Vec::new()));
        attempt.begins(Stamp(3));
        assert_eq!(attempt.take(), None, "no node was looked for");
    }

    #[test]
    fn a_trace_has_a_part_for_each_point_and_for_each_plugin_at_it() {
        let attempt = LastAttempt::default();
        attempt.traced.store(true, Relaxed);
        attempt.begins(Stamp(0));
        attempt.answered("A", Stage::Filter, (Stamp(10), Stamp(12)), Status::Unschedulable);
        attempt.answered("B", Stage::Filter, (Stamp(12), Stamp(13)), Status::Success);
        attempt.answered("A", Stage::Filter, (Stamp(20), Stamp(25)), Status::Success);
        attempt.answered("A", Stage::Score, (Stamp(30), Stamp(31)), Status::Success);
        attempt.passed(Stage::Filter, Status::Success, Duration::from_nanos(18), || Stamp(26));
        attempt.searched(ms(1));
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
