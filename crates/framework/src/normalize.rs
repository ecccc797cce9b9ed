//! Conversion of raw scores to 0..=100.

use crate::{
    cycle::Cycle,
    guard::{GuardedPlugin, PointError},
    nodeset::NodeSet,
    outcome::Normalize,
    points::Slot,
};

/// Converts a raw score to 0..=100. `max` is the largest raw score among the candidates, at least zero.
pub fn normalized(how: Normalize, raw: i64, max: i64) -> i64 {
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
        Normalize::AsIs | Normalize::Custom => raw,
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
        how @ Normalize::Proportional { .. } => {
            let max = candidates.iter().map(|row| scores[row.at()]).max().unwrap_or(0).max(0);
            for row in candidates {
                scores[row.at()] = normalized(how, scores[row.at()], max);
            }
            Ok(())
        }
    }
}
