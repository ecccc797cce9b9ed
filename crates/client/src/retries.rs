//! Pauses between the tries of one request.

use std::time::Duration;

use tokio::time::sleep;

use crate::{backoff::Backoff, client::ApiClient, error::ApiError};

/// Maximum number of times that a request is sent, including retries.
const TRIES: u32 = 4;
/// Longest pause that a server can request between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Counts the tries of one request and waits between them.
#[derive(Debug)]
pub struct Retries<'a> {
    client: &'a ApiClient,
    failed: u32,
    backoff: Backoff,
}

impl<'a> Retries<'a> {
    /// Returns the retries of a request that `client` sends.
    pub fn of(client: &'a ApiClient) -> Self {
        let backoff = Backoff::new(Duration::from_millis(100), 3.0, Duration::from_secs(5), 0.5);
        Self { client, failed: 0, backoff }
    }

    /// Waits before the next try. During an outage of the server, waits for its end.
    ///
    /// # Errors
    /// Returns `error` if it is permanent, or if it is the fourth error of the request.
    pub async fn wait_after(&mut self, error: ApiError) -> Result<(), ApiError> {
        self.failed += 1;
        if !error.is_passing() || self.failed >= TRIES {
            return Err(error);
        }
        let requested = error.retry_after().unwrap_or_default().min(LONGEST_PAUSE);
        sleep(self.backoff.delay().max(requested)).await;
        if self.client.is_away() {
            self.client.wait_for_server().await;
        }
        Ok(())
    }
}
