//! From a decision to a bound pod: PreBind, Bind and PostBind, beside the scheduling of other pods.

use std::{
    sync::{Arc, mpsc},
    time::Duration,
};

use futures_util::future::join_all;
use harbormaster_api::{Str, points::ExtensionPoint};
use harbormaster_core::{BindOutcome, BindTask, Input};
use harbormaster_framework::{
    cycle::{BindCycle, ClusterApi},
    guard::Stopped,
    outcome::{Bound, PluginError},
    plugin::BoxFuture,
    pod::PodInfo,
};
use serde::{Deserialize, Serialize};
use tokio::{sync::Semaphore, time::sleep};

use crate::{
    backoff::Backoff,
    engine_thread::ToEngine,
    http::{ApiClient, ApiError},
    lanes::Tasks,
};

/// Bindings that talk to the API server at a time: more would only open more connections.
pub const BINDINGS_AT_ONCE: usize = 64;
/// How often a request is sent that fails in a passing way.
const TRIES: u32 = 4;
/// The longest that a server is left alone between two tries of a binding, whatever it asks for.
const LONGEST_REST: Duration = Duration::from_secs(10);

/// Tells whether bindings talk to the API server; what is less urgent then holds back.
#[derive(Clone, Debug)]
pub struct BindingActivity(Arc<Semaphore>);

impl BindingActivity {
    /// Whether at least one binding is on its way.
    pub fn is_busy(&self) -> bool {
        self.0.available_permits() < BINDINGS_AT_ONCE
    }

    /// No binding, ever.
    #[cfg(test)]
    pub(crate) fn idle() -> Self {
        Self(Arc::new(Semaphore::new(BINDINGS_AT_ONCE)))
    }

    /// A binding, always.
    #[cfg(test)]
    pub(crate) fn busy() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }
}

/// Runs binding cycles as tasks and tells the engine how they ended.
#[derive(Clone)]
pub struct Binder {
    api: Arc<dyn ClusterApi>,
    tasks: Tasks,
    engine: mpsc::Sender<ToEngine>,
    room: Arc<Semaphore>,
}

impl Binder {
    /// A binder whose plugins reach the cluster through `api`.
    pub fn new(api: Arc<dyn ClusterApi>, tasks: Tasks, engine: mpsc::Sender<ToEngine>) -> Self {
        Self { api, tasks, engine, room: Arc::new(Semaphore::new(BINDINGS_AT_ONCE)) }
    }

    /// Tells whether bindings are on their way.
    pub fn activity(&self) -> BindingActivity {
        BindingActivity(self.room.clone())
    }

    /// Begins a binding cycle.
    pub fn run(&self, task: BindTask) {
        let Self { api, engine, room, .. } = self.clone();
        self.tasks.spawn(async move {
            let uid = task.pod.uid.clone();
            let cycle = BindCycle { pod: task.pod.clone(), node: task.node.clone(), api };
            let outcome = binding_cycle(&task, &cycle, &room).await;
            // The engine is gone only when the process ends.
            let _ = engine.send(ToEngine::Inputs(vec![Input::BindFinished { uid, outcome }]));
        });
    }
}

/// PreBind, Bind, PostBind. Only Bind waits for room: PreBind may wait for something else for minutes.
async fn binding_cycle(task: &BindTask, cycle: &BindCycle, room: &Semaphore) -> BindOutcome {
    if let Err(outcome) = pre_bind(task, cycle).await {
        return outcome;
    }
    let permit = room.acquire().await;
    let bound = bind(task, cycle).await;
    drop(permit);
    if let Err(outcome) = bound {
        return outcome;
    }
    for plugin in task.profile.at(ExtensionPoint::PostBind) {
        if let Err(error) = task.profile.plugin(*plugin).post_bind(cycle) {
            tracing::error!(pod = task.pod.full_name(), err = %error, "A plugin failed after the binding");
        }
    }
    BindOutcome::Bound
}

async fn pre_bind(task: &BindTask, cycle: &BindCycle) -> Result<(), BindOutcome> {
    for group in &task.pre_bind {
        let members = group.iter().map(|plugin| {
            let plugin = task.profile.plugin(*plugin);
            async { plugin.pre_bind(cycle).await.map_err(failed) }
        });
        join_all(members).await.into_iter().collect::<Result<(), BindOutcome>>()?;
    }
    Ok(())
}

