//! A watch: what happens to the selected objects, from a version on.

use std::{collections::VecDeque, sync::Arc};

use crate::{
    object::StoredObject,
    selector::Selector,
    shelf::{Change, Shelf, TooOld, at_once},
};

/// What happened to an object, as one watcher sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// It is there, or is selected, since now.
    Added,
    /// It is another version.
    Modified,
    /// It is gone, or is selected no longer.
    Deleted,
}

impl EventType {
    /// The word on the wire.
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
    /// What happened.
    pub event: EventType,
    /// The object after that; of a deletion, as it was last.
    pub object: Arc<StoredObject>,
}

/// The watcher was too slow, or begins too early: what it missed is forgotten. List anew.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("too old resource version: {asked} ({oldest})")]
pub struct Expired {
    /// The version that the watcher knew.
    pub asked: u64,
    /// The oldest version from which watches can begin.
    pub oldest: u64,
}

/// A place in the history of a resource.
#[derive(Debug)]
pub struct Watch {
    shelf: Arc<Shelf>,
    selector: Selector,
    place: u64,
    version: u64,
    /// Objects that were there at the beginning and have not been told yet.
    initial: VecDeque<Arc<StoredObject>>,
}

impl Watch {
    /// Everything behind `version`.
    pub(crate) fn behind(shelf: Arc<Shelf>, selector: Selector, version: u64) -> Result<Self, Expired> {
        let place = shelf.place(version).map_err(|TooOld(oldest)| Expired { asked: version, oldest })?;
        Ok(Self { shelf, selector, place, version, initial: VecDeque::new() })
    }

    /// All objects there are, then what happens to them.
    pub(crate) fn from_now(shelf: Arc<Shelf>, namespace: &str, selector: Selector) -> Self {
        let (page, place) = shelf.list_and_place(namespace, |object| selector.matches(object));
        Self { shelf, selector, place, version: page.version, initial: page.objects.into() }
    }

    /// All events up to this version have been read.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Whether the objects that were there at the beginning have all been read.
    pub fn is_past_initial(&self) -> bool {
        self.initial.is_empty()
    }

    /// The next events, in order; waits for at least one.
    ///
    /// # Errors
    /// When the watcher was so slow that events were forgotten.
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

    /// The events that are there now; maybe none.
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
            // A watch may begin in the future: then it is silent until that is the present.
            (self.place, self.version) = (batch.place, known.max(batch.version));
            let new = batch.changes.iter().filter(|change| change.object.version > known);
            let events: Vec<Event> = new.filter_map(|change| self.seen(change)).collect();
            if !events.is_empty() || nothing || !more {
                return Ok(events);
            }
        }
    }

    /// A change as it looks through the selector.
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
