//! PreScore and Score.

use harbormaster_framework::prelude::*;

use super::{
    InterPodAffinity,
    sums::{Axis, Sums, rows},
    terms,
};
use crate::pod_index::PodIndex;

const MAX_SCORE: f64 = 100.0;

impl PreScore<WholeCluster, (), Sums> for InterPodAffinity {
    fn pre_score(&self, cx: &Cycle<'_>, (): &(), _: &NodeSet) -> PluginResult<PreScored<Sums>> {
        let spec = &cx.pod.spec;
        if self.args.ignore_preferred_terms_of_existing_pods && !terms::prefers(spec) {
            return Ok(PreScored::Skip);
        }
        terms::check(spec).map_err(|error| format!("failed to parse pod: {error}"))?;
        let sums = self.sums(cx, self.index(cx)?)?;
        Ok(if sums.is_empty() { PreScored::Skip } else { PreScored::Continue(sums) })
    }
}

impl InterPodAffinity {
    fn sums(&self, cx: &Cycle<'_>, index: &PodIndex) -> PluginResult<Sums> {
        let mut sums = Sums::default();
        for (weight, term) in self.preferred(cx.pod) {
            sums.add(index, &term.key, rows(index, &term.pods)?, weight)?;
        }
        let for_required = i64::from(self.args.hard_pod_affinity_weight);
        for term in index.terms_about(cx.objects, cx.pod) {
            if for_required > 0 {
                sums.add(index, term.key(), &term.affinity, for_required)?;
            }
            sums.add(index, term.key(), &term.preferred, 1)?;
        }
        Ok(sums)
    }
}

impl Score<WholeCluster, Sums> for InterPodAffinity {
    const NORMALIZE: Normalize = Normalize::Custom;

    fn score(&self, cx: &Cycle<'_>, state: &Sums, node: NodeRef<'_>) -> PluginResult<i64> {
        let axes = state.axes(self.index(cx)?)?;
        Ok(total(&axes, node.idx()))
    }

    fn score_batch(&self, cx: &Cycle<'_>, state: &Sums, scores: &mut Scores<'_>) -> PluginResult<()> {
        let axes = state.axes(self.index(cx)?)?;
        for (row, score) in scores.iter_mut() {
            *score = total(&axes, row);
        }
        Ok(())
    }

    fn normalize(
        &self,
        _: &Cycle<'_>,
        _: &Sums,
        candidates: &NodeSet,
        scores: &mut [i64],
    ) -> PluginResult<()> {
        let (mut min, mut max) = (i64::MAX, i64::MIN);
        for row in candidates {
            min = min.min(scores[row.at()]);
            max = max.max(scores[row.at()]);
        }
        for row in candidates {
            let score = &mut scores[row.at()];
            *score = if max > min { share(*score - min, max - min) } else { 0 };
        }
        Ok(())
    }
}

fn total(axes: &[Axis<'_>], row: NodeIdx) -> i64 {
    axes.iter().filter_map(|axis| axis.at(row)).sum()
}

/// Scales `part` to a score, where `whole` scores 100. A different order of operations would round differently.
fn share(part: i64, whole: i64) -> i64 {
    (MAX_SCORE * (part as f64 / whole as f64)) as i64
}
