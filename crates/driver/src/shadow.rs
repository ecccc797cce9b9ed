//! Runs a [`Shadow`] beside the scheduler of a cluster.
//!
//! There is no engine and nothing that carries out effects, and the client cannot write.

use std::{future::Future, pin::pin, sync::Arc, time::Duration};

use harbormaster_api::{Str, Timestamp};
use harbormaster_core::{
    EngineConfig, Shadow,
    shadow::{Comparison, Preemption},
};
use harbormaster_framework::fetch::Web;
use tokio::{
    sync::mpsc::unbounded_channel,
    task::JoinSet,
    time::{Instant, sleep},
};

use crate::{
    clients::Reader,
    clock::Clock,
    extenders::raw::RawSelection,
    health::Health,
    live_api::CustomFeed,
    message::EngineMessage,
    metrics::Metrics,
    notes,
    pace::Pace,
    run::{DriverError, task_failed, watches_of_all},
    served_version::ServedVersion,
    sources::Fetcher,
    web::LiveWeb,
};

/// Maximum number of messages that are taken at once.
const GROUP: usize = 256;
/// Interval between the removals of unused plugin answers.
const CLEANUP_EVERY: Duration = Duration::from_secs(300);

/// Configuration of a shadow.
#[derive(Clone, Debug, Default)]
pub struct ShadowConfig {
    /// Metrics. The caller keeps a clone to serve the page that shows them.
    pub metrics: Metrics,
    /// State for health checks. The caller keeps a clone for the checks.
    pub health: Health,
}

/// Result of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compared {
    /// Decisions about a pod.
    Decision(Comparison),
    /// Evictions for a pod.
    Preemption(Preemption),
}

/// Compares the decisions of the cluster's scheduler with those of an engine with the configuration `engine`, until
/// `shutdown` resolves. Calls `tell` with every result. Writes nothing to the cluster, and calls no extenders.
///
/// # Errors
/// If something in this process fails. An unreachable API server is not an error.
pub async fn shadow(
    reader: &Reader,
    config: ShadowConfig,
    engine: EngineConfig,
    tell: impl FnMut(Compared),
    shutdown: impl Future<Output = ()>,
) -> Result<(), DriverError> {
    let reader = reader.observed(config.metrics.numbers());
    let client = reader.client();
    let (watched, sources) = (engine.watched(), engine.sources());
    let kinds = watched.iter().map(|kind| Str::from(kind.name().to_string()));
    let feed = CustomFeed::of(kinds);
    let served: Vec<ServedVersion> = watched.iter().map(ServedVersion::of).collect();
    let (to_shadow, mut messages) = unbounded_channel();
    let mut watches = JoinSet::new();
    for watch in
        watches_of_all(client, (&served, &feed), RawSelection::default(), &to_shadow, &Pace::default())
    {
        watches.spawn(watch);
    }
    let unsynced = watches.len() + sources.len();
    let mut host = ShadowHost::new(Shadow::new(&engine), unsynced, config, tell);
    let web = Web::new(Arc::new(LiveWeb::new(client.clone())));
    // Fetching ends when this is dropped.
    let _fetcher = Fetcher::start(sources, web, to_shadow, None, false);
    let mut shutdown = pin!(shutdown);
    let mut group = Vec::new();
    loop {
        let rest = host.rest();
        tokio::select! {
            () = &mut shutdown => break,
            Some(end) = watches.join_next() => return Err(task_failed("watching", end)),
            1.. = messages.recv_many(&mut group, GROUP) => host.take(group.drain(..)),
            () = sleep(rest) => {}
        }
        host.tick();
    }
    host.end();
    Ok(())
}

/// A shadow with its state in the driver.
struct ShadowHost<T> {
    shadow: Shadow,
    clock: Clock,
    /// Number of watches that have not delivered all objects.
    unsynced: usize,
    metrics: Metrics,
    health: Health,
    tell: T,
    cleaned: Instant,
}

impl<T: FnMut(Compared)> ShadowHost<T> {
    fn new(shadow: Shadow, unsynced: usize, config: ShadowConfig, tell: T) -> Self {
        let ShadowConfig { metrics, health } = config;
        Self { shadow, clock: Clock::default(), unsynced, metrics, health, tell, cleaned: Instant::now() }
    }

    fn take(&mut self, messages: impl Iterator<Item = EngineMessage>) {
        self.health.works();
        for message in messages {
            match message {
                EngineMessage::Inputs(inputs) => {
                    for input in inputs {
                        self.shadow.handle(input, &mut || self.clock.now());
                    }
                }
                EngineMessage::Synced => self.synced(),
                // Only an engine gets the others.
                _ => {}
            }
        }
    }

    fn synced(&mut self) {
        self.unsynced = self.unsynced.saturating_sub(1);
        if self.unsynced == 0 && !self.health.is_synced() {
            self.health.synced();
            tracing::info!(v = 0, nodes = self.shadow.nodes(), "All objects are known: comparing decisions");
            self.shadow.begin(&mut || self.clock.now());
        }
    }

    /// Handles the timers that have expired, and reports what has been found.
    fn tick(&mut self) {
        self.shadow.tick(self.clock.now());
        if self.cleaned.elapsed() >= CLEANUP_EVERY {
            self.shadow.forget_unused();
            self.cleaned = Instant::now();
        }
        self.report();
    }

    fn end(&mut self) {
        self.shadow.end();
        self.report();
    }

    fn report(&mut self) {
        self.shadow.take_notes().iter().for_each(notes::log);
        for comparison in self.shadow.take_comparisons() {
            self.metrics.numbers().shadowed(comparison.kind().name());
            (self.tell)(Compared::Decision(comparison));
        }
        for preemption in self.shadow.take_preemptions() {
            (self.tell)(Compared::Preemption(preemption));
        }
    }

    /// Notes that nothing is to be done until a message arrives or the returned time has passed.
    fn rest(&mut self) -> Duration {
        self.health.waits();
        let now = self.clock.now();
        let next = self.shadow.next_wakeup().map(|at: Timestamp| at.since(now));
        next.unwrap_or(CLEANUP_EVERY).clamp(Duration::from_millis(1), CLEANUP_EVERY)
    }
}

#[cfg(test)]
mod tests;
