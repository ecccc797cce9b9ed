//! How NodeResourcesFit turns shares of resources into a score.

use harbormaster_api::args::{ScoringStrategy, ScoringStrategyType, UtilizationShapePoint};
use harbormaster_framework::{nodeset::NodeIdx, outcome::PluginError};

use super::lanes::Lane;

/// Shapes are written with scores 0..=10; nodes are scored 0..=100.
const SHAPE_SCALE: i64 = 10;

/// A scoring strategy, ready to use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Strategy {
    Least,
    Most,
    Ratio(Shape),
}

impl Strategy {
    pub(super) fn new(written: &ScoringStrategy) -> Result<Self, PluginError> {
        match &written.strategy {
            ScoringStrategyType::LeastAllocated => Ok(Self::Least),
            ScoringStrategyType::MostAllocated => Ok(Self::Most),
            ScoringStrategyType::RequestedToCapacityRatio => {
                let points = written.requested_to_capacity_ratio.as_ref().map(|p| p.shape.as_slice());
                Ok(Self::Ratio(Shape::new(points.unwrap_or_default())?))
            }
            ScoringStrategyType::Unknown(name) => {
                Err(format!("scoring strategy {name} is not supported").into())
            }
        }
    }

    /// The score of one row: the weighted mean over the resources that the node has.
    #[inline]
    pub(super) fn score(&self, lanes: &[Lane<'_>], row: NodeIdx) -> i64 {
        let (mut sum, mut weights) = (0i64, 0i64);
        for lane in lanes {
            let (has, used) = lane.at(row);
            if has == 0 {
                continue;
            }
            let share = self.share(used.wrapping_add(lane.ask), has);
            if share == 0 && matches!(self, Self::Ratio(_)) {
                continue;
            }
            sum = sum.wrapping_add(share.wrapping_mul(lane.weight));
            weights = weights.wrapping_add(lane.weight);
        }
        match self {
            _ if weights == 0 => 0,
            Self::Ratio(_) => (sum as f64 / weights as f64).round() as i64,
            Self::Least | Self::Most => sum.wrapping_div(weights),
        }
    }

    /// The score of one resource, `has` not being zero.
    #[inline]
    fn share(&self, requested: i64, has: i64) -> i64 {
        let percent = |amount: i64| amount.wrapping_mul(100).wrapping_div(has);
        match self {
            Self::Least if requested > has => 0,
            Self::Least => percent(has.wrapping_sub(requested)),
            Self::Most => percent(requested.min(has)),
            // Below zero counts as zero: it could not be told from "left out" otherwise.
            Self::Ratio(shape) if requested > has => shape.at(100).max(0),
            Self::Ratio(shape) => shape.at(percent(requested)).max(0),
        }
    }
}

/// A function of straight lines between points: used share in percent to score.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    points: Vec<(i64, i64)>,
}

impl Shape {
    fn new(points: &[UtilizationShapePoint]) -> Result<Self, PluginError> {
        if points.is_empty() {
            return Err("at least one point must be specified".into());
        }
        let scaled = |p: &UtilizationShapePoint| (i64::from(p.utilization), i64::from(p.score) * SHAPE_SCALE);
        let points: Vec<(i64, i64)> = points.iter().map(scaled).collect();
        if points.windows(2).any(|pair| pair[0].0 >= pair[1].0) {
            return Err("utilization values must be sorted in increasing order".into());
        }
        Ok(Self { points })
    }

    /// The value at `share`: that of the first or last point outside of them, truncated toward zero between.
    fn at(&self, share: i64) -> i64 {
        let next = self.points.partition_point(|(utilization, _)| *utilization < share);
        match (next.checked_sub(1).map(|before| self.points[before]), self.points.get(next).copied()) {
            (None, Some((_, score))) | (Some((_, score)), None) => score,
            (Some((u0, s0)), Some((u1, s1))) => s0 + (s1 - s0) * (share - u0) / (u1 - u0),
            (None, None) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_is_straight_between_points_and_flat_outside() {
        let shape = Shape { points: vec![(10, 1), (90, 9)] };
        let values = [-10, 0, 9, 10, 15, 19, 20, 25, 89, 90, 99, 110].map(|p| shape.at(p));
        assert_eq!(values, [1, 1, 1, 1, 1, 1, 2, 2, 8, 9, 9, 9]);
        let falling = Shape { points: vec![(0, 2), (40, 1), (100, 0)] };
        let values = [-10, 0, 20, 30, 40, 70, 100, 110].map(|p| falling.at(p));
        assert_eq!(values, [2, 2, 2, 2, 1, 1, 0, 0]);
    }

    #[test]
    fn a_shape_needs_points_in_order() {
        let point = |utilization, score| UtilizationShapePoint { utilization, score };
        assert!(Shape::new(&[]).is_err());
        assert!(Shape::new(&[point(10, 0), point(10, 1)]).is_err());
        assert_eq!(Shape::new(&[point(0, 10)]).unwrap().at(50), 100);
    }
}
