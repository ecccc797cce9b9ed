//! PreScore and Score: soft constraints.

use std::ops::Range;

use harbormaster_api::node::LABEL_HOSTNAME;
use harbormaster_framework::prelude::*;

use super::{
    PodTopologySpread, columns,
    constraints::{Constraint, Kind},
    inclusion::Inclusion,
    not_prepared,
};
use crate::pod_index::{PodIndex, RowCounts, TopologyKey, ValueId};
use crate::rows::both;

const MAX_SCORE: i64 = 100;

/// Number of rows that are scored together.
const CHUNK: usize = 128;

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
    /// Adds the points of consecutive rows to their `sums`.
    fn add(&self, key: &TopologyKey, rows: Range<usize>, sums: &mut [f64]) {
        let values = key.run(rows.clone());
        match self {
            Self::ByValue(points) => {
                for (sum, value) in sums.iter_mut().zip(values) {
                    *sum += value.and_then(|value| points.get(value.at())).copied().unwrap_or(0.0);
                }
            }
            Self::ByRow(points) => {
                let points = points.get(rows).unwrap_or_default();
                for ((sum, value), points) in sums.iter_mut().zip(values).zip(points) {
                    *sum += if value.is_some() { *points } else { 0.0 };
                }
            }
        }
    }

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
    /// Candidates that have all required keys.
    rated: NodeSet,
    /// The other candidates.
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
        let mut rated = candidates.clone();
        rated.subtract(&ignored);
        Ok(Self { constraints, keys, needs_all_keys, rated, ignored })
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
        let formula = PointsFormula::new(constraint, self.rated.len());
        let mut by_row = vec![formula.of(0); cx.nodes.rows()];
        // In a what-if question about a node without its pods, the index still contains those pods.
        let on_row = &cx.nodes.columns().used_pods;
        let has_pods = |row: NodeIdx| on_row.get(row.at()).is_some_and(|pods| *pods != 0);
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
        let no_row_lacks_it = key.labeled() == cx.nodes.node_count();
        'candidates: for rows in self.rated.runs() {
            let values = key.run(rows.clone());
            some_lack_it |= values.len() < rows.len();
            for (row, value) in rows.zip(values) {
                if no_row_lacks_it && domains == key.distinct() {
                    break 'candidates;
                }
                let Some(value) = value else {
                    some_lack_it = true;
                    continue;
                };
                if counts[value.at()] == NO_DOMAIN {
                    counts[value.at()] = 0;
                    domains += 1;
                    empty = empty.or_else(|| is_empty(NodeIdx(row as u32)).then_some(value));
                }
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
        scores.for_each_run(|rows, scores| {
            for (at, scores) in rows.step_by(CHUNK).zip(scores.chunks_mut(CHUNK)) {
                state.write_raw(&keys, at, scores);
            }
        });
        state.ignored.iter().for_each(|row| scores.set(row, 0));
        Ok(())
    }

    fn normalize(
        &self,
        _: &Cycle<'_>,
        state: &DomainScores,
        candidates: &NodeSet,
        scores: &mut [i64],
    ) -> PluginResult<()> {
        let mut rated = candidates.clone();
        rated.subtract(&state.ignored);
        both(candidates, &state.ignored).for_each(|row| scores[row.at()] = 0);
        let (mut min, mut max) = (i64::MAX, 0);
        for rows in rated.runs() {
            for score in &scores[rows] {
                (min, max) = (min.min(*score), max.max(*score));
            }
        }
        if max == 0 {
            rated.runs().for_each(|rows| scores[rows].fill(MAX_SCORE));
            return Ok(());
        }
        let percent = |score: i64| MAX_SCORE * (max + min - score) / max;
        // Scores differ by few pods, so most are equal, and looking them up is faster than dividing.
        let few = max - min < rated.len() as i64;
        let by_score: Vec<i64> = if few { (min..=max).map(percent).collect() } else { Vec::new() };
        for rows in rated.runs() {
            for score in &mut scores[rows] {
                let known = usize::try_from(*score - min).ok().and_then(|at| by_score.get(at));
                *score = known.copied().unwrap_or_else(|| percent(*score));
            }
        }
        Ok(())
    }
}

impl DomainScores {
    /// Writes the raw scores of consecutive rows, at most [`CHUNK`], which are not ignored.
    fn write_raw(&self, keys: &[&TopologyKey], first: usize, scores: &mut [i64]) {
        let mut sums = [0.0; CHUNK];
        let sums = &mut sums[..scores.len()];
        for (points, key) in self.points.iter().zip(keys) {
            points.add(key, first..first + scores.len(), sums);
        }
        round_all(sums, scores);
    }

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

/// Writes `round(sum)` for each sum, several at a time if no sum is large.
fn round_all(sums: &[f64], scores: &mut [i64]) {
    /// In this range, neighboring numbers differ by one, so adding a small number rounds it, and its bits count up.
    const INTEGERS: f64 = 1.5 * (1_u64 << 52) as f64;
    const SMALL: f64 = (1_u64 << 50) as f64;
    let all_small = sums.iter().fold(true, |all, sum| all & (sum.abs() < SMALL));
    for (score, sum) in scores.iter_mut().zip(sums) {
        *score = if all_small {
            let even = (sum + INTEGERS) - INTEGERS;
            // Halves were rounded to even.
            let up = if sum - even >= 0.5 && *sum > 0.0 { 1.0 } else { 0.0 };
            let down = if sum - even <= -0.5 && *sum < 0.0 { 1.0 } else { 0.0 };
            let rounded = even + up - down + INTEGERS;
            rounded.to_bits().wrapping_sub(INTEGERS.to_bits()).cast_signed()
        } else {
            round(*sum)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_rounded_together_as_one_by_one() {
        let below = |x: f64| f64::from_bits(x.to_bits() - 1);
        let wholes = [0.0, 1.0, 2.0, 3.0, 1e6, 1e6 + 1.0, 1e15, 1e17];
        for whole in wholes {
            for rest in [0.0, below(0.5), 0.5, 0.75] {
                let sums = [whole + rest, -whole - rest, below(whole + rest + 0.5), 8.5, -7.5];
                let mut scores = [0; 5];
                round_all(&sums, &mut scores);
                assert_eq!(scores, sums.map(round), "{sums:?}");
                assert_eq!(scores, sums.map(|sum| sum.round() as i64), "{sums:?}");
            }
        }
    }
}
