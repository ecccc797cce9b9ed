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

/// By then events are written that wait for their round, a tenth of a second after the last one.
const ROUNDS: Duration = Duration::from_millis(360);

/// By then a pod whose backoff is a second has been tried again.
const TURN: Duration = Duration::from_millis(2500);

/// Waits until the scheduler has settled, that is until
///
/// 1. every pod without gates has a node, or a condition and an event that say
///    why not, every preempted pod has an event that says so, the status of
///    every budget is up to date, and volumes that were decided on are bound,
/// 2. no pod and no event has changed for `quiet`, or for longer than a short
///    backoff while a pod may be about to be tried again or bound, and
/// 3. where the scheduler serves metrics, no pod is queued, and no attempt was
///    made between two looks.
pub(super) fn settle(board: &Board, scheduler: &mut Scheduler, quiet: Duration) -> Result<()> {
    let quiet = if scheduler.writes_events_in_rounds() { quiet.max(ROUNDS) } else { quiet };
    let deadline = Instant::now() + LIMIT;
    // The change that this is about has reached us, but perhaps not the scheduler.
    let earliest = Instant::now() + quiet;
    loop {
        // Cheap questions first: all of this is asked again and again.
        let is_quiet = board.quiet_for() >= quiet && Instant::now() >= earliest;
        if is_quiet && is_settled(board, scheduler, quiet)? {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let why = board.unfinished().unwrap_or_else(|| "it never rests".to_owned());
            bail!("the scheduler did not settle in {LIMIT:?}: {why}");
        }
        scheduler.check()?;
        sleep(POLL);
    }
}

fn is_settled(board: &Board, scheduler: &Scheduler, quiet: Duration) -> Result<bool> {
    let enough = if board.awaits_its_turn() { quiet.max(TURN) } else { quiet };
    Ok(board.quiet_for() >= enough
        && board.unfinished().is_none()
        && is_idle(scheduler)?
        && board.quiet_for() >= enough)
}

fn is_idle(scheduler: &Scheduler) -> Result<bool> {
    let Some(before) = scheduler.activity()? else { return Ok(true) };
    if before.queued > 0 {
        return Ok(false);
    }
    sleep(BETWEEN);
    Ok(scheduler.activity()? == Some(before))
}
