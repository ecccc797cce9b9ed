//! Fingerprints of answers that were let go of before anybody asked for them again.

/// Sets of fingerprints; a power of two.
const SETS: usize = 2048;
/// Fingerprints in a set.
const WAYS: usize = 4;

/// The latest fingerprints, in a fixed number of bytes: a new one replaces the oldest of its set.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Empty until the first one, then all of them, each set with its latest first. Zero stands for none.
    sets: Vec<[u64; WAYS]>,
}

impl Seen {
    /// Remembers a fingerprint.
    pub(super) fn note(&mut self, print: u64) {
        self.sets.resize(SETS, [0; WAYS]);
        let set = &mut self.sets[set_of(print)];
        set.rotate_right(1);
        set[0] = print;
    }

    /// Forgets a fingerprint; returns whether it was remembered.
    pub(super) fn take(&mut self, print: u64) -> bool {
        let Some(set) = self.sets.get_mut(set_of(print)) else { return false };
        match set.iter_mut().find(|known| **known == print) {
            Some(known) => std::mem::take(known) != 0,
            None => false,
        }
    }

    /// Number of bytes that it holds.
    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        size_of::<[u64; WAYS]>() * self.sets.capacity()
    }
}

fn set_of(print: u64) -> usize {
    (print ^ (print >> 32)) as usize % SETS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_is_taken_once() {
        let mut seen = Seen::default();
        assert!(!seen.take(7) && !seen.take(0));
        seen.note(7);
        assert!(seen.take(7));
        assert!(!seen.take(7) && !seen.take(0));
    }

    #[test]
    fn the_oldest_of_a_full_set_is_forgotten() {
        let mut seen = Seen::default();
        let alike: Vec<u64> = (1..=5).map(|n| n * SETS as u64).collect();
        alike.iter().for_each(|print| seen.note(*print));
        let remembered: Vec<bool> = alike.iter().map(|print| seen.take(*print)).collect();
        assert_eq!(remembered, [false, true, true, true, true]);
    }

    #[test]
    fn its_size_does_not_grow() {
        let mut seen = Seen::default();
        seen.note(1);
        let size = seen.size();
        (2..100_000).for_each(|print| seen.note(print));
        assert_eq!(seen.size(), size);
    }
}
