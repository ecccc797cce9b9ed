//! Scoring strategies of NodeResourcesFit.

use std::ops::Range;

use harbormaster_api::args::{ScoringStrategy, ScoringStrategyType};
use harbormaster_framework::{
    nodeset::{NodeIdx, NodeSet},
    outcome::PluginError,
    scores::Scores,
};

use super::lanes::{ColumnLane, Lane};
use crate::shape::Shape;

/// A scoring strategy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Strategy {
    Least,
    Most,
    Ratio(Shape),
}

impl Strategy {
    pub(super) fn new(config: &ScoringStrategy) -> Result<Self, PluginError> {
        match &config.strategy {
            ScoringStrategyType::LeastAllocated => Ok(Self::Least),
            ScoringStrategyType::MostAllocated => Ok(Self::Most),
            ScoringStrategyType::RequestedToCapacityRatio => {
                let points = config.requested_to_capacity_ratio.as_ref().map(|p| p.shape.as_slice());
                Ok(Self::Ratio(Shape::new(points.unwrap_or_default())?))
            }
            ScoringStrategyType::Unknown(name) => {
                Err(format!("scoring strategy {name} is not supported").into())
            }
        }
    }

    /// Returns the score of one row: the weighted mean over the resources that the node has. RequestedToCapacityRatio
    /// also leaves out resources with a score of zero.
    #[inline]
    pub(super) fn score(&self, lanes: &[Lane<'_>], row: NodeIdx) -> i64 {
        self.mean(lanes.iter().map(|lane| (lane.weight, lane.ask, lane.at(row))))
    }

    /// Scores a batch of rows as [`Self::score`] does.
    pub(super) fn score_batch(&self, lanes: &[Lane<'_>], scores: &mut Scores<'_>) {
        match (self, Lane::two_columns(lanes)) {
            (Self::Least, Some(two)) => scores.for_each_run(|rows, scores| least(&two, rows, scores)),
            _ => scores.iter_mut().for_each(|(row, score)| *score = self.score(lanes, row)),
        }
    }

    /// Returns the score of several rows as if they were one node.
    pub(super) fn score_together(&self, lanes: &[Lane<'_>], rows: &NodeSet) -> i64 {
        self.mean(lanes.iter().map(|lane| (lane.weight, lane.ask, lane.sum(rows))))
    }

    /// Returns the mean over resources, each with its weight, the request, and the capacity and use.
    #[inline]
    fn mean(&self, lanes: impl Iterator<Item = (i64, i64, (i64, i64))>) -> i64 {
        let (mut sum, mut weights) = (0i64, 0i64);
        for (weight, ask, (has, used)) in lanes {
            if has == 0 {
                continue;
            }
            let share = self.share(used.wrapping_add(ask), has);
            if share == 0 && matches!(self, Self::Ratio(_)) {
                continue;
            }
            sum = sum.wrapping_add(share.wrapping_mul(weight));
            weights = weights.wrapping_add(weight);
        }
        match self {
            _ if weights == 0 => 0,
            Self::Ratio(_) => (sum as f64 / weights as f64).round() as i64,
            Self::Least | Self::Most => sum.wrapping_div(weights),
        }
    }

    /// Returns the score of one resource; `has` must not be zero.
    #[inline]
    fn share(&self, requested: i64, has: i64) -> i64 {
        let percent = |amount: i64| amount.wrapping_mul(100).wrapping_div(has);
        match self {
            Self::Least if requested > has => 0,
            Self::Least => percent(has.wrapping_sub(requested)),
            Self::Most => percent(requested.min(has)),
            // As in kube-scheduler, negative results count as zero, and `score` then ignores the resource.
            Self::Ratio(shape) if requested > has => shape.at(100).max(0),
            Self::Ratio(shape) => shape.at(percent(requested)).max(0),
        }
    }
}

/// Computes the scores of [`Strategy::Least`] for two columns.
fn least([a, b]: &[ColumnLane<'_>; 2], rows: Range<usize>, scores: &mut [i64]) {
    let weights = a.weight.wrapping_add(b.weight);
    let has_small_weights = [a.weight, b.weight].iter().all(|weight| (1..1 << 20).contains(weight));
    let used = a.run(rows.clone()).zip(b.run(rows.clone()));
    if has_small_weights && a.is_exact(rows.clone()) && b.is_exact(rows) {
        let share = |(has, used): (i64, i64), ask: i64| {
            // A division of floating-point numbers takes a fraction of the time. It is exact here: unless the quotient
            // is an integer, it differs from the next one by more than the rounding does.
            ((has - used - ask).max(0) * 100) as f64 / has as f64
        };
        for (score, (of_a, of_b)) in scores.iter_mut().zip(used) {
            let (a_share, b_share) = (share(of_a, a.ask) as i64, share(of_b, b.ask) as i64);
            // The sum and the weights fit into 32 bits, whose division is faster.
            *score = i64::from((a_share * a.weight + b_share * b.weight) as u32 / weights as u32);
        }
    } else {
        for (score, (of_a, of_b)) in scores.iter_mut().zip(used) {
            *score = Strategy::Least.mean([(a.weight, a.ask, of_a), (b.weight, b.ask, of_b)].into_iter());
        }
    }
}

#[cfg(test)]
mod tests {
    use harbormaster_testkit::random::Dice;

    use super::*;
    use crate::node_resources::lanes::random::RandomColumns;

    #[test]
    fn quotients_of_floating_point_numbers_equal_those_of_integers() {
        let mut dice = Dice::new(0);
        for _ in 0..20_000 {
            let columns = RandomColumns::new(&mut dice);
            let weights = [0, 1].map(|_| dice.pick(&[1, 1, 3, 100, 1 << 21]));
            let mut scores = [0; 3];
            least(&[0, 1].map(|of| columns.lane(of, weights[of])), 1..4, &mut scores);
            let slow = |row: usize| {
                let amount = |of: usize| (columns.has[of][row], columns.used[of][row]);
                Strategy::Least.mean([0, 1].map(|of| (weights[of], columns.asks[of], amount(of))).into_iter())
            };
            assert_eq!(scores, [1, 2, 3].map(slow), "{columns:?}");
        }
    }
}
