//! Shapes: curves, given in the arguments, that map the used percentage of a resource to a score.

use harbormaster_api::args::UtilizationShapePoint;
use harbormaster_framework::outcome::PluginError;

/// Factor that converts scores in shapes (0..=10) to node scores (0..=100).
const SHAPE_SCALE: i64 = 10;

/// A piecewise linear curve that maps the used percentage to the score.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    points: Vec<(i64, i64)>,
}

impl Shape {
    /// Returns the curve through these points.
    ///
    /// # Errors
    /// If there are no points, or if their utilization does not increase from point to point.
    pub(crate) fn new(points: &[UtilizationShapePoint]) -> Result<Self, PluginError> {
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

    /// Returns the score at the used percentage `share`. The score is constant outside the given points. Between
    /// them, it is linear and truncated toward zero.
    pub(crate) fn at(&self, share: i64) -> i64 {
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
    fn a_shape_is_linear_between_points_and_constant_outside() {
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
