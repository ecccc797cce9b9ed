//! Objects that do not come from the API server: the host fetches them for plugins, beside scheduling.
//!
//! A plugin that needs measurements, prices or other data from elsewhere implements [`Fetches`]. The host calls
//! [`Fetches::fetch`] when the scheduler starts, and from then on at an interval. What it returns becomes an object of
//! the plugin's own [`Resource`]: it enters the engine as an input, as a watched object does. So decisions do no I/O, a
//! recording contains what they were based on, indexes and hints hear of it, and a simulation reads it from manifests.

use std::{fmt, sync::Arc, time::Duration};

use harbormaster_api::{Str, Timestamp};
use serde_json::{Value, json};
use thiserror::Error;

use crate::{
    api_call::ApiFailure,
    guard::{GuardedPlugin, PointError},
    objects::Objects,
    outcome::{PluginError, PluginResult},
    plugin::{BoxFuture, Plugin},
    resource::{Custom, CustomKey, RawObject, Resource, ResourceKind, Watched},
};

/// Fetches an object from outside the cluster's objects, again and again. See the [module documentation](self).
pub trait Fetches: Plugin {
    /// The kind of the object. Its scope is [`ResourceScope::Cluster`](crate::resource::ResourceScope::Cluster), and the
    /// API server need not know it: it is not watched.
    type Object: Resource;

    /// Says what is fetched and how often. Depends only on the plugin's arguments.
    fn plan(&self) -> FetchPlan;

    /// Fetches the object. The host adds `apiVersion`, `kind` and `metadata`. On an error, the last object stays until
    /// it is [too old](FetchPlan::keep).
    fn fetch(&self, web: &Web) -> impl Future<Output = PluginResult<Value>> + Send;

    /// Returns the last object that was fetched, unless it is too old.
    fn fetched<'a>(&self, objects: &'a Objects) -> Option<&'a Custom<Self::Object>> {
        Watched::new(objects).get("", &self.plan().name)
    }
}

/// Object that a plugin fetches, and interval of its fetches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchPlan {
    /// Name of the object. Plugins that name the same kind and name share what one of them fetches, so the name must
    /// identify the source.
    pub name: Str,
    /// Time between the ends of two fetches.
    pub every: Duration,
    /// Time for which the last object is kept while fetching fails.
    pub keep: Duration,
}

/// A request to a server other than the API server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WebRequest {
    /// URL, with `http` or `https`.
    pub url: String,
    /// Token for the header `Authorization: Bearer`.
    pub bearer_token: Option<String>,
    /// True to accept any certificate.
    pub insecure: bool,
}

/// Failure of a [`WebRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{url}: {why}")]
pub struct WebFailure {
    /// The URL.
    pub url: String,
    /// The HTTP status, unless it is 200 or there was no answer.
    pub code: Option<u16>,
    /// Description of the problem.
    pub why: String,
}

/// The host's side of [`Web`].
pub trait WebAccess: Send + Sync {
    /// Current time of the host's clock.
    fn now(&self) -> Timestamp;

    /// Sends a `GET` request to the API server. `path` may have a query.
    ///
    /// # Errors
    /// When the server refuses the request or does not answer in time.
    fn get_from_api<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<String, ApiFailure>>;

    /// Sends a `GET` request and returns the body of the response.
    ///
    /// # Errors
    /// When the status is not 200, or the server does not answer in time.
    fn get<'a>(&'a self, request: &'a WebRequest) -> BoxFuture<'a, Result<String, WebFailure>>;
}

/// A plugin's access to servers while it fetches an object. All requests have time limits.
#[derive(Clone)]
pub struct Web(Arc<dyn WebAccess>);

impl fmt::Debug for Web {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Web")
    }
}

impl Web {
    /// Creates a handle for `access`.
    pub fn new(access: Arc<dyn WebAccess>) -> Self {
        Self(access)
    }

    /// Current time of the host's clock.
    pub fn now(&self) -> Timestamp {
        self.0.now()
    }

    /// Sends a `GET` request to the API server. `path` may have a query.
    ///
    /// # Errors
    /// When the server refuses the request or does not answer in time.
    pub async fn get_from_api(&self, path: &str) -> Result<String, ApiFailure> {
        self.0.get_from_api(path).await
    }

    /// Sends a `GET` request and returns the body of the response.
    ///
    /// # Errors
    /// When the status is not 200, or the server does not answer in time.
    pub async fn get(&self, request: &WebRequest) -> Result<String, WebFailure> {
        self.0.get(request).await
    }
}

/// [`Fetches::plan`] and [`Fetches::fetch`] with the plugin's type erased, and the kind of the object.
#[derive(Clone, Copy)]
pub(crate) struct FetchCalls {
    pub(crate) kind: ResourceKind,
    pub(crate) plan: fn(&(dyn std::any::Any + Send + Sync)) -> FetchPlan,
    pub(crate) fetch: for<'a> fn(
        &'a (dyn std::any::Any + Send + Sync),
        &'a Web,
    ) -> BoxFuture<'a, Result<Value, PluginError>>,
}

/// A source of objects, for hosts: what one plugin fetches.
#[derive(Clone, Debug)]
pub struct Source {
    plugin: GuardedPlugin,
    kind: ResourceKind,
    /// Fetched object, and interval of the fetches.
    pub plan: FetchPlan,
}

impl Source {
    pub(crate) fn new(plugin: GuardedPlugin, kind: ResourceKind, plan: FetchPlan) -> Self {
        Self { plugin, kind, plan }
    }

    /// Kind of the object.
    pub fn kind(&self) -> ResourceKind {
        self.kind
    }

    /// Name of the plugin.
    pub fn plugin(&self) -> &'static str {
        self.plugin.name()
    }

    /// Key of the object.
    pub fn key(&self) -> CustomKey {
        let resource = self.kind.name().to_string().into();
        CustomKey { resource, namespace: Str::default(), name: self.plan.name.clone() }
    }

    /// Returns true if both sources fetch the same object.
    pub fn is_same(&self, other: &Self) -> bool {
        self.plan.name == other.plan.name && self.kind.name() == other.kind.name()
    }

    /// Fetches the object. `version` becomes its resource version.
    ///
    /// # Errors
    /// When the plugin fails, or returns something other than a JSON object.
    pub async fn fetch(&self, web: &Web, version: u64) -> Result<RawObject, PointError> {
        let mut object = self.plugin.fetch(web).await?;
        let name = self.kind.name();
        object["apiVersion"] = format!("{}/{}", name.group, name.version).into();
        object["kind"] = self.kind.kind().into();
        object["metadata"] = json!({"name": self.plan.name, "resourceVersion": version.to_string()});
        Ok(RawObject::from_json(self.key(), object.to_string()))
    }
}
