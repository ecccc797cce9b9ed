//! The least that room on a node can cost, known before anything is tried.
//!
//! A search that knows it tries the most promising nodes first, and ends when no other node can be better than what it
//! has found. What is told here is never more than what the victims on the node really cost.

use std::{cmp::Reverse, sync::Arc};

use harbormaster_api::Timestamp;
use harbormaster_framework::prelude::*;

use super::{choice::Cost, importance::started};
use crate::node_resources::shortage::Shortage;

/// Works out the least costs, node by node.
#[derive(Debug, Default)]
pub(super) struct Bounds {
    shortages: Vec<Shortage>,
    /// Pods that may be preempted, least important first.
    pods: Vec<Preemptible>,
    /// Amounts of one resource that each of these pods frees.
    freed: Vec<i64>,
}

/// In the order in which pods go: lowest priority first, of equal ones the latest start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Preemptible {
    priority: i32,
    started: Reverse<Timestamp>,
    /// Where it stands among the node's pods.
    at: usize,
}

impl Bounds {
    /// The least that victims for `pod` on that row can cost; `None` if the row cannot be freed for it.
    pub(super) fn least(&mut self, what_if: &dyn WhatIf, row: NodeIdx, pod: &PodInfo) -> Option<Cost> {
        let there = what_if.nodes().node(row).pods();
        self.pods.clear();
        self.pods.extend(
            there.iter().enumerate().filter(|(_, other)| other.priority() < pod.priority()).map(
                |(at, other)| Preemptible {
                    priority: other.priority(),
                    started: Reverse(started(other)),
                    at,
                },
            ),
        );
        self.pods.sort_unstable();
        Shortage::gather(&mut self.shortages, what_if, row, pod);
        // How many of the least important pods would have to go if they went in that order.
        let mut needed = 1;
        for shortage in &self.shortages {
            let freed = self.pods.iter().map(|other| shortage.freed_by(&there[other.at]));
            needed = needed.max(count_to(shortage.amount, freed)?);
        }
        let highest_priority = self.pods.get(needed - 1)?.priority;
        // If a more important pod goes the cost is higher anyway.
        let less_important = self.pods.partition_point(|other| other.priority < highest_priority);
        let end = self.pods.partition_point(|other| other.priority <= highest_priority);
        let victims = self.fewest(end, there);
        // At least so many of them are of the highest priority.
        let highest = victims.saturating_sub(less_important).max(1);
        let others = self.pods[..victims - 1].iter().map(|other| Cost::of_priority(other.priority));
        Some(Cost {
            violations: 0,
            highest_priority,
            sum_of_priorities: others.sum::<i64>() + Cost::of_priority(highest_priority),
            victims,
            started: self.pods[less_important + highest - 1].started,
        })
    }

    /// Least number of the first `end` pods that must go, whichever those are.
    fn fewest(&mut self, end: usize, there: &[Arc<PodInfo>]) -> usize {
        let mut fewest = 1;
        for shortage in &self.shortages {
            self.freed.clear();
            self.freed.extend(self.pods[..end].iter().map(|other| shortage.freed_by(&there[other.at])));
            self.freed.sort_unstable_by_key(|freed| Reverse(*freed));
            fewest = fewest.max(count_to(shortage.amount, self.freed.iter().copied()).unwrap_or(end));
        }
        fewest
    }
}

/// Number of these amounts that make `wanted`, taken in order; `None` if all do not.
fn count_to(wanted: i64, amounts: impl Iterator<Item = i64>) -> Option<usize> {
    let mut left = wanted;
    for (at, amount) in amounts.enumerate() {
        left = left.saturating_sub(amount);
        if left <= 0 {
            return Some(at + 1);
        }
    }
    None
}
