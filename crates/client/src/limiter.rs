//! The rate limit of a client.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// Default rate of client-go, in requests per second.
const UNSET_QPS: f64 = 5.0;
/// Default burst of client-go, in requests.
const UNSET_BURST: f64 = 10.0;

/// A token bucket: `burst` requests without delay, and `qps` requests per second in the long run. Requests are sent in
/// the order in which they arrived.
#[derive(Debug)]
pub struct RateLimiter {
    qps: f64,
    burst: f64,
    bucket: Mutex<Bucket>,
}

#[derive(Debug)]
struct Bucket {
    /// Negative while requests wait, since each waiting request has already taken its token.
    tokens: f64,
    filled: Instant,
}

impl RateLimiter {
    /// Returns a bucket for `clientConnection.qps` and `clientConnection.burst`, which have the same meaning as in
    /// client-go: a negative rate means no limit (`None`), a rate of zero means 5 requests per second, and a burst of
    /// zero or less means 10 requests.
    pub fn new(qps: f32, burst: i32) -> Option<Self> {
        let qps = match qps {
            q if q < 0.0 => return None,
            0.0 => UNSET_QPS,
            q => f64::from(q),
        };
        let burst = if burst <= 0 { UNSET_BURST } else { f64::from(burst) };
        Some(Self { qps, burst, bucket: Mutex::new(Bucket { tokens: burst, filled: Instant::now() }) })
    }

    /// Waits until a request may be sent. Returns the time waited.
    pub async fn acquire(&self) -> Duration {
        let wait = self.take(Instant::now());
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        wait
    }

    fn take(&self, now: Instant) -> Duration {
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = now.saturating_duration_since(bucket.filled).as_secs_f64();
        bucket.filled = now;
        bucket.tokens = (bucket.tokens + passed * self.qps).min(self.burst) - 1.0;
        Duration::try_from_secs_f64(-bucket.tokens / self.qps).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn time_for(limiter: &RateLimiter, requests: usize) -> Duration {
        let begun = Instant::now();
        for _ in 0..requests {
            limiter.acquire().await;
        }
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_passes_without_delay_and_the_rest_at_the_rate() {
        let limiter = RateLimiter::new(50.0, 100).unwrap();
        assert_eq!(time_for(&limiter, 100).await, Duration::ZERO);
        let rest = time_for(&limiter, 50).await;
        assert!(rest >= Duration::from_millis(990) && rest < Duration::from_millis(1100), "{rest:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_bucket_fills_up_to_the_burst_and_no_further() {
        let limiter = RateLimiter::new(10.0, 5).unwrap();
        time_for(&limiter, 5).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(time_for(&limiter, 5).await, Duration::ZERO);
        assert!(time_for(&limiter, 1).await >= Duration::from_millis(99));
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_requests_are_spread_out_rather_than_released_together() {
        let limiter = std::sync::Arc::new(RateLimiter::new(10.0, 1).unwrap());
        let begun = Instant::now();
        let waits: Vec<_> = (0..4)
            .map(|_| {
                let limiter = limiter.clone();
                tokio::spawn(async move {
                    limiter.acquire().await;
                    begun.elapsed().as_millis() / 100
                })
            })
            .collect();
        let mut seen = Vec::new();
        for wait in waits {
            seen.push(wait.await.unwrap());
        }
        assert_eq!(seen, [0, 1, 2, 3]);
    }

    #[test]
    fn a_negative_rate_means_no_limit_and_zero_means_the_default_of_client_go() {
        assert!(RateLimiter::new(-1.0, 10).is_none());
        let unset = RateLimiter::new(0.0, 0).unwrap();
        assert_eq!((unset.qps, unset.burst), (5.0, 10.0));
    }
}
