//! The way of the entries from the engine to the thread that writes them.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use harbormaster_core::recording::{Entry, Sink};

/// Number of waiting entries from which on new ones are lost, except those that are needed.
const ENTRIES: usize = 1 << 17;
/// Number of waiting entries at which the recording ends. Only objects are added beyond [`ENTRIES`], so this is reached
/// only if the disk is stuck for long in a busy cluster.
const AT_MOST: usize = 1 << 21;
/// Time for which the thread lets entries accumulate, so that it seldom wakes up.
const ACCUMULATE: Duration = Duration::from_secs(1);

/// The engine's end.
#[derive(Debug)]
pub struct Pipe(Arc<Shared>);

/// The thread's end.
#[derive(Debug)]
pub(super) struct Outlet(Arc<Shared>);

/// Entries that arrived together.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) entries: Vec<Entry>,
    /// Number of lost entries, and the number of entries of this batch that came before them.
    pub(super) gap: Option<(u64, usize)>,
    /// True if nothing follows.
    pub(super) is_last: bool,
    /// True if too many entries were waiting, which has ended the recording.
    pub(super) has_overflowed: bool,
}

#[derive(Default)]
struct Shared {
    waiting: Mutex<Batch>,
    changed: Condvar,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shared")
    }
}

/// Creates a pipe.
pub(super) fn pipe() -> (Pipe, Outlet) {
    let shared = Arc::new(Shared::default());
    (Pipe(shared.clone()), Outlet(shared))
}

impl Shared {
    fn locked(&self) -> MutexGuard<'_, Batch> {
        // A panic cannot leave the content half updated.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Batch {
    /// Adds an entry unless it is lost.
    fn add(&mut self, entry: Entry) {
        if self.has_overflowed {
            return;
        }
        let waiting = self.entries.len();
        if waiting >= AT_MOST {
            *self = Self { has_overflowed: true, is_last: true, ..Self::default() };
        } else if (waiting >= ENTRIES || self.gap.is_some()) && !entry.is_needed() {
            self.gap.get_or_insert((0, waiting)).0 += 1;
        } else {
            self.entries.push(entry);
        }
    }
}

impl Sink for Pipe {
    fn put(&mut self, entry: Entry) {
        let mut waiting = self.0.locked();
        let before = waiting.entries.len();
        waiting.add(entry);
        let is_to_wake = before == 0 || waiting.entries.len() == ENTRIES / 2;
        drop(waiting);
        if is_to_wake {
            self.0.changed.notify_one();
        }
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.0.locked().is_last = true;
        self.0.changed.notify_one();
    }
}

impl Outlet {
    /// Waits for entries and takes them. Returns an empty batch after `at_most`.
    pub(super) fn take(&self, at_most: Duration) -> Batch {
        let is_idle = |waiting: &mut Batch| waiting.entries.is_empty() && !waiting.is_last;
        let wait = |waiting, at_most, is_to_wait: fn(&mut Batch) -> bool| {
            let woken = self.0.changed.wait_timeout_while(waiting, at_most, is_to_wait);
            woken.unwrap_or_else(PoisonError::into_inner).0
        };
        let mut waiting = wait(self.0.locked(), at_most, is_idle);
        if !waiting.entries.is_empty() {
            let is_short = |waiting: &mut Batch| !waiting.is_last && waiting.entries.len() < ENTRIES / 2;
            waiting = wait(waiting, ACCUMULATE, is_short);
        }
        let (is_last, has_overflowed) = (waiting.is_last, waiting.has_overflowed);
        // The next batch is probably about as long.
        let entries = Vec::with_capacity(waiting.entries.len().min(ENTRIES));
        std::mem::replace(&mut *waiting, Batch { entries, is_last, has_overflowed, ..Batch::default() })
    }
}

#[cfg(test)]
mod tests {
    use harbormaster_core::recording::Entry;

    use super::*;

    #[test]
    fn entries_beyond_the_limit_are_lost_until_the_others_are_taken() {
        let (mut pipe, outlet) = pipe();
        for _ in 0..ENTRIES + 3 {
            pipe.put(Entry::gap(0));
        }
        let batch = outlet.take(Duration::ZERO);
        assert_eq!((batch.entries.len(), batch.gap, batch.is_last), (ENTRIES, Some((3, ENTRIES)), false));
        pipe.put(Entry::gap(0));
        drop(pipe);
        let batch = outlet.take(Duration::from_secs(60));
        assert_eq!((batch.entries.len(), batch.gap, batch.is_last), (1, None, true));
    }
}
