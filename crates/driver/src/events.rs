//! Events about pods (`events.k8s.io/v1`): what `kubectl describe pod` shows.
//!
//! An event that differs from an earlier one in nothing but its note is a repetition: the earlier one becomes a series.
//! The second occurrence is written at once, later ones are counted and written now and then. Pods that wait for long
//! would flood the API server otherwise.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use harbormaster_api::{Str, Timestamp};
use harbormaster_core::PodEvent;
use rustc_hash::FxHashMap;
use serde::Serialize;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::sleep,
};

use crate::{
    backoff::Jitter,
    http::{ApiClient, ApiError, STRATEGIC_MERGE_PATCH},
    lanes::{Lanes, Tasks},
};

/// Writes that may wait or be under way; what comes on top is dropped.
const QUEUE: usize = 1000;
/// Writes at a time.
const AT_ONCE: usize = 16;
/// How often a write is sent that fails in a passing way, and how long after one another.
const TRIES: u32 = 12;
const REST: Duration = Duration::from_secs(10);
/// How often the counts of series are written.
const REFRESH: Duration = Duration::from_secs(30 * 60);
/// How long after its last occurrence a series is finished.
const FINISH: Duration = Duration::from_secs(6 * 60);

/// Writes events.
pub struct EventRecorder {
    client: ApiClient,
    hostname: Arc<str>,
    lanes: Arc<Lanes>,
    queue: Arc<Semaphore>,
    series: FxHashMap<SeriesKey, Series>,
    refreshed: Option<Timestamp>,
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
    event: Arc<NamedEvent>,
    count: u32,
    last: Timestamp,
    unwritten: bool,
}

/// An event with the name of its object.
#[derive(Debug)]
struct NamedEvent {
    name: Str,
    at: Timestamp,
    hostname: Arc<str>,
    event: PodEvent,
}

/// What is to be written.
#[derive(Clone, Copy, Debug)]
enum Write {
    Create,
    Count { count: u32, last: Timestamp },
}

impl EventRecorder {
    /// A recorder over `client`, on this host.
    pub fn new(client: ApiClient, hostname: Arc<str>, tasks: Tasks) -> Self {
        Self {
            client,
            hostname,
            lanes: Lanes::new(tasks, AT_ONCE),
            queue: Arc::new(Semaphore::new(QUEUE)),
            series: FxHashMap::default(),
            refreshed: None,
        }
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
                let (event, count) = (series.event.clone(), series.count);
                self.write(event, Write::Count { count, last: now });
            }
            return;
        }
        let name = format!("{}.{:x}", event.pod.name, now.0).into();
        let event = Arc::new(NamedEvent { name, at: now, hostname: self.hostname.clone(), event });
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

    /// Queues a write behind those of the same event; `false` if the queue is full.
    fn write(&self, event: Arc<NamedEvent>, write: Write) -> bool {
        let Ok(place) = self.queue.clone().try_acquire_owned() else {
            tracing::error!(event = %event.name, "Unable to record event: too many queued events, dropped event");
            return false;
        };
        let client = self.client.clone();
        let name = event.name.clone();
        self.lanes.run(&name, async move { deliver(&client, &event, write, place).await });
        true
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

async fn deliver(client: &ApiClient, event: &NamedEvent, write: Write, _place: OwnedSemaphorePermit) {
    let mut jitter: Option<Jitter> = None;
    for tries_left in (0..TRIES).rev() {
        let error = match send(client, event, write).await {
            Ok(()) => return,
            Err(error) => error,
        };
        if !error.is_passing() {
            tracing::error!(event = %event.name, err = %error, "Server rejected event (will not retry!)");
            return;
        }
        if tries_left == 0 {
            tracing::error!(event = %event.name, err = %error, "Unable to write event (retry limit exceeded!)");
            return;
        }
        tracing::error!(event = %event.name, err = %error, "Unable to write event (may retry after sleeping)");
        let jitter = jitter.get_or_insert_with(Jitter::default);
        let rest = jitter.between(REST.mul_f64(0.8), REST.mul_f64(1.2));
        sleep(rest.max(error.retry_after().unwrap_or_default().min(REST * 6))).await;
    }
}

async fn send(client: &ApiClient, event: &NamedEvent, write: Write) -> Result<(), ApiError> {
    let path = format!("/apis/events.k8s.io/v1/namespaces/{}/events", event.namespace());
    let Write::Count { count, last } = write else {
        return created(client.post(&path, event.body(None)).await);
    };
    let series = SeriesBody::new(count, last);
    let patch = serde_json::to_vec(&SeriesPatch { series: &series }).unwrap_or_default();
    let patched = client.patch(&format!("{path}/{}", event.name), STRATEGIC_MERGE_PATCH, patch.into()).await;
    match patched {
        // It has expired meanwhile, or was never written.
        Err(error) if error.code() == Some(404) => {
            created(client.post(&path, event.body(Some(&series))).await)
        }
        other => other,
    }
}

/// An earlier try may have come through in spite of its failure.
fn created(outcome: Result<(), ApiError>) -> Result<(), ApiError> {
    match outcome {
        Err(ApiError::Refused(refusal)) if refusal.code == 409 && refusal.reason == "AlreadyExists" => Ok(()),
        other => other,
    }
}

impl NamedEvent {
    fn namespace(&self) -> &str {
        match self.event.pod.namespace.as_str() {
            "" => "default",
            namespace => namespace,
        }
    }

    fn body(&self, series: Option<&SeriesBody>) -> Bytes {
        let pod = &self.event.pod;
        let body = EventBody {
            kind: "Event",
            api_version: "events.k8s.io/v1",
            metadata: Metadata { name: &self.name, namespace: self.namespace() },
            event_time: self.at.to_rfc3339_micro(),
            series,
            reporting_controller: &self.event.reporter,
            reporting_instance: format!("{}-{}", self.event.reporter, self.hostname),
            action: self.event.action,
            reason: self.event.reason,
            regarding: Regarding {
                kind: "Pod",
                namespace: &pod.namespace,
                name: &pod.name,
                uid: &pod.uid,
                api_version: "v1",
                resource_version: &pod.resource_version,
            },
            note: &self.event.note,
            type_: if self.event.warning { "Warning" } else { "Normal" },
        };
        serde_json::to_vec(&body).unwrap_or_default().into()
    }
}

/// `events.k8s.io/v1.Event`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EventBody<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: Metadata<'a>,
    event_time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    series: Option<&'a SeriesBody>,
    reporting_controller: &'a str,
    reporting_instance: String,
    action: &'a str,
    reason: &'a str,
    regarding: Regarding<'a>,
    note: &'a str,
    #[serde(rename = "type")]
    type_: &'static str,
}

#[derive(Serialize)]
struct Metadata<'a> {
    name: &'a str,
    namespace: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Regarding<'a> {
    kind: &'static str,
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
    api_version: &'static str,
    resource_version: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SeriesBody {
    count: u32,
    last_observed_time: String,
}

#[derive(Serialize)]
struct SeriesPatch<'a> {
    series: &'a SeriesBody,
}

impl SeriesBody {
    fn new(count: u32, last: Timestamp) -> Self {
        Self { count, last_observed_time: last.to_rfc3339_micro() }
    }
}

#[cfg(test)]
mod tests;
