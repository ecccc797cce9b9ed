//! PreScore and Score: soft constraints.

use harbormaster_api::node::LABEL_HOSTNAME;
use harbormaster_framework::prelude::*;

use super::{
    PodTopologySpread, columns,
    constraints::{Constraint, Kind},
    inclusion::Inclusion,
    not_prepared,
};
use crate::pod_index::{PodIndex, RowCounts, TopologyKey, ValueId};

const MAX_SCORE: i64 = 100;

/// Count that marks a value that no candidate has. Actual counts are never negative.
const NO_DOMAIN: i64 = -1;

/// Points of the candidates' domains.
#[derive(Debug, Default)]
pub struct DomainScores {
    constraints: Vec<Constraint>,
    /// Points by constraint.
    points: Vec<DomainPoints>,
    /// Candidates that lack a required key.
    ignored: NodeSet,
}

/// Contribution of a constraint to the raw score.
#[derive(Debug)]
enum DomainPoints {
    /// Points by value of the key.
    ByValue(Vec<f64>),
    /// Points by row, if every node is a domain.
    ByRow(Vec<f64>),
}

impl DomainPoints {
    fn of(&self, row: NodeIdx, value: ValueId) -> f64 {
        match self {
            Self::ByValue(points) => points.get(value.at()),
            Self::ByRow(points) => points.get(row.at()),
        }
        .copied()
        .unwrap_or(0.0)
    }
}

impl PreScore<WholeCluster, (), DomainScores> for PodTopologySpread {
    fn pre_score(
        &self,
        cx: &Cycle<'_>,
        (): &(),
        candidates: &NodeSet,
    ) -> PluginResult<PreScored<DomainScores>> {
        if cx.nodes.node_count() == 0 {
            return Ok(PreScored::Skip);
        }
        let constraints = self.constraints(cx.pod, Kind::Soft, cx.objects);
        let constraints = constraints.map_err(|e| format!("calculating preScoreState: {e}"))?;
        if constraints.is_empty() {
            return Ok(PreScored::Skip);
        }
        // Under system defaults, pods are also spread over nodes without a zone.
        let index = self.index(cx)?;
        let needs_all_keys = !cx.pod.spec.topology_spread.is_empty() || !self.system_defaulted;
        let domains = CandidateDomains::new(index, &constraints, candidates, needs_all_keys)?;
        let points = domains.points(cx, index, &Inclusion::new(cx.pod, self.compare_numbers))?;
        let ignored = domains.ignored;
        Ok(PreScored::Continue(DomainScores { constraints, points, ignored }))
    }
}

/// The domains of the candidates.
struct CandidateDomains<'a> {
    constraints: &'a [Constraint],
    keys: Vec<&'a TopologyKey>,
    needs_all_keys: bool,
    candidates: &'a NodeSet,
    ignored: NodeSet,
}

impl<'a> CandidateDomains<'a> {
    fn new(
        index: &'a PodIndex,
        constraints: &'a [Constraint],
        candidates: &'a NodeSet,
        needs_all_keys: bool,
    ) -> PluginResult<Self> {
        let keys = columns(index, constraints)?;
        let mut ignored = NodeSet::default();
        if needs_all_keys {
            let lacks = |row: &NodeIdx| keys.iter().any(|key| key.value(*row).is_none());
            candidates.iter().filter(lacks).for_each(|row| ignored.insert(row));
        }
        Ok(Self { constraints, keys, needs_all_keys, candidates, ignored })
    }

    fn points(
        &self,
        cx: &Cycle<'_>,
        index: &PodIndex,
        inclusion: &Inclusion,
    ) -> PluginResult<Vec<DomainPoints>> {
        let none = RowCounts::default();
        let pods = |c: &Constraint| match c.counted(&cx.pod.namespace) {
            Some(pods) => index.pods(&pods).ok_or_else(|| not_prepared(&c.key)),
            None => Ok(&none),
        };
        let mut points = Vec::with_capacity(self.constraints.len());
        for (constraint, key) in self.constraints.iter().zip(&self.keys) {
            let pods = pods(constraint)?;
            points.push(match constraint.key == *LABEL_HOSTNAME {
                true => self.by_row(cx, constraint, pods),
                false => self.by_value(cx, inclusion, constraint, key, pods),
            });
        }
        Ok(points)
    }

    /// Returns the points by row. All pods on a node count, regardless of the policies.
    fn by_row(&self, cx: &Cycle<'_>, constraint: &Constraint, pods: &RowCounts) -> DomainPoints {
        let formula = PointsFormula::new(constraint, self.candidates.len() - self.ignored.len());
        let mut by_row = vec![formula.of(0); cx.nodes.rows()];
        // In a what-if question about a node without its pods, the index still contains those pods.
        let has_pods = |row: NodeIdx| !cx.nodes.node(row).pods().is_empty();
        for (row, pods) in pods.iter().filter(|(row, _)| has_pods(*row)) {
            if let Some(entry) = by_row.get_mut(row.at()) {
                *entry = formula.of(pods);
            }
        }
        DomainPoints::ByRow(by_row)
    }

