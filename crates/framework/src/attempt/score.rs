//! Scores of the nodes that fit, and the best of them.

use harbormaster_api::points::ExtensionPoint;

use super::{Attempt, AttemptError, walk::best_rotating};
use crate::{
    classes::{PointError, failed},
    cluster::Cluster,
    cycle::Cycle,
    nodeset::{NodeIdx, NodeSet},
    outcome::Normalize,
    plugin::{Scope, Slot},
    pod::PodInfo,
    profile::Profile,
    totals::normalized,
};

/// Allocations that outlive an attempt.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    totals: Vec<i64>,
    column: Vec<i64>,
}

impl Attempt {
    /// The best of all rows that fit, the first one at or after `start` if several are. Kept sums serve for the
    /// row-scoped scorers; only cluster-scoped ones are asked. `as_kept`: exactly the rows fit that kept filters left.
    pub(super) fn best(
        &mut self,
        profile: &Profile,
        cluster: &Cluster,
        pod: &PodInfo,
        start: usize,
        as_kept: bool,
    ) -> Result<Option<NodeIdx>, AttemptError> {
        let mut some = self.fits.iter();
        let (Some(first), second) = (some.next(), some.next()) else { return Ok(None) };
        if second.is_none() {
            return Ok(Some(first));
        }
        // Row-scoped plugins come first in profiles, so their failure is the one to tell.
        if let Some(failure) = self.classes.get(profile, cluster, pod)?.take_score_failure() {
            return Err(failure.into());
        }
        let slots = self.pre_score_anew(profile, &Cycle::new(cluster, pod), &self.fits)?;
        let table = self.classes.get(profile, cluster, pod)?;
        let totals = table.totals.as_ref().filter(|totals| totals.valid());
        let Some(totals) = totals.filter(|totals| as_kept || totals.hold_for(&table.raw, &self.fits)) else {
            let rows: Vec<NodeIdx> = self.fits.iter().collect();
            let totals = self.score(profile, cluster, pod, &rows)?;
            return Ok(Some(best_rotating(&rows, &totals, start, cluster.rows())));
        };
        // The best of all that kept filters left is also the best of some of them, if it is among these.
        let best = totals.best(start).filter(|row| self.fits.contains(*row));
        if best.is_some() && slots.iter().all(Option::is_none) {
            return Ok(best);
        }
        let sums = &mut self.scratch.totals;
        totals.copy_to(sums);
        self.scratch.column.resize(cluster.rows(), 0);
        let cx = Cycle::new(cluster, pod);
        for scorer in profile.scorers().iter().filter(|s| s.scope == Scope::Cluster) {
            let slot = &slots[scorer.plugin.at()];
            if slot.is_none() {
                continue;
            }
            let (erased, column) = (profile.plugin(scorer.plugin), &mut self.scratch.column);
            erased
                .score_batch(&cx, slot, &self.fits, column)
                .and_then(|()| match scorer.normalize {
                    Normalize::Custom => erased.normalize(&cx, slot, &self.fits, column),
                    _ => Ok(()),
                })
                .map_err(failed(erased.name(), ExtensionPoint::Score))?;
            let max = match scorer.normalize {
                Normalize::Proportional { .. } => self.fits.iter().map(|r| column[r.at()]).max().unwrap_or(0),
                Normalize::AsIs | Normalize::Custom => 0,
            };
            for row in &self.fits {
                let score = normalized(scorer.normalize, column[row.at()], max.max(0));
                if !(0..=100).contains(&score) {
                    return Err(AttemptError::InvalidScore { plugin: erased.name(), score });
                }
                sums[row.at()] += score * scorer.weight;
            }
        }
        Ok(best_of(&self.fits, sums, start))
    }

