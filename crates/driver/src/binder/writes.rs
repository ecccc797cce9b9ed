//! Writes of one binding: the engine learns that a binding failed only after it has seen what the binding wrote.
//!
//! Otherwise the engine would revert what Reserve assumed, and for a moment a device or volume that the API server
//! already counts as taken would look free.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use harbormaster_api::{Str, Timestamp};
use harbormaster_framework::{
    api_call::{ApiCall, ApiFailure, ClusterApi, ObjectPath, Verb},
    outcome::PluginError,
    plugin::BoxFuture,
    pod::PodInfo,
};
use serde_json::Value;
use tokio::{sync::oneshot, task::JoinHandle, time::timeout};

use crate::live_api::version;

/// Maximum time to wait for the engine to see a write. A watch that lags further behind delays no pod.
const PATIENCE: Duration = Duration::from_secs(10);

/// Access to the API server that remembers what was written.
pub(super) struct RecordedApi {
    api: Arc<dyn ClusterApi>,
    /// Requests that change custom objects. They run as tasks, so they end even if the binding is canceled meanwhile.
    writes: Mutex<Vec<JoinHandle<Option<Write>>>>,
}

/// A successful write.
struct Write {
    path: ObjectPath,
    version: u64,
}

impl RecordedApi {
    pub(super) fn new(api: Arc<dyn ClusterApi>) -> Self {
        Self { api, writes: Mutex::default() }
    }

    /// Waits until the engine has seen every write, but not longer than [`PATIENCE`].
    pub(super) async fn seen(&self) {
        let writes = std::mem::take(&mut *self.writes.lock().unwrap_or_else(PoisonError::into_inner));
        let all = async {
            for write in writes {
                // The task is never aborted, and a panic in it means that nothing is known to be written.
                if let Ok(Some(Write { path, version })) = write.await {
                    self.api.seen(&path, version).await;
                }
            }
        };
        if timeout(PATIENCE, all).await.is_err() {
            tracing::warn!("A binding failed, and the watch did not report what the binding wrote");
        }
    }

    /// Sends a request in a task of its own.
    async fn send(&self, call: ApiCall) -> Result<Value, ApiFailure> {
        let (api, path) = (self.api.clone(), call.path.clone());
        let (to, answer) = oneshot::channel();
        let write = tokio::spawn(async move {
            let result = api.call(call).await;
            let written = result.as_ref().ok().and_then(version);
            // The binding may have been canceled.
            let _ = to.send(result);
            written.map(|version| Write { path, version })
        });
        self.writes.lock().unwrap_or_else(PoisonError::into_inner).push(write);
        answer.await.unwrap_or_else(|_| {
            let message = "the request was interrupted".to_owned();
            Err(ApiFailure { code: None, reason: String::new(), message })
        })
    }
}

impl ClusterApi for RecordedApi {
    fn bind<'a>(&'a self, pod: &'a PodInfo, node: &'a Str) -> BoxFuture<'a, Result<(), PluginError>> {
        self.api.bind(pod, node)
    }

    fn call(&self, call: ApiCall) -> BoxFuture<'_, Result<Value, ApiFailure>> {
        let is_read = call.verb == Verb::Get;
        let is_of_pod = call.path.group.is_empty() && call.path.plural == "pods";
        if is_read || is_of_pod {
            return self.api.call(call);
        }
        Box::pin(self.send(call))
    }

    fn wait<'a>(
        &'a self,
        path: &'a ObjectPath,
        at_most: Duration,
        is_settled: &'a mut (dyn FnMut(Option<&Value>) -> bool + Send),
    ) -> BoxFuture<'a, Result<bool, ApiFailure>> {
        self.api.wait(path, at_most, is_settled)
    }

    fn now(&self) -> Timestamp {
        self.api.now()
    }

    fn seen<'a>(&'a self, path: &'a ObjectPath, version: u64) -> BoxFuture<'a, ()> {
        self.api.seen(path, version)
    }
}

#[cfg(test)]
mod tests;
