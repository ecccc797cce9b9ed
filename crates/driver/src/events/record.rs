//! One event, as stored in the backlog and as sent to the API server.

use bytes::Bytes;
use harbormaster_api::{
    Str, Timestamp,
    protobuf::{self, Writer},
};
use harbormaster_client::Document;
use harbormaster_core::PodEvent;
use serde::{Serialize, Serializer};

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

    /// Returns the `events.k8s.io/v1.Event`, as reported by a scheduler on this host.
    pub(super) fn body<'a>(&'a self, hostname: &str, series: Option<&'a SeriesBody>) -> EventBody<'a> {
        EventBody {
            kind: "Event",
            api_version: "events.k8s.io/v1",
            metadata: Metadata { name: &self.name, namespace: self.namespace() },
            event_time: self.at,
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
        }
    }
}

/// `events.k8s.io/v1.Event`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EventBody<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: Metadata<'a>,
    #[serde(serialize_with = "micro_time")]
    event_time: Timestamp,
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
    #[serde(serialize_with = "micro_time")]
    last_observed_time: Timestamp,
}

#[derive(Serialize)]
struct SeriesPatch<'a> {
    series: &'a SeriesBody,
}

impl SeriesBody {
    pub(super) fn new(count: u32, last: Timestamp) -> Self {
        Self { count, last_observed_time: last }
    }

    /// Returns the patch that sets the event's series: its count and the time of the last occurrence.
    pub(super) fn patch(&self) -> Bytes {
        serde_json::to_vec(&SeriesPatch { series: self }).unwrap_or_default().into()
    }
}

/// Writes a time with microseconds.
fn micro_time<S: Serializer>(time: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&time.to_rfc3339_micro())
}

impl Document for EventBody<'_> {
    fn json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    fn protobuf(&self) -> Vec<u8> {
        protobuf::object(self.api_version, self.kind, |event| {
            event.message(1, |fields| {
                fields.text(1, self.metadata.name);
                fields.text(3, self.metadata.namespace);
            });
            event.micro_time(2, self.event_time);
            if let Some(series) = self.series {
                event.message(3, |fields| {
                    fields.number(1, series.count.into());
                    fields.micro_time(2, series.last_observed_time);
                });
            }
            event.text(4, self.reporting_controller);
            event.text(5, &self.reporting_instance);
            event.text(6, self.action);
            event.text(7, self.reason);
            event.message(8, |fields| self.regarding.write(fields));
            event.text(10, self.note);
            event.text(11, self.type_);
        })
    }
}

impl Regarding<'_> {
    /// Writes a `v1.ObjectReference`.
    fn write(&self, fields: &mut Writer) {
        fields.text(1, self.kind);
        fields.text(2, self.namespace);
        fields.text(3, self.name);
        fields.text(4, self.uid);
        fields.text(5, self.api_version);
        fields.text(6, self.resource_version);
    }
}
