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
    /// The smallest raw score. Only [`Normalize::MinMax`] and [`Normalize::Formula`] use it.
    pub min: i64,
    /// The largest raw score; at least zero with [`Normalize::Proportional`].
    pub max: i64,
    /// False if a candidate is [`Formula::UNRATED`]. Such candidates do not count for the extremes.
    pub are_all_rated: bool,
}

/// A plugin's own conversion of a raw score to 0..=100, for [`Normalize::Formula`]. It depends on nothing but the raw
/// score and the extremes among the candidates, so converted scores can be kept. The raw score is between the extremes.
#[derive(Clone, Copy, Debug)]
pub struct Formula(pub fn(i64, Extremes) -> i64);

impl Formula {
    /// The raw score of a node that cannot be rated. It is converted to 0.
    pub const UNRATED: i64 = i64::MIN;
}

impl PartialEq for Formula {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::fn_addr_eq(self.0, other.0)
    }
}

impl Eq for Formula {}

impl Extremes {
    /// The extremes if there are no candidates.
    pub fn none(how: Normalize) -> Self {
        let (min, max) = if is_between(how) { (i64::MAX, i64::MIN) } else { (i64::MIN, 0) };
        Self { min, max, are_all_rated: true }
    }

    /// Finds the extremes of the raw scores.
    pub fn of(how: Normalize, raw: impl Iterator<Item = i64>) -> Self {
        raw.fold(Self::none(how), |known, raw| match is_unrated(how, raw) {
            true => Self { are_all_rated: false, ..known },
            false => Self { min: known.min.min(raw), max: known.max.max(raw), ..known },
        })
    }
}

/// Returns true if scores depend on both extremes.
pub(crate) fn is_between(how: Normalize) -> bool {
    matches!(how, Normalize::MinMax | Normalize::Formula(_))
}

/// Returns true if the raw score is that of a node that cannot be rated.
pub(crate) fn is_unrated(how: Normalize, raw: i64) -> bool {
    matches!(how, Normalize::Formula(_)) && raw == Formula::UNRATED
}

/// Converts a raw score to 0..=100.
pub fn normalized(how: Normalize, raw: i64, extremes: Extremes) -> i64 {
    let Extremes { min, max, .. } = extremes;
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
        Normalize::Formula(_) if is_unrated(how, raw) => 0,
        Normalize::Formula(Formula(convert)) => convert(raw, extremes),
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
        how @ (Normalize::Proportional { .. } | Normalize::MinMax | Normalize::Formula(_)) => {
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
