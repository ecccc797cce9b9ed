//! Requests that plugins send to the API server while a pod is being bound, after it gives up its node, and after an
//! attempt finds no node.
//!
//! Unreserve and PostFilter collect [`ApiCall`]s (plain data), and the framework sends them later. PreBind, Bind and
//! PostBind use an [`Api`] and wait for the responses.

use std::{borrow::Cow, sync::Arc, time::Duration};

use harbormaster_api::{Str, Timestamp, protobuf::ObjectMeta};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use thiserror::Error;

use crate::{
    meter::Measurement,
    outcome::PluginError,
    plugin::BoxFuture,
    pod::PodInfo,
    resource::{Custom, CustomKey, RawContent, Resource, ResourceName, Undecodable, decode, decode_value},
};

/// Location of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct ObjectPath {
    /// API group; empty for the core group.
    pub group: Str,
    /// API version in which the object is written and read.
    pub version: Str,
    /// Plural name, for example `pods`.
    pub plural: Str,
    /// Namespace; empty if the object has none.
    pub namespace: Str,
    /// Name.
    pub name: Str,
    /// Subresource, for example `status`; empty for the object itself.
    pub subresource: Str,
}

impl ObjectPath {
    /// Path of a custom object. The namespace is empty for
    /// [`ResourceScope::Cluster`](crate::resource::ResourceScope::Cluster).
    pub fn of<R: Resource>(namespace: &str, name: &str) -> Self {
        Self {
            group: R::GROUP.into(),
            version: R::VERSION.into(),
            plural: R::PLURAL.into(),
            namespace: namespace.into(),
            name: name.into(),
            subresource: Str::default(),
        }
    }

    /// Path of a pod.
    pub fn pod(pod: &PodInfo) -> Self {
        Self {
            group: Str::default(),
            version: "v1".into(),
            plural: "pods".into(),
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            subresource: Str::default(),
        }
    }

    /// Returns the path of the `status` subresource.
    #[must_use]
    pub fn status(self) -> Self {
        Self { subresource: "status".into(), ..self }
    }

    /// Returns the object's `apiVersion`.
    fn api_version(&self) -> String {
        let Self { group, version, .. } = self;
        if group.is_empty() { version.to_string() } else { format!("{group}/{version}") }
    }

    /// Key under which the object is stored if it is a custom object.
    pub fn key(&self) -> CustomKey {
        let Self { group, version, plural, namespace, name, .. } = self;
        let resource = format!("{plural}.{version}.{group}").into();
        CustomKey { resource, namespace: namespace.clone(), name: name.clone() }
    }

    /// URL path of the object. If `name` is empty, the path of all objects of the kind in the namespace.
    pub fn url(&self) -> String {
        let Self { group, version, plural, namespace, name, subresource } = self;
        let mut url = match group.is_empty() {
            true => format!("/api/{version}"),
            false => format!("/apis/{group}/{version}"),
        };
        let mut add = |part: &str| {
            url.push('/');
            url.push_str(part);
        };
        if !namespace.is_empty() {
            add("namespaces");
            add(namespace);
        }
        add(plural);
        [name, subresource].into_iter().filter(|part| !part.is_empty()).for_each(|part| add(part));
        url
    }
}

/// Operation on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Verb {
    /// Read the object.
    Get,
    /// Create the object. The path has no name.
    Create,
    /// Change some of the object's fields (RFC 7386: a `null` removes the field). If the patch has
    /// `metadata.resourceVersion` and the object is newer, the request fails with a conflict.
    Patch,
    /// Change some of the object's fields. Lists of Kubernetes' own kinds are merged by key, so one entry can be
    /// removed without knowing the others (`$patch: delete`).
    StrategicPatch,
    /// Delete the object. The body is a `v1.DeleteOptions`.
    Delete,
}

/// A request to the API server.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ApiCall {
    /// The operation.
    pub verb: Verb,
    /// The object.
    pub path: ObjectPath,
    /// The body; `null` for [`Verb::Get`].
    pub body: Value,
    /// True if the [`Reply`] may be in protobuf, which is cheaper. Then [`Reply::json`] may be `None`.
    #[serde(skip)]
    pub accepts_protobuf: bool,
}

