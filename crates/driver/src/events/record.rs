//! One event, as stored in the backlog and as sent in JSON.

use bytes::Bytes;
use harbormaster_api::{Str, Timestamp};
use harbormaster_core::PodEvent;
use serde::Serialize;

/// An event that waits to be written. It does not hold a reference to the pod, since a hundred thousand events may be
/// waiting.
#[derive(Debug)]
pub(super) struct Record {
    /// Identity of the event; never reused.
    pub(super) id: u64,
    /// Name of the Event object.
    pub(super) name: Str,
    pub(super) reason: &'static str,
    pub(super) warning: bool,
    action: &'static str,
    note: Box<str>,
    at: Timestamp,
    reporter: Str,
    namespace: Str,
    pod: Str,
    uid: Str,
    resource_version: Str,
}

impl Record {
    pub(super) fn new(id: u64, event: PodEvent, at: Timestamp) -> Self {
        let pod = &event.pod;
        Self {
            id,
            name: format!("{}.{:x}", pod.name, at.0).into(),
            reason: event.reason,
            warning: event.warning,
            action: event.action,
            at,
            reporter: event.reporter,
            namespace: pod.namespace.clone(),
            pod: pod.name.clone(),
            uid: pod.uid.clone(),
            resource_version: pod.resource_version.clone(),
            note: event.note.into(),
        }
    }

    /// Returns the record's size in memory in bytes, including the strings of the pod, which may be shared.
    pub(super) fn size(&self) -> usize {
        // Shared data is preceded by two counters.
        const SHARED: usize = 2 * size_of::<usize>();
        let strings = [&self.name, &self.pod, &self.uid, &self.resource_version];
        let strings: usize = strings.iter().map(|text| SHARED + text.len()).sum();
        SHARED + size_of::<Self>() + self.note.len() + strings
    }

    /// Returns the path of the collection in which the event is created.
    pub(super) fn collection(&self) -> String {
        format!("/apis/events.k8s.io/v1/namespaces/{}/events", self.namespace())
    }

    fn namespace(&self) -> &str {
        match self.namespace.as_str() {
            "" => "default",
            namespace => namespace,
        }
    }

    /// Returns the `events.k8s.io/v1.Event` in JSON, as reported by a scheduler on this host.
    pub(super) fn body(&self, hostname: &str, series: Option<&SeriesBody>) -> Bytes {
        let body = EventBody {
            kind: "Event",
            api_version: "events.k8s.io/v1",
            metadata: Metadata { name: &self.name, namespace: self.namespace() },
            event_time: self.at.to_rfc3339_micro(),
            series,
            reporting_controller: &self.reporter,
            reporting_instance: format!("{}-{hostname}", self.reporter),
            action: self.action,
            reason: self.reason,
            regarding: Regarding {
                kind: "Pod",
                namespace: &self.namespace,
                name: &self.pod,
                uid: &self.uid,
                api_version: "v1",
                resource_version: &self.resource_version,
            },
            note: &self.note,
            type_: if self.warning { "Warning" } else { "Normal" },
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

/// `events.k8s.io/v1.EventSeries`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SeriesBody {
    count: u32,
    last_observed_time: String,
}

#[derive(Serialize)]
struct SeriesPatch<'a> {
    series: &'a SeriesBody,
}

impl SeriesBody {
    pub(super) fn new(count: u32, last: Timestamp) -> Self {
        Self { count, last_observed_time: last.to_rfc3339_micro() }
    }

    /// Returns the patch that sets the event's series: its count and the time of the last occurrence.
    pub(super) fn patch(&self) -> Bytes {
        serde_json::to_vec(&SeriesPatch { series: self }).unwrap_or_default().into()
    }
}
