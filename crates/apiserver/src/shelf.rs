//! The objects and the recent history of one resource.
//!
//! Watchers have no queues: each has a position in one bounded history and reads on from there. So a watcher that keeps
//! up sees every change once and in order, and one that is too slow loses its position instead of using up the server's
//! memory.

use std::{
    cmp::Ordering as Order,
    collections::{BTreeMap, VecDeque},
    ops::Bound,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use serde_json::Value;
use tokio::sync::{Notify, futures::Notified};

use crate::object::{Draft, StoredObject};

/// The resource version counter that all resources share.
#[derive(Clone, Debug)]
pub(crate) struct Versions(Arc<AtomicU64>);

impl Versions {
    pub(crate) fn new() -> Self {
        // Version 0 has a special meaning in requests.
        Self(Arc::new(AtomicU64::new(1)))
    }

    /// Returns the latest version assigned.
    pub(crate) fn now(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }
}

/// One write.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// Object after the write; after a deletion, its final state.
    pub(crate) object: Arc<StoredObject>,
    pub(crate) previous: Option<Arc<StoredObject>>,
    pub(crate) deleted: bool,
}

/// The objects of one resource.
#[derive(Debug)]
pub(crate) struct Shelf {
    /// Paths that field selectors may name.
    pub(crate) fields: Vec<String>,
    versions: Versions,
    history: usize,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    objects: BTreeMap<Arc<str>, Arc<StoredObject>>,
    changes: VecDeque<Change>,
    /// Number of bytes of JSON in the changes.
    bytes: usize,
    /// True if nothing more will be written and readers must list again.
    closed: bool,
    /// Number of forgotten changes, which is also the position of the oldest change in the history.
    forgotten: u64,
    /// Version of the newest forgotten change.
    forgotten_version: u64,
}

/// Failure of a write: an object of the same name exists already, or the object no longer has the expected version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused;

/// Failure of a read: the history no longer contains the version, or the shelf is closed. Contains the oldest
/// available version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TooOld(pub(crate) u64);

/// Some objects, in key order.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) objects: Vec<Arc<StoredObject>>,
    /// Version at which the objects had this state.
    pub(crate) version: u64,
    /// Number of objects in the range after this page.
    pub(crate) remaining: usize,
}

/// Range of objects to list.
pub(crate) struct Range<'a> {
    /// Empty for all namespaces.
    pub(crate) namespace: &'a str,
    /// Only keys after this one; empty to start with the first.
    pub(crate) behind: &'a str,
    /// 0 for no limit.
    pub(crate) limit: usize,
    /// Version at which to list the objects; `None` for the latest.
    pub(crate) at: Option<u64>,
}

impl Range<'_> {
    pub(crate) const ALL: Range<'static> = Range { namespace: "", behind: "", limit: 0, at: None };
}

/// Changes that a watcher reads in one step.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) changes: Vec<Change>,
    /// Position at which to continue.
    pub(crate) place: u64,
    /// All changes up to this version have been read.
    pub(crate) version: u64,
}

/// Maximum number of changes in a batch.
const BATCH: usize = 256;
/// Maximum number of bytes of JSON in a batch, not counting the last object. If a client does not read, about this much
/// data waits for it.
const BATCH_BYTES: usize = 64 << 10;
/// Maximum number of bytes of JSON in the history. The newest change is kept even if it alone is larger.
const HISTORY_BYTES: usize = 128 << 20;

/// Returns the number of these objects to send in one step: at least one if there are any.
pub(crate) fn at_once<'a>(objects: impl Iterator<Item = &'a Arc<StoredObject>>) -> usize {
    let mut total = 0;
    let fits = |object: &&Arc<StoredObject>| {
        let fits = total < BATCH_BYTES;
        total += object.json().len();
        fits
    };
    objects.take(BATCH).take_while(fits).count()
}

