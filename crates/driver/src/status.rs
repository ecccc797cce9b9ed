//! Patches of pods' status: why a pod waits, and where it may go.
//!
//! Where many pods wait and much happens, attempts come to new words faster than an API server takes them. What waits to be
//! written is therefore kept once per pod, the newest counts, and the engine is told that something waits ([`Unwritten`]).

mod waiting;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use harbormaster_api::{Str, Timestamp, pod::PodCondition};
use harbormaster_client::{ApiClient, ApiError, Backoff, client::STRATEGIC_MERGE_PATCH};
use harbormaster_core::StatusPatch;
use harbormaster_framework::pod::PodInfo;
use serde::Serialize;
use tokio::time::sleep;

use crate::lanes::Tasks;
pub use waiting::Unwritten;
use waiting::Waiting;

/// Patches that are sent at a time, as kube-scheduler's dispatcher of API calls sends them.
const AT_ONCE: usize = 16;
/// How often a patch is sent.
const TRIES: u32 = 4;
/// The type of the condition that tells why a pod waits.
const POD_SCHEDULED: &str = "PodScheduled";

/// Sends status patches: those of one pod in order, those of different pods side by side.
pub struct StatusWriter {
    outbox: Arc<Outbox>,
    tasks: Tasks,
}

/// What the tasks share that send.
struct Outbox {
    client: ApiClient,
    unwritten: Unwritten,
    /// With the number of tasks.
    waiting: Mutex<(Waiting, usize)>,
}

impl StatusWriter {
    /// A writer over `client`, which takes off `unwritten` what it has written.
    pub fn new(client: ApiClient, tasks: Tasks, unwritten: Unwritten) -> Self {
        Self { outbox: Arc::new(Outbox { client, unwritten, waiting: Mutex::default() }), tasks }
    }

    /// Sends a patch when the one before for the same pod is through.
    pub fn patch(&self, patch: StatusPatch) {
        let mut guard = self.outbox.waiting();
        let (waiting, writers) = &mut *guard;
        if waiting.add(patch) {
            self.outbox.unwritten.take_off();
        }
        if *writers < AT_ONCE && waiting.has_next() {
            *writers += 1;
            self.tasks.spawn(self.outbox.clone().write());
        }
    }
}

impl Outbox {
    /// Until nothing is left to write.
    async fn write(self: Arc<Self>) {
        while let Some(patch) = self.next() {
            let pod = patch.pod.full_name();
            match send(&self.client, &patch.pod, &Body::of(&patch)).await {
                Ok(()) => {}
                Err(error) if error.code() == Some(404) => {
                    tracing::trace!(v = 4, pod, "Pod is gone, its status is not updated");
                }
                Err(error) => tracing::error!(pod, err = %error, "Error updating pod"),
            }
            self.waiting().0.written(&patch.pod.uid);
            self.unwritten.take_off();
        }
    }

    /// The task ends if there is none.
    fn next(&self) -> Option<StatusPatch> {
        let mut guard = self.waiting();
        let (waiting, writers) = &mut *guard;
        let next = waiting.next();
        *writers -= usize::from(next.is_none());
        next
    }

    fn waiting(&self) -> MutexGuard<'_, (Waiting, usize)> {
        // A panic can leave nothing half done in there.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends a patch of the pod's status, a few times if it must be.
pub(crate) async fn send(client: &ApiClient, pod: &PodInfo, body: &Body<'_>) -> Result<(), ApiError> {
    let path = format!("/api/v1/namespaces/{}/pods/{}/status", pod.namespace, pod.name);
    let body = Bytes::from(serde_json::to_vec(body).unwrap_or_default());
    let mut backoff = Backoff::new(Duration::from_millis(10), 5.0, Duration::from_secs(10), 0.1);
    let mut tries = 0;
    loop {
        let error = match client.patch(&path, STRATEGIC_MERGE_PATCH, body.clone()).await {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        tries += 1;
        let worth_it = error.is_passing() || error.code() == Some(409);
        if !worth_it || tries >= TRIES {
            return Err(error);
        }
        let asked = error.retry_after().unwrap_or_default().min(Duration::from_secs(10));
        sleep(backoff.delay().max(asked)).await;
    }
}

/// A condition as it shall be.
pub(crate) struct Wanted<'a> {
    pub(crate) type_: &'static str,
    pub(crate) status: &'static str,
    pub(crate) reason: &'static str,
    pub(crate) message: &'a str,
    pub(crate) last_transition: Timestamp,
}

/// A strategic merge patch with the difference between the pod's status as it is known and as it shall be. Keys are in
/// alphabetical order, as in Go's patches.
#[derive(Serialize)]
pub(crate) struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<UidOnly<'a>>,
    status: StatusBody<'a>,
}

