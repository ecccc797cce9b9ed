//! A small deterministic random number generator.

/// SplitMix64 (Steele, Lea, Flood 2014): 64 bits of state, good enough for test cases, but not for anything that must
/// be hard to guess.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Creates the sequence for `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        // Otherwise consecutive seeds would start with consecutive states.
        let mut random = Self(seed ^ 0x5851_f42d_4c95_7f2d);
        random.next();
        random
    }

    /// Creates a separate sequence, so that changes in one part of a test case do not affect its other parts.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self::new(self.next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        // The bias of the remainder does not matter for small numbers.
        usize::try_from(self.next() % u64::try_from(end.max(1)).unwrap_or(u64::MAX)).unwrap_or(0)
    }

    /// Returns a number from `low` to `high` inclusive.
    pub fn range(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// Returns true with a probability of `percent` %.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Picks one of `items`, which must not be empty.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// Picks `count` different items in random order, or all items if there are fewer.
    pub fn sample<T: Clone>(&mut self, items: &[T], count: usize) -> Vec<T> {
        let mut rest = items.to_vec();
        let mut sample = Vec::new();
        while sample.len() < count && !rest.is_empty() {
            sample.push(rest.swap_remove(self.below(rest.len())));
        }
        sample
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_generate_equal_sequences_and_different_seeds_do_not() {
        let numbers = |seed| {
            let mut random = Random::new(seed);
            (0..20).map(|_| random.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
    }

    #[test]
    fn ranges_include_both_ends_and_samples_do_not_repeat() {
        let mut random = Random::new(1);
        let seen: std::collections::BTreeSet<_> = (0..200).map(|_| random.range(2, 4)).collect();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [2, 3, 4]);
        let mut sample = random.sample(&[1, 2, 3, 4], 9);
        sample.sort_unstable();
        assert_eq!(sample, [1, 2, 3, 4]);
        assert_eq!(random.below(0), 0);
    }
}
