//! Scoring of the nodes that fit, and the choice of the best one.

use harbormaster_api::points::ExtensionPoint;

use super::{AttemptError, Runner, draft::Draft, walk::best_rotating};
use crate::{
    cluster::Cluster,
    cycle::Cycle,
    guard::PointError,
    meter::{Stage, Staged},
    nodeset::{NodeIdx, NodeSet},
    normalize::normalize,
    plugin::Scope,
    points::Slot,
    profile::{Profile, Scorer},
    scores::Scores,
    table::StrippedRow,
};

/// Buffers that are reused by the next attempt.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    totals: Vec<i64>,
    column: Vec<i64>,
}

impl Runner {
    /// Returns the best of all rows that fit; if several are equally good, the first one at or after `start`.
    /// While the cached sums of the row-scoped scorers hold for these rows, only cluster-scoped scorers are called.
    pub(super) fn best(
        &mut self,
        cluster: &Cluster,
        draft: &Draft,
        start: usize,
    ) -> Result<Option<NodeIdx>, AttemptError> {
        let mut some = draft.fits.iter();
        let (Some(first), second) = (some.next(), some.next()) else { return Ok(None) };
        if second.is_none() {
            return Ok(Some(first));
        }
        // Row-scoped plugins have already been called, so an error from one of them takes precedence.
        if let Some(failure) = self.cache.take_score_failure(draft.slate) {
            return Err(failure.into());
        }
        let (profile, cx) = (&*draft.profile, Cycle::new(cluster, &draft.pod));
        let slots = pre_score_cluster_scoped(profile, &cx, &draft.states, &draft.fits)?;
        self.staged(Stage::Score, |runner| runner.best_pre_scored(cluster, draft, &slots, start))
    }

    /// Same as [`Self::best`], but for at least two rows and after PreScore, which filled `slots` for the
    /// cluster-scoped scorers.
    fn best_pre_scored(
        &mut self,
        cluster: &Cluster,
        draft: &Draft,
        slots: &[Slot],
        start: usize,
    ) -> Result<Option<NodeIdx>, AttemptError> {
        let (profile, cx) = (&*draft.profile, Cycle::new(cluster, &draft.pod));
        let totals = self.cache.totals(draft.slate);
        let Some(totals) = totals.filter(|totals| draft.fits_as_cached || totals.hold_for(&draft.fits))
        else {
            let rows: Vec<NodeIdx> = draft.fits.iter().collect();
            let totals = self.score(cluster, draft, &rows)?;
            return Ok(Some(best_rotating(&rows, &totals, start, cluster.rows())));
        };
        // The best row that cached filters accept is also the best of any subset that contains it.
        let best = totals.best(start).filter(|row| draft.fits.contains(*row));
        if best.is_some() && slots.iter().all(Option::is_none) {
            return Ok(best);
        }
        let Scratch { totals: sums, column } = &mut self.scratch;
        totals.copy_to(sums);
        column.resize(cluster.rows(), 0);
        for (scorer, slot) in active_cluster_scorers(profile, slots) {
            let plugin = profile.plugin(scorer.plugin);
            plugin.score_batch(&cx, slot, &mut Scores::new(&draft.fits, NodeIdx(0), column))?;
            normalize(plugin, &cx, slot, &draft.fits, column)?;
            for rows in draft.fits.runs() {
                for (sum, score) in sums[rows.clone()].iter_mut().zip(&column[rows]) {
                    *sum += scorer.weight * valid(plugin.name(), *score)?;
                }
            }
        }
        Ok(best_of(&draft.fits, sums, start))
    }

    /// Returns the sum of the weighted scores of each candidate.
    pub(super) fn score(
        &mut self,
        cluster: &Cluster,
        draft: &Draft,
        candidates: &[NodeIdx],
    ) -> Result<Vec<i64>, AttemptError> {
        self.sum_up(cluster, draft, candidates, CachedScores::Use)
    }

