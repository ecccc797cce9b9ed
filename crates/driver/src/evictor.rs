//! Evictions, which set the `DisruptionTarget` condition and then delete the pod.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use harbormaster_api::Timestamp;
use harbormaster_client::{ApiClient, ApiError, Retries};
use harbormaster_core::{EvictOutcome, EvictTask, Input};
use harbormaster_framework::pod::PodInfo;
use serde::Serialize;
use tokio::sync::Semaphore;

use crate::{
    message::{EngineMessage, ToEngine},
    status::{self, Body, NewCondition},
    tasks::Tasks,
};

/// Maximum number of concurrent evictions.
const AT_ONCE: usize = 32;
/// Pause after a failure. The cause may be permanent (a missing permission, a webhook), and the engine retries the
/// preemptor immediately.
const AFTER_FAILURE: Duration = Duration::from_millis(500);
/// Type of the condition of a preempted pod.
const DISRUPTION_TARGET: &str = "DisruptionTarget";
/// Reason of the `DisruptionTarget` condition of a preempted pod.
const PREEMPTION: &str = "PreemptionByScheduler";

/// Evicts pods concurrently and reports each outcome to the engine.
pub struct Evictor {
    client: ApiClient,
    tasks: Tasks,
    engine: ToEngine,
    room: Arc<Semaphore>,
}

impl Evictor {
    /// Returns an evictor that uses `client`.
    pub fn new(client: ApiClient, tasks: Tasks, engine: ToEngine) -> Self {
        Self { client, tasks, engine, room: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// Starts to evict a pod; `now` is the transition time of the `DisruptionTarget` condition if the pod does not have
    /// it yet.
    pub fn evict(&self, task: EvictTask, now: Timestamp) {
        let (client, engine, room) = (self.client.clone(), self.engine.clone(), self.room.clone());
        self.tasks.spawn(async move {
            // The semaphore is never closed, so acquiring a permit cannot fail.
            let permit = room.acquire().await;
            let outcome = evict(&client, &task, now).await;
            drop(permit);
            if matches!(outcome, EvictOutcome::Failed(_)) {
                client.rest(AFTER_FAILURE).await;
            }
            // The engine is gone only when the process ends.
            let _ = engine.send(EngineMessage::Inputs(vec![Input::EvictFinished { task, outcome }]));
        });
    }
}

async fn evict(client: &ApiClient, task: &EvictTask, now: Timestamp) -> EvictOutcome {
    let victim = &task.victim;
    if let Some(condition) = condition(task, now)
        && let Err(error) = status::send(client, victim, &Body::of_condition(victim, &condition)).await
    {
        let gone = error.code() == Some(404);
        return not_evicted(task, &error, gone, "Could not add DisruptionTarget condition due to preemption");
    }
    match delete(client, victim).await {
        Ok(()) => {
            let (pod, preemptor) = (victim.full_name(), task.preemptor.as_str());
            tracing::debug!(v = 2, pod, preemptor, "Preemptor Pod preempted victim Pod");
            EvictOutcome::Evicted
        }
        Err(error) => {
            // A conflict means that the name now belongs to another pod.
            let gone = matches!(error.code(), Some(404 | 409));
            not_evicted(task, &error, gone, "Tried to preempted pod")
        }
    }
}

fn not_evicted(task: &EvictTask, error: &ApiError, gone: bool, what: &'static str) -> EvictOutcome {
    let (pod, preemptor) = (task.victim.full_name(), task.preemptor.as_str());
    if gone {
        tracing::debug!(v = 2, pod, preemptor, "Victim Pod is already deleted");
        return EvictOutcome::Gone;
    }
    tracing::error!(pod, preemptor, err = %error, "{what}");
    EvictOutcome::Failed(error.to_string())
}

/// Returns the condition to set; `None` if the victim already has it with this message.
fn condition(task: &EvictTask, now: Timestamp) -> Option<NewCondition<'_>> {
    let known = task.victim.condition(DISRUPTION_TARGET).filter(|c| c.status == "True");
    if known.is_some_and(|c| c.reason == PREEMPTION && c.message == task.message.as_str()) {
        return None;
    }
    Some(NewCondition {
        type_: DISRUPTION_TARGET,
        status: "True",
        reason: PREEMPTION,
        message: &task.message,
        last_transition: known.and_then(|c| c.last_transition).unwrap_or(now),
    })
}

/// Deletes exactly this pod, never a later pod with the same name.
async fn delete(client: &ApiClient, pod: &PodInfo) -> Result<(), ApiError> {
    let path = format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name);
    let options = Bytes::from(serde_json::to_vec(&DeleteOptions::of(pod)).unwrap_or_default());
    let mut retries = Retries::of(client);
    loop {
        match client.delete(&path, options.clone()).await {
            Err(error) if error.code() == Some(429) => retries.wait_after(error).await?,
            end => return end,
        }
    }
}

/// `v1.DeleteOptions`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DeleteOptions<'a> {
    kind: &'static str,
    api_version: &'static str,
    preconditions: Preconditions<'a>,
}

#[derive(Serialize)]
struct Preconditions<'a> {
    uid: &'a str,
}

impl<'a> DeleteOptions<'a> {
    fn of(pod: &'a PodInfo) -> Self {
        Self { kind: "DeleteOptions", api_version: "v1", preconditions: Preconditions { uid: &pod.uid } }
    }
}

#[cfg(test)]
mod tests;
