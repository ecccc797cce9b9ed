//! When a scheduler has nothing left to do.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::POLL;
use super::board::Board;
use crate::scheduler::Scheduler;

/// Longer than any step takes.
const LIMIT: Duration = Duration::from_secs(120);

/// The time between two looks at the scheduler's own account.
const BETWEEN: Duration = Duration::from_millis(40);

/// By then a pod whose backoff is a second has been tried again.
const TURN: Duration = Duration::from_millis(2500);

/// Waits until the scheduler has settled, that is until
///
/// 1. every pod without gates has a node, or a condition and an event that say
///    why not, every preempted pod has an event that says so, and the status of
///    every budget is up to date,
/// 2. no pod and no event has changed for `quiet`, or for longer than a short
///    backoff while a nominated pod has nothing else to wait for, and
/// 3. where the scheduler serves metrics, no pod is queued, and no attempt was
///    made between two looks.
pub(super) fn settle(board: &Board, scheduler: &mut Scheduler, quiet: Duration) -> Result<()> {
    // Whoever gives no account of itself may be busy with something that nobody sees yet.
    let quiet = if scheduler.activity()?.is_some() { quiet } else { quiet * 3 };
    let deadline = Instant::now() + LIMIT;
    // The change that this is about has reached us, but perhaps not the scheduler.
    let earliest = Instant::now() + quiet;
    loop {
        let unfinished = board.unfinished();
        let enough = if board.awaits_its_turn() { quiet.max(TURN) } else { quiet };
        let is_quiet = board.quiet_for() >= enough && Instant::now() >= earliest;
        if unfinished.is_none() && is_quiet && is_idle(scheduler)? && board.quiet_for() >= enough {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let why = unfinished.unwrap_or_else(|| "it never rests".to_owned());
            bail!("the scheduler did not settle in {LIMIT:?}: {why}");
        }
        scheduler.check()?;
        sleep(POLL);
    }
}

fn is_idle(scheduler: &Scheduler) -> Result<bool> {
    let Some(before) = scheduler.activity()? else { return Ok(true) };
    if before.queued > 0 {
        return Ok(false);
    }
    sleep(BETWEEN);
    Ok(scheduler.activity()? == Some(before))
}
