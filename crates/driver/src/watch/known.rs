//! The objects that the engine knows, each with a mark of its state.
//!
//! Most updates in a settled cluster are heartbeats of nodes and statuses of running pods. An update that does not
//! change the mark changes nothing that is decoded: it ends here, and does not wake the engine.

use std::{hash::Hash, num::NonZeroU64};

use ahash::RandomState;
use rustc_hash::FxHashMap;

/// Mark of an object's state. To the engine, two states of an object with equal marks are the same. Marks are hashes
/// with a random key that never leaves the process, so nobody can look for a change that keeps the mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark(NonZeroU64);

/// The known objects by key.
#[derive(Debug)]
pub struct Known<K> {
    /// No mark means that any state counts as new.
    marks: FxHashMap<K, Option<Mark>>,
    hashing: RandomState,
    /// True if every version of an object is needed, because objects are also passed on in their original form.
    needs_versions: bool,
}

impl<K> Default for Known<K> {
    fn default() -> Self {
        Self { marks: FxHashMap::default(), hashing: RandomState::default(), needs_versions: false }
    }
}

impl<K: Eq + Hash> Known<K> {
    /// Makes every version of an object count as new.
    pub(super) fn need_versions(&mut self) {
        self.needs_versions = true;
    }

    /// Returns the mark of an object of which only the essence matters.
    pub(super) fn mark(&self, essence: &impl Hash, version: &str) -> Option<Mark> {
        match self.needs_versions {
            true => self.mark_version(version),
            false => Some(self.hashed(essence)),
        }
    }

    /// Returns the mark of an object of which every version matters; `None` if the object has no version.
    pub(super) fn mark_version(&self, version: &str) -> Option<Mark> {
        (!version.is_empty()).then(|| self.hashed(&version))
    }

    fn hashed(&self, state: &impl Hash) -> Mark {
        Mark(NonZeroU64::new(self.hashing.hash_one(state)).unwrap_or(NonZeroU64::MIN))
    }

    /// Notes the state of a known object. Returns true if the state is new, so that the engine must be told; `None` if
    /// the object is not known.
    pub(super) fn renew(&mut self, key: &K, mark: Option<Mark>) -> Option<bool> {
        let before = std::mem::replace(self.marks.get_mut(key)?, mark);
        Some(mark.is_none() || before != mark)
    }

    /// Adds an object that was not known.
    pub(super) fn add(&mut self, key: K, mark: Option<Mark>) {
        self.marks.insert(key, mark);
    }

    /// Forgets an object. Returns false if it was not known.
    pub(super) fn forget(&mut self, key: &K) -> bool {
        self.marks.remove(key).is_some()
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &K> {
        self.marks.keys()
    }

    pub(super) fn len(&self) -> usize {
        self.marks.len()
    }
}
