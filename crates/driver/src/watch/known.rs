//! The objects that the engine knows, each with a mark of its state.
//!
//! Most updates in a settled cluster are heartbeats of nodes and statuses of running pods. An update that does not
//! change the mark changes nothing that is decoded: it ends here, and does not wake the engine.

use std::hash::Hash;

use ahash::RandomState;
use rustc_hash::FxHashMap;

/// Mark of an object's state. To the engine, two states of an object with equal marks are the same. Marks are hashes
/// with a random key that never leaves the process, so nobody can look for a change that keeps the mark. The lowest bit
/// of a mark is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark(u64);

impl Mark {
    /// Any state of an object with this mark counts as new.
    const NONE: Self = Self(0);

    fn of(hash: u64) -> Self {
        Self(if hash < Entry::PRESENT * 2 { Entry::PRESENT * 2 } else { hash & !Entry::PRESENT })
    }
}

/// A known object: its mark, and a bit that says whether it has been present since the current list began. Tens of
/// thousands of objects are listed at a start, so a set of those that were listed would take megabytes.
#[derive(Clone, Copy, Debug)]
struct Entry(u64);

impl Entry {
    const PRESENT: u64 = 1;

    fn present(mark: Mark) -> Self {
        Self(mark.0 | Self::PRESENT)
    }

    fn mark(self) -> Mark {
        Mark(self.0 & !Self::PRESENT)
    }

    fn is_present(self) -> bool {
        self.0 & Self::PRESENT != 0
    }
}

/// The known objects by key.
#[derive(Debug)]
pub struct Known<K> {
    entries: FxHashMap<K, Entry>,
    hashing: RandomState,
    /// True if every version of an object is needed, because objects are also passed on in their original form.
    needs_versions: bool,
}

impl<K> Default for Known<K> {
    fn default() -> Self {
        Self { entries: FxHashMap::default(), hashing: RandomState::default(), needs_versions: false }
    }
}

impl<K: Clone + Eq + Hash + Ord> Known<K> {
    /// Makes every version of an object count as new.
    pub(super) fn need_versions(&mut self) {
        self.needs_versions = true;
    }

    /// Returns the mark of an object of which only the essence matters.
    pub(super) fn mark(&self, essence: &impl Hash, version: &str) -> Mark {
        match self.needs_versions {
            true => self.mark_version(version),
            false => self.hashed(essence),
        }
    }

    /// Returns the mark of an object of which every version matters. An object without a version always counts as new.
    pub(super) fn mark_version(&self, version: &str) -> Mark {
        if version.is_empty() { Mark::NONE } else { self.hashed(&version) }
    }

    fn hashed(&self, state: &impl Hash) -> Mark {
        Mark::of(self.hashing.hash_one(state))
    }

    /// Notes the state of a known object. Returns true if the state is new, so that the engine must be told; `None` if
    /// the object is not known.
    pub(super) fn renew(&mut self, key: &K, mark: Mark) -> Option<bool> {
        let before = std::mem::replace(self.entries.get_mut(key)?, Entry::present(mark));
        Some(mark == Mark::NONE || before.mark() != mark)
    }

    /// Adds an object that was not known.
    pub(super) fn add(&mut self, key: K, mark: Mark) {
        self.entries.insert(key, Entry::present(mark));
    }

    /// Notes that an object is present in a state that cannot be read, if it is known.
    pub(super) fn keep(&mut self, key: &K) {
        if let Some(entry) = self.entries.get_mut(key) {
            *entry = Entry::present(entry.mark());
        }
    }

    /// Forgets an object. Returns false if it was not known.
    pub(super) fn forget(&mut self, key: &K) -> bool {
        self.entries.remove(key).is_some()
    }

    /// Begins a list of all objects.
    pub(super) fn begin_list(&mut self) {
        self.entries.values_mut().for_each(|entry| *entry = Entry(entry.mark().0));
    }

    /// Forgets the objects that have not been present since the list began, and returns them in order.
    pub(super) fn finish_list(&mut self) -> Vec<K> {
        let mut gone: Vec<K> =
            self.entries.extract_if(|_, entry| !entry.is_present()).map(|(key, _)| key).collect();
        gone.sort();
        gone
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    /// A step of a watcher. Keys and versions are few, so they meet often.
    #[derive(Clone, Debug)]
    enum Step {
        Present(u8, u8),
        Unreadable(u8),
        Deleted(u8),
        Begin,
        Finish,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => (0..6_u8, 0..3_u8).prop_map(|(key, version)| Step::Present(key, version)),
            1 => (0..6_u8).prop_map(Step::Unreadable),
            1 => (0..6_u8).prop_map(Step::Deleted),
            1 => Just(Step::Begin),
            1 => Just(Step::Finish),
        ]
    }

    proptest! {
        #[test]
        fn objects_are_known_as_by_a_map_and_a_set_of_the_listed(steps in prop::collection::vec(step(), 0..60)) {
            let mut known = Known::default();
            let (mut versions, mut listed) = (BTreeMap::new(), BTreeSet::new());
            for step in steps {
                match step {
                    Step::Present(key, version) => {
                        // An object without a version always counts as new.
                        let text = ["", "1", "2"][usize::from(version)];
                        let before = versions.insert(key, version);
                        listed.insert(key);
                        let mark = known.mark_version(text);
                        let is_news = known.renew(&key, mark);
                        prop_assert_eq!(is_news, before.map(|before| text.is_empty() || before != version));
                        if is_news.is_none() {
                            known.add(key, mark);
                        }
                    }
                    Step::Unreadable(key) => {
                        known.keep(&key);
                        listed.insert(key);
                    }
                    Step::Deleted(key) => {
                        listed.remove(&key);
                        prop_assert_eq!(known.forget(&key), versions.remove(&key).is_some());
                    }
                    Step::Begin => {
                        known.begin_list();
                        listed.clear();
                    }
                    Step::Finish => {
                        let gone: Vec<u8> = versions.keys().copied().filter(|key| !listed.contains(key)).collect();
                        versions.retain(|key, _| listed.contains(key));
                        prop_assert_eq!(known.finish_list(), gone);
                    }
                }
                prop_assert_eq!(known.len(), versions.len());
            }
        }
    }

    #[test]
    fn a_mark_is_none_only_for_an_object_without_a_version() {
        for hash in [0, 1, 2, 3, u64::MAX - 1, u64::MAX] {
            let mark = Mark::of(hash);
            assert_ne!(mark, Mark::NONE);
            assert_eq!(Entry::present(mark).mark(), mark);
        }
        assert_eq!(Known::<u8>::default().mark_version(""), Mark::NONE);
    }
}
