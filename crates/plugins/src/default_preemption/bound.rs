//! Lower bounds on the cost of making room on a node, computed without a dry run.
//!
//! The search uses the bounds to try the most promising nodes first, and to stop when no other node can be better. A
//! bound never exceeds the cost of the actual victims, as long as the members of a group have the group's priority: the
//! further pods of a group that is evicted as a whole only add to the cost.

use std::{cmp::Reverse, sync::Arc};

use harbormaster_api::Timestamp;
use harbormaster_framework::prelude::*;

use super::{EvictionTerms, choice::Cost, importance::start_time, unit::Population};
use crate::node_resources::shortage::Shortage;

/// Computes lower bounds. Reuses its buffers from node to node.
#[derive(Debug, Default)]
pub(super) struct Bounds {
    shortages: Vec<Shortage>,
    /// Pods that may be preempted, least important first.
    pods: Vec<Preemptible>,
    /// For each pod, the amount of one resource that its eviction would free.
    freed: Vec<i64>,
}

/// A pod that may be preempted. Ordered by priority, lowest first, then by start time, latest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Preemptible {
    priority: i32,
    start_time: Reverse<Timestamp>,
    /// Position among the node's pods.
    at: usize,
}

impl Bounds {
    /// Returns a lower bound on the cost of making room for `pod` on the row, or `None` if evictions cannot make room
    /// there.
    pub(super) fn lower_bound(
        &mut self,
        what_if: &dyn WhatIf,
        row: NodeIdx,
        pod: &PodInfo,
        terms: &impl EvictionTerms,
    ) -> Option<Cost> {
        let there = what_if.nodes().node(row).pods();
        let may_go = |other: &PodInfo| what_if.priority_of(other) < terms.ceiling() && !terms.spares(other);
        self.pods.clear();
        self.pods.extend(there.iter().enumerate().filter(|(_, other)| may_go(other)).map(|(at, other)| {
            Preemptible { priority: other.priority(), start_time: Reverse(start_time(other)), at }
        }));
        self.pods.sort_unstable();
        Shortage::gather(&mut self.shortages, what_if, row, pod);
        // Number of pods to evict, starting with the least important, to cover all shortages.
        let mut needed = 1;
        for shortage in &self.shortages {
            let freed = self.pods.iter().map(|other| shortage.freed_by(&there[other.at]));
            needed = needed.max(count_to(shortage.amount, freed)?);
        }
        let highest_priority = self.pods.get(needed - 1)?.priority;
        // Pods above this priority need not be considered: evicting one of them would cost more anyway.
        let less_important = self.pods.partition_point(|other| other.priority < highest_priority);
        let end = self.pods.partition_point(|other| other.priority <= highest_priority);
        let victims = self.fewest(end, there);
        // At least this many victims have the highest priority.
        let highest = victims.saturating_sub(less_important).max(1);
        let others = self.pods[..victims - 1].iter().map(|other| Cost::of_priority(other.priority));
        Some(Cost {
            violations: 0,
            highest_priority,
            sum_of_priorities: others.sum::<i64>() + Cost::of_priority(highest_priority),
            victims,
            start_time: self.pods[less_important + highest - 1].start_time,
        })
    }

    /// Returns a lower bound on the number of pods among the first `end` that must be evicted to cover all shortages.
    /// Considers each shortage on its own.
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

/// Returns how many leading amounts are needed to reach `wanted`, or `None` if all amounts together are less.
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
