//! Events that wait to be written, with their order, limits and retries.
//!
//! There is no clock and no network in this module: callers pass in the time and the outcomes of writes.

use std::{
    collections::{BTreeMap, VecDeque, hash_map::Entry},
    sync::Arc,
    time::Duration,
};

use harbormaster_api::Timestamp;
use harbormaster_client::{ApiError, Backoff, Jitter};
use rustc_hash::FxHashMap;
use tokio::time::Instant;

use super::{
    record::Record,
    tally::{Tally, Trouble},
};

/// Memory limit in bytes: enough for well over a hundred thousand events of bound pods.
pub(super) const ROOM: usize = 64 << 20;
/// Maximum number of tries of a write that fails while other writes succeed.
pub(super) const TRIES: u32 = 12;
/// Average pause before a write is retried.
pub(super) const REST: Duration = Duration::from_secs(10);
/// Maximum pause, even if the server requests a longer one.
const LONGEST_REST: Duration = Duration::from_secs(60);
/// Maximum time for which an event is retried; API servers keep events for an hour.
const KEEP: Duration = Duration::from_secs(60 * 60);
/// Number of failures in a row after which the server is considered to be failing, and all writes pause.
const FAILING: u32 = 16;
/// First pause of all writes after [`FAILING`] failures in a row.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// A write for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Write {
    /// The event itself.
    Create,
    /// The number of the event's occurrences.
    Count { count: u32, last: Timestamp },
}

/// A write that has not succeeded yet.
#[derive(Debug)]
pub(super) struct PendingWrite {
    pub(super) record: Arc<Record>,
    pub(super) write: Write,
    failed: Option<Failures>,
}

/// Failures of a write so far.
#[derive(Clone, Copy, Debug)]
struct Failures {
    since: Instant,
    /// Number of failures for which the event itself may be the cause.
    tries: u32,
    /// [`Backlog::taken`] at the last failure.
    taken: u64,
}

/// All pending writes.
#[derive(Debug)]
pub(super) struct Backlog {
    room: usize,
    used: usize,
    count: usize,
    /// New writes of normal events, oldest first. They are the first to be dropped when the backlog is full.
    normal: VecDeque<PendingWrite>,
    /// New writes of warnings, oldest first.
    warnings: VecDeque<PendingWrite>,
    /// Writes that wait for a retry, keyed by the time of the retry and a number that makes keys unique.
    resting: BTreeMap<(Instant, u64), PendingWrite>,
    rests: u64,
    /// Events with a write that is being sent or waits for a retry, each with the next write for the same event.
    under_way: FxHashMap<u64, Option<PendingWrite>>,
    /// Index of the queue that supplied the last write.
    turn: u8,
    /// Number of successful writes.
    taken: u64,
    failures_in_row: u32,
    paused_until: Option<Instant>,
    pause: Backoff,
    jitter: Jitter,
    pub(super) tally: Tally,
    closed: bool,
}

impl PendingWrite {
    pub(super) fn new(record: Arc<Record>, write: Write) -> Self {
        Self { record, write, failed: None }
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.record.size()
    }
}

impl Backlog {
    /// Returns a backlog of at most `room` bytes.
    pub(super) fn new(room: usize) -> Self {
        Self {
            room,
            used: 0,
            count: 0,
            normal: VecDeque::new(),
            warnings: VecDeque::new(),
            resting: BTreeMap::new(),
            rests: 0,
            under_way: FxHashMap::default(),
            turn: 0,
            taken: 0,
            failures_in_row: 0,
            paused_until: None,
            pause: Backoff::new(FIRST_PAUSE, 2.0, REST, 0.2),
            jitter: Jitter::default(),
            tally: Tally::default(),
            closed: false,
        }
    }

    /// Marks the end; nothing more will be added.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// Returns true if nothing more will be added.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Returns true if everything has been written and nothing more will be added.
    pub(super) fn is_over(&self) -> bool {
        self.closed && self.count == 0
    }

    /// Returns the number of pending writes.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Returns true if the backlog uses more than half of its memory limit.
    pub(super) fn is_half_full(&self) -> bool {
        self.used > self.room / 2
    }

    /// Adds a write. If the backlog is full, drops the oldest normal events, then the oldest warnings. Returns false if
    /// the new write or another write for the same event is dropped.
    pub(super) fn add(&mut self, record: Arc<Record>, write: Write) -> bool {
        let new = record.id;
        let unwritten = PendingWrite::new(record, write);
        self.used += unwritten.size();
        self.count += 1;
        let queue = if unwritten.record.warning { &mut self.warnings } else { &mut self.normal };
        queue.push_back(unwritten);
        let mut kept = true;
        while self.used > self.room
            && let Some(oldest) = self.normal.pop_front().or_else(|| self.warnings.pop_front())
        {
            self.tally.note(Trouble::Dropped, oldest.record.reason, None);
            kept &= oldest.record.id != new;
            self.forget(&oldest);
        }
        kept
    }

