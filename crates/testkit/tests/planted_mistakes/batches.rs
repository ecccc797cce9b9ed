//! Batch methods that disagree with their single-row methods.

use harbormaster_framework::prelude::*;
use harbormaster_testkit::{Trial, adding_and_removing_is_neutral, batch_equals_single, cluster, node, pod};

use super::Planted;

#[derive(Clone, Copy, PartialEq)]
enum Wrong {
    Nothing,
    ForgetsToReject,
    ForgetsAScore,
    GoesByItsFirstRow,
    GivesAnotherReason,
    GivesAnotherFix,
    ScoresByTheirNumber,
    KeepsPodsThatLeft,
}

/// Rejects nodes named "bad", and rejects all nodes after a pod was added in a what-if question.
struct Batches(Wrong);

impl Plugin for Batches {
    const NAME: &'static str = "Batches";
    implemented_points!();
}

impl PreFilter<WholeCluster, usize> for Batches {
    fn pre_filter(&self, _: &Cycle<'_>) -> Result<PreFiltered<usize>, Stop> {
        Ok(PreFiltered::state(0))
    }
    fn add_pod(&self, _: &Cycle<'_>, state: &mut usize, _: &PodInfo, _: NodeRef<'_>) -> PluginResult<()> {
        *state += 1;
        Ok(())
    }
    fn remove_pod(&self, _: &Cycle<'_>, state: &mut usize, _: &PodInfo, _: NodeRef<'_>) -> PluginResult<()> {
        *state -= usize::from(self.0 != Wrong::KeepsPodsThatLeft);
        Ok(())
    }
}

impl Filter<WholeCluster, usize> for Batches {
    fn filter(&self, _: &Cycle<'_>, joined: &usize, node: NodeRef<'_>) -> Verdict {
        let fits = *joined == 0 && node.name() != "bad";
        if fits { Ok(()) } else { Err(Reject::evictable("bad").into()) }
    }
    fn filter_batch(&self, cx: &Cycle<'_>, joined: &usize, sweep: &mut Sweep<'_>) -> PluginResult<()> {
        let begins = sweep.rows().contains(NodeIdx(0)) || self.0 != Wrong::GoesByItsFirstRow;
        for row in sweep.rows().iter().filter(|_| begins && self.0 != Wrong::ForgetsToReject) {
            if let Err(Stop::Reject(reject)) = self.filter(cx, joined, cx.nodes.node(row)) {
                sweep.reject(
                    row,
                    match self.0 {
                        Wrong::GivesAnotherReason => Reject::evictable("worse"),
                        Wrong::GivesAnotherFix => Reject::unresolvable("bad"),
                        _ => reject,
                    },
                );
            }
        }
        Ok(())
    }
}

impl Score for Batches {
    fn score(&self, _: &Cycle<'_>, (): &(), _: NodeRef<'_>) -> PluginResult<i64> {
        Ok(3)
    }
    fn score_batch(&self, _: &Cycle<'_>, (): &(), scores: &mut Scores<'_>) -> PluginResult<()> {
        let rows = scores.rows().len() as i64;
        let forgotten = usize::from(self.0 == Wrong::ForgetsAScore);
        for (_, score) in scores.iter_mut().skip(forgotten) {
            *score = if self.0 == Wrong::ScoresByTheirNumber { rows } else { 3 };
        }
        Ok(())
    }
}

fn check(wrong: Wrong) {
    let trial = Trial::of(Batches(wrong));
    let mut nodes = cluster([node("good"), node("bad"), node("fine")], []);
    let (pod, other) = (pod("p").info(), pod("other").info());
    batch_equals_single(&trial, &nodes, &pod);
    adding_and_removing_is_neutral(&trial, &mut nodes, &pod, &other);
}

pub(super) fn right() {
    check(Wrong::Nothing);
}

pub(super) const MISTAKES: &[Planted] = &[
    Planted {
        wrong: "filter_batch rejects nothing",
        said: "Batches: filter_batch for PodInfo(default/p) on bad",
        check: || check(Wrong::ForgetsToReject),
    },
    Planted {
        wrong: "score_batch leaves a row without a score",
        said: "Batches: score_batch for PodInfo(default/p) on good",
        check: || check(Wrong::ForgetsAScore),
    },
    Planted {
        wrong: "filter_batch assumes that it is called for the first row",
        said: "Batches: filter_batch for PodInfo(default/p) on bad, asked in 3 parts",
        check: || check(Wrong::GoesByItsFirstRow),
    },
    Planted {
        wrong: "filter_batch gives a different reason than filter",
        said: "Batches: filter_batch for PodInfo(default/p) on bad",
        check: || check(Wrong::GivesAnotherReason),
    },
    Planted {
        wrong: "filter_batch rejects as unresolvable what filter rejects as evictable",
        said: "Batches: filter_batch for PodInfo(default/p) on bad",
        check: || check(Wrong::GivesAnotherFix),
    },
    Planted {
        wrong: "score_batch depends on the number of rows that it is called for",
        said: "Batches: score_batch for PodInfo(default/p) on",
        check: || check(Wrong::ScoresByTheirNumber),
    },
    Planted {
        wrong: "remove_pod does not undo add_pod",
        said: "Batches: PodInfo(default/p) after PodInfo(default/other) came and went",
        check: || check(Wrong::KeepsPodsThatLeft),
    },
];
