//! Search for nodes where evictions help.

use std::{
    borrow::Cow,
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
};

use harbormaster_api::args::DefaultPreemptionArgs;
use harbormaster_framework::{diagnosis::Diagnosis, prelude::*};

use super::{
    EvictionTerms, Rules,
    bound::Bounds,
    choice::Cost,
    quota::{Quota, wanted},
    unit::{Population, Unit},
    victims::{Evictions, Preemptible, Victims},
};

const REASON_NO_VICTIMS: &str = "No preemption victims found for incoming pod";
const REASON_NOT_HELPFUL: &str = "Preemption is not helpful for scheduling";

/// Minimum number of nodes to try before the search may stop although an untried node may be better. Even then, the
/// search stops only if it has a candidate that violates no budget.
const MAX_TRIED: usize = 1000;

/// Result of a search.
#[derive(Default)]
pub(super) struct Search {
    /// Candidates. Among candidates of equal cost, the preferred one comes first.
    pub(super) candidates: Vec<EvictionPlan>,
    preemptible: Preemptible,
    /// Rows with pods whose groups have other priorities.
    reprioritized: NodeSet,
    /// Number of nodes without a pod that may be preempted.
    without_victims: usize,
    /// Number of nodes that were rejected even without their preemptible pods.
    rejected: usize,
    reasons: BTreeMap<Cow<'static, str>, usize>,
    errors: Vec<String>,
}

impl Search {
    pub(super) fn new(rules: Rules) -> Self {
        Self { preemptible: Preemptible::new(rules), ..Self::default() }
    }

    /// Tries the nodes where evictions might make room.
    pub(super) fn run(
        &mut self,
        args: &DefaultPreemptionArgs,
        pod: &PodInfo,
        what_if: &mut dyn WhatIf,
        terms: &mut impl EvictionTerms,
    ) {
        let mut rows = what_if.evictable_rows();
        if rows.is_empty() {
            return;
        }
        let first = what_if.offset() % rows.len();
        rows.rotate_left(first);
        self.reprioritized = what_if.reprioritized_rows();
        if what_if.stops_early() || *args != DefaultPreemptionArgs::default() {
            self.until_enough(Quota::new(wanted(args, rows.len())), &rows, what_if, terms);
        } else {
            self.best_first(wanted(args, rows.len()), &rows, (pod, terms), what_if);
        }
        if self.candidates.is_empty() && terms.reaches_other_nodes() {
            self.across_nodes(&rows, what_if, terms);
        }
    }

    /// Tries one node after another until there are enough candidates, as kube-scheduler does.
    fn until_enough(
        &mut self,
        mut quota: Quota,
        rows: &[NodeIdx],
        what_if: &mut dyn WhatIf,
        terms: &mut impl EvictionTerms,
    ) {
        for row in rows {
            if self.has_no_victims(*row, what_if, terms) {
                continue;
            }
            let Some(plan) = self.try_row(*row, what_if, terms) else { continue };
            if quota.admits(plan.violations) {
                self.candidates.push(plan);
            }
            if quota.is_met() {
                return;
            }
        }
    }

    /// Tries the nodes, most promising first, until no untried node can be better or the limit is reached. If there
    /// are extenders, keeps as many candidates as kube-scheduler would send to them.
    fn best_first(
        &mut self,
        enough: usize,
        rows: &[NodeIdx],
        (pod, terms): (&PodInfo, &mut impl EvictionTerms),
        what_if: &mut dyn WhatIf,
    ) {
        let kept = if what_if.asks_extenders() { enough } else { 1 };
        let mut by_bound = self.rows_by_bound(rows, (pod, terms), what_if);
        let mut found: Vec<(Cost, EvictionPlan)> = Vec::new();
        let mut tried = 0;
        while let Some(Reverse((lower_bound, at))) = by_bound.pop() {
            let is_settled = |(worst, _): &(Cost, EvictionPlan)| {
                *worst <= lower_bound || tried >= enough.max(MAX_TRIED) && worst.violations == 0
            };
            if found.get(kept - 1).is_some_and(is_settled) {
                break;
            }
            tried += 1;
            if let Some(plan) = self.try_row(rows[at], what_if, terms) {
                let cost = Cost::of(&plan);
                found.insert(found.partition_point(|(known, _)| *known <= cost), (cost, plan));
                found.truncate(kept);
            }
        }
        self.candidates = found.into_iter().map(|(_, plan)| plan).collect();
    }

    /// Returns a lower bound on each row's cost, together with the row's position in `rows`, lowest bound first. Omits
    /// rows without preemptible pods.
    fn rows_by_bound(
        &mut self,
        rows: &[NodeIdx],
        (pod, terms): (&PodInfo, &impl EvictionTerms),
        what_if: &dyn WhatIf,
    ) -> BinaryHeap<Reverse<(Cost, usize)>> {
        let mut bounds = Bounds::default();
        let mut bounds_by_row = Vec::with_capacity(rows.len());
        for (at, row) in rows.iter().enumerate() {
            if !self.has_no_victims(*row, what_if, terms) {
                // Rows where evictions cannot make room come last; trying them yields the reasons for the message.
                let lower_bound = bounds.lower_bound(what_if, *row, pod, terms).unwrap_or(Cost::WORST);
                bounds_by_row.push(Reverse((lower_bound, at)));
            }
        }
        bounds_by_row.into()
    }

