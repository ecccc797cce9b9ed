//! Looking for nodes on which evictions would help.

use std::{borrow::Cow, collections::BTreeMap};

use harbormaster_api::args::DefaultPreemptionArgs;
use harbormaster_framework::{diagnosis::Diagnosis, prelude::*};

use super::victims::{Preemptible, Victims};

const REASON_NO_VICTIMS: &str = "No preemption victims found for incoming pod";
const REASON_NOT_HELPFUL: &str = "Preemption is not helpful for scheduling";

/// What was found so far.
pub(super) struct Search<'a> {
    args: &'a DefaultPreemptionArgs,
    /// In the order in which they were found.
    pub(super) candidates: Vec<EvictionPlan>,
    /// How many nodes have no pod that may be preempted.
    without_victims: usize,
    /// How many others were rejected, and for each reason how many of them.
    rejected: usize,
    reasons: BTreeMap<Cow<'static, str>, usize>,
    errors: Vec<String>,
}

/// How many candidates there are of each kind. Of either kind no more than `wanted` are kept.
struct Quota {
    wanted: usize,
    clean: usize,
    violating: usize,
}

impl<'a> Search<'a> {
    pub(super) fn new(args: &'a DefaultPreemptionArgs) -> Self {
        Self {
            args,
            candidates: Vec::new(),
            without_victims: 0,
            rejected: 0,
            reasons: BTreeMap::new(),
            errors: Vec::new(),
        }
    }

    /// Tries the nodes that evictions might open up, one after the other, until there are enough candidates.
    pub(super) fn run(&mut self, pod: &PodInfo, what_if: &mut dyn WhatIf) {
        let rows = what_if.evictable_rows();
        if rows.is_empty() {
            return;
        }
        let (before, after) = rows.split_at(what_if.offset() % rows.len());
        let mut quota = Quota { wanted: wanted(self.args, rows.len()), clean: 0, violating: 0 };
        let mut preemptible = Preemptible::default();
        for &row in after.iter().chain(before) {
            let nodes = what_if.nodes();
            // Known without a look at the pods: there are many nodes like this where all pods are equally important.
            if nodes.columns().lowest_priority[row.at()] >= pod.priority() {
                self.without_victims += 1;
                continue;
            }
            preemptible.gather(nodes.node(row), pod.priority(), what_if.objects());
            match try_row(what_if, row, &preemptible) {
                Ok(None) => {}
                Ok(Some(Err(reject))) => self.reject(reject),
                Ok(Some(Ok(victims))) if victims.pods.is_empty() => {
                    let node = what_if.nodes().node(row).name();
                    self.errors.push(format!("expected at least one victim pod on node {:?}", node.as_str()));
                }
                Ok(Some(Ok(victims))) => {
                    if quota.admits(victims.violations) {
                        self.candidates.push(EvictionPlan {
                            row,
                            victims: victims.pods,
                            violations: victims.violations,
                        });
                    }
                    if quota.is_met() {
                        return;
                    }
                }
                Err(error) => self.errors.push(error.to_string()),
            }
        }
    }

    fn reject(&mut self, reject: Reject) {
        self.rejected += 1;
        for reason in reject.reasons {
            *self.reasons.entry(reason).or_default() += 1;
        }
    }

    /// What went wrong. It matters only where there is no candidate.
    pub(super) fn error(&self) -> Option<String> {
        let mut different: Vec<&str> = Vec::new();
        for error in &self.errors {
            if !different.contains(&error.as_str()) {
                different.push(error);
            }
        }
        match different.as_slice() {
            [] => None,
            [only] => Some((*only).to_owned()),
            all => Some(format!("[{}]", all.join(", "))),
        }
    }