impl Shelf {
    /// Creates an empty shelf that keeps at most the last `history` changes.
    pub(crate) fn new(versions: Versions, history: usize, fields: Vec<String>) -> Self {
        // This shelf knows nothing about earlier objects of the resource.
        let forgotten_version = versions.now();
        let state = State {
            objects: BTreeMap::new(),
            changes: VecDeque::new(),
            bytes: 0,
            closed: false,
            forgotten: 0,
            forgotten_version,
        };
        Self { fields, versions, history: history.max(1), state: Mutex::new(state), changed: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No operation under the lock leaves a change half done, so a poisoned lock is safe to use.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, key: &str) -> Option<Arc<StoredObject>> {
        self.state().objects.get(key).cloned()
    }

    pub(crate) fn insert(&self, draft: Draft) -> Result<Arc<StoredObject>, Refused> {
        let mut state = self.state();
        if state.objects.contains_key(&draft.key) {
            return Err(Refused);
        }
        Ok(self.put(&mut state, draft, None))
    }

    /// Replaces the object if it is still at `version`.
    pub(crate) fn replace(&self, version: u64, draft: Draft) -> Result<Arc<StoredObject>, Refused> {
        let mut state = self.state();
        let previous = state.at_version(&draft.key, version)?;
        Ok(self.put(&mut state, draft, Some(previous)))
    }

    fn put(&self, state: &mut State, draft: Draft, previous: Option<Arc<StoredObject>>) -> Arc<StoredObject> {
        let object = Arc::new(draft.seal(self.versions.next()));
        state.objects.insert(object.key.clone(), object.clone());
        self.tell(state, Change { object: object.clone(), previous, deleted: false });
        object
    }

    /// Removes the object if it is still at `version`. Watchers see `last` as the final state, or the previous state if
    /// `last` is `None`.
    pub(crate) fn remove(
        &self,
        key: &str,
        version: u64,
        last: Option<Draft>,
    ) -> Result<Arc<StoredObject>, Refused> {
        let mut state = self.state();
        let previous = state.at_version(key, version)?;
        state.objects.remove(key);
        let version = self.versions.next();
        let object = Arc::new(match last {
            Some(draft) => draft.seal(version),
            None => previous.at_version(version),
        });
        self.tell(&mut state, Change { object: object.clone(), previous: Some(previous), deleted: true });
        Ok(object)
    }

    /// Removes the oldest objects if there are many more than `most`.
    pub(crate) fn trim(&self, most: usize) {
        let state = self.state();
        let count = state.objects.len();
        // Removing many objects at a time keeps removals rare.
        if count <= most + most / 10 {
            return;
        }
        let mut ages: Vec<_> =
            state.objects.values().map(|object| (object.version, object.key.clone())).collect();
        drop(state);
        ages.sort_unstable();
        for (version, key) in ages.into_iter().take(count - most) {
            // An object that was written or removed in the meantime is no longer among the oldest.
            let _ = self.remove(&key, version, None);
        }
    }

    /// Closes the shelf: its watches end once they have sent all changes. Used when the resource is no longer served or
    /// gets a new shelf.
    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.changed.notify_waiters();
    }

    /// Returns a new shelf with the same objects in another form, and with other fields for field selectors. Readers of
    /// this shelf must list again.
    pub(crate) fn with_form(&self, fields: Vec<String>, form: impl Fn(&mut Value)) -> Self {
        let new = Self::new(self.versions.clone(), self.history, fields);
        let copy = |object: &Arc<StoredObject>| {
            let mut value = object.value();
            form(&mut value);
            Draft::new(&value, &new.fields).seal(object.version)
        };
        let objects: Vec<_> = self.state().objects.values().map(|object| Arc::new(copy(object))).collect();
        new.state().objects = objects.into_iter().map(|object| (object.key.clone(), object)).collect();
        self.close();
        new
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.state().objects.is_empty()
    }

    fn tell(&self, state: &mut State, change: Change) {
        state.bytes += change.object.json().len();
        state.changes.push_back(change);
        while (state.changes.len() > self.history || state.bytes > HISTORY_BYTES)
            && state.changes.len() > 1
            && let Some(oldest) = state.changes.pop_front()
        {
            state.bytes -= oldest.object.json().len();
            state.forgotten += 1;
            state.forgotten_version = oldest.object.version;
        }
        self.changed.notify_waiters();
    }

    /// Lists the objects that `wanted` selects.
    pub(crate) fn list(
        &self,
        range: &Range<'_>,
        wanted: impl Fn(&StoredObject) -> bool,
    ) -> Result<Page, TooOld> {
        let state = self.state();
        let now = self.versions.now();
        let version = range.at.unwrap_or(now);
        let older = state.as_of(version)?;
        let mut page = Page { version, ..Page::default() };
        for object in state.merged(&older, range) {
            if range.limit > 0 && page.objects.len() == range.limit {
                page.remaining += 1;
            } else if wanted(object) {
                page.objects.push(object.clone());
            }
        }
        Ok(page)
    }

