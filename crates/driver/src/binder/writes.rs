//! Writes of one binding. The end of a binding is reported to the engine only after the engine has seen what the binding
//! wrote, or after a time limit.
//!
//! Otherwise, if the binding failed or the bound pod was deleted at once, the engine would revert Reserve's assumptions
//! too early. For a moment, a device or volume that is already taken according to the API server would look free.
//!
//! If the answer to a write is lost, the write fails with a conflict when it is sent again, and the plugin reads the
//! object. Such reads count as writes.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::{FutureExt, future::Shared};
use harbormaster_api::{Str, Timestamp};
use harbormaster_core::{PodEvent, effect::cut_note};
use harbormaster_framework::{
    api_call::{ApiCall, ApiFailure, BindingEvent, ClusterApi, ObjectPath, Reply, Verb},
    meter::Measurement,
    outcome::PluginError,
    plugin::BoxFuture,
    pod::PodInfo,
    profile::Profile,
};
use serde_json::Value;
use tokio::{sync::oneshot, time::timeout};

use super::PodEvents;

/// Maximum time to wait for the engine to see the writes of a binding, so that a lagging watch does not hold up the
/// pod.
const PATIENCE: Duration = Duration::from_secs(10);

/// Access to the API server that records successful writes to objects other than pods. Passes on events and measurements
/// in the name of a profile.
pub(super) struct RecordedApi {
    api: Arc<dyn ClusterApi>,
    profile: Arc<Profile>,
    events: PodEvents,
    writes: Mutex<Writes>,
}

#[derive(Default)]
struct Writes {
    /// Requests that change objects other than pods, or read them afterwards, and the objects. The binding polls a
    /// request as long as it needs the reply; [`RecordedApi::seen`] completes the requests of a canceled binding.
    requests: Vec<(ObjectPath, Request)>,
    /// Objects that the binding has tried to change.
    changed: Vec<ObjectPath>,
}

/// A request, which results in the version of the object if it succeeds.
type Request = Shared<BoxFuture<'static, Option<u64>>>;

impl RecordedApi {
    pub(super) fn new(api: Arc<dyn ClusterApi>, profile: Arc<Profile>, events: PodEvents) -> Self {
        Self { api, profile, events, writes: Mutex::default() }
    }

    /// Waits until the engine has seen every write, but not longer than [`PATIENCE`].
    pub(super) async fn seen(&self) {
        let writes = std::mem::take(&mut *self.writes());
        let all = async {
            for (path, request) in writes.requests {
                if let Some(version) = request.await {
                    self.api.seen(&path, version).await;
                }
            }
        };
        if timeout(PATIENCE, all).await.is_err() {
            tracing::warn!("The watch did not report the writes of a binding in time");
        }
    }

    fn writes(&self) -> MutexGuard<'_, Writes> {
        self.writes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if the request changes an object other than a pod, or reads one that the binding has tried to
    /// change.
    fn is_recorded(&self, call: &ApiCall) -> bool {
        let object = ObjectPath { subresource: Str::default(), ..call.path.clone() };
        match call.verb {
            Verb::Get => self.writes().changed.contains(&object),
            _ if object.group.is_empty() && object.plural == "pods" => false,
            _ => {
                self.writes().changed.push(object);
                true
            }
        }
    }

    /// Sends a request.
    async fn send(&self, call: ApiCall) -> Result<Reply, ApiFailure> {
        let (api, path) = (self.api.clone(), call.path.clone());
        let (to, mut answer) = oneshot::channel();
        let request = async move {
            let result = api.call(call).await;
            let version = result.as_ref().ok().and_then(Reply::version);
            // The binding may have been canceled.
            let _ = to.send(result);
            version
        };
        let request = request.boxed().shared();
        self.writes().requests.push((path, request.clone()));
        request.await;
        answer.try_recv().unwrap_or_else(|_| {
            let message = "the request was interrupted".to_owned();
            Err(ApiFailure { code: None, reason: String::new(), message })
        })
    }
}

impl ClusterApi for RecordedApi {
    fn bind<'a>(&'a self, pod: &'a PodInfo, node: &'a Str) -> BoxFuture<'a, Result<(), PluginError>> {
        self.api.bind(pod, node)
    }

    fn call(&self, call: ApiCall) -> BoxFuture<'_, Result<Reply, ApiFailure>> {
        match self.is_recorded(&call) {
            true => Box::pin(self.send(call)),
            false => self.api.call(call),
        }
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

    fn event(&self, BindingEvent { pod, reason, action, note }: BindingEvent) {
        let reporter = self.profile.name().clone();
        let event = PodEvent { pod, warning: false, reason, action, note: cut_note(&note), reporter };
        // The recorder is gone only when the process ends.
        let _ = self.events.send(event);
    }

    fn measure(&self, measurement: &Measurement) {
        if let Some(meter) = self.profile.meter() {
            meter.measured(measurement);
        }
    }
}

#[cfg(test)]
mod tests;
