//! Patches to the status of pods: the `PodScheduled` condition and the nominated node.
//!
//! When many pods wait, attempts produce new messages faster than an API server accepts them. Therefore, at most one
//! patch per pod waits (newer patches are merged into it), and the engine is notified when more patches are accepted
//! ([`EngineMessage::StatusesWritten`]).

mod pending;

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

use crate::{
    message::{EngineMessage, ToEngine},
    tasks::Tasks,
};
use pending::PatchQueue;

/// Maximum number of patches that are sent concurrently, as in kube-scheduler's API dispatcher. While fewer patches
/// than this are unwritten, more patches are accepted.
pub(crate) const AT_ONCE: usize = 16;
/// Maximum number of times that a patch is sent.
const TRIES: u32 = 4;
/// Type of the condition that explains why a pod waits.
const POD_SCHEDULED: &str = "PodScheduled";

/// Sends status patches: patches of the same pod in order, patches of different pods concurrently.
pub struct StatusWriter {
    outbox: Arc<Outbox>,
    tasks: Tasks,
}

/// State shared by the sending tasks.
struct Outbox {
    client: ApiClient,
    engine: ToEngine,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    queue: PatchQueue,
    /// Number of running tasks.
    writers: usize,
    /// Number of patches that were written, given up or merged but have not been reported to the engine yet.
    unreported: usize,
}

impl StatusWriter {
    /// Returns a writer that reports to `engine`.
    pub fn new(client: ApiClient, tasks: Tasks, engine: ToEngine) -> Self {
        Self { outbox: Arc::new(Outbox { client, engine, state: Mutex::default() }), tasks }
    }

    /// Sends a patch after the previous patch for the same pod.
    pub fn patch(&self, patch: StatusPatch) {
        let mut state = self.outbox.state();
        if state.queue.add(patch) {
            self.outbox.finished(&mut state);
        }
        if state.writers < AT_ONCE && state.queue.has_next() {
            state.writers += 1;
            self.tasks.spawn(self.outbox.clone().write());
        }
    }
}

impl Outbox {
    /// Sends patches until none is left.
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
            let mut state = self.state();
            state.queue.written(&patch.pod.uid);
            self.finished(&mut state);
        }
    }

    /// Counts a patch that was written, given up or merged, and reports to the engine if more patches are accepted.
    fn finished(&self, state: &mut State) {
        state.unreported += 1;
        if state.queue.len() < AT_ONCE {
            let patches = std::mem::take(&mut state.unreported);
            // The engine is gone only when the process ends.
            let _ = self.engine.send(EngineMessage::StatusesWritten(patches));
        }
    }

    /// Returns the next patch; the task ends if there is none.
    fn next(&self) -> Option<StatusPatch> {
        let mut state = self.state();
        let next = state.queue.next();
        state.writers -= usize::from(next.is_none());
        next
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic cannot leave the state inconsistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends a patch to a pod's status, with retries.
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
        let requested = error.retry_after().unwrap_or_default().min(Duration::from_secs(10));
        client.rest(backoff.delay().max(requested)).await;
    }
}

/// A condition to set.
pub(crate) struct NewCondition<'a> {
    pub(crate) type_: &'static str,
    pub(crate) status: &'static str,
    pub(crate) reason: &'static str,
    pub(crate) message: &'a str,
    pub(crate) last_transition: Timestamp,
}

/// A strategic merge patch with the differences between the known and the new status of the pod. Keys are in
/// alphabetical order, as in Go's patches.
#[derive(Serialize)]
pub(crate) struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<UidOnly<'a>>,
    status: StatusBody<'a>,
}

/// Makes the API server refuse the patch if a different pod now has the same name.
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

/// `v1.PodCondition`; absent fields do not change.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ConditionBody<'a> {
    /// `null` (never probed) in a new condition, otherwise absent.
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
        let wanted = patch.condition.as_ref().map(|new| NewCondition {
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

    /// Returns a patch for exactly this pod, never for a later pod with the same name.
    pub(crate) fn of_condition(pod: &'a PodInfo, wanted: &NewCondition<'a>) -> Self {
        Self { metadata: Some(UidOnly { uid: &pod.uid }), status: StatusBody::with(pod, wanted) }
    }
}

impl<'a> StatusBody<'a> {
    fn with(pod: &'a PodInfo, wanted: &NewCondition<'a>) -> Self {
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
    fn difference(old: Option<&PodCondition>, new: &NewCondition<'a>, generation: i64) -> Self {
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
