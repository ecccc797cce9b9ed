//! The pauses between a few tries.

use std::time::Duration;

use tokio::time::sleep;

use crate::{backoff::Backoff, http::ApiError};

/// How often a request is sent that fails in a passing way.
const TRIES: u32 = 4;
/// The longest that a server is left alone between two tries, whatever it asks for.
const LONGEST_REST: Duration = Duration::from_secs(10);

/// The pauses between a few tries.
#[derive(Default)]
pub(crate) struct Rests {
    taken: u32,
    backoff: Option<Backoff>,
}

impl Rests {
    /// Waits before the next try; gives the error back if there is none.
    pub(crate) async fn rest(&mut self, error: ApiError) -> Result<(), ApiError> {
        self.taken += 1;
        if !error.is_passing() || self.taken >= TRIES {
            return Err(error);
        }
        let backoff = self.backoff.get_or_insert_with(|| {
            Backoff::new(Duration::from_millis(100), 3.0, Duration::from_secs(5), 0.5)
        });
        let asked = error.retry_after().unwrap_or_default().min(LONGEST_REST);
        sleep(backoff.delay().max(asked)).await;
        Ok(())
    }
}