    /// PreScore of cluster-scoped plugins, by plugin; `None` for all others and for those that skip.
    fn pre_score_anew(
        &self,
        profile: &Profile,
        cx: &Cycle<'_>,
        candidates: &NodeSet,
    ) -> Result<Vec<Slot>, PointError> {
        let mut fresh: Vec<Slot> = Vec::new();
        fresh.resize_with(profile.plugins().len(), || None);
        for plugin in profile.at(ExtensionPoint::PreScore) {
            let erased = profile.plugin(*plugin);
            if erased.scope() == Scope::Cluster {
                erased
                    .pre_score(cx, candidates, &mut fresh[plugin.at()])
                    .map_err(failed(erased.name(), ExtensionPoint::PreScore))?;
            }
        }
        for scorer in profile.scorers().iter().filter(|s| s.scope == Scope::Cluster) {
            if !profile.enabled(scorer.plugin, ExtensionPoint::PreScore) {
                fresh[scorer.plugin.at()] = profile.plugin(scorer.plugin).default_score_slot();
            }
        }
        Ok(fresh)
    }

    /// The sum of the weighted scores of each candidate.
    pub(super) fn score(
        &mut self,
        profile: &Profile,
        cluster: &Cluster,
        pod: &PodInfo,
        candidates: &[NodeIdx],
    ) -> Result<Vec<i64>, AttemptError> {
        let mut totals = vec![0; candidates.len()];
        self.score_into(profile, cluster, pod, candidates, |at, _, _, _, weighted| totals[at] += weighted)?;
        if profile.scorers().is_empty() {
            totals.fill(1);
        }
        Ok(totals)
    }

    /// Calls `record(candidate, plugin, raw, normalised, weighted)` for every scorer and candidate.
    pub(super) fn score_into(
        &mut self,
        profile: &Profile,
        cluster: &Cluster,
        pod: &PodInfo,
        candidates: &[NodeIdx],
        mut record: impl FnMut(usize, &'static str, i64, i64, i64),
    ) -> Result<(), AttemptError> {
        let cx = Cycle::new(cluster, pod);
        let set: NodeSet = candidates.iter().copied().collect();
        let table = self.classes.get(profile, cluster, pod)?;
        if let Some(failure) = table.take_score_failure() {
            return Err(failure.into());
        }
        let fresh = self.pre_score_anew(profile, &cx, &set)?;
        let table = self.classes.get(profile, cluster, pod)?;
        let mut column = vec![0; cluster.rows()];
        for (at, scorer) in profile.scorers().iter().enumerate() {
            let erased = profile.plugin(scorer.plugin);
            if scorer.scope == Scope::Row {
                if table.raw.get(at).is_none_or(Vec::is_empty) {
                    continue;
                }
                // A candidate may be a row that a kept filter rejected (never so today), hence the copy by candidate.
                candidates.iter().for_each(|row| column[row.at()] = table.raw[at][row.at()]);
            } else {
                if fresh[scorer.plugin.at()].is_none() {
                    continue;
                }
                erased
                    .score_batch(&cx, &fresh[scorer.plugin.at()], &set, &mut column)
                    .map_err(failed(erased.name(), ExtensionPoint::Score))?;
            }
            let raw: Vec<i64> = candidates.iter().map(|row| column[row.at()]).collect();
            if scorer.normalize == Normalize::Custom {
                let slot = &fresh[scorer.plugin.at()];
                erased
                    .normalize(&cx, slot, &set, &mut column)
                    .map_err(failed(erased.name(), ExtensionPoint::Score))?;
            }
            let max = raw.iter().copied().max().unwrap_or(0).max(0);
            for (at, row) in candidates.iter().enumerate() {
                let score = normalized(scorer.normalize, column[row.at()], max);
                if !(0..=100).contains(&score) {
                    return Err(AttemptError::InvalidScore { plugin: erased.name(), score });
                }
                record(at, erased.name(), raw[at], score, score * scorer.weight);
            }
        }
        Ok(())
    }
}

/// The row with the largest sum, the first one at or after `start` (going round) if several have it.
fn best_of(rows: &NodeSet, sums: &[i64], start: usize) -> Option<NodeIdx> {
    let (mut before, mut after) = (None, None);
    for row in rows {
        let best = if row.at() < start { &mut before } else { &mut after };
        match best {
            Some((sum, _)) if *sum >= sums[row.at()] => {}
            _ => *best = Some((sums[row.at()], row)),
        }
    }
    match (before, after) {
        (Some((a, row)), Some((b, _))) if a > b => Some(row),
        (_, Some((_, row))) | (Some((_, row)), None) => Some(row),
        (None, None) => None,
    }
}
