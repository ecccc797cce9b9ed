//! Events about pods (`events.k8s.io/v1`), which `kubectl describe pod` shows.
//!
//! An event that differs from an earlier event only in its note is a repetition, and turns the earlier event into a
//! series. The second occurrence is written immediately. Later occurrences are counted, and the count is written every
//! half hour and when the series is finished, so that pods that wait for a long time do not flood the API server.
//!
//! The recorder (in this file) puts writes into the backlog; the writer sends them. Events may be late: while the
//! server accepts no events, the writer waits. An event is lost only if the server rejects it, if the backlog reaches
//! its memory limit, if the write of the event fails too often or for too long, or if the scheduler stops while the
//! server accepts no events.
//!
//! Reading order: here, `record` (one event), `backlog` (order, limits and retries of writes), `writer` (the requests),
//! `tally` (errors in the log).

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

/// Interval between writes of the counts of series.
const REFRESH: Duration = Duration::from_secs(30 * 60);
/// Time after which a series without a new occurrence is finished.
const FINISH: Duration = Duration::from_secs(6 * 60);

/// Records events. An [`EventWriter`] sends them.
pub struct EventRecorder {
    shared: Arc<Shared>,
    recorded: u64,
    series: FxHashMap<SeriesKey, Series>,
    refreshed: Option<Timestamp>,
}

/// A handle to the number of events that have not been written yet.
#[derive(Clone)]
pub struct PendingEvents(Arc<Shared>);

/// State shared by recorder and writer.
struct Shared {
    backlog: Mutex<Backlog>,
    /// Notified of new writes and of the end of the recorder.
    changed: Notify,
}

/// Key of a series: everything but the note. The key contains the pod's resource version, so an event is treated as a
/// repetition only until the pod changes.
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
    /// Returns a recorder for this host, and the writer that sends its events. While `bindings` are in progress, the
    /// writer sends fewer events at a time.
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

    /// Returns a handle to the number of events that have not been written yet.
    pub fn unwritten(&self) -> PendingEvents {
        PendingEvents(self.shared.clone())
    }

    /// Records an event, or counts it if it is a repetition.
    pub fn record(&mut self, event: PodEvent, now: Timestamp) {
        // A pod is bound only once and preempted only once, so these events are never repeated and need not be
        // remembered.
        let is_unique = matches!(event.reason, "Scheduled" | "Preempted");
        let key = (!is_unique).then(|| SeriesKey::of(&event));
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

    /// Writes the counts that are due, and forgets finished series. Must be called every few minutes.
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

    /// Adds a write to the backlog. Returns false if the backlog is full.
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

impl PendingEvents {
    /// Returns the number of events and counts that are waiting or being sent.
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