    /// Returns the next write, if one may be sent now. The write's outcome must be reported to [`Self::ended`].
    pub(super) fn take(&mut self, now: Instant) -> Option<PendingWrite> {
        if self.paused_until.is_some_and(|until| now < until) {
            return None;
        }
        // The queues take turns, so that a long queue does not hold up the others.
        for _ in 0..3 {
            self.turn = (self.turn + 1) % 3;
            let next = match self.turn {
                0 => self.next_rested(now),
                1 => self.next_fresh(true),
                _ => self.next_fresh(false),
            };
            if next.is_some() {
                return next;
            }
        }
        None
    }

    fn next_rested(&mut self, now: Instant) -> Option<PendingWrite> {
        let first = self.resting.first_entry().filter(|first| first.key().0 <= now)?;
        Some(first.remove())
    }

    fn next_fresh(&mut self, warnings: bool) -> Option<PendingWrite> {
        loop {
            let queue = if warnings { &mut self.warnings } else { &mut self.normal };
            let first = queue.pop_front()?;
            let replaced = match self.under_way.entry(first.record.id) {
                Entry::Vacant(entry) => {
                    entry.insert(None);
                    return Some(first);
                }
                // This write must wait until the earlier write for the same event has ended. A newer count replaces an
                // older one.
                Entry::Occupied(mut entry) => entry.insert(Some(first)),
            };
            if let Some(replaced) = replaced {
                self.forget(&replaced);
            }
        }
    }

    /// Returns the time when [`Self::take`] may return more writes.
    pub(super) fn next_at(&self) -> Option<Instant> {
        let rested = self.resting.first_key_value().map(|((at, _), _)| *at);
        let fresh = !self.normal.is_empty() || !self.warnings.is_empty();
        match self.paused_until {
            Some(until) if fresh => Some(until),
            Some(until) => rested.map(|at| at.max(until)),
            None => rested,
        }
    }

    /// Handles the outcome of a write.
    pub(super) fn ended(&mut self, unwritten: PendingWrite, outcome: Result<(), ApiError>, now: Instant) {
        let error = match outcome {
            Err(error) if error.is_passing() => return self.failed(unwritten, &error, now),
            end => end.err(),
        };
        match error {
            None => self.taken += 1,
            Some(error) => self.tally.note(Trouble::Rejected, unwritten.record.reason, Some(&error)),
        }
        // The server processes events again.
        self.failures_in_row = 0;
        self.paused_until = None;
        self.pause.reset();
        self.settle(&unwritten);
    }

    fn failed(&mut self, mut unwritten: PendingWrite, error: &ApiError, now: Instant) {
        let requested = error.retry_after().unwrap_or_default().min(LONGEST_REST);
        self.failures_in_row += 1;
        if self.failures_in_row >= FAILING {
            self.failures_in_row = 0;
            self.paused_until = Some(now + self.pause.delay().max(requested));
        }
        let reason = unwritten.record.reason;
        let before = unwritten.failed;
        let mut failed = before.unwrap_or(Failures { since: now, tries: 0, taken: 0 });
        // Status 429 and a server that accepts nothing are not the event's fault.
        let is_its_own = error.code() != Some(429) && before.is_none_or(|before| self.taken > before.taken);
        failed.tries += u32::from(is_its_own);
        failed.taken = self.taken;
        if failed.tries >= TRIES || now - failed.since >= KEEP {
            self.tally.note(Trouble::GivenUp, reason, Some(error));
            return self.settle(&unwritten);
        }
        self.tally.note(Trouble::Failed, reason, Some(error));
        unwritten.failed = Some(failed);
        let rest = self.jitter.between(REST.mul_f64(0.8), REST.mul_f64(1.2)).max(requested);
        self.rests += 1;
        self.resting.insert((now + rest, self.rests), unwritten);
    }

    /// Removes a write and queues the next write for the same event.
    fn settle(&mut self, unwritten: &PendingWrite) {
        self.forget(unwritten);
        if let Some(next) = self.under_way.remove(&unwritten.record.id).flatten() {
            self.warnings.push_front(next);
        }
    }

    fn forget(&mut self, unwritten: &PendingWrite) {
        self.used = self.used.saturating_sub(unwritten.size());
        self.count = self.count.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests;
