//! Sends what the recorder has left, a few writes at a time.
//!
//! It does so in rounds: when everything is written it looks again after a moment. Writes side by side cost a good deal less
//! processor time than the same writes one by one, and nobody waits for an event. The first one after a silence goes out
//! at once.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt, stream::FuturesUnordered};
use harbormaster_client::{ApiClient, ApiError, client::STRATEGIC_MERGE_PATCH};
use tokio::time::{Instant, sleep_until};

use super::{
    Shared,
    backlog::{Unwritten, Write},
    record::SeriesBody,
    tally,
};
use crate::binder::BindingActivity;

/// Writes at a time.
const AT_ONCE: usize = 16;
/// Writes at a time while pods are being bound: bindings come first, here and at the API server.
const BESIDE_BINDINGS: usize = 4;
/// From the end of a round of writes to the next one.
const BETWEEN_ROUNDS: Duration = Duration::from_millis(100);

/// Writes events until its [`EventRecorder`](super::EventRecorder) is gone and nothing waits any more.
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

    /// Writes; to be run as a task.
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
            let next_line = self.tell();
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

    /// Writes lines that are due to the log, or all at the end; when the next is due.
    fn tell(&self) -> Option<Instant> {
        let now = Instant::now();
        let mut backlog = self.shared.backlog();
        let told = if backlog.is_over() { backlog.tally.take() } else { backlog.tally.take_due(now) };
        let due = backlog.tally.due(now);
        drop(backlog);
        tally::log(&told);
        due
    }

    fn width(&self) -> usize {
        if self.bindings.is_busy() && !self.shared.backlog().is_half_full() {
            BESIDE_BINDINGS
        } else {
            AT_ONCE
        }
    }

    async fn write(&self, unwritten: Unwritten) -> (Unwritten, Result<(), ApiError>) {
        let outcome = self.send(&unwritten).await;
        (unwritten, outcome)
    }

    async fn send(&self, Unwritten { record, write, .. }: &Unwritten) -> Result<(), ApiError> {
        let (client, hostname) = (&self.client, &*self.hostname);
        let path = record.collection();
        let Write::Count { count, last } = *write else {
            return created(client.post(&path, record.body(hostname, None)).await);
        };
        let series = SeriesBody::new(count, last);
        let object = format!("{path}/{}", record.name);
        match client.patch(&object, STRATEGIC_MERGE_PATCH, series.patch()).await {
            // It has expired meanwhile, or was never written.
            Err(error) if error.code() == Some(404) => {
                created(client.post(&path, record.body(hostname, Some(&series))).await)
            }
            other => other,
        }
    }
}

/// An earlier try may have come through in spite of its failure.
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