    fn by_value(
        &self,
        cx: &Cycle<'_>,
        inclusion: &Inclusion,
        constraint: &Constraint,
        key: &TopologyKey,
        pods: &RowCounts,
    ) -> DomainPoints {
        let mut counts = vec![NO_DOMAIN; key.values()];
        let mut domains = 0;
        // Nodes without the label form the domain of the empty value.
        let (mut empty, mut some_lack_it) = (None, false);
        let is_empty = |row| {
            cx.nodes.node(row).labels().is_some_and(|l| l.get(&constraint.key).is_some_and(|v| v.is_empty()))
        };
        for row in self.candidates.iter().filter(|row| !self.ignored.contains(*row)) {
            let Some(value) = key.value(row) else {
                some_lack_it = true;
                continue;
            };
            if counts[value.at()] == NO_DOMAIN {
                counts[value.at()] = 0;
                domains += 1;
                empty = empty.or_else(|| is_empty(row).then_some(value));
            }
        }
        domains += usize::from(some_lack_it && empty.is_none());
        for (row, pods) in pods.iter() {
            let value = key.value(row).or(empty.filter(|_| !self.needs_all_keys));
            let Some(value) = value.filter(|value| counts[value.at()] != NO_DOMAIN) else { continue };
            if self.counts_row(cx, inclusion, constraint, row) {
                counts[value.at()] += pods;
            }
        }
        let formula = PointsFormula::new(constraint, domains);
        DomainPoints::ByValue(counts.into_iter().map(|count| formula.of(count)).collect())
    }

    /// Returns true if the constraint counts the pods on the row, which need not have a node.
    fn counts_row(
        &self,
        cx: &Cycle<'_>,
        inclusion: &Inclusion,
        constraint: &Constraint,
        row: NodeIdx,
    ) -> bool {
        let is_counted = match self.needs_all_keys {
            true => self.keys.iter().all(|key| key.value(row).is_some()),
            false => cx.nodes.live().contains(row),
        };
        is_counted && inclusion.admits(constraint, cx.pod, cx.nodes.node(row))
    }
}

/// Converts the number of pods in a domain to points.
#[derive(Clone, Copy)]
struct PointsFormula {
    weight: f64,
    base: f64,
}

impl PointsFormula {
    /// Gives each pod more weight if there are more domains, since each domain then has fewer pods. `maxSkew` reduces
    /// the differences between domains.
    fn new(constraint: &Constraint, domains: usize) -> Self {
        // The logarithm may differ from Go's in the last bit; rounding the score hides the difference.
        let weight = ((domains + 2) as f64).ln();
        Self { weight, base: f64::from(constraint.max_skew.wrapping_sub(1)) }
    }

    fn of(self, pods: i64) -> f64 {
        pods as f64 * self.weight + self.base
    }
}

impl Score<WholeCluster, DomainScores> for PodTopologySpread {
    const NORMALIZE: Normalize = Normalize::Custom;

    fn score(&self, cx: &Cycle<'_>, state: &DomainScores, node: NodeRef<'_>) -> PluginResult<i64> {
        let keys = columns(self.index(cx)?, &state.constraints)?;
        Ok(state.raw(&keys, node.idx()))
    }

    fn score_batch(&self, cx: &Cycle<'_>, state: &DomainScores, scores: &mut Scores<'_>) -> PluginResult<()> {
        let keys = columns(self.index(cx)?, &state.constraints)?;
        for (row, score) in scores.iter_mut() {
            *score = state.raw(&keys, row);
        }
        Ok(())
    }

    fn normalize(
        &self,
        _: &Cycle<'_>,
        state: &DomainScores,
        candidates: &NodeSet,
        scores: &mut [i64],
    ) -> PluginResult<()> {
        let ignored = &state.ignored;
        let (mut min, mut max) = (i64::MAX, 0);
        for row in candidates.iter().filter(|row| !ignored.contains(*row)) {
            min = min.min(scores[row.at()]);
            max = max.max(scores[row.at()]);
        }
        for row in candidates {
            let score = &mut scores[row.at()];
            *score = match max {
                _ if ignored.contains(row) => 0,
                0 => MAX_SCORE,
                _ => MAX_SCORE * (max + min - *score) / max,
            };
        }
        Ok(())
    }
}

impl DomainScores {
    fn raw(&self, keys: &[&TopologyKey], row: NodeIdx) -> i64 {
        if self.ignored.contains(row) {
            return 0;
        }
        let terms = self.points.iter().zip(keys);
        let present = terms.filter_map(|(points, key)| Some(points.of(row, key.value(row)?)));
        round(present.fold(0.0, |sum, points| sum + points))
    }
}

/// Rounds to the nearest integer, with halves rounded away from zero, without calling the math library.
pub(super) fn round(score: f64) -> i64 {
    let whole = score as i64;
    let rest = score - whole as f64;
    whole + i64::from(rest >= 0.5) - i64::from(rest <= -0.5)
}
