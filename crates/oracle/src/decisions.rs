//! Comparison of two schedulers that react to the same cluster changes.
//!
//! A [`Script`] of changes is run on a real API server, first with one scheduler and then, after everything has been
//! deleted, with the other one. After every step the outcome of every pod is recorded; the first step with different
//! outcomes is the result.
//!
//! # Conditions for comparable runs
//!
//! A step starts only when the scheduler has nothing left to do (see `settle`), so no decision depends on the speed of
//! a scheduler. Decisions still depend on the order of events, which the script controls:
//!
//! - Objects are created one by one. After a restart, kube-scheduler lists them sorted by name; its streamed lists,
//!   which have a random order, are disabled.
//! - Pods that are created in a row while the scheduler runs have the same priority, because otherwise timing would
//!   decide whether a later pod with a higher priority overtakes the others. Pods that are created while the scheduler
//!   is down may have any priority.
//! - When pods are tried in a row, no pending pod has a constraint that the binding of another pod can satisfy.
//!   Otherwise, timing would decide whether such a pod is woken: the binding may be confirmed before or after the pod's
//!   attempt.
//! - A step that can wake pods consists of one change. Woken pods whose backoff has expired are retried in order of
//!   priority; other woken pods are retried in the order in which their backoffs expire, to the second. Therefore, in
//!   some scripts the backoff is 1 s, and the player waits for 2 s before such a step, so that the backoff of all pods
//!   has expired. In the other scripts, the backoff never expires, and all pods have the same priority.
//! - kube-scheduler scores an image by the number of nodes that had it when the node being scored was last copied to
//!   the scheduler's snapshot. A node is copied in the first cycle after a pod on it is confirmed. Before a change that
//!   affects images, an unschedulable probe pod makes kube-scheduler copy the remaining nodes.
//! - Preemption deletes its victims while scheduling continues. Only a pod that is created alone may preempt; all other
//!   pods have the lowest priority or a priority class with the preemption policy Never. In some scripts, victims
//!   terminate immediately, and no other pod is pending meanwhile; in the other scripts, victims keep terminating until
//!   a later step deletes them one by one.
//! - The volume controller and the drivers (see `provisioner`) finish before a step ends, and claims that do not wait
//!   for a pod have their volumes before any pods are created. `storage` describes the consequences for pods with
//!   claims.
//! - The player makes the requests of the resource claim controller (see `claim_controller`) one by one, and waits for
//!   the scheduler after each request that frees devices. `devices` describes the consequences for pods with claims.
//! - The answers of extenders depend only on the names in the request, except that each verb may fail the first time it
//!   is called for a pod. Any change wakes the pods that extenders have rejected, so pods are created in a row only if
//!   no pod is pending. A rejected pod may preempt repeatedly in one step, faster than the disruption controller
//!   updates budgets, so a budget allows either every disruption or none.
//! - `group_claims` describes the consequences of races between the members of a group that share a claim.
//! - `groups` describes the consequences of the clock, by which kube-scheduler retries groups of pods.
//! - The node that preemption chooses must not depend on a tie. Therefore, all running pods have different start times,
//!   and a script has at most 100 nodes, so that every candidate is evaluated. [`crate::preemptions`] covers larger
//!   clusters.
//!
//! Some randomness remains in kube-scheduler: it may notice that one pod is gone either before or after it returns
//! another pod to its queue. Therefore, kube-scheduler runs again to confirm a difference. A scheduler that matches any
//! run of kube-scheduler is correct.

mod claim_controller;
mod claims;
mod cluster_view;
mod compare;
mod device_drivers;
mod devices;
mod extenders;
mod group_claims;
mod group_plan;
mod groups;
mod kubelet;
mod outcome;
mod paths;
mod plan;
mod player;
mod report;
mod resource_claims;
mod script;
mod settle;
mod shadow;
mod shrink;
mod storage;

use std::time::{Duration, Instant};

pub use compare::Difference;
pub use outcome::{Outcomes, PodOutcome};
pub use plan::{Options, Size};
pub use player::{Run, Stage};
pub use report::{Finding, Report};
pub use script::{Script, Step};
pub use shadow::{ShadowReport, shadow};
pub use shrink::shrink;

use crate::scheduler::Contender;

/// Maximum number of runs of the first scheduler to confirm a difference.
pub const TRIES: usize = 3;

/// Runs `script` with both contenders and compares them. If they differ, the first contender runs again until it
/// matches the second one, at most `tries` times in total.
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
        in_groups: left.outcomes.iter().map(Outcomes::in_scheduled_groups).max().unwrap_or(0),
        with_volumes: left.outcomes.last().map_or(0, Outcomes::with_volumes),
        with_devices: left.outcomes.iter().map(Outcomes::with_devices).max().unwrap_or(0),
        extender_calls: left.extender_calls.iter().map(std::collections::BTreeSet::len).sum(),
        refused: left.refused,
        tried,
        elapsed: [left.elapsed, right.elapsed],
        total: start.elapsed(),
        finding,
    })
}

/// Interval between checks of the cluster state.
const POLL: Duration = Duration::from_millis(10);
