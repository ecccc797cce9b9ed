//! A row-scoped plugin that depends on more than the row.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use harbormaster_framework::prelude::*;
use harbormaster_testkit::{Trial, random::Dice, row_scope_holds};

use super::Planted;

#[derive(Clone, Copy, PartialEq)]
enum Wrong {
    Nothing,
    CountsPodsOfAllNodes,
    ComparesLabelsOfAllNodes,
    MeasuresByTheLargestNode,
    CountsTaintedNodes,
    CountsItsCalls,
    RemembersTheLastPod,
}

/// Rejects nodes with more than two pods; if the pod is important, rejects only nodes with more than three.
struct Quiet {
    wrong: Wrong,
    asked: AtomicI64,
    last: AtomicI64,
}

impl Plugin for Quiet {
    const NAME: &'static str = "Quiet";
    implemented_points!();
}

impl Filter<Row> for Quiet {
    fn filter(&self, cx: &RowCycle<'_>, (): &(), node: NodeRef<'_>) -> Verdict {
        let label = |node: NodeRef<'_>| node.labels().and_then(|labels| labels.get("a")).cloned();
        let last = self.last.swap(i64::from(cx.pod.priority()), Relaxed);
        let full = match self.wrong {
            Wrong::CountsPodsOfAllNodes => cx.nodes.columns().used_pods.iter().sum::<i64>() > 8,
            Wrong::ComparesLabelsOfAllNodes => {
                cx.nodes.nodes().filter(|other| label(*other) == label(node)).count() > 1
            }
            Wrong::CountsTaintedNodes => cx.nodes.columns().tainted.len() > 2,
            Wrong::CountsItsCalls => self.asked.fetch_add(1, Relaxed) > 9,
            Wrong::RemembersTheLastPod => last > 0,
            _ => node.pods().len() > 2 + usize::from(cx.pod.priority() > 100),
        };
        if full { Err(Reject::evictable("node(s) are loud").into()) } else { Ok(()) }
    }
}

impl Score<Row> for Quiet {
    fn score(&self, cx: &RowCycle<'_>, (): &(), node: NodeRef<'_>) -> PluginResult<i64> {
        let largest = match self.wrong {
            Wrong::MeasuresByTheLargestNode => cx.nodes.columns().memory.iter().copied().max().unwrap_or(1),
            _ => 64 << 30,
        };
        Ok((100 * node.allocatable().memory / largest.max(1)).clamp(0, 100))
    }
}

fn check(wrong: Wrong) {
    let trial = Trial::of(Quiet { wrong, asked: AtomicI64::new(0), last: AtomicI64::new(0) });
    for seed in 0..4 {
        let mut dice = Dice::new(seed);
        let mut nodes = dice.cluster(4);
        let (pod, elsewhere) = (dice.pod("p").info(), dice.pod("elsewhere").info());
        row_scope_holds(&trial, &mut nodes, &pod, &elsewhere);
    }
}

pub(super) fn right() {
    check(Wrong::Nothing);
}

pub(super) const MISTAKES: &[Planted] = &[
    Planted {
        wrong: "counts the pods of all nodes",
        said: "Quiet: depends on other rows: PodInfo(",
        check: || check(Wrong::CountsPodsOfAllNodes),
    },
    Planted {
        wrong: "rejects a node because another node has the same label",
        said: "Quiet: depends on other rows: metadata.labels of n",
        check: || check(Wrong::ComparesLabelsOfAllNodes),
    },
    Planted {
        wrong: "scores nodes relative to the largest node",
        said: "Quiet: depends on other rows: status.allocatable of n",
        check: || check(Wrong::MeasuresByTheLargestNode),
    },
    Planted {
        wrong: "rejects nodes when many are tainted",
        said: "Quiet: depends on other rows: spec.taints of n",
        check: || check(Wrong::CountsTaintedNodes),
    },
    Planted {
        wrong: "counts its calls",
        said: "Quiet: answers differently for PodInfo(",
        check: || check(Wrong::CountsItsCalls),
    },
    Planted {
        wrong: "remembers the previous pod",
        said: "Quiet: answers differently for PodInfo(",
        check: || check(Wrong::RemembersTheLastPod),
    },
];
