//! Fingerprints of answers that were evicted before their second use.

/// Number of sets of fingerprints; a power of two.
const SETS: usize = 2048;
/// Number of fingerprints in a set.
const WAYS: usize = 4;

/// The latest fingerprints, in a fixed amount of memory: a new fingerprint replaces the oldest one in its set.
#[derive(Debug, Default)]
pub(super) struct RecentlyEvicted {
    /// The sets, each with its latest fingerprint first; zero marks a free entry. Empty until the first fingerprint is
    /// inserted.
    sets: Vec<[u64; WAYS]>,
}

impl RecentlyEvicted {
    /// Remembers a fingerprint.
    pub(super) fn insert(&mut self, fingerprint: u64) {
        self.sets.resize(SETS, [0; WAYS]);
        let set = &mut self.sets[set_of(fingerprint)];
        set.rotate_right(1);
        set[0] = fingerprint;
    }

    /// Forgets a fingerprint; returns true if it was remembered.
    pub(super) fn take(&mut self, fingerprint: u64) -> bool {
        let Some(set) = self.sets.get_mut(set_of(fingerprint)) else { return false };
        match set.iter_mut().find(|known| **known == fingerprint) {
            Some(known) => std::mem::take(known) != 0,
            None => false,
        }
    }

    /// Size in bytes.
    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        size_of::<[u64; WAYS]>() * self.sets.capacity()
    }
}

fn set_of(fingerprint: u64) -> usize {
    (fingerprint ^ (fingerprint >> 32)) as usize % SETS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remembered_fingerprint_is_taken_once() {
        let mut recently_evicted = RecentlyEvicted::default();
        assert!(!recently_evicted.take(7) && !recently_evicted.take(0));
        recently_evicted.insert(7);
        assert!(recently_evicted.take(7));
        assert!(!recently_evicted.take(7) && !recently_evicted.take(0));
    }

    #[test]
    fn the_oldest_fingerprint_of_a_full_set_is_forgotten() {
        let mut recently_evicted = RecentlyEvicted::default();
        let colliding: Vec<u64> = (1..=5).map(|n| n * SETS as u64).collect();
        colliding.iter().for_each(|fingerprint| recently_evicted.insert(*fingerprint));
        let remembered: Vec<bool> =
            colliding.iter().map(|fingerprint| recently_evicted.take(*fingerprint)).collect();
        assert_eq!(remembered, [false, true, true, true, true]);
    }

    #[test]
    fn a_full_table_of_fingerprints_does_not_grow() {
        let mut recently_evicted = RecentlyEvicted::default();
        recently_evicted.insert(1);
        let size = recently_evicted.size();
        (2..100_000).for_each(|fingerprint| recently_evicted.insert(fingerprint));
        assert_eq!(recently_evicted.size(), size);
    }
}
