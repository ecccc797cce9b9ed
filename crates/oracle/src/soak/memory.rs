//! Trend of memory.

use std::fmt;

/// A sample of the scheduler's memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Seconds since the start.
    pub at_s: f64,
    /// Resident memory in MiB.
    pub resident_mib: f64,
}

/// Trend of memory over samples at equal intervals. The trend line ignores the first half, in which caches fill and
/// memory becomes fragmented until the last of the initial nodes and pods is deleted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trend {
    /// Mean of the first quarter, in MiB.
    pub first_quarter_mib: f64,
    /// Mean of the last quarter, in MiB.
    pub last_quarter_mib: f64,
    /// Slope of the line through the last half (least squares), in MiB per hour.
    pub mib_per_hour: f64,
    /// Rise of that line from start to end, as a fraction of its mean.
    pub growth: f64,
}

impl Trend {
    /// Returns `None` for fewer than eight samples.
    pub(super) fn of(samples: &[Sample]) -> Option<Self> {
        let quarter = samples.len() / 4;
        if quarter < 2 {
            return None;
        }
        let mean =
            |part: &[Sample], of: fn(&Sample) -> f64| part.iter().map(of).sum::<f64>() / part.len() as f64;
        let (at, resident): (fn(&Sample) -> f64, fn(&Sample) -> f64) = (|s| s.at_s, |s| s.resident_mib);
        let rest = &samples[samples.len() / 2..];
        let (mean_at, mean_resident) = (mean(rest, at), mean(rest, resident));
        let (mut product, mut square) = (0.0, 0.0);
        for sample in rest {
            product += (sample.at_s - mean_at) * (sample.resident_mib - mean_resident);
            square += (sample.at_s - mean_at).powi(2);
        }
        let slope = product / square;
        let duration = rest[rest.len() - 1].at_s - rest[0].at_s;
        Some(Self {
            first_quarter_mib: mean(&samples[..quarter], resident),
            last_quarter_mib: mean(&samples[samples.len() - quarter..], resident),
            mib_per_hour: slope * 3600.0,
            growth: slope * duration / mean_resident,
        })
    }
}

impl fmt::Display for Trend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "resident memory: {:.1} MiB in the first quarter, {:.1} MiB in the last; over the last half {:+.2} MiB per \
             hour, {:+.1} % from start to end",
            self.first_quarter_mib,
            self.last_quarter_mib,
            self.mib_per_hour,
            self.growth * 100.0
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(resident: impl Fn(f64) -> f64) -> Vec<Sample> {
        (0..40)
            .map(|i| f64::from(i) * 10.0)
            .map(|at_s| Sample { at_s, resident_mib: resident(at_s) })
            .collect()
    }

    #[test]
    fn the_line_goes_through_the_last_half_only() {
        let grows_then_flat = samples(|at| if at < 200.0 { at } else { 200.0 });
        let trend = Trend::of(&grows_then_flat).unwrap();
        assert!(trend.mib_per_hour.abs() < 1e-9 && trend.growth.abs() < 1e-9, "{trend:?}");
        assert_eq!((trend.first_quarter_mib, trend.last_quarter_mib), (45.0, 200.0));
    }

    #[test]
    fn steady_growth_is_found_despite_noise() {
        let grows = samples(|at| 50.0 + at / 100.0 + 0.2 * (at / 10.0 * std::f64::consts::PI).cos());
        let trend = Trend::of(&grows).unwrap();
        assert!((trend.mib_per_hour - 36.0).abs() < 1.5, "{trend:?}");
        assert!((trend.growth - 0.035).abs() < 0.003, "{trend:?}");
        assert_eq!(Trend::of(&grows[..7]), None);
    }
}
