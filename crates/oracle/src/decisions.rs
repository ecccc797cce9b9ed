//! Comparison of two schedulers by the same cluster changes.
//!
//! A [`Script`] of changes is played on a real API server with one scheduler, and
//! again with the other one after everything has been deleted. After every step
//! the outcome of every pod is recorded; the first step with different outcomes
//! is the result.
//!
//! # What makes two runs comparable
//!
//! A step starts when the scheduler has nothing left to do (see `settle`), so no
//! decision depends on the speed of a scheduler. The order of events remains,
//! which a script controls:
//!
//! - Objects are created one after the other. After a restart kube-scheduler
//!   lists them sorted by name; its streamed lists, which have a random order,
//!   are disabled.
//! - Pods created in a row while the scheduler runs have the same priority:
//!   whether a later one with a higher priority would overtake depends on timing.
//!   Pods created while it is down have any priority.
//! - Pods that are tried in a row have no constraint that the binding of another
//!   pod can satisfy, and no pending pod has one: whether it is woken depends on
//!   whether the binding is confirmed before or after its attempt.
//! - A step that can wake pods consists of one change. Woken pods are retried
//!   by priority if their backoff has expired, otherwise by the second in which it
//!   expires. So either it has expired for all of them (a backoff of 1 s, and 2 s
//!   of waiting before such a step), or for none (an endless backoff), and then
//!   all have the same priority.
//! - kube-scheduler scores images by the number of nodes that have them as of the
//!   last time that it copied a node, which is the first cycle after a pod was
//!   confirmed there. Before a change that affects images, an unschedulable probe
//!   pod makes it copy the remaining nodes.
//! - Preemption deletes its victims concurrently with scheduling. Only a pod that
//!   is created alone may preempt; the others have the lowest priority or a class
//!   with the policy Never. In some scripts victims terminate at once, and then no
//!   other pod is pending; in others they keep terminating until a later step
//!   deletes them, one by one.
//! - The volume controller and the drivers (see `provisioner`) are done before a
//!   step ends, and claims that need no pod have their volumes before pods are
//!   created. `storage` describes the consequences for pods with claims.
//! - Answers of extenders depend only on the names in the request, except for the
//!   first failure of each verb for a pod. Any change wakes pods that they have
//!   rejected, so pods are created in a row only if none is pending. Such a pod
//!   may preempt repeatedly in one step, faster than the disruption controller
//!   updates budgets, so budgets allow everything or nothing.
//! - The node that preemption chooses must not depend on a tie: all running pods
//!   have different start times, and there are at most 100 nodes, so that every
//!   candidate is evaluated. [`crate::preemptions`] has more nodes.
//!
//! Some randomness remains in kube-scheduler: whether it notices the end of one
//! pod before it has returned another one to its queue. So a difference is
//! confirmed by running kube-scheduler again; a scheduler that matches one of its
//! runs is right.

mod claims;
mod cluster_view;
mod compare;
mod extenders;
mod kubelet;
mod outcome;
mod paths;
mod plan;
mod player;
mod report;
mod script;
mod settle;
mod shrink;
mod storage;

use std::time::{Duration, Instant};

pub use compare::Difference;
pub use outcome::{Outcomes, PodOutcome};
pub use plan::{Options, Size};
pub use player::{Run, Stage};
pub use report::{Finding, Report};
pub use script::{Script, Step};
pub use shrink::shrink;

use crate::scheduler::Contender;

/// Maximum number of runs of the first scheduler to confirm a difference.
pub const TRIES: usize = 3;

/// Runs `script` with both contenders and compares them. If they differ, the first one runs again until it matches the
/// second one, at most `tries` times in total.
pub fn compare_on(
    stage: &mut Stage,
    script: &Script,
    [left, right]: [&Contender; 2],
    tries: usize,
) -> anyhow::Result<Report> {
    let start = Instant::now();
    let names = [left.name(), right.name()];
    let runs = [stage.play(script, left)?, stage.play(script, right)?];
    let mut difference = compare::compare(&runs[0], &runs[1]);
    let mut tried = 1;
    while difference.is_some() && tried < tries {
        tried += 1;
        if compare::compare(&stage.play(script, left)?, &runs[1]).is_none() {
            difference = None;
        }
    }
    let finding = difference.map(|difference| Finding::new(script, difference, names));
    let [left, right] = runs;
    Ok(Report {
        seed: script.seed,
        steps: script.steps.len(),
        pods: left.outcomes.last().map_or(0, Outcomes::len),
        pending: left.outcomes.last().map_or(0, Outcomes::pending),
        preempted: left.outcomes.last().map_or(0, Outcomes::preempted),
        with_volumes: left.outcomes.last().map_or(0, Outcomes::with_volumes),
        extender_calls: left.extender_calls.iter().map(std::collections::BTreeSet::len).sum(),
        refused: left.refused,
        tried,
        elapsed: [left.elapsed, right.elapsed],
        total: start.elapsed(),
        finding,
    })
}

/// Time between checks of the cluster's state.
const POLL: Duration = Duration::from_millis(10);