impl ApiCall {
    fn new(verb: Verb, path: ObjectPath, body: Value) -> Self {
        Self { verb, path, body, accepts_protobuf: false }
    }

    /// Returns the call with a reply in a form from which `R` can be decoded.
    fn answered_with<R: Resource>(self) -> Self {
        Self { accepts_protobuf: R::PROTOBUF.is_some(), ..self }
    }

    /// Reads an object.
    pub fn get(path: ObjectPath) -> Self {
        Self::new(Verb::Get, path, Value::Null)
    }

    /// Creates an object.
    pub fn create(path: ObjectPath, object: Value) -> Self {
        Self::new(Verb::Create, ObjectPath { name: Str::default(), ..path }, object)
    }

    /// Changes fields of an object; see [`Verb::Patch`].
    pub fn patch(path: ObjectPath, patch: Value) -> Self {
        Self::new(Verb::Patch, path, patch)
    }

    /// Changes fields of an object of one of Kubernetes' own kinds; see [`Verb::StrategicPatch`].
    pub fn strategic_patch(path: ObjectPath, patch: Value) -> Self {
        Self::new(Verb::StrategicPatch, path, patch)
    }

    /// Deletes an object.
    pub fn delete(path: ObjectPath) -> Self {
        Self::new(Verb::Delete, path, json!({ "kind": "DeleteOptions", "apiVersion": "v1" }))
    }
}

/// The object in the API server's response to a request. It is decoded only if it is used.
#[derive(Clone, Debug)]
pub struct Reply(RawContent);

/// The part of a [`Reply`] that identifies the object and its version.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ReplyHead<'a> {
    #[serde(borrow)]
    metadata: ReplyMetadata<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ReplyMetadata<'a> {
    #[serde(borrow)]
    namespace: Cow<'a, str>,
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    resource_version: Cow<'a, str>,
}

impl Reply {
    /// Returns a reply that consists of this object.
    pub fn new(object: RawContent) -> Self {
        Self(object)
    }

    /// The object as JSON; `None` if it is in protobuf, which only calls with [`ApiCall::accepts_protobuf`] receive.
    pub fn json(&self) -> Option<&str> {
        match &self.0 {
            RawContent::Json(json) => Some(json),
            RawContent::Protobuf(_) => None,
        }
    }

    /// Returns the whole object.
    ///
    /// # Errors
    /// When the reply is not valid JSON.
    pub fn value(&self) -> Result<Value, ApiFailure> {
        let unreadable = |why: &str| {
            let message = format!("unreadable response: {why}");
            ApiFailure { code: None, reason: String::new(), message }
        };
        let json = self.json().ok_or_else(|| unreadable("the object is in protobuf"))?;
        serde_json::from_str(json).map_err(|error| unreadable(&error.to_string()))
    }

    /// Returns the object, decoded into a plugin's type.
    ///
    /// # Errors
    /// When the object cannot be decoded.
    pub fn decode<R: Resource>(&self) -> Result<Custom<R>, ApiFailure> {
        let ReplyMetadata { namespace, name, .. } = self.head();
        let (namespace, name) = (namespace.as_ref().into(), name.as_ref().into());
        let resource = ResourceName::of::<R>().to_string().into();
        Ok(decode(&CustomKey { resource, namespace, name }, &self.0)?)
    }

    /// Returns the resource version of the object; empty if it has none.
    pub fn resource_version(&self) -> Str {
        self.head().resource_version.as_ref().into()
    }

    /// Returns the resource version of the object as a number (KEP-5504).
    pub fn version(&self) -> Option<u64> {
        self.head().resource_version.parse().ok()
    }

