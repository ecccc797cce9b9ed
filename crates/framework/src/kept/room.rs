//! Bounds of what is kept, and the order in which it goes.

use super::{Column, Kept, seen::Seen, slate::ColumnId};

/// Bytes for each row of the node table.
const PER_ROW: usize = 16 << 10;
/// Bytes in a small cluster.
const AT_LEAST: usize = 4 << 20;
/// Guests get one part in so many, residents the others.
const PARTS: usize = 8;

/// Whether something was asked for again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Standing {
    /// It was asked for once.
    #[default]
    Guest,
    /// It was asked for more than once.
    Resident,
}

impl Standing {
    /// Both, in the order in which they make room.
    const ALL: [Self; 2] = [Self::Guest, Self::Resident];
}

/// Standing of something that is kept, and its last use.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stay {
    pub(super) standing: Standing,
    /// The attempt that asked for it last.
    pub(super) used: u64,
    /// Fingerprint that is remembered when a guest leaves.
    pub(super) print: u64,
}

/// Something that may go, in the order in which it must: a slate before the columns that it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Item {
    Slate(usize),
    Column(ColumnId),
}

/// Bounds, and what was measured last.
#[derive(Debug, Default)]
pub(super) struct Room {
    at_most: usize,
    /// By standing: how many slates and columns there are.
    count: [usize; 2],
    /// By standing: [`Self::entries`] when the size was measured last.
    measured: [usize; 2],
    /// The last attempt before [`Kept::forget_unused`] was called last.
    unused_since: u64,
}

impl Room {
    pub(super) fn new(at_most: usize) -> Self {
        Self { at_most, ..Self::default() }
    }

    /// Something new is a guest, unless it has left before anybody asked for it again.
    pub(super) fn arrive(&mut self, print: u64, now: u64, seen: &mut Seen) -> Stay {
        let standing = if seen.take(print) { Standing::Resident } else { Standing::Guest };
        self.count[standing as usize] += 1;
        Stay { standing, used: now, print }
    }

    /// It was asked for again.
    pub(super) fn promote(&mut self, stay: &mut Stay) {
        if stay.standing == Standing::Guest {
            self.count[Standing::Guest as usize] -= 1;
            self.count[Standing::Resident as usize] += 1;
            stay.standing = Standing::Resident;
        }
    }

    fn leave(&mut self, stay: &Stay, seen: &mut Seen) {
        self.count[stay.standing as usize] -= 1;
        if stay.standing == Standing::Guest {
            seen.note(stay.print);
        }
    }

    /// About how many answers are kept, were everything full.
    fn entries(&self, standing: Standing, rows: usize) -> usize {
        self.count[standing as usize] * (rows + 1)
    }

    /// Number of bytes for everything of that standing.
    fn bytes(&self, standing: Standing, rows: usize) -> usize {
        let all = self.at_most.min(AT_LEAST.max(PER_ROW * rows));
        let guests = all / PARTS;
        match standing {
            Standing::Guest => guests,
            Standing::Resident => all - guests,
        }
    }
}

impl Kept {
    /// Lets go of what was not used for longest until the rest is small enough. To measure is to look at everything, so
    /// this waits until there is an eighth more than after the last time: kept is never much more than allowed.
    pub(super) fn make_room(&mut self, rows: usize) {
        for standing in Standing::ALL {
            let measured = self.room.measured[standing as usize];
            if self.room.entries(standing, rows) > measured + measured / 8 {
                self.shrink(standing, self.room.bytes(standing, rows));
                self.room.measured[standing as usize] = self.room.entries(standing, rows);
            }
        }
    }

    /// Lets go of what no attempt has asked for since this was called last.
    pub(crate) fn forget_unused(&mut self) {
        let since = std::mem::replace(&mut self.room.unused_since, self.clock);
        for item in self.oldest_first(|stay| stay.used <= since) {
            self.let_go(item);
        }
    }

    fn shrink(&mut self, standing: Standing, at_most: usize) {
        let items = self.oldest_first(|stay| stay.standing == standing);
        let mut size = items.iter().map(|item| self.size_of(*item)).sum::<usize>();
        for item in items {
            if size <= at_most {
                break;
            }
            size -= self.let_go(item);
        }
    }

    fn oldest_first(&self, which: impl Fn(&Stay) -> bool) -> Vec<Item> {
        let slates = self.slates.iter().enumerate().filter(|(_, slate)| slate.is_there());
        let slates = slates.map(|(at, slate)| (slate.stay, Item::Slate(at)));
        let columns = self.shelves.iter().enumerate().filter(|(_, shelf)| shelf.key.is_some());
        let columns = columns.map(|(at, shelf)| (shelf.stay, Item::Column(at)));
        let mut items: Vec<(u64, Item)> = slates
            .chain(columns)
            .filter(|(stay, _)| which(stay))
            .map(|(stay, item)| (stay.used, item))
            .collect();
        items.sort_unstable();
        items.into_iter().map(|(_, item)| item).collect()
    }

    /// Returns how many bytes that frees. A column that a slate uses stays.
    fn let_go(&mut self, item: Item) -> usize {
        let size = self.size_of(item);
        let stay = match item {
            Item::Slate(at) => self.remove_slate(at),
            Item::Column(at) if self.shelves[at].users == 0 => self.remove_column(at),
            Item::Column(_) => return 0,
        };
        self.room.leave(&stay, &mut self.seen);
        size
    }

    fn remove_slate(&mut self, at: usize) -> Stay {
        let gone = std::mem::take(&mut self.slates[at]);
        self.by_columns.remove(&gone.columns);
        for column in gone.columns.iter().flatten() {
            self.shelves[*column].users -= 1;
        }
        self.free_slates.push(at);
        gone.stay
    }

    fn remove_column(&mut self, at: ColumnId) -> Stay {
        let gone = std::mem::take(&mut self.shelves[at]);
        self.columns[at] = Column::default();
        if let Some(key) = gone.key {
            self.by_reads.remove(&key);
        }
        self.free_columns.push(at);
        gone.stay
    }

    fn size_of(&self, item: Item) -> usize {
        match item {
            Item::Slate(at) => self.slates[at].size(),
            Item::Column(at) => self.columns[at].size() + self.shelves[at].size(),
        }
    }

    /// About how many bytes are kept.
    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        let items = self.oldest_first(|_| true);
        items.into_iter().map(|item| self.size_of(item)).sum::<usize>() + self.seen.size()
    }
}
