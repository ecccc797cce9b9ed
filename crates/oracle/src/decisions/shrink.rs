//! Shrinks a script that shows a difference.

use std::time::{Duration, Instant};

use super::player::Stage;
use super::report::Report;
use super::script::Script;
use super::{Difference, compare_on};
use crate::scheduler::Contender;

/// Tries to remove steps and objects. A removal is kept if a difference in the same field remains. Stops at the time
/// limit at the latest. Every try runs both schedulers, so the limit should be several minutes.
pub fn shrink(
    stage: &mut Stage,
    report: Report,
    script: &Script,
    contenders: [&Contender; 2],
    limit: Duration,
    mut progress: impl FnMut(&Script),
) -> Report {
    let deadline = Instant::now() + limit;
    let Some(first) = report.finding.as_ref().map(|finding| finding.difference.clone()) else {
        return report;
    };
    let mut best = (script.clone(), report);
    // Steps after the first difference do not matter.
    best.0.steps.truncate(first.step + 1);
    let mut attempt = |best: &mut (Script, Report), candidate: Script| {
        let report = match compare_on(stage, &candidate, contenders, 1) {
            Ok(report) => report,
            // A script that cannot be run to its end is no longer the same case.
            Err(_) => return false,
        };
        let is_similar = |found: &Difference| found.field == first.field;
        let still_differs = report.finding.as_ref().is_some_and(|finding| is_similar(&finding.difference));
        if still_differs {
            *best = (candidate, report);
            progress(&best.0);
        }
        still_differs
    };
    drop_steps(&mut best, deadline, &mut attempt);
    drop_objects(&mut best, deadline, &mut attempt);
    drop_steps(&mut best, deadline, &mut attempt);
    best.1
}

type Best = (Script, Report);

/// Tries to remove halves, quarters, ... of the steps, except for the first one, which starts the scheduler.
fn drop_steps(best: &mut Best, deadline: Instant, attempt: &mut impl FnMut(&mut Best, Script) -> bool) {
    let mut size = best.0.steps.len() / 2;
    while size > 0 {
        let mut start = 1;
        while start < best.0.steps.len() && Instant::now() < deadline {
            let end = (start + size).min(best.0.steps.len());
            let mut candidate = best.0.clone();
            candidate.steps.drain(start..end);
            if !attempt(best, candidate) {
                start = end;
            }
        }
        size /= 2;
    }
}

/// Tries to remove halves, quarters, ... of the objects of each step.
fn drop_objects(best: &mut Best, deadline: Instant, attempt: &mut impl FnMut(&mut Best, Script) -> bool) {
    for step in 0..best.0.steps.len() {
        let mut size = best.0.steps[step].objects().len().div_ceil(2);
        while size > 0 {
            let mut start = 0;
            while start < best.0.steps[step].objects().len() && Instant::now() < deadline {
                let mut candidate = best.0.clone();
                let Some(objects) = candidate.steps[step].objects_mut() else { break };
                let end = (start + size).min(objects.len());
                objects.drain(start..end);
                if !attempt(best, candidate) {
                    start = end;
                }
            }
            size /= 2;
        }
    }
}