    /// Returns the total scores that the candidates would have if they had no pods and no images. Indexes still contain
    /// the pods.
    pub(super) fn score_stripped(
        &mut self,
        cluster: &mut Cluster,
        draft: &Draft,
        candidates: &[NodeIdx],
    ) -> Result<Vec<i64>, AttemptError> {
        let nodes = cluster.what_if();
        let stripped: Vec<StrippedRow> = candidates.iter().map(|row| nodes.strip(*row)).collect();
        let totals = self.sum_up(cluster, draft, candidates, CachedScores::Ignore);
        let nodes = cluster.what_if();
        stripped.into_iter().for_each(|row| nodes.restore(row));
        totals
    }

    fn sum_up(
        &mut self,
        cluster: &Cluster,
        draft: &Draft,
        candidates: &[NodeIdx],
        cached: CachedScores,
    ) -> Result<Vec<i64>, AttemptError> {
        let mut totals = vec![0; candidates.len()];
        self.score_into(cluster, draft, candidates, cached, |at, score| totals[at] += score.weighted)?;
        if draft.profile.scorers().is_empty() {
            totals.fill(1);
        }
        Ok(totals)
    }

    /// Calls `record(position, score)` for every candidate and every scorer that does not skip. `position` is that of
    /// the candidate in `candidates`.
    pub(super) fn score_into(
        &mut self,
        cluster: &Cluster,
        draft: &Draft,
        candidates: &[NodeIdx],
        cached: CachedScores,
        mut record: impl FnMut(usize, CandidateScore),
    ) -> Result<(), AttemptError> {
        if let Some(failure) = self.cache.take_score_failure(draft.slate) {
            return Err(failure.into());
        }
        let (profile, cx) = (&*draft.profile, Cycle::new(cluster, &draft.pod));
        let set: NodeSet = candidates.iter().copied().collect();
        let slots = pre_score_cluster_scoped(profile, &cx, &draft.states, &set)?;
        let mut column = vec![0; cluster.rows()];
        self.staged(Stage::Score, |runner| {
            for scorer in profile.scorers() {
                let (plugin, slot) = (profile.plugin(scorer.plugin), &slots[scorer.plugin.at()]);
                if !runner.raw_scores(&cx, draft, scorer, slot, &set, cached, &mut column)? {
                    continue;
                }
                let raw: Vec<i64> = candidates.iter().map(|row| column[row.at()]).collect();
                normalize(plugin, &cx, slot, &set, &mut column)?;
                for (at, row) in candidates.iter().enumerate() {
                    let normalized = valid(plugin.name(), column[row.at()])?;
                    let weighted = normalized * scorer.weight;
                    record(at, CandidateScore { plugin: plugin.name(), raw: raw[at], normalized, weighted });
                }
            }
            Ok(())
        })
    }

    /// Writes a scorer's raw scores for the candidates to `column`. Returns false if there are none because the scorer
    /// skipped.
    #[expect(clippy::too_many_arguments, reason = "every argument belongs to one call of one plugin")]
    fn raw_scores(
        &mut self,
        cx: &Cycle<'_>,
        draft: &Draft,
        scorer: &Scorer,
        slot: &Slot,
        candidates: &NodeSet,
        cached: CachedScores,
        column: &mut [i64],
    ) -> Result<bool, AttemptError> {
        let profile = &*draft.profile;
        let Some(of_slate) = self.cache.column_mut(draft.slate, scorer.plugin) else {
            if slot.is_some() {
                let scores = &mut Scores::new(candidates, NodeIdx(0), column);
                profile.plugin(scorer.plugin).score_batch(cx, slot, scores)?;
            }
            return Ok(slot.is_some());
        };
        let source = profile.column_source(scorer.plugin, cx);
        let mut fresh;
        let of_rows = match cached {
            CachedScores::Use => of_slate,
            CachedScores::Ignore => {
                fresh = of_slate.start_anew(source)?;
                &mut fresh
            }
        };
        of_rows.score(source, candidates)?;
        let raw = of_rows.raw();
        if !raw.is_empty() {
            candidates.iter().for_each(|row| column[row.at()] = raw[row.at()]);
        }
        Ok(!raw.is_empty())
    }
}

