//! Conversion of raw scores to 0..=100.

use crate::{
    cycle::Cycle,
    guard::{GuardedPlugin, PointError},
    nodeset::NodeSet,
    outcome::Normalize,
    points::Slot,
};

/// Smallest and largest raw scores among the candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extremes {
    /// The smallest raw score. Only [`Normalize::MinMax`] uses it.
    pub min: i64,
    /// The largest raw score; at least zero with [`Normalize::Proportional`].
    pub max: i64,
}

impl Extremes {
    /// The extremes if there are no candidates.
    pub fn none(how: Normalize) -> Self {
        match how {
            Normalize::MinMax => Self { min: i64::MAX, max: i64::MIN },
            Normalize::Proportional { .. } | Normalize::AsIs | Normalize::Custom => {
                Self { min: i64::MIN, max: 0 }
            }
        }
    }

    /// Finds the extremes of the raw scores.
    pub fn of(how: Normalize, raw: impl Iterator<Item = i64>) -> Self {
        raw.fold(Self::none(how), |known, raw| Self { min: known.min.min(raw), max: known.max.max(raw) })
    }
}

/// Converts a raw score to 0..=100.
pub fn normalized(how: Normalize, raw: i64, Extremes { min, max }: Extremes) -> i64 {
    match how {
        Normalize::Proportional { reverse } if max == 0 => {
            if reverse {
                100
            } else {
                raw
            }
        }
        Normalize::Proportional { reverse } => {
            let share = raw.saturating_mul(100) / max;
            if reverse { 100 - share } else { share }
        }
        Normalize::MinMax => between(raw, min, max),
        Normalize::AsIs | Normalize::Custom => raw,
    }
}

/// Returns the position of `raw` between `min` and `max` in percent, rounded down. The differences may exceed `i64`.
fn between(raw: i64, min: i64, max: i64) -> i64 {
    let above = |number: i64| i128::from(number) - i128::from(min);
    match above(max) {
        ..=0 => 0,
        range => i64::try_from(above(raw) * 100 / range).unwrap_or_default(),
    }
}

/// Normalizes the scores of all candidates: `scores[row]` for every row of `candidates`.
///
/// # Errors
/// When the plugin's own normalization fails.
pub fn normalize(
    plugin: &GuardedPlugin,
    cx: &Cycle<'_>,
    slot: &Slot,
    candidates: &NodeSet,
    scores: &mut [i64],
) -> Result<(), PointError> {
    match plugin.normalization() {
        Normalize::AsIs => Ok(()),
        Normalize::Custom => plugin.normalize(cx, slot, candidates, scores),
        how @ (Normalize::Proportional { .. } | Normalize::MinMax) => {
            let extremes = Extremes::of(how, candidates.iter().map(|row| scores[row.at()]));
            for row in candidates {
                scores[row.at()] = normalized(how, scores[row.at()], extremes);
            }
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn min_max_spreads_the_raw_scores_over_the_whole_range() {
        for (raw, expected) in [
            (vec![-1000, -2000, -3000], vec![100, 50, 0]),
            (vec![5, 2, 1, -1], vec![100, 50, 33, 0]),
            (vec![7, 7], vec![0, 0]),
            (vec![i64::MIN, 0, i64::MAX], vec![0, 50, 100]),
            (vec![], vec![]),
        ] {
            let extremes = Extremes::of(Normalize::MinMax, raw.iter().copied());
            let scores: Vec<i64> =
                raw.iter().map(|raw| normalized(Normalize::MinMax, *raw, extremes)).collect();
            assert_eq!(scores, expected, "{raw:?}");
        }
    }
}
