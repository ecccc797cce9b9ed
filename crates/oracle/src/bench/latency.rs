//! Time from the creation of a pod to its binding.

use std::time::Duration;

use serde::Serialize;

use super::watcher::Watcher;

/// Distribution of the times from the creation of a measured pod to its binding, both as a watch shows them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Latency {
    /// Median, in milliseconds.
    pub p50_ms: f64,
    /// Time that one pod in a hundred exceeds, in milliseconds.
    pub p99_ms: f64,
    /// Longest time, in milliseconds.
    pub longest_ms: f64,
}

impl Latency {
    /// Computes the distribution over the pods that both watchers saw; `None` if there are none.
    pub(super) fn between(created: &Watcher, bound: &Watcher) -> Option<Self> {
        let created = created.times_by_name();
        let waits = bound.times_by_name().into_iter().filter_map(|(name, bound)| {
            // The watches are independent, so a binding may be seen before the creation.
            Some(bound.saturating_duration_since(*created.get(&name)?))
        });
        Self::of(waits.collect())
    }

    fn of(mut waits: Vec<Duration>) -> Option<Self> {
        waits.sort_unstable();
        let longest = waits.len().checked_sub(1)?;
        let at = |percent: usize| waits[longest * percent / 100].as_secs_f64() * 1000.0;
        Some(Self { p50_ms: at(50), p99_ms: at(99), longest_ms: at(100) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_sorted_times() {
        let waits = (1..=101).rev().map(Duration::from_millis).collect();
        let expected = Latency { p50_ms: 51.0, p99_ms: 100.0, longest_ms: 101.0 };
        assert_eq!(Latency::of(waits), Some(expected));
        assert_eq!(Latency::of(Vec::new()), None);
    }
}
