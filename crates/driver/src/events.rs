//! Events about pods (`events.k8s.io/v1`): what `kubectl describe pod` shows.
//!
//! An event that differs from an earlier one in nothing but its note is a repetition: the earlier one becomes a series.
//! The second occurrence is written at once, later ones are counted and written now and then. Pods that wait for long
//! would flood the API server otherwise.
//!
//! The recorder (here) decides what is to be written and leaves it in the backlog; the writer sends it. Events may be
//! late, they are not lost: only memory bounds how many wait, and a server that takes none is waited for.
//!
//! Reading order: here, `record` (an event as it waits), `backlog` (who goes first, who gives way, who is tried again),
//! `writer` (the requests), `tally` (what the log says of trouble).

mod backlog;
mod record;
mod tally;
mod writer;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use harbormaster_api::{Str, Timestamp};
use harbormaster_client::ApiClient;
use harbormaster_core::PodEvent;
use rustc_hash::FxHashMap;
use tokio::sync::Notify;

use self::{
    backlog::{Backlog, ROOM, Write},
    record::Record,
};
use crate::binder::BindingActivity;

pub use self::writer::EventWriter;

/// How often the counts of series are written.
const REFRESH: Duration = Duration::from_secs(30 * 60);
/// How long after its last occurrence a series is finished.
const FINISH: Duration = Duration::from_secs(6 * 60);

/// Takes events, and leaves what is to be written to an [`EventWriter`].
pub struct EventRecorder {
    shared: Arc<Shared>,
    recorded: u64,
    series: FxHashMap<SeriesKey, Series>,
    refreshed: Option<Timestamp>,
}

/// How many events are not written yet, seen from outside.
#[derive(Clone)]
pub struct UnwrittenEvents(Arc<Shared>);

/// What recorder and writer have in common.
struct Shared {
    backlog: Mutex<Backlog>,
    /// There is more to write, or there will be nothing more.
    changed: Notify,
}

/// What repetitions have in common: everything but the note. The pod's resource version is part of it, so events
/// repeat only as long as the pod does not change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct SeriesKey {
    uid: Str,
    resource_version: Str,
    reason: &'static str,
    action: &'static str,
    reporter: Str,
    warning: bool,
}

#[derive(Debug)]
struct Series {
    event: Arc<Record>,
    count: u32,
    last: Timestamp,
    unwritten: bool,
}

impl EventRecorder {
    /// A recorder, and its writer over `client`, on this host. The writer holds back while `bindings` are under way.
    pub fn new(client: ApiClient, hostname: Arc<str>, bindings: BindingActivity) -> (Self, EventWriter) {
        Self::with_room(ROOM, client, hostname, bindings)
    }

    fn with_room(
        room: usize,
        client: ApiClient,
        hostname: Arc<str>,
        bindings: BindingActivity,
    ) -> (Self, EventWriter) {
        let shared = Arc::new(Shared { backlog: Mutex::new(Backlog::new(room)), changed: Notify::new() });
        let writer = EventWriter::new(client, hostname, shared.clone(), bindings);
        (Self { shared, recorded: 0, series: FxHashMap::default(), refreshed: None }, writer)
    }

    /// Tells how many events are not written yet.
    pub fn unwritten(&self) -> UnwrittenEvents {
        UnwrittenEvents(self.shared.clone())
    }

    /// Writes an event, or counts it.
    pub fn record(&mut self, event: PodEvent, now: Timestamp) {
        // A pod is bound once, so its event is never repeated and need not be remembered.
        let key = event.warning.then(|| SeriesKey::of(&event));
        if let Some(series) = key.as_ref().and_then(|key| self.series.get_mut(key)) {
            series.count += 1;
            series.last = now;
            series.unwritten = series.count > 2;
            if series.count == 2 {
                let event = series.event.clone();
                self.write(event, Write::Count { count: 2, last: now });
            }
            return;
        }
        self.recorded += 1;
        let event = Arc::new(Record::new(self.recorded, event, now));
        if !self.write(event.clone(), Write::Create) {
            return;
        }
        if let Some(key) = key {
            self.series.insert(key, Series { event, count: 1, last: now, unwritten: false });
        }
    }

    /// Writes the counts of series and forgets those that are over. To be called every few minutes.
    pub fn tick(&mut self, now: Timestamp) {
        let refresh = now.since(*self.refreshed.get_or_insert(now)) >= REFRESH;
        if refresh {
            self.refreshed = Some(now);
        }
        let mut writes = Vec::new();
        self.series.retain(|_, series| {
            let over = now.since(series.last) > FINISH;
            if series.unwritten && (refresh || over) {
                series.unwritten = false;
                writes.push((series.event.clone(), Write::Count { count: series.count, last: series.last }));
            }
            !over
        });
        for (event, write) in writes {
            self.write(event, write);
        }
    }

    /// Has something written, after what comes before it about the same event; `false` if there is no room.
    fn write(&self, event: Arc<Record>, write: Write) -> bool {
        let kept = self.shared.backlog().add(event, write);
        self.shared.changed.notify_one();
        kept
    }
}

impl Drop for EventRecorder {
    fn drop(&mut self) {
        self.shared.backlog().close();
        self.shared.changed.notify_one();
    }
}

impl UnwrittenEvents {
    /// How many events, and counts of events, wait or are on their way.
    pub fn count(&self) -> usize {
        self.0.backlog().count()
    }
}

impl Shared {
    fn backlog(&self) -> MutexGuard<'_, Backlog> {
        self.backlog.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SeriesKey {
    fn of(event: &PodEvent) -> Self {
        Self {
            uid: event.pod.uid.clone(),
            resource_version: event.pod.resource_version.clone(),
            reason: event.reason,
            action: event.action,
            reporter: event.reporter.clone(),
            warning: event.warning,
        }
    }
}

#[cfg(test)]
mod tests;