    /// Why no node can be helped, with `nodes` nodes in the cluster.
    pub(super) fn message(&self, nodes: usize) -> String {
        let mut diagnosis = Diagnosis { nodes, ..Diagnosis::default() };
        let told = self.reasons.iter().map(|(reason, nodes)| (reason.to_string(), *nodes));
        diagnosis.reasons.extend(told);
        let others = nodes.saturating_sub(self.without_victims + self.rejected);
        for (reason, nodes) in [(REASON_NO_VICTIMS, self.without_victims), (REASON_NOT_HELPFUL, others)] {
            if nodes > 0 {
                *diagnosis.reasons.entry(reason.to_owned()).or_default() += nodes;
            }
        }
        diagnosis.message()
    }
}

/// Who would have to leave that node; `None` if that cannot be asked.
fn try_row(
    what_if: &mut dyn WhatIf,
    row: NodeIdx,
    preemptible: &Preemptible,
) -> PluginResult<Option<Result<Victims, Reject>>> {
    let mut answer = None;
    what_if.dry_run(row, &mut |node| {
        answer = Some(preemptible.spare(node)?);
        Ok(())
    })?;
    Ok(answer)
}

/// How many candidates are enough to choose among, of `rows` nodes that may become some.
fn wanted(args: &DefaultPreemptionArgs, rows: usize) -> usize {
    let number = |number: i32| usize::try_from(number).unwrap_or(0);
    let share = rows * number(args.min_candidate_nodes_percentage) / 100;
    share.max(number(args.min_candidate_nodes_absolute)).min(rows)
}

impl Quota {
    /// Counts one more candidate; `false` if there are enough of its kind.
    fn admits(&mut self, violations: usize) -> bool {
        let kind = if violations == 0 { &mut self.clean } else { &mut self.violating };
        let admitted = *kind < self.wanted;
        *kind += usize::from(admitted);
        admitted
    }

    /// Candidates that break a disruption budget are not enough, however many there are.
    fn is_met(&self) -> bool {
        self.clean > 0 && self.clean + self.violating >= self.wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wanted_is_a_share_of_the_nodes_at_least_some_number_and_at_most_all() {
        for (percentage, absolute, rows, expected) in [
            (10, 100, 5000, 500),
            (10, 100, 1000, 100),
            (10, 100, 999, 100),
            (10, 100, 60, 60),
            (10, 0, 19, 1),
            (10, 0, 9, 0),
            (100, 0, 7, 7),
            (0, 1, 7, 1),
            (0, 10, 7, 7),
        ] {
            let args = DefaultPreemptionArgs {
                min_candidate_nodes_percentage: percentage,
                min_candidate_nodes_absolute: absolute,
            };
            assert_eq!(wanted(&args, rows), expected, "{args:?} of {rows}");
        }
    }

    #[test]
    fn the_quota_is_met_by_one_clean_candidate_and_enough_in_all() {
        let mut quota = Quota { wanted: 2, clean: 0, violating: 0 };
        assert!(quota.admits(1) && quota.admits(3));
        assert!(!quota.is_met());
        assert!(!quota.admits(1));
        assert!(quota.admits(0));
        assert!(quota.is_met());
    }

    #[test]
    fn reasons_of_several_kinds_are_counted_and_sorted_as_in_any_fit_error() {
        let args = DefaultPreemptionArgs::default();
        let mut search = Search::new(&args);
        search.without_victims = 11;
        search.reject(Reject { fix: Fix::EvictionMayHelp, reasons: vec!["b".into(), "a".into()] });
        let text = "0/14 nodes are available: 1 a, 1 b, 11 No preemption victims found for incoming pod, \
             2 Preemption is not helpful for scheduling.";
        assert_eq!(search.message(14), text);
        assert!(!search.message(12).contains("not helpful"));
    }

    #[test]
    fn different_errors_are_listed_once() {
        let args = DefaultPreemptionArgs::default();
        let mut search = Search::new(&args);
        assert_eq!(search.error(), None);
        search.errors = vec!["x".into(), "x".into()];
        assert_eq!(search.error().as_deref(), Some("x"));
        search.errors.push("y".into());
        assert_eq!(search.error().as_deref(), Some("[x, y]"));
    }
}
