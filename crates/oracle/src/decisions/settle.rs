//! Waits until a scheduler has nothing left to do.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::POLL;
use super::cluster_view::ClusterView;
use super::groups::LONGEST_BACKOFF;
use crate::scheduler::Scheduler;

/// Time limit for a step, longer than any step takes.
const LIMIT: Duration = Duration::from_secs(120);

/// Interval between two reads of the scheduler's metrics.
const BETWEEN_READS: Duration = Duration::from_millis(40);

/// Time after which batched events have been written. The scheduler writes a batch every tenth of a second.
const EVENT_BATCHES: Duration = Duration::from_millis(360);

/// Time after which a pod with a backoff of one second has been retried.
const RETRIED: Duration = Duration::from_millis(2500);

/// Waits until the scheduler has settled, that is, until
///
/// 1. every pod without gates has a node, or a condition and an event that explain why it has none; every preempted pod
///    has an event; the status of every budget is up to date; the chosen volumes are bound; resource claims are
///    reserved only for pods with a node; and `work`, which does the work of other components, has nothing to do,
/// 2. no pod or event has changed for `quiet`, or, if a pod may soon be retried or bound, for longer than a short
///    backoff, and
/// 3. if a group of pods is pending, nothing has changed for longer than its backoff; otherwise, if the scheduler
///    serves metrics, no pod is queued except for `failed` pods, and no attempt was made between two reads. `failed`
///    counts pods whose attempt ended with an error, if such pods stay queued.
pub(super) fn settle(
    view: &ClusterView,
    scheduler: &mut Scheduler,
    quiet: Duration,
    failed: impl Fn() -> usize,
    mut work: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let quiet = if scheduler.writes_events_in_batches() { quiet.max(EVENT_BATCHES) } else { quiet };
    let deadline = Instant::now() + LIMIT;
    // The change has arrived in the view, but perhaps not at the scheduler.
    let earliest = Instant::now() + quiet;
    loop {
        // The cheap checks come first, because this loop runs often.
        let is_quiet = view.quiet_for() >= quiet && Instant::now() >= earliest;
        if is_quiet && work()? {
            continue;
        }
        if is_quiet && is_settled(view, scheduler, quiet, failed())? {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let why = view.unfinished().unwrap_or_else(|| "it never becomes idle".to_owned());
            bail!("the scheduler did not settle in {LIMIT:?}: {why}");
        }
        scheduler.check()?;
        sleep(POLL);
    }
}

fn is_settled(view: &ClusterView, scheduler: &Scheduler, quiet: Duration, failed: usize) -> Result<bool> {
    if view.has_pending_group() {
        return Ok(view.quiet_for() >= quiet.max(LONGEST_BACKOFF) && view.unfinished().is_none());
    }
    let enough = if view.may_be_retried_soon() { quiet.max(RETRIED) } else { quiet };
    Ok(view.quiet_for() >= enough
        && view.unfinished().is_none()
        && is_idle(scheduler, failed)?
        && view.quiet_for() >= enough)
}

fn is_idle(scheduler: &Scheduler, failed: usize) -> Result<bool> {
    let Some(before) = scheduler.activity()? else { return Ok(true) };
    if before.queued > failed as u64 {
        return Ok(false);
    }
    sleep(BETWEEN_READS);
    Ok(scheduler.activity()? == Some(before))
}
