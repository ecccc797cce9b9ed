//! Access to the API server for plugins during the binding cycle.

use std::{
    error::Error,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use harbormaster_api::{Str, Timestamp, protobuf};
use harbormaster_client::{
    ApiClient, ApiError, Document, Retries,
    client::{JSON, MERGE_PATCH, STRATEGIC_MERGE_PATCH},
};
use harbormaster_core::Input;
use harbormaster_framework::{
    api_call::{ApiCall, ApiFailure, ClusterApi, ObjectPath, Reply, Verb},
    outcome::PluginError,
    plugin::BoxFuture,
    pod::PodInfo,
    resource::{CustomKey, RawContent},
};
use http::Method;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::{
    sync::broadcast::{self, error::RecvError},
    time::timeout,
};

use crate::{clock::system_time, served_version::ServedVersion};

/// Maximum number of buffered changes for a waiting task. A task that misses a change reads the object again.
const NEWS_KEPT: usize = 1024;

/// Changes to custom objects, for tasks that wait for a change. A watch publishes a change after it has sent the change
/// to the engine, which handles messages in order. So whatever a task sends to the engine after it has seen a
/// change, the engine handles after that change.
#[derive(Clone, Debug)]
pub struct CustomFeed {
    changes: broadcast::Sender<CustomChange>,
    /// Highest published version of each watched kind; 0 if nothing was published.
    latest: Arc<Mutex<FxHashMap<Str, u64>>>,
}

/// A change to a custom object.
#[derive(Clone, Debug)]
struct CustomChange {
    key: CustomKey,
    state: CustomState,
}

/// A custom object after a change.
#[derive(Clone, Debug)]
enum CustomState {
    Json(Str),
    /// The object is in protobuf, of which only the fields that plugins read are decoded.
    Protobuf,
    Gone,
}

/// Consecutive changes to custom objects of one kind.
#[derive(Debug)]
pub(crate) struct CustomNews {
    /// See [`CustomKey::resource`].
    resource: Str,
    changes: Vec<CustomChange>,
}

impl CustomNews {
    /// Returns the changes among inputs from one watch; `None` if the kind is not custom.
    pub(crate) fn of(inputs: &[Input]) -> Option<Self> {
        let change = |input: &Input| match input {
            Input::Custom(object) => {
                let state = object.json().cloned().map_or(CustomState::Protobuf, CustomState::Json);
                Some(CustomChange { key: object.key.clone(), state })
            }
            Input::CustomGone(key) => Some(CustomChange { key: key.clone(), state: CustomState::Gone }),
            _ => None,
        };
        let changes: Vec<CustomChange> = inputs.iter().filter_map(change).collect();
        let resource = changes.first()?.key.resource.clone();
        Some(Self { resource, changes })
    }
}

impl Default for CustomFeed {
    fn default() -> Self {
        Self { changes: broadcast::Sender::new(NEWS_KEPT), latest: Arc::default() }
    }
}

impl CustomFeed {
    /// Creates a feed of the given kinds, each named by the `resource` of its [`CustomKey`]s.
    pub(crate) fn of(kinds: impl IntoIterator<Item = Str>) -> Self {
        let feed = Self::default();
        feed.latest().extend(kinds.into_iter().map(|kind| (kind, 0)));
        feed
    }

    /// Publishes changes; `newest` is the highest version among the changed objects, or 0 if all of them are gone.
    pub(crate) fn publish(&self, news: CustomNews, newest: u64) {
        let mut latest = self.latest();
        let highest = latest.entry(news.resource).or_default();
        *highest = newest.max(*highest);
        drop(latest);
        if self.changes.receiver_count() > 0 {
            for change in news.changes {
                // The last task may have stopped waiting.
                let _ = self.changes.send(change);
            }
        }
    }

    fn listen(&self) -> broadcast::Receiver<CustomChange> {
        self.changes.subscribe()
    }

    fn latest(&self) -> MutexGuard<'_, FxHashMap<Str, u64>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `version` or a later version of the kind has been published, or until the object is gone. Returns
    /// immediately if the kind is not watched.
    async fn reached(&self, key: &CustomKey, version: u64) {
        // Subscribing before looking ensures that no change is missed in between.
        let mut changes = self.listen();
        loop {
            if self.latest().get(&key.resource).is_none_or(|latest| *latest >= version) {
                return;
            }
            match changes.recv().await {
                Ok(change) if change.key == *key && matches!(change.state, CustomState::Gone) => return,
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            }
        }
    }
}

/// Returns the resource version of an object as a number (KEP-5504).
fn version(object: &Value) -> Option<u64> {
    object["metadata"]["resourceVersion"].as_str()?.parse().ok()
}

/// Returns the object in the body of a response.
fn content(body: &[u8]) -> Result<RawContent, Box<dyn Error>> {
    Ok(match protobuf::is_meant(body) {
        true => RawContent::Protobuf(protobuf::open(body)?.into()),
        false => RawContent::Json(str::from_utf8(body)?.into()),
    })
}

fn value(call: &ApiCall, reply: &Reply) -> Result<Value, ApiError> {
    reply.value().map_err(|why| unreadable(call, &why))
}

fn unreadable(call: &ApiCall, why: &dyn fmt::Display) -> ApiError {
    ApiError::Unreachable(format!("{}: {why}", call.path.url()))
}

pub(crate) fn failure(error: ApiError) -> ApiFailure {
    let reason = match &error {
        ApiError::Refused(refusal) => refusal.reason.clone(),
        ApiError::Unreachable(_) | ApiError::TimedOut { .. } | ApiError::GateClosed(_) => String::new(),
    };
    ApiFailure { code: error.code(), reason, message: error.to_string() }
}

/// Access to the API server for plugins during the binding cycle.
#[derive(Clone, Debug)]
pub struct LiveApi {
    client: ApiClient,
    /// The same client, which prefers replies in protobuf.
    protobuf: ApiClient,
    feed: CustomFeed,
    served: Arc<[ServedVersion]>,
}

impl LiveApi {
    /// Returns access to the API server through `client`; `feed` supplies changes to custom objects.
    pub fn new(client: ApiClient, feed: CustomFeed) -> Self {
        Self { protobuf: client.accepting_protobuf(), client, feed, served: Arc::default() }
    }

    /// Returns the same access, except that requests about these kinds use the version that the server serves.
    #[must_use]
    pub fn in_versions(self, served: Arc<[ServedVersion]>) -> Self {
        Self { served, ..self }
    }

    /// Sends a request in the version that the server serves.
    async fn make(&self, call: &ApiCall) -> Result<Reply, ApiError> {
        let Some(older) = self.served.iter().find_map(|kind| kind.older_of(&call.path)) else {
            return self.send(call).await;
        };
        let mut call = call.clone();
        call.path.version = older.name.into();
        if let Some(version) = call.body.get_mut("apiVersion") {
            *version = format!("{}/{}", call.path.group, older.name).into();
        }
        (older.downgrade)(&mut call.body);
        call.accepts_protobuf = false;
        let mut object = value(&call, &self.send(&call).await?)?;
        (older.upgrade)(&mut object);
        Ok(object.into())
    }

    /// Sends a request. Retries temporary failures a few times, even though the first try may have succeeded. A patch
    /// or deletion may therefore be carried out twice, and a creation may fail with a conflict.
    async fn send(&self, call: &ApiCall) -> Result<Reply, ApiError> {
        let (method, content_type) = match call.verb {
            Verb::Get => (Method::GET, JSON),
            Verb::Create => (Method::POST, JSON),
            Verb::Patch => (Method::PATCH, MERGE_PATCH),
            Verb::StrategicPatch => (Method::PATCH, STRATEGIC_MERGE_PATCH),
            Verb::Delete => (Method::DELETE, JSON),
        };
        let body = match &call.body {
            Value::Null => Bytes::new(),
            body => Bytes::from(body.to_string()),
        };
        let url = call.path.url();
        let client = if call.accepts_protobuf { &self.protobuf } else { &self.client };
        let mut retries = Retries::of(&self.client);
        loop {
            match client.exchange(method.clone(), &url, content_type, body.clone()).await {
                Ok(body) => {
                    return content(&body).map(Reply::new).map_err(|why| unreadable(call, &*why));
                }
                Err(error) => retries.wait_after(error).await?,
            }
        }
    }

    /// Reads an object; returns `None` if it does not exist.
    async fn read(&self, path: &ObjectPath) -> Result<Option<Value>, ApiError> {
        let call = ApiCall::get(path.clone());
        match self.make(&call).await {
            Ok(reply) => value(&call, &reply).map(Some),
            Err(error) if error.code() == Some(404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn wait_for(
        &self,
        path: &ObjectPath,
        is_settled: &mut (dyn FnMut(Option<&Value>) -> bool + Send),
    ) -> Result<(), ApiError> {
        let key = path.key();
        // Subscribing before reading ensures that no change is missed in between.
        let mut feed = self.feed.listen();
        loop {
            let object = self.read(path).await?;
            let mut seen = object.as_ref().and_then(version);
            if is_settled(object.as_ref()) {
                return Ok(());
            }
            // The loop ends if a change was missed or is in protobuf; then the object must be read again.
            while let Ok(change) = feed.recv().await {
                if change.key != key {
                    continue;
                }
                let object: Option<Value> = match change.state {
                    CustomState::Json(json) => serde_json::from_str(&json).ok(),
                    CustomState::Protobuf => break,
                    CustomState::Gone => None,
                };
                let newer = object.as_ref().and_then(version);
                if newer.is_some() && newer <= seen {
                    continue;
                }
                seen = newer.or(seen);
                if is_settled(object.as_ref()) {
                    return Ok(());
                }
            }
        }
    }

    /// Binds a pod. Retries temporary failures a few times. If the server has bound the pod despite a failure, the next
    /// try fails with a conflict, and the pod itself shows that it is bound.
    async fn bind_pod(&self, pod: &PodInfo, node: &str) -> Result<(), ApiError> {
        let path = format!("/api/v1/namespaces/{}/pods/{}/binding", pod.namespace, pod.name);
        let binding = Binding::new(pod, node);
        let mut retries = Retries::of(&self.client);
        loop {
            let error = match self.client.create(&path, &binding).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            if error.code() == Some(409) {
                return if self.is_bound_to(pod, node).await { Ok(()) } else { Err(error) };
            }
            retries.wait_after(error).await?;
        }
    }

    async fn is_bound_to(&self, pod: &PodInfo, node: &str) -> bool {
        let path = format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name);
        let mut retries = Retries::of(&self.client);
        loop {
            let error = match self.client.get(&path).await {
                Ok(json) => {
                    let found: Option<PlacedPod> = serde_json::from_slice(&json).ok();
                    return found.is_some_and(|p| p.metadata.uid == *pod.uid && p.spec.node_name == node);
                }
                Err(error) => error,
            };
            if retries.wait_after(error).await.is_err() {
                return false;
            }
        }
    }
}

impl ClusterApi for LiveApi {
    fn bind<'a>(&'a self, pod: &'a PodInfo, node: &'a Str) -> BoxFuture<'a, Result<(), PluginError>> {
        Box::pin(async move { self.bind_pod(pod, node).await.map_err(PluginError::from) })
    }

    fn call(&self, call: ApiCall) -> BoxFuture<'_, Result<Reply, ApiFailure>> {
        Box::pin(async move { self.make(&call).await.map_err(failure) })
    }

    fn wait<'a>(
        &'a self,
        path: &'a ObjectPath,
        at_most: Duration,
        is_settled: &'a mut (dyn FnMut(Option<&Value>) -> bool + Send),
    ) -> BoxFuture<'a, Result<bool, ApiFailure>> {
        Box::pin(async move {
            match timeout(at_most, self.wait_for(path, is_settled)).await {
                Ok(settled) => settled.map(|()| true).map_err(failure),
                Err(_) => Ok(false),
            }
        })
    }

    fn now(&self) -> Timestamp {
        system_time()
    }

    fn seen<'a>(&'a self, path: &'a ObjectPath, version: u64) -> BoxFuture<'a, ()> {
        Box::pin(async move { self.feed.reached(&path.key(), version).await })
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

impl Document for Binding<'_> {
    fn json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    fn protobuf(&self) -> Vec<u8> {
        let Self { kind, api_version, metadata, target } = self;
        protobuf::object(api_version, kind, |binding| {
            binding.message(1, |fields| {
                fields.text(1, metadata.name);
                fields.text(3, metadata.namespace);
                fields.text(5, metadata.uid);
            });
            binding.message(2, |fields| {
                fields.text(1, target.kind);
                fields.text(3, target.name);
            });
        })
    }
}

/// The fields of a pod that identify the pod and its node.
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
pub(crate) mod tests;
