//! Patches of pods' status: why a pod waits, and where it may go.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use harbormaster_api::{Str, pod::PodCondition};
use harbormaster_core::{Condition, StatusPatch};
use serde::Serialize;
use tokio::time::sleep;

use crate::{
    backoff::Backoff,
    http::{ApiClient, ApiError, STRATEGIC_MERGE_PATCH},
    lanes::{Lanes, Tasks},
};

/// Patches that are sent at a time.
const AT_ONCE: usize = 32;
/// How often a patch is sent.
const TRIES: u32 = 4;
/// The type of the condition that the scheduler writes.
const POD_SCHEDULED: &str = "PodScheduled";

/// Sends status patches: those of one pod in order, those of different pods side by side.
pub struct StatusWriter {
    client: ApiClient,
    lanes: Arc<Lanes>,
}

impl StatusWriter {
    /// A writer over `client`.
    pub fn new(client: ApiClient, tasks: Tasks) -> Self {
        Self { client, lanes: Lanes::new(tasks, AT_ONCE) }
    }

    /// Sends a patch when those that came before for the same pod are through.
    pub fn patch(&self, patch: StatusPatch) {
        let client = self.client.clone();
        let uid = patch.pod.uid.clone();
        self.lanes.run(&uid, async move {
            let pod = patch.pod.full_name();
            match send(&client, &patch).await {
                Ok(()) => {}
                Err(error) if error.code() == Some(404) => {
                    tracing::trace!(v = 4, pod, "Pod is gone, its status is not updated");
                }
                Err(error) => tracing::error!(pod, err = %error, "Error updating pod"),
            }
        });
    }
}

async fn send(client: &ApiClient, patch: &StatusPatch) -> Result<(), ApiError> {
    let path = format!("/api/v1/namespaces/{}/pods/{}/status", patch.pod.namespace, patch.pod.name);
    let body = Bytes::from(serde_json::to_vec(&Body::of(patch)).unwrap_or_default());
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

/// A strategic merge patch with the difference between the pod's status as it is known and as it shall be. Keys are in
/// alphabetical order, as in Go's patches.
#[derive(Serialize)]
struct Body<'a> {
    status: StatusBody<'a>,
}

#[derive(Serialize)]
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
        let pod = &patch.pod;
        let known = &pod.status.conditions;
        let condition = patch.condition.as_ref().map(|new| {
            let old = known.iter().find(|c| *c.type_ == *POD_SCHEDULED);
            [ConditionBody::difference(old, new, pod.generation)]
        });
        let order = match &condition {
            Some(_) if !known.is_empty() => order_of(known),
            _ => Vec::new(),
        };
        let nominated = patch.nominated_node.as_ref().map(|node| node.as_ref().map(Str::as_str));
        Self { status: StatusBody { order, conditions: condition, nominated } }
    }
}

/// All conditions in order, the scheduler's own last if it is new.
fn order_of(known: &[PodCondition]) -> Vec<TypeOnly<'_>> {
    let mut order: Vec<TypeOnly<'_>> = known.iter().map(|c| TypeOnly { type_: &c.type_ }).collect();
    if !known.iter().any(|c| *c.type_ == *POD_SCHEDULED) {
        order.push(TypeOnly { type_: POD_SCHEDULED });
    }
    order
}

impl<'a> ConditionBody<'a> {
    fn difference(old: Option<&PodCondition>, new: &'a Condition, generation: i64) -> Self {
        let since = new.last_transition.to_rfc3339();
        let before = old.and_then(|c| c.last_transition).map(|at| at.to_rfc3339());
        let changed = |before: Option<&Str>, now: &str| before.is_none_or(|b| &**b != now);
        Self {
            last_probe_time: old.is_none().then_some(()),
            message: Some(&*new.message).filter(|m| changed(old.map(|c| &c.message), m)),
            observed_generation: (generation > 0).then_some(generation),
            reason: Some(new.reason).filter(|r| changed(old.map(|c| &c.reason), r)),
            status: Some("False").filter(|s| changed(old.map(|c| &c.status), s)),
            last_transition_time: Some(since).filter(|at| before.as_ref() != Some(at)),
            type_: POD_SCHEDULED,
        }
    }
}

#[cfg(test)]
mod tests;