    /// Returns the position at which a watcher that knows everything up to `version` begins.
    pub(crate) fn place(&self, version: u64) -> Result<u64, TooOld> {
        let state = self.state();
        state.index_behind(version).map(|index| state.forgotten + index as u64)
    }

    /// Returns the objects of a namespace that `wanted` selects, and the position at which a watcher that has seen
    /// them continues.
    pub(crate) fn list_and_place(
        &self,
        namespace: &str,
        wanted: impl Fn(&StoredObject) -> bool,
    ) -> (Page, u64) {
        let state = self.state();
        let range = Range { namespace, ..Range::ALL };
        let objects = state.merged(&BTreeMap::new(), &range).filter(|o| wanted(o)).cloned().collect();
        let place = state.forgotten + state.changes.len() as u64;
        (Page { objects, version: self.versions.now(), remaining: 0 }, place)
    }

    /// Returns the first batch of changes from `place` on, which may be empty.
    pub(crate) fn read(&self, place: u64) -> Result<Batch, TooOld> {
        let state = self.state();
        let Some(index) = place.checked_sub(state.forgotten).and_then(|index| usize::try_from(index).ok())
        else {
            return Err(TooOld(state.forgotten_version));
        };
        if state.closed && index == state.changes.len() {
            return Err(TooOld(self.versions.now()));
        }
        let end = index + at_once(state.changes.range(index..).map(|change| &change.object));
        let changes: Vec<Change> = state.changes.range(index..end).cloned().collect();
        let at_end = end == state.changes.len();
        let version = match changes.last() {
            Some(last) if !at_end => last.object.version,
            _ => self.versions.now(),
        };
        Ok(Batch { changes, place: state.forgotten + end as u64, version })
    }

    /// Returns a future that completes after the next change. Create the future before reading, or a change may be
    /// missed.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }
}

impl State {
    fn at_version(&self, key: &str, version: u64) -> Result<Arc<StoredObject>, Refused> {
        self.objects.get(key).filter(|object| object.version == version).cloned().ok_or(Refused)
    }

    /// Returns the index of the first change after `version`.
    fn index_behind(&self, version: u64) -> Result<usize, TooOld> {
        if version < self.forgotten_version {
            return Err(TooOld(self.forgotten_version));
        }
        Ok(self.changes.partition_point(|change| change.object.version <= version))
    }

    /// Returns, for every key written after `version`, its state at `version`.
    fn as_of(&self, version: u64) -> Result<BTreeMap<&str, Option<&Arc<StoredObject>>>, TooOld> {
        let mut older = BTreeMap::new();
        for change in self.changes.range(self.index_behind(version)?..) {
            older.entry(&*change.object.key).or_insert(change.previous.as_ref());
        }
        Ok(older)
    }

    /// Returns the objects of a range; states in `older` override the current states.
    fn merged<'a>(
        &'a self,
        older: &'a BTreeMap<&'a str, Option<&'a Arc<StoredObject>>>,
        range: &Range<'_>,
    ) -> impl Iterator<Item = &'a Arc<StoredObject>> {
        // `0` follows the slash in ASCII, so this bound follows all keys of the namespace.
        let (first, end) = match range.namespace {
            "" => (String::new(), None),
            namespace => (format!("{namespace}/"), Some(format!("{namespace}0"))),
        };
        let first = if range.behind > first.as_str() {
            Bound::Excluded(range.behind.to_owned())
        } else {
            Bound::Included(first)
        };
        let (low, high) =
            (first.as_ref().map(String::as_str), end.as_deref().map_or(Bound::Unbounded, Bound::Excluded));
        let empty =
            matches!((&low, &high), (Bound::Included(a) | Bound::Excluded(a), Bound::Excluded(b)) if a >= b);
        let bounds = if empty { (Bound::Included(""), Bound::Excluded("")) } else { (low, high) };
        let mut now = self.objects.range::<str, _>(bounds).peekable();
        let mut then = older.range::<str, _>(bounds).peekable();
        std::iter::from_fn(move || {
            loop {
                let order = match (now.peek(), then.peek()) {
                    (None, None) => return None,
                    (Some(_), None) => Order::Less,
                    (None, Some(_)) => Order::Greater,
                    (Some((a, _)), Some((b, _))) => (***a).cmp(**b),
                };
                if order == Order::Less {
                    return now.next().map(|(_, object)| object);
                }
                if order == Order::Equal {
                    now.next();
                }
                if let Some(object) = then.next().and_then(|(_, object)| *object) {
                    return Some(object);
                }
            }
        })
    }
}

#[cfg(test)]
mod tests;