async fn bind(task: &BindTask, cycle: &BindCycle) -> Result<(), BindOutcome> {
    for plugin in task.profile.at(ExtensionPoint::Bind) {
        let plugin = task.profile.plugin(*plugin);
        match plugin.bind(cycle).await {
            Ok(Bound::Done) => return Ok(()),
            Ok(Bound::NotMine) => {}
            Err(stopped) => return Err(failed(stopped)),
        }
    }
    Err(BindOutcome::Failed("no Bind plugin was responsible for the pod".to_owned()))
}

fn failed(stopped: Stopped) -> BindOutcome {
    match stopped {
        Stopped::Reject(_, reject) => BindOutcome::Rejected(reject),
        Stopped::Error(error) => BindOutcome::Failed(error.to_string()),
    }
}

/// The API server, as plugins see it while binding.
#[derive(Clone, Debug)]
pub struct LiveApi {
    client: ApiClient,
}

impl LiveApi {
    /// The API server behind `client`.
    pub fn new(client: ApiClient) -> Self {
        Self { client }
    }

    /// A passing failure is tried again a few times. The server may have bound the pod in spite of it: then the next
    /// try is a conflict, and the pod itself tells.
    async fn bind_pod(&self, pod: &PodInfo, node: &str) -> Result<(), ApiError> {
        let path = format!("/api/v1/namespaces/{}/pods/{}/binding", pod.namespace, pod.name);
        let body = bytes::Bytes::from(serde_json::to_vec(&Binding::new(pod, node)).unwrap_or_default());
        let mut rests = Rests::default();
        loop {
            let error = match self.client.post(&path, body.clone()).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            if error.code() == Some(409) {
                return if self.is_bound_to(pod, node).await { Ok(()) } else { Err(error) };
            }
            rests.rest(error).await?;
        }
    }

    async fn is_bound_to(&self, pod: &PodInfo, node: &str) -> bool {
        let path = format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name);
        let mut rests = Rests::default();
        loop {
            let error = match self.client.get(&path).await {
                Ok(json) => {
                    let found: Option<PlacedPod> = serde_json::from_slice(&json).ok();
                    return found.is_some_and(|p| p.metadata.uid == *pod.uid && p.spec.node_name == node);
                }
                Err(error) => error,
            };
            if rests.rest(error).await.is_err() {
                return false;
            }
        }
    }
}

impl ClusterApi for LiveApi {
    fn bind<'a>(&'a self, pod: &'a PodInfo, node: &'a Str) -> BoxFuture<'a, Result<(), PluginError>> {
        Box::pin(async move { self.bind_pod(pod, node).await.map_err(PluginError::from) })
    }
}

/// The pauses between a few tries.
#[derive(Default)]
pub(crate) struct Rests {
    taken: u32,
    backoff: Option<Backoff>,
}

impl Rests {
    /// Waits before the next try; gives the error back if there is none.
    pub(crate) async fn rest(&mut self, error: ApiError) -> Result<(), ApiError> {
        self.taken += 1;
        if !error.is_passing() || self.taken >= TRIES {
            return Err(error);
        }
        let backoff = self.backoff.get_or_insert_with(|| {
            Backoff::new(Duration::from_millis(100), 3.0, Duration::from_secs(5), 0.5)
        });
        let asked = error.retry_after().unwrap_or_default().min(LONGEST_REST);
        sleep(backoff.delay().max(asked)).await;
        Ok(())
    }
}

/// `v1.Binding`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Binding<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: BindingMetadata<'a>,
    target: Target<'a>,
}

#[derive(Serialize)]
struct BindingMetadata<'a> {
    name: &'a str,
    namespace: &'a str,
    uid: &'a str,
}

#[derive(Serialize)]
struct Target<'a> {
    kind: &'static str,
    name: &'a str,
}

impl<'a> Binding<'a> {
    fn new(pod: &'a PodInfo, node: &'a str) -> Self {
        Self {
            kind: "Binding",
            api_version: "v1",
            metadata: BindingMetadata { name: &pod.name, namespace: &pod.namespace, uid: &pod.uid },
            target: Target { kind: "Node", name: node },
        }
    }
}

/// A pod, as far as it tells where it is bound.
#[derive(Deserialize)]
struct PlacedPod {
    metadata: PlacedMetadata,
    spec: PlacedSpec,
}

#[derive(Deserialize)]
struct PlacedMetadata {
    uid: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PlacedSpec {
    #[serde(default)]
    node_name: String,
}

#[cfg(test)]
mod tests;
