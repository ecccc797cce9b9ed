//! Delays between retries.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    time::Duration,
};

/// A random generator that spreads the retries of many clients over time. It is unsuitable for secrets: it is a small
/// generator (splitmix64) whose seed comes from the random keys of the standard library's hash maps.
#[derive(Clone, Debug)]
pub struct Jitter(u64);

impl Default for Jitter {
    fn default() -> Self {
        Self(RandomState::new().build_hasher().finish())
    }
}

impl Jitter {
    /// Returns the next random fraction, in `0.0..1.0`.
    pub fn fraction(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        (z >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a random duration between `from` and `to`.
    pub fn between(&mut self, from: Duration, to: Duration) -> Duration {
        from + to.saturating_sub(from).mul_f64(self.fraction())
    }
}

/// Delays that grow by a constant factor up to a limit, each lengthened by a random fraction of itself.
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    factor: f64,
    limit: Duration,
    spread: f64,
    next: Duration,
    jitter: Jitter,
}

impl Backoff {
    /// Returns delays of `first`, `first * factor`, … up to `limit`, each lengthened by a random amount of up to
    /// `spread` times the delay.
    pub fn new(first: Duration, factor: f64, limit: Duration, spread: f64) -> Self {
        Self { first, factor, limit, spread, next: first, jitter: Jitter::default() }
    }

    /// Returns delays for lists and watches: from 0.8 s, doubling up to 30 s, each lengthened by a random amount of up
    /// to the delay itself, as in client-go's reflector.
    pub fn for_watches() -> Self {
        Self::new(Duration::from_millis(800), 2.0, Duration::from_secs(30), 1.0)
    }

    /// Returns the next delay.
    pub fn delay(&mut self) -> Duration {
        let delay = self.next;
        self.next = delay.mul_f64(self.factor).min(self.limit);
        delay + delay.mul_f64(self.spread * self.jitter.fraction())
    }

    /// Starts over with the first delay.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_limit_and_start_over_after_a_reset() {
        let mut backoff = Backoff::new(Duration::from_secs(1), 2.0, Duration::from_secs(5), 0.0);
        let delays: Vec<u64> = (0..5).map(|_| backoff.delay().as_secs()).collect();
        assert_eq!(delays, [1, 2, 4, 5, 5]);
        backoff.reset();
        assert_eq!(backoff.delay(), Duration::from_secs(1));
    }

    #[test]
    fn jitter_lengthens_a_delay_by_at_most_its_spread() {
        for _ in 0..200 {
            let delay = Backoff::for_watches().delay();
            assert!(delay >= Duration::from_millis(800) && delay < Duration::from_millis(1600), "{delay:?}");
        }
    }

    #[test]
    fn two_generators_return_different_numbers() {
        let (mut a, mut b) = (Jitter::default(), Jitter::default());
        assert!((0..8).any(|_| a.fraction() != b.fraction()));
    }
}
