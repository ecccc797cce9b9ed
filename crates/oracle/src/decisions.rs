//! Compares what two schedulers do with the same cluster changes.
//!
//! A [`Script`] of changes is played on a real API server, first to one
//! scheduler, then, after everything has been removed, to the other. After
//! every step the outcome of every pod is noted; the first step whose outcomes
//! differ is the result.
//!
//! # What makes two runs comparable
//!
//! A step begins when the scheduler has nothing left to do (see `settle`), so
//! that no decision depends on how fast a scheduler is. What remains
//! is order, and a script takes care of it:
//!
//! - Objects are created one after the other. After a restart kube-scheduler
//!   lists them sorted by name; its streamed lists, which come in random order,
//!   are off.
//! - Pods created in a row while the scheduler runs have one priority: whether a
//!   later one of a higher priority would overtake depends on time. Pods created
//!   while it is down have any.
//! - Pods that are tried in a row have no constraint that the binding of another
//!   pod can fulfil, and none with one is left waiting: whether it is woken
//!   depends on whether the binding is confirmed before or after its attempt.
//! - A step that can wake pods consists of one change. Woken pods are retried
//!   by priority where their backoff has ended, else by the second it ends in.
//!   So either it has ended for all of them (a backoff of 1 s, and 2 s of
//!   waiting before such a step), or for none (an endless backoff), and then
//!   all have one priority.
//! - kube-scheduler scores images by how many nodes have them as of the last
//!   time that it copied a node, which happens at the first cycle after a pod
//!   has been confirmed there. Before a change that affects images a probe pod
//!   that fits nowhere makes it copy what is left.
//! - Preemption deletes its victims beside the scheduler's work. Only a pod that
//!   is created alone may preempt; the others are of the lowest priority, or their
//!   class says Never. In some scripts victims vanish at once, and then no
//!   other pod waits for a node; in others they linger until a later step ends
//!   them, one by one.
//! - The volume controller and the drivers (see `provisioner`) have done their part
//!   before a step ends, and before pods are created claims that need no pod have
//!   their volumes. What that asks of pods with claims is in `storage`.
//! - What extenders answer depends on the names in the question alone, but for
//!   each verb's first failure about a pod. Any change wakes pods that they
//!   have turned down, so pods are created in a row where none waits. Such a
//!   pod may preempt time and again in one step, faster than the disruption
//!   controller counts, so budgets allow everything or nothing.
//! - Which node preemption chooses must not hang on a tie: all running pods have
//!   different start times, and there are at most 100 nodes, so that every
//!   candidate is looked at. [`crate::preemptions`] has more of them.
//!
//! Some chance is left in kube-scheduler: whether it notices the end of one pod
//! before it has put another one back in its queue. So before a difference
//! counts kube-scheduler plays again, and whoever plays as it did once is right.

mod board;
mod claims;
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
pub use player::{Play, Stage};
pub use report::{Finding, Report};
pub use script::{Script, Step};
pub use shrink::shrink;

use crate::scheduler::Contender;

/// How often the first scheduler plays at most before a difference counts.
pub const TRIES: usize = 3;

/// Plays `script` to both contenders and compares. Where they differ the first one plays again until it plays as the
/// second one did, up to `tries` times in all.
pub fn compare_on(
    stage: &mut Stage,
    script: &Script,
    [left, right]: [&Contender; 2],
    tries: usize,
) -> anyhow::Result<Report> {
    let start = Instant::now();
    let names = [left.name(), right.name()];
    let plays = [stage.play(script, left)?, stage.play(script, right)?];
    let mut difference = compare::compare(&plays[0], &plays[1]);
    let mut tried = 1;
    while difference.is_some() && tried < tries {
        tried += 1;
        if compare::compare(&stage.play(script, left)?, &plays[1]).is_none() {
            difference = None;
        }
    }
    let finding = difference.map(|difference| Finding::new(script, difference, names));
    let [left, right] = plays;
    Ok(Report {
        seed: script.seed,
        steps: script.steps.len(),
        pods: left.outcomes.last().map_or(0, Outcomes::len),
        pending: left.outcomes.last().map_or(0, Outcomes::pending),
        preempted: left.outcomes.last().map_or(0, Outcomes::preempted),
        claiming: left.outcomes.last().map_or(0, Outcomes::claiming),
        asked: left.asked.iter().map(std::collections::BTreeSet::len).sum(),
        refused: left.refused,
        tried,
        elapsed: [left.elapsed, right.elapsed],
        total: start.elapsed(),
        finding,
    })
}

/// How often the state of the cluster is looked at while waiting.
const POLL: Duration = Duration::from_millis(10);
