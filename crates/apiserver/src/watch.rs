//! Watches: changes of the selected objects after a given version.

use std::{collections::VecDeque, sync::Arc};

use crate::{
    object::StoredObject,
    selector::Selector,
    shelf::{Change, Shelf, TooOld, at_once},
};

/// Type of a change, from the perspective of one watcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// The object was created, or the selector matches it from now on.
    Added,
    /// The object has a new version.
    Modified,
    /// The object was deleted, or the selector no longer matches it.
    Deleted,
}

impl EventType {
    /// Returns the name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// One event of a watch.
#[derive(Clone, Debug)]
pub struct Event {
    /// Type of the change.
    pub event: EventType,
    /// Object after the change. A deleted object has its final state; an object that the selector no longer matches has
    /// the last state that the selector matched.
    pub object: Arc<StoredObject>,
}

/// The history no longer contains the changes that the watcher needs, or the resource is no longer served in its old
/// form. The watcher must list again.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("too old resource version: {asked} ({oldest})")]
pub struct Expired {
    /// Version up to which the watcher has seen all changes.
    pub asked: u64,
    /// Oldest version from which watches can begin.
    pub oldest: u64,
}

/// A position in the history of a resource.
#[derive(Debug)]
pub struct Watch {
    shelf: Arc<Shelf>,
    selector: Selector,
    place: u64,
    version: u64,
    /// Objects that existed at the beginning and have not been sent yet.
    initial: VecDeque<Arc<StoredObject>>,
}

impl Watch {
    /// Watches all changes after `version`.
    pub(crate) fn behind(shelf: Arc<Shelf>, selector: Selector, version: u64) -> Result<Self, Expired> {
        let place = shelf.place(version).map_err(|TooOld(oldest)| Expired { asked: version, oldest })?;
        Ok(Self { shelf, selector, place, version, initial: VecDeque::new() })
    }

    /// Watches from now on: first the existing objects that the selector matches, then all changes.
    pub(crate) fn from_now(shelf: Arc<Shelf>, namespace: &str, selector: Selector) -> Self {
        let (page, place) = shelf.list_and_place(namespace, |object| selector.matches(object));
        Self { shelf, selector, place, version: page.version, initial: page.objects.into() }
    }

    /// Returns the version up to which all events have been read, provided that [`Self::is_past_initial`] is true.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns true if all objects that existed at the beginning have been read.
    pub fn is_past_initial(&self) -> bool {
        self.initial.is_empty()
    }

    /// Returns the next events, in order. Waits until there is at least one.
    ///
    /// # Errors
    /// When the watcher must list again; see [`Expired`].
    pub async fn next(&mut self) -> Result<Vec<Event>, Expired> {
        loop {
            let shelf = self.shelf.clone();
            let mut changed = std::pin::pin!(shelf.changed());
            changed.as_mut().enable();
            let events = self.poll()?;
            if !events.is_empty() {
                return Ok(events);
            }
            changed.await;
        }
    }

    /// Returns the events available now, which may be none.
    pub(crate) fn poll(&mut self) -> Result<Vec<Event>, Expired> {
        if !self.initial.is_empty() {
            let some = self.initial.drain(..at_once(self.initial.iter()));
            return Ok(some.map(|object| Event { event: EventType::Added, object }).collect());
        }
        loop {
            let known = self.version;
            let expired = |TooOld(oldest)| Expired { asked: known, oldest };
            let batch = self.shelf.read(self.place).map_err(expired)?;
            let (more, nothing) = (self.place != batch.place, batch.changes.is_empty());
            // A watch may begin at a future version; it sends no changes until that version is reached.
            (self.place, self.version) = (batch.place, known.max(batch.version));
            let new = batch.changes.iter().filter(|change| change.object.version > known);
            let events: Vec<Event> = new.filter_map(|change| self.seen(change)).collect();
            if !events.is_empty() || nothing || !more {
                return Ok(events);
            }
        }
    }

    /// Returns the event that this watcher sees for a change, or `None` if its selector hides the change.
    fn seen(&self, change: &Change) -> Option<Event> {
        let before = change.previous.as_ref().filter(|object| self.selector.matches(object));
        let after = !change.deleted && self.selector.matches(&change.object);
        let object = &change.object;
        let event = |event, object: &Arc<StoredObject>| Some(Event { event, object: object.clone() });
        match (before, after) {
            (None, false) => None,
            (None, true) => event(EventType::Added, object),
            (Some(_), true) => event(EventType::Modified, object),
            (Some(_), false) if change.deleted => event(EventType::Deleted, object),
            (Some(before), false) => event(EventType::Deleted, &Arc::new(before.at_version(object.version))),
        }
    }
}
