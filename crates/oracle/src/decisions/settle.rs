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

/// Waits until the scheduler has settled, that is until
///
/// 1. every pod without gates has a node, or a condition and an event that say
///    why not,
/// 2. no pod and no event has changed for `quiet`, and
/// 3. where the scheduler serves metrics, no pod is queued, and no attempt was
///    made between two looks.
pub(super) fn settle(board: &Board, scheduler: &mut Scheduler, quiet: Duration) -> Result<()> {
    let deadline = Instant::now() + LIMIT;
    // The change that this is about has reached us, but perhaps not the scheduler.
    let earliest = Instant::now() + quiet;
    loop {
        let unanswered = board.unanswered();
        let is_quiet = board.quiet_for() >= quiet && Instant::now() >= earliest;
        if unanswered.is_none() && is_quiet && is_idle(scheduler)? && board.quiet_for() >= quiet {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let why =
                unanswered.map_or("it never rests".to_owned(), |pod| format!("nothing is said about {pod}"));
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