/// Has the API server refuse the patch of another pod of the same name.
#[derive(Serialize)]
struct UidOnly<'a> {
    uid: &'a str,
}

#[derive(Default, Serialize)]
struct StatusBody<'a> {
    #[serde(rename = "$setElementOrder/conditions", skip_serializing_if = "Vec::is_empty")]
    order: Vec<TypeOnly<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    conditions: Option<[ConditionBody<'a>; 1]>,
    #[serde(rename = "nominatedNodeName", skip_serializing_if = "Option::is_none")]
    nominated: Option<Option<&'a str>>,
}

#[derive(Serialize)]
struct TypeOnly<'a> {
    #[serde(rename = "type")]
    type_: &'a str,
}

/// `v1.PodCondition`; what is left out stays as it is.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ConditionBody<'a> {
    /// Only in a new condition: `null`, never probed.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_probe_time: Option<()>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_transition_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    observed_generation: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
    #[serde(rename = "type")]
    type_: &'static str,
}

impl<'a> Body<'a> {
    fn of(patch: &'a StatusPatch) -> Self {
        let wanted = patch.condition.as_ref().map(|new| Wanted {
            type_: POD_SCHEDULED,
            status: "False",
            reason: new.reason,
            message: &new.message,
            last_transition: new.last_transition,
        });
        let mut status = wanted.map(|wanted| StatusBody::with(&patch.pod, &wanted)).unwrap_or_default();
        status.nominated = patch.nominated_node.as_ref().map(|node| node.as_ref().map(Str::as_str));
        Self { metadata: None, status }
    }

    /// A condition for just this pod, not for one of the same name that came after it.
    pub(crate) fn of_condition(pod: &'a PodInfo, wanted: &Wanted<'a>) -> Self {
        Self { metadata: Some(UidOnly { uid: &pod.uid }), status: StatusBody::with(pod, wanted) }
    }
}

impl<'a> StatusBody<'a> {
    fn with(pod: &'a PodInfo, wanted: &Wanted<'a>) -> Self {
        let known = &pod.status.conditions;
        let old = known.iter().find(|c| *c.type_ == *wanted.type_);
        let condition = ConditionBody::difference(old, wanted, pod.generation);
        let mut order = Vec::new();
        if !known.is_empty() {
            // A new condition comes last.
            let added = old.is_none().then_some(wanted.type_);
            let types = known.iter().map(|c| &*c.type_).chain(added);
            order.extend(types.map(|type_| TypeOnly { type_ }));
        }
        Self { order, conditions: Some([condition]), nominated: None }
    }
}

impl<'a> ConditionBody<'a> {
    fn difference(old: Option<&PodCondition>, new: &Wanted<'a>, generation: i64) -> Self {
        let since = new.last_transition.to_rfc3339();
        let before = old.and_then(|c| c.last_transition).map(|at| at.to_rfc3339());
        let changed = |before: Option<&Str>, now: &str| before.is_none_or(|b| &**b != now);
        Self {
            last_probe_time: old.is_none().then_some(()),
            message: Some(new.message).filter(|m| changed(old.map(|c| &c.message), m)),
            observed_generation: (generation > 0).then_some(generation),
            reason: Some(new.reason).filter(|r| changed(old.map(|c| &c.reason), r)),
            status: Some(new.status).filter(|s| changed(old.map(|c| &c.status), s)),
            last_transition_time: Some(since).filter(|at| before.as_ref() != Some(at)),
            type_: new.type_,
        }
    }
}

#[cfg(test)]
mod tests;
