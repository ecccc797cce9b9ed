//! Events that wait to be written: how many there may be, who goes first, who gives way, and who is tried again.
//!
//! Neither clock nor network is in here: the time and the outcomes of writes are told.

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

/// What events may take in memory, in bytes: well over a hundred thousand of pods that were bound.
pub(super) const ROOM: usize = 64 << 20;
/// How often a write is sent that fails while others are taken, and how long after one another.
pub(super) const TRIES: u32 = 12;
pub(super) const REST: Duration = Duration::from_secs(10);
/// The longest that a server is left alone, whatever it asks for.
const LONGEST_REST: Duration = Duration::from_secs(60);
/// For how long an event is tried whatever the server says: API servers keep events for an hour.
const KEEP: Duration = Duration::from_secs(60 * 60);
/// After so many failures in a row it is the server that fails and not an event: it is left alone for a while.
const FAILING: u32 = 16;
/// For how long it is left alone at first.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// What is to be written about an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Write {
    /// The event itself.
    Create,
    /// How often it has happened.
    Count { count: u32, last: Timestamp },
}

/// A write that has not come through yet.
#[derive(Debug)]
pub(super) struct Unwritten {
    pub(super) record: Arc<Record>,
    pub(super) write: Write,
    failed: Option<Failed>,
}

/// How a write has failed so far.
#[derive(Clone, Copy, Debug)]
struct Failed {
    since: Instant,
    /// Failures that are the event's own: the server took others meanwhile.
    tries: u32,
    /// [`Backlog::taken`] at the last failure.
    taken: u64,
}

/// All that is not written yet.
#[derive(Debug)]
pub(super) struct Backlog {
    room: usize,
    used: usize,
    count: usize,
    /// Not tried yet, oldest first. The first to give way.
    normal: VecDeque<Unwritten>,
    /// Not tried yet, oldest first.
    warnings: VecDeque<Unwritten>,
    /// To be tried again, by the time of that; the number tells equal times apart.
    resting: BTreeMap<(Instant, u64), Unwritten>,
    rests: u64,
    /// Events of which a write is on its way or resting, with the write that comes after it.
    under_way: FxHashMap<u64, Option<Unwritten>>,
    /// Which of the three is asked first for the next write.
    turn: u8,
    /// How many writes the server took.
    taken: u64,
    failures_in_row: u32,
    paused_until: Option<Instant>,
    pause: Backoff,
    jitter: Jitter,
    pub(super) tally: Tally,
    closed: bool,
}

impl Unwritten {
    pub(super) fn new(record: Arc<Record>, write: Write) -> Self {
        Self { record, write, failed: None }
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.record.size()
    }
}

impl Backlog {
    /// Holds at most `room` bytes.
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

    /// Nothing will be added any more.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// Whether nothing will be added any more.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether everything is written, and nothing will be added any more.
    pub(super) fn is_over(&self) -> bool {
        self.closed && self.count == 0
    }

    /// How many writes have not come through yet.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Whether so much waits that some of it will have to give way soon.
    pub(super) fn is_half_full(&self) -> bool {
        self.used > self.room / 2
    }

    /// Adds a write. Where there is no room the oldest normal events give way, then the oldest warnings: `false` if
    /// that is the new one.
    pub(super) fn add(&mut self, record: Arc<Record>, write: Write) -> bool {
        let new = record.id;
        let unwritten = Unwritten::new(record, write);
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

    /// The write to be sent next, if any may be sent now. [`Self::ended`] must be told of its end.
    pub(super) fn take(&mut self, now: Instant) -> Option<Unwritten> {
        if self.paused_until.is_some_and(|until| now < until) {
            return None;
        }
        // In turn, so that a long queue of one kind does not hold up the others.
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

    fn next_rested(&mut self, now: Instant) -> Option<Unwritten> {
        let first = self.resting.first_entry().filter(|first| first.key().0 <= now)?;
        Some(first.remove())
    }

    fn next_fresh(&mut self, warnings: bool) -> Option<Unwritten> {
        loop {
            let queue = if warnings { &mut self.warnings } else { &mut self.normal };
            let first = queue.pop_front()?;
            let replaced = match self.under_way.entry(first.record.id) {
                Entry::Vacant(entry) => {
                    entry.insert(None);
                    return Some(first);
                }
                // Its turn comes after the write before it. A count says what an earlier one would have said.
                Entry::Occupied(mut entry) => entry.insert(Some(first)),
            };
            if let Some(replaced) = replaced {
                self.forget(&replaced);
            }
        }
    }

    /// When [`Self::take`] may have something again that it has not now.
    pub(super) fn next_at(&self) -> Option<Instant> {
        let rested = self.resting.first_key_value().map(|((at, _), _)| *at);
        let fresh = !self.normal.is_empty() || !self.warnings.is_empty();
        match self.paused_until {
            Some(until) if fresh => Some(until),
            Some(until) => rested.map(|at| at.max(until)),
            None => rested,
        }
    }

    /// What became of a write.
    pub(super) fn ended(&mut self, unwritten: Unwritten, outcome: Result<(), ApiError>, now: Instant) {
        let error = match outcome {
            Err(error) if error.is_passing() => return self.failed(unwritten, &error, now),
            end => end.err(),
        };
        match error {
            None => self.taken += 1,
            Some(error) => self.tally.note(Trouble::Rejected, unwritten.record.reason, Some(&error)),
        }
        // A server that answers to the point is well.
        self.failures_in_row = 0;
        self.paused_until = None;
        self.pause.reset();
        self.settle(&unwritten);
    }

    fn failed(&mut self, mut unwritten: Unwritten, error: &ApiError, now: Instant) {
        let asked = error.retry_after().unwrap_or_default().min(LONGEST_REST);
        self.failures_in_row += 1;
        if self.failures_in_row >= FAILING {
            self.failures_in_row = 0;
            self.paused_until = Some(now + self.pause.delay().max(asked));
        }
        let reason = unwritten.record.reason;
        let before = unwritten.failed;
        let mut failed = before.unwrap_or(Failed { since: now, tries: 0, taken: 0 });
        // Too many requests, or a server that takes nothing at all: no fault of the event.
        let is_its_own = error.code() != Some(429) && before.is_none_or(|before| self.taken > before.taken);
        failed.tries += u32::from(is_its_own);
        failed.taken = self.taken;
        if failed.tries >= TRIES || now - failed.since >= KEEP {
            self.tally.note(Trouble::GivenUp, reason, Some(error));
            return self.settle(&unwritten);
        }
        self.tally.note(Trouble::Failed, reason, Some(error));
        unwritten.failed = Some(failed);
        let rest = self.jitter.between(REST.mul_f64(0.8), REST.mul_f64(1.2)).max(asked);
        self.rests += 1;
        self.resting.insert((now + rest, self.rests), unwritten);
    }

    /// A write is over; the one that came after it is next.
    fn settle(&mut self, unwritten: &Unwritten) {
        self.forget(unwritten);
        if let Some(next) = self.under_way.remove(&unwritten.record.id).flatten() {
            self.warnings.push_front(next);
        }
    }

    fn forget(&mut self, unwritten: &Unwritten) {
        self.used = self.used.saturating_sub(unwritten.size());
        self.count = self.count.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests;
