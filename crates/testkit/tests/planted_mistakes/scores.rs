//! Scores outside their bounds.

use harbormaster_framework::prelude::*;
use harbormaster_testkit::{Trial, cluster, node, pod, scores_are_valid};

use super::Planted;

const AS_IS: u8 = 0;
const TOO_MUCH: u8 = 1;
const TOO_LITTLE: u8 = 2;
const NEGATIVE_SHARE: u8 = 3;
const CUSTOM: u8 = 4;
const FORGETS_TO_NORMALIZE: u8 = 5;
const NORMALIZES_ALL_ROWS: u8 = 6;
const DIVIDES_BY_ZERO: u8 = 7;
const COMPARES_ROWS: u8 = 8;

/// Scores nodes by their number of cores.
struct Cores<const WRONG: u8>;

impl<const WRONG: u8> Plugin for Cores<WRONG> {
    const NAME: &'static str = "Cores";
    implemented_points!();
}

impl<const WRONG: u8> Score for Cores<WRONG> {
    const NORMALIZE: Normalize = match WRONG {
        AS_IS | TOO_MUCH | TOO_LITTLE => Normalize::AsIs,
        NEGATIVE_SHARE => Normalize::Proportional { reverse: false },
        _ => Normalize::Custom,
    };

    fn score(&self, _: &Cycle<'_>, (): &(), node: NodeRef<'_>) -> PluginResult<i64> {
        let cores = node.allocatable().milli_cpu / 1000;
        Ok(match WRONG {
            AS_IS => cores.min(100),
            TOO_MUCH => 20 * cores,
            TOO_LITTLE => cores - 4,
            NEGATIVE_SHARE => cores - 4,
            _ => 1000 * cores,
        })
    }

    fn normalize(
        &self,
        _: &Cycle<'_>,
        (): &(),
        candidates: &NodeSet,
        scores: &mut [i64],
    ) -> PluginResult<()> {
        let most = candidates.iter().map(|row| scores[row.at()]).max().unwrap_or(0);
        let least = candidates.iter().map(|row| scores[row.at()]).min().unwrap_or(0);
        let share = |score: i64| match WRONG {
            DIVIDES_BY_ZERO => 100 * (score - least) / (most - least),
            _ => 100 * (score - least) / (most - least).max(1),
        };
        match WRONG {
            FORGETS_TO_NORMALIZE => {}
            NORMALIZES_ALL_ROWS => {
                scores.iter_mut().for_each(|score| *score = share((*score).clamp(least, most)));
            }
            _ => candidates.iter().for_each(|row| scores[row.at()] = share(scores[row.at()])),
        }
        Ok(())
    }
}

/// Compares candidates although its scores are cached by row.
struct Comparing;

impl Plugin for Comparing {
    const NAME: &'static str = "Comparing";
    implemented_points!();
}

impl Score<Row> for Comparing {
    const NORMALIZE: Normalize = Normalize::Custom;
    fn score(&self, _: &RowCycle<'_>, (): &(), _: NodeRef<'_>) -> PluginResult<i64> {
        Ok(0)
    }
}

fn check<const WRONG: u8>() {
    let trial = if WRONG == COMPARES_ROWS { Trial::of(Comparing) } else { Trial::of(Cores::<WRONG>) };
    let cores = [("none", "0"), ("few", "2"), ("many", "9"), ("as-many", "9")];
    let nodes = cluster(cores.map(|(name, cores)| node(name).allocatable(cores, "1Gi", 10)), []);
    scores_are_valid(&trial, &nodes, &pod("p").info());
    trial.scores(&nodes, &pod("p").info()).unwrap_or_else(|e| panic!("{e}"));
}

pub(super) fn right() {
    check::<AS_IS>();
    check::<CUSTOM>();
}

pub(super) const MISTAKES: &[Planted] = &[
    Planted {
        wrong: "returns scores above 100 without normalizing them",
        said: "plugin \"Cores\" returns an invalid score 180, it should in the range of [0, 100]",
        check: check::<TOO_MUCH>,
    },
    Planted {
        wrong: "returns scores below 0 without normalizing them",
        said: "plugin \"Cores\" returns an invalid score -4, it should in the range of [0, 100]",
        check: check::<TOO_LITTLE>,
    },
    Planted {
        wrong: "returns scores below 0 and normalizes them proportionally",
        said: "Cores: raw score -4 of none for PodInfo(default/p) is negative",
        check: check::<NEGATIVE_SHARE>,
    },
    Planted {
        wrong: "has a custom normalize that leaves scores unchanged",
        said: "plugin \"Cores\" returns an invalid score 2000, it should in the range of [0, 100]",
        check: check::<FORGETS_TO_NORMALIZE>,
    },
    Planted {
        wrong: "normalize touches rows that are not candidates",
        said: "Cores: normalizes row 1 for PodInfo(default/p), which is not a candidate",
        check: check::<NORMALIZES_ALL_ROWS>,
    },
    Planted {
        wrong: "normalize divides by zero if all scores are equal",
        said: "attempt to divide by zero",
        check: check::<DIVIDES_BY_ZERO>,
    },
    Planted {
        wrong: "normalizes scores itself although it is row-scoped",
        said: "plugin \"Comparing\" is row-scoped but uses Normalize::Custom",
        check: check::<COMPARES_ROWS>,
    },
];
