//! Generated names and UIDs.

use std::{
    hash::{BuildHasher, RandomState},
    sync::atomic::{AtomicU64, Ordering},
};

/// A source of random numbers that threads can share (SplitMix64). Not for secrets.
#[derive(Debug)]
pub(crate) struct Random(AtomicU64);

impl Random {
    /// Creates a source with the given seed, or with a random one if it is `None`.
    pub(crate) fn new(seed: Option<u64>) -> Self {
        Self(AtomicU64::new(seed.unwrap_or_else(|| RandomState::new().hash_one(0u8))))
    }

    fn next(&self) -> u64 {
        let mut z = self.0.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a version 4 UUID.
    pub(crate) fn uid(&self) -> String {
        let (a, b) = (self.next(), self.next());
        format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            a >> 32,
            (a >> 16) & 0xffff,
            a & 0xfff,
            0x8000 | ((b >> 48) & 0x3fff),
            b & 0xffff_ffff_ffff
        )
    }

    /// Returns the five characters that follow `metadata.generateName`.
    pub(crate) fn suffix(&self) -> String {
        // No vowels, so that suffixes do not form words.
        const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        let mut number = self.next();
        let letter = |_| {
            let at = number % LETTERS.len() as u64;
            number /= LETTERS.len() as u64;
            char::from(LETTERS[at as usize])
        };
        (0..5).map(letter).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uids_are_well_formed_and_distinct_and_repeat_with_the_same_seed() {
        let random = Random::new(Some(7));
        let uid = random.uid();
        assert_eq!((uid.len(), &uid[14..15]), (36, "4"), "{uid}");
        assert_ne!(uid, random.uid());
        assert_eq!(random.suffix().len(), 5);
        assert_eq!(Random::new(Some(7)).uid(), uid);
    }
}