    fn head(&self) -> ReplyMetadata<'_> {
        match &self.0 {
            RawContent::Json(json) => {
                let head: ReplyHead<'_> = serde_json::from_str(json).unwrap_or_default();
                head.metadata
            }
            RawContent::Protobuf(bytes) => {
                let ObjectMeta { namespace, name, resource_version, .. } =
                    ObjectMeta::of(bytes).unwrap_or_default();
                let [namespace, name, resource_version] = [namespace, name, resource_version].map(Cow::from);
                ReplyMetadata { namespace, name, resource_version }
            }
        }
    }
}

impl From<Value> for Reply {
    fn from(object: Value) -> Self {
        Self(RawContent::Json(object.to_string().into()))
    }
}

/// An event (events.k8s.io) of type `Normal` about a pod that is being bound.
#[derive(Clone, Debug)]
pub struct BindingEvent {
    /// The pod.
    pub pod: Arc<PodInfo>,
    /// Reason, for example `BindingConditionsPending`.
    pub reason: &'static str,
    /// Action, for example `Scheduling`.
    pub action: &'static str,
    /// Human-readable note.
    pub note: String,
}

/// Failure of a request.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct ApiFailure {
    /// HTTP status code, if the API server answered.
    pub code: Option<u16>,
    /// Reason, for example `Conflict`; may be empty.
    pub reason: String,
    /// Human-readable message.
    pub message: String,
}

impl ApiFailure {
    /// Returns true if the object or its kind does not exist.
    pub fn is_not_found(&self) -> bool {
        self.code == Some(404)
    }

    /// Returns true if the object has changed in the meantime or already exists.
    pub fn is_conflict(&self) -> bool {
        self.code == Some(409)
    }
}

impl From<Undecodable> for ApiFailure {
    fn from(why: Undecodable) -> Self {
        Self { code: None, reason: String::new(), message: why.to_string() }
    }
}

/// Access to the API server, implemented by the host. Plugins use [`Api`].
pub trait ClusterApi: Send + Sync {
    /// `POST pods/<name>/binding`.
    ///
    /// # Errors
    /// When the request fails.
    fn bind<'a>(&'a self, pod: &'a PodInfo, node: &'a Str) -> BoxFuture<'a, Result<(), PluginError>>;

    /// Makes a call and retries transient failures. Returns the resulting object.
    ///
    /// # Errors
    /// When the request fails.
    fn call(&self, call: ApiCall) -> BoxFuture<'_, Result<Reply, ApiFailure>>;

    /// Waits until `is_settled` returns true for an object of a kind that plugins read. Calls `is_settled` immediately
    /// and after every change, with `None` if the object does not exist. Returns false if `at_most` elapses first.
    ///
    /// # Errors
    /// When the object cannot be read.
    fn wait<'a>(
        &'a self,
        path: &'a ObjectPath,
        at_most: Duration,
        is_settled: &'a mut (dyn FnMut(Option<&Value>) -> bool + Send),
    ) -> BoxFuture<'a, Result<bool, ApiFailure>>;

    /// Current time of the host's clock.
    fn now(&self) -> Timestamp;

    /// Waits until the engine has seen the given version of an object, or a later version of any object of that kind.
    /// The default returns immediately; it suits hosts whose engine sees every write at once.
    fn seen<'a>(&'a self, path: &'a ObjectPath, version: u64) -> BoxFuture<'a, ()> {
        let _ = (path, version);
        Box::pin(std::future::ready(()))
    }

    /// Emits an event. The default drops it; it suits hosts without events.
    fn event(&self, event: BindingEvent) {
        let _ = event;
    }

    /// Records a measurement. The default drops it; it suits hosts without metrics.
    fn measure(&self, measurement: &Measurement) {
        let _ = measurement;
    }
}

/// A plugin's access to the API server while a pod is being bound. A method whose request fails returns the API
/// server's error.
#[derive(Clone)]
pub struct Api(Arc<dyn ClusterApi>);

impl Api {
    /// Creates a handle for `api`.
    pub fn new(api: Arc<dyn ClusterApi>) -> Self {
        Self(api)
    }

    /// Current time of the host's clock, for timestamps in API objects.
    pub fn now(&self) -> Timestamp {
        self.0.now()
    }