    /// Returns true, and counts the row, if all of its pods are spared for their priority. Reads a column for speed, since
    /// there are many such rows if all pods have the same priority. The column does not know the priorities of groups.
    fn has_no_victims(&mut self, row: NodeIdx, what_if: &dyn WhatIf, terms: &impl EvictionTerms) -> bool {
        let nodes = what_if.nodes();
        let has_none = if self.reprioritized.contains(row) {
            nodes.node(row).pods().iter().all(|other| what_if.priority_of(other) >= terms.ceiling())
        } else {
            nodes.columns().lowest_priority[row.at()] >= terms.ceiling()
        };
        self.without_victims += usize::from(has_none);
        has_none
    }

    /// Finds the victims on a node, if evictions help there.
    fn try_row(
        &mut self,
        row: NodeIdx,
        what_if: &mut dyn WhatIf,
        terms: &mut impl EvictionTerms,
    ) -> Option<EvictionPlan> {
        if !self.preemptible.gather(row, what_if, terms) {
            self.without_victims += 1;
            return None;
        }
        match self.preemptible.find_victims(what_if.dry_run(row), terms) {
            Ok(Evictions::DoNotHelp(reject)) => self.reject(reject),
            Ok(Evictions::Help(victims)) if victims.pods.is_empty() => {
                let node = what_if.nodes().node(row).name();
                self.errors.push(format!("expected at least one victim pod on node {:?}", node.as_str()));
            }
            Ok(Evictions::Help(victims)) => return Some(victims.on(row)),
            Err(error) => self.errors.push(error.to_string()),
        }
        None
    }

    /// Looks for a node on which the pod fits if pods of other nodes are evicted, too. Prefers a node with room for the
    /// pod, and otherwise takes the one where making room costs least.
    fn across_nodes(&mut self, rows: &[NodeIdx], what_if: &mut dyn WhatIf, terms: &mut impl EvictionTerms) {
        let mut best: Option<(Option<Cost>, NodeIdx, Vec<Unit>)> = None;
        for row in rows {
            let room = match self.preemptible.make_room(*row, what_if, terms) {
                Ok(Some(room)) => room,
                Ok(None) => continue,
                Err(error) => {
                    self.errors.push(error.to_string());
                    continue;
                }
            };
            let cost = (!room.is_empty()).then(|| Cost::of(&Victims::of(room.clone()).on(*row)));
            if best.as_ref().is_none_or(|(known, ..)| cost < *known) {
                best = Some((cost, *row, room));
            }
            if matches!(best, Some((None, ..))) {
                break;
            }
        }
        let Some((_, row, room)) = best else { return };
        match self.preemptible.find_everywhere(row, room, what_if, terms) {
            Ok(victims) => self.candidates.extend(victims.map(|victims| victims.on(row))),
            Err(error) => self.errors.push(error.to_string()),
        }
    }

    fn reject(&mut self, reject: Reject) {
        self.rejected += 1;
        for reason in reject.reasons {
            *self.reasons.entry(reason).or_default() += 1;
        }
    }

    /// Returns the distinct errors as one text. They matter only if there is no candidate.
    pub(super) fn error(&self) -> Option<String> {
        let mut distinct: Vec<&str> = Vec::new();
        for error in &self.errors {
            if !distinct.contains(&error.as_str()) {
                distinct.push(error);
            }
        }
        match distinct.as_slice() {
            [] => None,
            [only] => Some((*only).to_owned()),
            all => Some(format!("[{}]", all.join(", "))),
        }
    }

    /// Returns the message that explains why no eviction helps, in a cluster of `nodes` nodes.
    pub(super) fn message(&self, nodes: usize) -> String {
        let mut diagnosis = Diagnosis { nodes, ..Diagnosis::default() };
        let counts = self.reasons.iter().map(|(reason, nodes)| (reason.to_string(), *nodes));
        diagnosis.reasons.extend(counts);
        let others = nodes.saturating_sub(self.without_victims + self.rejected);
        for (reason, nodes) in [(REASON_NO_VICTIMS, self.without_victims), (REASON_NOT_HELPFUL, others)] {
            if nodes > 0 {
                *diagnosis.reasons.entry(reason.to_owned()).or_default() += nodes;
            }
        }
        diagnosis.message()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_of_several_kinds_are_counted_and_sorted_as_in_any_fit_error() {
        let mut search = Search { without_victims: 11, ..Search::default() };
        search.reject(Reject { fix: Fix::EvictionMayHelp, reasons: vec!["b".into(), "a".into()] });
        let text = "0/14 nodes are available: 1 a, 1 b, 11 No preemption victims found for incoming pod, \
             2 Preemption is not helpful for scheduling.";
        assert_eq!(search.message(14), text);
        assert!(!search.message(12).contains("not helpful"));
    }

    #[test]
    fn each_distinct_error_is_listed_once() {
        let mut search = Search::default();
        assert_eq!(search.error(), None);
        search.errors = vec!["x".into(), "x".into()];
        assert_eq!(search.error().as_deref(), Some("x"));
        search.errors.push("y".into());
        assert_eq!(search.error().as_deref(), Some("[x, y]"));
    }
}