/// Treatment of cached scores.
#[derive(Clone, Copy)]
pub(super) enum CachedScores {
    /// Use cached scores where they exist.
    Use,
    /// Compute all scores, because the rows were changed temporarily.
    Ignore,
}

/// One plugin's score of one candidate.
pub(super) struct CandidateScore {
    pub(super) plugin: &'static str,
    pub(super) raw: i64,
    pub(super) normalized: i64,
    pub(super) weighted: i64,
}

/// Returns the normalized score if it is valid.
///
/// # Errors
/// When the score is outside 0..=100.
pub fn valid(plugin: &'static str, score: i64) -> Result<i64, AttemptError> {
    match score {
        0..=100 => Ok(score),
        _ => Err(AttemptError::InvalidScore { plugin, score }),
    }
}

/// The cluster-scoped scorers that did not skip, with their states.
fn active_cluster_scorers<'a>(
    profile: &'a Profile,
    slots: &'a [Slot],
) -> impl Iterator<Item = (&'a Scorer, &'a Slot)> + 'a {
    let scorers = profile.scorers().iter().filter(|scorer| scorer.scope == Scope::Cluster);
    scorers.map(|scorer| (scorer, &slots[scorer.plugin.at()])).filter(|(_, slot)| slot.is_some())
}

/// Runs PreScore of the cluster-scoped plugins. Returns the state of each plugin; `None` for plugins that skip and for
/// row-scoped plugins.
fn pre_score_cluster_scoped(
    profile: &Profile,
    cx: &Cycle<'_>,
    filtered: &[Slot],
    candidates: &NodeSet,
) -> Result<Vec<Slot>, PointError> {
    let mut fresh: Vec<Slot> = vec![None; profile.plugins().len()];
    for plugin in profile.at(ExtensionPoint::PreScore) {
        let erased = profile.plugin(*plugin);
        if erased.scope() == Scope::Cluster {
            erased.pre_score(cx, &filtered[plugin.at()], candidates, &mut fresh[plugin.at()])?;
            if fresh[plugin.at()].is_some() {
                erased.evaluated(Stage::PreScore, || 1);
            }
        }
    }
    for scorer in profile.scorers().iter().filter(|s| s.scope == Scope::Cluster) {
        let plugin = profile.plugin(scorer.plugin);
        if !profile.enabled(scorer.plugin, ExtensionPoint::PreScore) && plugin.scores_pod(cx)? {
            fresh[scorer.plugin.at()] = plugin.default_score_slot();
        }
    }
    Ok(fresh)
}

/// Returns the row with the largest sum; if several rows have it, the first one at or after `start` (wrapping around).
fn best_of(rows: &NodeSet, sums: &[i64], start: usize) -> Option<NodeIdx> {
    let best = *rows.runs().filter_map(|run| sums[run].iter().max()).max()?;
    let first_from = |start: usize| {
        rows.runs().find_map(|run| {
            let from = run.start.max(start);
            let at = sums.get(from..run.end)?.iter().position(|sum| *sum == best)?;
            Some(NodeIdx((from + at) as u32))
        })
    };
    first_from(start).or_else(|| first_from(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_best_row_from_the_start_on_wins() {
        let sums = [9, 5, 7, 7, 1, 7, 0, 8];
        for (rows, start, best) in [
            (&[1, 2, 3, 4, 5, 6][..], 0, Some(2)),
            (&[1, 2, 3, 4, 5, 6], 3, Some(3)),
            (&[1, 2, 4, 5, 6], 3, Some(5)),
            (&[1, 2, 3, 4, 5, 6], 6, Some(2)),
            (&[1, 4], 200, Some(1)),
            (&[0, 7], 1, Some(0)),
            (&[4], 0, Some(4)),
            (&[], 3, None),
        ] {
            let set: NodeSet = rows.iter().copied().map(NodeIdx).collect();
            assert_eq!(best_of(&set, &sums, start), best.map(NodeIdx), "{rows:?} from {start}");
        }
    }
}
