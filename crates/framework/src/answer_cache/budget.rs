//! Size limits of the cache, and the order in which entries are evicted.

use super::{AnswerCache, Column, recently_evicted::RecentlyEvicted, slate::ColumnId};

/// Size limit of the cache per row of the node table, in bytes.
const BYTES_PER_ROW: usize = 16 << 10;
/// Size limit of the cache for a small cluster, in bytes.
const MIN_BYTES: usize = 4 << 20;
/// The size limit divided by this number is left to the probationary segment even if the protected segment is full.
const PROBATIONARY_SHARE: usize = 8;

/// Segment of the cache that an entry is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Segment {
    /// The entry was used by one attempt.
    #[default]
    Probationary,
    /// The entry was used by more than one attempt.
    Protected,
}

impl Segment {
    /// Both segments, in the order in which they are shrunk.
    const ALL: [Self; 2] = [Self::Protected, Self::Probationary];
}

/// Segment and last use of a cache entry.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    pub(super) segment: Segment,
    /// Number of the last attempt that used the entry.
    pub(super) last_used: u64,
    /// Fingerprint that is remembered when the entry is evicted from the probationary segment.
    pub(super) fingerprint: u64,
}

/// An entry that can be removed. Entries sort in removal order: a slate before the columns that it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum CacheItem {
    Slate(usize),
    Column(ColumnId),
}

/// Limits of the cache and the most recently measured sizes.
#[derive(Debug, Default)]
pub(super) struct Budget {
    at_most: usize,
    /// Number of slates and columns in each segment.
    count: [usize; 2],
    /// [`Self::answers`] of each segment when its size was last measured.
    measured: [usize; 2],
    /// Size of the protected segment in bytes when it was last measured.
    protected: usize,
    /// Value of the attempt counter at the last call to [`AnswerCache::forget_unused`].
    unused_since: u64,
}

impl Budget {
    pub(super) fn new(at_most: usize) -> Self {
        Self { at_most, ..Self::default() }
    }

    /// Admits a new entry. The entry is protected if it was evicted recently, and probationary otherwise.
    pub(super) fn admit(
        &mut self,
        fingerprint: u64,
        now: u64,
        recently_evicted: &mut RecentlyEvicted,
    ) -> Usage {
        let segment =
            if recently_evicted.take(fingerprint) { Segment::Protected } else { Segment::Probationary };
        self.count[segment as usize] += 1;
        Usage { segment, last_used: now, fingerprint }
    }

    /// Moves an entry to the protected segment.
    pub(super) fn promote(&mut self, usage: &mut Usage) {
        if usage.segment == Segment::Probationary {
            self.count[Segment::Probationary as usize] -= 1;
            self.count[Segment::Protected as usize] += 1;
            usage.segment = Segment::Protected;
        }
    }

    fn release(&mut self, usage: &Usage, recently_evicted: &mut RecentlyEvicted) {
        self.count[usage.segment as usize] -= 1;
        if usage.segment == Segment::Probationary {
            recently_evicted.insert(usage.fingerprint);
        }
    }

    /// Approximate number of answers in a segment if every entry were full.
    fn answers(&self, segment: Segment, rows: usize) -> usize {
        self.count[segment as usize] * (rows + 1)
    }

    /// Returns true if a segment has grown by an eighth since it was measured.
    fn has_grown(&self, segment: Segment, rows: usize) -> bool {
        let measured = self.measured[segment as usize];
        self.answers(segment, rows) > measured + measured / 8
    }

    /// Size limit of a segment in bytes.
    fn bytes(&self, segment: Segment, rows: usize) -> usize {
        let all = self.at_most.min(MIN_BYTES.max(BYTES_PER_ROW * rows));
        let reserved = all / PROBATIONARY_SHARE;
        match segment {
            Segment::Protected => all - reserved,
            Segment::Probationary => reserved.max(all.saturating_sub(self.protected)),
        }
    }
}

impl AnswerCache {
    /// Removes the least recently used entries until the rest is within the limits. Measuring visits every entry, so the
    /// segments are measured only after one has grown by an eighth; the limits may be exceeded slightly.
    pub(super) fn enforce_budget(&mut self, rows: usize) {
        if !Segment::ALL.iter().any(|segment| self.budget.has_grown(*segment, rows)) {
            return;
        }
        for segment in Segment::ALL {
            let size = self.shrink(segment, self.budget.bytes(segment, rows));
            if segment == Segment::Protected {
                self.budget.protected = size;
            }
            self.budget.measured[segment as usize] = self.budget.answers(segment, rows);
        }
    }

    /// Removes everything that no attempt has used since the last call.
    pub(crate) fn forget_unused(&mut self) {
        let since = std::mem::replace(&mut self.budget.unused_since, self.clock);
        for item in self.oldest_first(|usage| usage.last_used <= since) {
            self.remove(item);
        }
    }

    /// Removes entries of a segment until the rest is within the limit. Returns the size of the rest in bytes.
    fn shrink(&mut self, segment: Segment, at_most: usize) -> usize {
        let items = self.oldest_first(|usage| usage.segment == segment);
        let mut size = items.iter().map(|item| self.size_of(*item)).sum::<usize>();
        for item in items {
            if size <= at_most {
                break;
            }
            size -= self.remove(item);
        }
        size
    }

    fn oldest_first(&self, which: impl Fn(&Usage) -> bool) -> Vec<CacheItem> {
        let slates = self.slates.iter().enumerate().filter(|(_, slate)| slate.exists());
        let slates = slates.map(|(at, slate)| (slate.usage, CacheItem::Slate(at)));
        let columns = self.column_entries.iter().enumerate().filter(|(_, entry)| entry.key.is_some());
        let columns = columns.map(|(at, entry)| (entry.usage, CacheItem::Column(at)));
        let mut items: Vec<(u64, CacheItem)> = slates
            .chain(columns)
            .filter(|(usage, _)| which(usage))
            .map(|(usage, item)| (usage.last_used, item))
            .collect();
        items.sort_unstable();
        items.into_iter().map(|(_, item)| item).collect()
    }

    /// Removes an entry and returns the number of bytes that it held. A column that a slate uses is not removed.
    fn remove(&mut self, item: CacheItem) -> usize {
        let size = self.size_of(item);
        let usage = match item {
            CacheItem::Slate(at) => self.remove_slate(at),
            CacheItem::Column(at) if self.column_entries[at].users == 0 => self.remove_column(at),
            CacheItem::Column(_) => return 0,
        };
        self.budget.release(&usage, &mut self.recently_evicted);
        size
    }

    fn remove_slate(&mut self, at: usize) -> Usage {
        let gone = std::mem::take(&mut self.slates[at]);
        self.by_columns.remove(&gone.columns);
        for column in gone.columns.iter().flatten() {
            self.column_entries[*column].users -= 1;
        }
        self.free_slates.push(at);
        gone.usage
    }

    fn remove_column(&mut self, at: ColumnId) -> Usage {
        let gone = std::mem::take(&mut self.column_entries[at]);
        self.columns[at] = Column::default();
        if let Some(key) = gone.key {
            self.by_reads.remove(&key);
        }
        self.free_columns.push(at);
        gone.usage
    }

    fn size_of(&self, item: CacheItem) -> usize {
        match item {
            CacheItem::Slate(at) => self.slates[at].size(),
            CacheItem::Column(at) => self.columns[at].size() + self.column_entries[at].size(),
        }
    }

    /// Approximate size in bytes.
    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        let items = self.oldest_first(|_| true);
        items.into_iter().map(|item| self.size_of(item)).sum::<usize>() + self.recently_evicted.size()
    }
}