    /// Emits an event about a pod that is being bound.
    pub fn event(&self, event: BindingEvent) {
        self.0.event(event);
    }

    /// Records a measurement.
    pub fn measure(&self, measurement: &Measurement) {
        self.0.measure(measurement);
    }

    /// Binds a pod.
    ///
    /// # Errors
    /// When the request fails.
    pub async fn bind(&self, pod: &PodInfo, node: &Str) -> Result<(), PluginError> {
        self.0.bind(pod, node).await
    }

    /// Makes an arbitrary call.
    ///
    /// # Errors
    /// When the request fails.
    pub async fn call(&self, call: ApiCall) -> Result<Reply, ApiFailure> {
        self.0.call(call).await
    }

    /// Reads the current version of a custom object; `None` if the object does not exist.
    ///
    /// # Errors
    /// When the request fails, or the object cannot be decoded.
    pub async fn get<R: Resource>(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Custom<R>>, ApiFailure> {
        match self.call(ApiCall::get(ObjectPath::of::<R>(namespace, name)).answered_with::<R>()).await {
            Ok(reply) => reply.decode().map(Some),
            Err(failure) if failure.is_not_found() => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Creates a custom object from `json`, which needs `metadata.name` or `metadata.generateName`, but no `apiVersion`
    /// or `kind`.
    ///
    /// # Errors
    /// When the request fails.
    pub async fn create<R: Resource>(
        &self,
        namespace: &str,
        mut json: Value,
    ) -> Result<Custom<R>, ApiFailure> {
        let path = ObjectPath::of::<R>(namespace, "");
        if let Some(object) = json.as_object_mut() {
            object.entry("apiVersion").or_insert_with(|| path.api_version().into());
            object.entry("kind").or_insert_with(|| R::KIND.into());
        }
        self.call(ApiCall::create(path, json).answered_with::<R>()).await?.decode()
    }

    /// Changes fields of a custom object; see [`Verb::Patch`]. Returns the changed object.
    ///
    /// # Errors
    /// When the request fails.
    pub async fn patch<R: Resource>(
        &self,
        namespace: &str,
        name: &str,
        patch: Value,
    ) -> Result<Reply, ApiFailure> {
        self.call(ApiCall::patch(ObjectPath::of::<R>(namespace, name), patch).answered_with::<R>()).await
    }

    /// Changes the `status` of a custom object. The kind must have the `status` subresource, and the patch must contain
    /// the `status` field. Returns the changed object.
    ///
    /// # Errors
    /// When the request fails.
    pub async fn patch_status<R: Resource>(
        &self,
        namespace: &str,
        name: &str,
        patch: Value,
    ) -> Result<Reply, ApiFailure> {
        self.call(ApiCall::patch(ObjectPath::of::<R>(namespace, name).status(), patch).answered_with::<R>())
            .await
    }

    /// Deletes a custom object. Returns false if the object did not exist.
    ///
    /// # Errors
    /// When the request fails.
    pub async fn delete<R: Resource>(&self, namespace: &str, name: &str) -> Result<bool, ApiFailure> {
        match self.call(ApiCall::delete(ObjectPath::of::<R>(namespace, name))).await {
            Ok(_) => Ok(true),
            Err(failure) if failure.is_not_found() => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// Changes fields of a pod, unless another pod has taken its name.
    ///
    /// # Errors
    /// When the request fails, or another pod has the name.
    pub async fn patch_pod(&self, pod: &PodInfo, mut patch: Value) -> Result<(), ApiFailure> {
        patch["metadata"]["uid"] = pod.uid.as_str().into();
        self.call(ApiCall::patch(ObjectPath::pod(pod), patch)).await.map(drop)
    }

    /// Changes the status of a pod, unless another pod has taken its name.
    ///
    /// # Errors
    /// When the request fails, or another pod has the name.
    pub async fn patch_pod_status(&self, pod: &PodInfo, mut patch: Value) -> Result<(), ApiFailure> {
        patch["metadata"]["uid"] = pod.uid.as_str().into();
        self.call(ApiCall::patch(ObjectPath::pod(pod).status(), patch)).await.map(drop)
    }

    /// Waits until `settle` returns a value for a custom object of a kind that the plugin declares. Calls `settle`
    /// immediately and after every change, with `None` if the object does not exist. Returns `None` if `at_most`
    /// elapses first.
    ///
    /// # Errors
    /// When the object cannot be read or decoded.
    pub async fn wait<R: Resource, T: Send>(
        &self,
        namespace: &str,
        name: &str,
        at_most: Duration,
        mut settle: impl FnMut(Option<&Custom<R>>) -> Option<T> + Send,
    ) -> Result<Option<T>, ApiFailure> {
        let path = ObjectPath::of::<R>(namespace, name);
        let key = path.key();
        let mut answer = None;
        let mut is_settled = |json: Option<&Value>| {
            let object = json.map(|json| decode_value::<R>(&key, json)).transpose();
            answer = object.map(|object| settle(object.as_ref())).map_err(ApiFailure::from).transpose();
            answer.is_some()
        };
        self.0.wait(&path, at_most, &mut is_settled).await?;
        answer.transpose()
    }
}

#[cfg(test)]
mod tests {
    use harbormaster_api::protobuf;

    use super::*;
    use crate::resource::ResourceScope;

    fn path(group: &str, namespace: &str, name: &str, subresource: &str) -> ObjectPath {
        ObjectPath {
            group: group.into(),
            version: "v1".into(),
            plural: "teams".into(),
            namespace: namespace.into(),
            name: name.into(),
            subresource: subresource.into(),
        }
    }

    #[test]
    fn paths_match_those_of_kubernetes() {
        for (path, expected) in [
            (path("example.com", "a", "red", ""), "/apis/example.com/v1/namespaces/a/teams/red"),
            (path("example.com", "", "red", "status"), "/apis/example.com/v1/teams/red/status"),
            (path("", "a", "", ""), "/api/v1/namespaces/a/teams"),
        ] {
            assert_eq!(path.url(), expected);
        }
        assert_eq!(&*path("example.com", "a", "red", "").key().resource, "teams.v1.example.com");
    }

    #[test]
    fn a_reply_is_decoded_from_both_forms() {
        let json = Reply::from(json!({
            "metadata": {"name": "c", "namespace": "a", "resourceVersion": "7"}, "spec": {"driver": "d"},
        }));
        // Metadata with name, namespace and version, then a spec with a driver.
        let bytes = b"\x0a\x09\x0a\x01c\x1a\x01a\x32\x017\x12\x03\x0a\x01d";
        let protobuf = Reply::new(RawContent::Protobuf(bytes[..].into()));
        for reply in [&json, &protobuf] {
            assert_eq!(reply.version(), Some(7));
            let Custom { metadata, object } = reply.decode::<Slice>().unwrap();
            assert_eq!((&*metadata.name, &*metadata.namespace, &*object.spec.driver), ("c", "a", "d"));
        }
        assert!(json.json().is_some() && json.value().is_ok());
        assert_eq!(protobuf.json(), None);
        assert_eq!(
            protobuf.value().unwrap_err().to_string(),
            "unreadable response: the object is in protobuf"
        );
    }

    #[derive(Deserialize)]
    struct Slice {
        spec: SliceSpec,
    }

    #[derive(Deserialize)]
    struct SliceSpec {
        driver: Str,
    }

    impl Resource for Slice {
        const GROUP: &'static str = "resource.k8s.io";
        const VERSION: &'static str = "v1";
        const KIND: &'static str = "ResourceSlice";
        const PLURAL: &'static str = "resourceslices";
        const SCOPE: ResourceScope = ResourceScope::Namespaced;
        const PROTOBUF: Option<&'static protobuf::Message> =
            Some(&protobuf::messages::devices::RESOURCE_SLICE);
    }

    #[test]
    fn the_api_version_of_the_core_group_has_no_slash() {
        assert_eq!(path("", "a", "", "").api_version(), "v1");
        assert_eq!(path("example.com", "a", "", "").api_version(), "example.com/v1");
    }
}
