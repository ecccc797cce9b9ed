//! Sends the writes in the backlog, a few at a time.
//!
//! The writer works in rounds: when everything has been written, it pauses for a moment, so that writes accumulate.
//! Concurrent writes take much less processor time than the same writes one by one, and nothing waits for an event to
//! be written. The first event after a period without events is sent immediately.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt, stream::FuturesUnordered};
use harbormaster_client::{ApiClient, ApiError, client::STRATEGIC_MERGE_PATCH};
use tokio::time::{Instant, sleep_until};

use super::{
    Shared,
    backlog::{PendingWrite, Write},
    record::SeriesBody,
    tally,
};
use crate::binder::BindingActivity;

/// Maximum number of concurrent writes.
const AT_ONCE: usize = 16;
/// Maximum number of concurrent writes while pods are being bound. It is lower than [`AT_ONCE`], since bindings take
/// precedence here and at the API server.
const BESIDE_BINDINGS: usize = 4;
/// Time from the end of a round of writes to the next round.
const BETWEEN_ROUNDS: Duration = Duration::from_millis(100);

/// Writes events until its [`EventRecorder`](super::EventRecorder) is dropped and the backlog is empty.
pub struct EventWriter {
    client: ApiClient,
    hostname: Arc<str>,
    shared: Arc<Shared>,
    bindings: BindingActivity,
}

impl EventWriter {
    pub(super) fn new(
        client: ApiClient,
        hostname: Arc<str>,
        shared: Arc<Shared>,
        bindings: BindingActivity,
    ) -> Self {
        Self { client, hostname, shared, bindings }
    }

    /// Runs the writer.
    pub async fn run(self) {
        let mut writes = FuturesUnordered::new();
        let mut next_round = Instant::now();
        loop {
            let in_round =
                !writes.is_empty() || Instant::now() >= next_round || self.shared.backlog().is_closed();
            let mut next_write = Some(next_round).filter(|_| !in_round);
            while in_round && writes.len() < self.width() {
                let Some(unwritten) = self.shared.backlog().take(Instant::now()) else {
                    next_write = self.shared.backlog().next_at();
                    break;
                };
                writes.push(self.write(unwritten));
            }
            let next_line = self.log_trouble();
            if self.shared.backlog().is_over() {
                return;
            }
            let next = [next_write, next_line].into_iter().flatten().min();
            tokio::select! {
                Some((unwritten, outcome)) = writes.next() => {
                    let now = Instant::now();
                    next_round = now + BETWEEN_ROUNDS;
                    self.shared.backlog().ended(unwritten, outcome, now);
                }
                () = self.shared.changed.notified() => {}
                () = sleep_until_some(next) => {}
            }
        }
    }

    /// Logs the failures that are due, or all failures at the end. Returns the time of the next log lines.
    fn log_trouble(&self) -> Option<Instant> {
        let now = Instant::now();
        let mut backlog = self.shared.backlog();
        let sums = if backlog.is_over() { backlog.tally.take() } else { backlog.tally.take_due(now) };
        let due = backlog.tally.due(now);
        drop(backlog);
        tally::log(&sums);
        due
    }

    fn width(&self) -> usize {
        if self.bindings.is_busy() && !self.shared.backlog().is_half_full() {
            BESIDE_BINDINGS
        } else {
            AT_ONCE
        }
    }

    async fn write(&self, unwritten: PendingWrite) -> (PendingWrite, Result<(), ApiError>) {
        let outcome = self.send(&unwritten).await;
        (unwritten, outcome)
    }

    async fn send(&self, PendingWrite { record, write, .. }: &PendingWrite) -> Result<(), ApiError> {
        let (client, hostname) = (&self.client, &*self.hostname);
        let path = record.collection();
        let Write::Count { count, last } = *write else {
            return created(client.create(&path, &record.body(hostname, None)).await);
        };
        let series = SeriesBody::new(count, last);
        let object = format!("{path}/{}", record.name);
        match client.patch(&object, STRATEGIC_MERGE_PATCH, series.patch()).await {
            // The event has expired or was never written.
            Err(error) if error.code() == Some(404) => {
                created(client.create(&path, &record.body(hostname, Some(&series))).await)
            }
            other => other,
        }
    }
}

/// Treats a conflict as success: an earlier try may have succeeded despite its error.
fn created(outcome: Result<(), ApiError>) -> Result<(), ApiError> {
    match outcome {
        Err(ApiError::Refused(refusal)) if refusal.code == 409 && refusal.reason == "AlreadyExists" => Ok(()),
        other => other,
    }
}

async fn sleep_until_some(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
