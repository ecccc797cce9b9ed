//! Durations in a fixed amount of memory.

use std::time::Duration;

use serde::Serialize;

/// Number of buckets per power of ten; a quantile is at most a tenth too high.
const PER_DECADE: f64 = 25.0;
/// Upper bound of the first bucket, in seconds.
const SMALLEST: f64 = 1e-6;
/// Number of buckets, the last of which ends at ten million seconds.
const BUCKETS: usize = 13 * 25;

/// A histogram of durations.
#[derive(Clone, Debug)]
pub(super) struct Durations {
    counts: [u64; BUCKETS],
    count: u64,
    longest: Duration,
}

/// What a report says about durations, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Summary {
    /// Number of durations.
    pub(super) count: u64,
    /// Median.
    pub(super) p50: f64,
    /// The 99th percentile.
    pub(super) p99: f64,
    /// The longest.
    pub(super) max: f64,
}

impl Default for Durations {
    fn default() -> Self {
        Self { counts: [0; BUCKETS], count: 0, longest: Duration::ZERO }
    }
}

impl Durations {
    pub(super) fn add(&mut self, duration: Duration) {
        let steps = ((duration.as_secs_f64() / SMALLEST).log10() * PER_DECADE).ceil();
        // The conversion saturates; a duration of zero is in the first bucket.
        self.counts[(steps as usize).min(BUCKETS - 1)] += 1;
        self.count += 1;
        self.longest = self.longest.max(duration);
    }

    pub(super) fn summary(&self) -> Summary {
        let max = self.longest.as_secs_f64();
        let quantile = |share| in_microseconds(self.quantile(share).min(max));
        Summary { count: self.count, p50: quantile(0.5), p99: quantile(0.99), max: in_microseconds(max) }
    }

    /// Returns the upper bound of the bucket that contains the quantile.
    fn quantile(&self, share: f64) -> f64 {
        let wanted = (self.count as f64 * share).ceil();
        let mut seen = 0;
        for (at, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen > 0 && seen as f64 >= wanted {
                return SMALLEST * 10_f64.powf(at as f64 / PER_DECADE);
            }
        }
        0.0
    }
}

/// Rounds seconds to microseconds.
fn in_microseconds(seconds: f64) -> f64 {
    (seconds * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_at_most_a_tenth_too_high() {
        let mut durations = Durations::default();
        (1..=1000).for_each(|ms| durations.add(Duration::from_millis(ms)));
        let Summary { count, p50, p99, max } = durations.summary();
        assert_eq!((count, max), (1000, 1.0));
        assert!((0.5..0.55).contains(&p50) && (0.99..=1.0).contains(&p99), "{p50} {p99}");
    }

    #[test]
    fn there_are_no_quantiles_without_durations() {
        assert_eq!(Durations::default().summary(), Summary::default());
        let mut durations = Durations::default();
        durations.add(Duration::ZERO);
        assert_eq!(durations.summary(), Summary { count: 1, ..Summary::default() });
    }
}
