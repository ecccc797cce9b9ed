//! Pauses between the tries of one request.

use std::time::Duration;

use tokio::time::sleep;

use crate::{backoff::Backoff, error::ApiError};

/// Maximum number of times that a request is sent, including retries.
const TRIES: u32 = 4;
/// Longest pause that a server can request between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Counts the tries of one request and waits between them.
#[derive(Debug, Default)]
pub struct Retries {
    failed: u32,
    backoff: Option<Backoff>,
}

impl Retries {
    /// Waits before the next try.
    ///
    /// # Errors
    /// Returns `error` if it is permanent, or if it is the fourth error of the request.
    pub async fn wait_after(&mut self, error: ApiError) -> Result<(), ApiError> {
        self.failed += 1;
        if !error.is_passing() || self.failed >= TRIES {
            return Err(error);
        }
        let backoff = self.backoff.get_or_insert_with(|| {
            Backoff::new(Duration::from_millis(100), 3.0, Duration::from_secs(5), 0.5)
        });
        let requested = error.retry_after().unwrap_or_default().min(LONGEST_PAUSE);
        sleep(backoff.delay().max(requested)).await;
        Ok(())
    }
}
