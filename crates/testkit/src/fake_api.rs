//! An in-memory API server, for plugins that write while a pod is being bound.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use harbormaster_api::{Str, Timestamp};
use harbormaster_framework::{
    api_call::{Api, ApiCall, ApiFailure, BindingEvent, ClusterApi, ObjectPath, Reply, Verb},
    meter::Measurement,
    outcome::PluginError,
    plugin::BoxFuture,
    pod::PodInfo,
    resource::{CustomKey, RawObject, Resource},
};
use serde_json::Value;

/// Stores objects as JSON and records calls. Behaves like the API server as far as plugins can tell: a request for a
/// missing object returns "not found"; creating an existing object, or patching an object that has a different resource
/// version or UID, returns a conflict. A numeric resource version increases with every patch. A deleted object with
/// finalizers stays until a patch removes them. Does not validate objects. A pod exists only after
/// [`set_pod`](Self::set_pod).
#[derive(Clone, Debug, Default)]
pub struct FakeApi(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// Objects, keyed by path without subresource.
    objects: BTreeMap<String, Value>,
    /// Keys of the custom objects, by path.
    keys: BTreeMap<String, CustomKey>,
    calls: Vec<ApiCall>,
    bound: Vec<String>,
    refusal: Option<ApiFailure>,
    now: Timestamp,
    events: Vec<String>,
    measurements: Vec<Measurement>,
}

impl FakeApi {
    /// Returns the handle that plugins receive.
    pub fn api(&self) -> Api {
        Api::new(Arc::new(self.clone()))
    }

    /// Stores a custom object.
    ///
    /// # Panics
    /// If `json` has no `metadata.name`.
    pub fn set<R: Resource>(&self, json: Value) {
        let of = |field: &str| json["metadata"][field].as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (of("namespace"), of("name"));
        assert!(!name.is_empty(), "an object without metadata.name: {json}");
        let path = ObjectPath::of::<R>(&namespace, &name);
        let mut state = self.state();
        state.keys.insert(path.url(), path.key());
        state.objects.insert(path.url(), json);
    }

    /// Stores a pod with only the metadata that patches need.
    pub fn set_pod(&self, pod: &PodInfo) {
        let json = serde_json::json!({ "metadata": { "name": pod.name, "namespace": pod.namespace, "uid": pod.uid } });
        self.state().objects.insert(ObjectPath::pod(pod).url(), json);
    }

    /// Returns an object, or `null` if it does not exist.
    pub fn object(&self, path: &ObjectPath) -> Value {
        self.state().objects.get(&path.url()).cloned().unwrap_or_default()
    }

    /// Returns the objects of a kind in a namespace, ordered by name. The namespace is empty for cluster-scoped kinds.
    pub fn all<R: Resource>(&self, namespace: &str) -> Vec<Value> {
        let collection = format!("{}/", ObjectPath::of::<R>(namespace, "").url());
        let state = self.state();
        let members = state.objects.iter().filter(|(path, _)| path.starts_with(&collection));
        members.map(|(_, object)| object.clone()).collect()
    }

    /// Returns all objects, keyed by path.
    pub(crate) fn objects(&self) -> BTreeMap<String, Value> {
        self.state().objects.clone()
    }

    /// Returns the custom objects in the form in which an engine receives them.
    pub(crate) fn raw(&self) -> Vec<RawObject> {
        let state = self.state();
        let raw = |(path, key): (&String, &CustomKey)| {
            Some(RawObject::from_json(key.clone(), state.objects.get(path)?.to_string()))
        };
        state.keys.iter().filter_map(raw).collect()
    }

    /// Restores objects that [`Self::objects`] returned.
    pub(crate) fn restore(&self, objects: BTreeMap<String, Value>) {
        self.state().objects = objects;
    }

    /// Sets the time of the clock, which starts at the epoch.
    pub fn set_now(&self, now: Timestamp) {
        self.state().now = now;
    }

    /// Makes all later requests fail with the error; `None` lets requests succeed again.
    pub fn refuse(&self, refusal: Option<ApiFailure>) {
        self.state().refusal = refusal;
    }

    /// Returns the calls so far, without bindings.
    pub fn calls(&self) -> Vec<ApiCall> {
        self.state().calls.clone()
    }

    /// Returns the bindings so far, as `namespace/pod node`.
    pub fn bound(&self) -> Vec<String> {
        self.state().bound.clone()
    }

    /// Returns the events so far, as `namespace/pod reason action: note`.
    pub fn events(&self) -> Vec<String> {
        self.state().events.clone()
    }

    /// Returns the measurements so far.
    pub fn measurements(&self) -> Vec<Measurement> {
        self.state().measurements.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn take(&mut self, call: ApiCall) -> Result<Value, ApiFailure> {
        self.calls.push(call.clone());
        self.admitted()?;
        let object = ObjectPath { subresource: Str::default(), ..call.path.clone() }.url();
        match call.verb {
            Verb::Get => self.objects.get(&object).cloned().ok_or_else(|| not_found(&object)),
            Verb::Create => {
                let mut body = call.body;
                self.name(&mut body);
                let name = body["metadata"]["name"].as_str().unwrap_or_default();
                let made = ObjectPath { name: name.into(), ..call.path.clone() }.url();
                if self.objects.contains_key(&made) {
                    return Err(failure(409, "AlreadyExists", format!("{made} already exists")));
                }
                self.objects.insert(made, body.clone());
                Ok(body)
            }
            Verb::Patch | Verb::StrategicPatch => {
                let known = self.objects.get_mut(&object).ok_or_else(|| not_found(&object))?;
                for (field, reads) in [("resourceVersion", "has been modified"), ("uid", "has been replaced")]
                {
                    let asked = &call.body["metadata"][field];
                    if !asked.is_null() && *asked != known["metadata"][field] {
                        return Err(failure(409, "Conflict", format!("{object} {reads}")));
                    }
                }
                match call.verb {
                    Verb::StrategicPatch => merge_lists_by_uid(known, &call.body),
                    _ => json_patch::merge(known, &call.body),
                }
                renew_version(known);
                let known = known.clone();
                if is_being_deleted(&known) && !has_finalizers(&known) {
                    self.objects.remove(&object);
                }
                Ok(known)
            }
            Verb::Delete => match self.objects.get_mut(&object) {
                Some(known) if has_finalizers(known) => {
                    if !is_being_deleted(known) {
                        known["metadata"]["deletionTimestamp"] = self.now.to_rfc3339().into();
                        renew_version(known);
                    }
                    Ok(known.clone())
                }
                _ => self.objects.remove(&object).ok_or_else(|| not_found(&object)),
            },
        }
    }

    /// Gives a new object with `generateName` a name, a UID and a version.
    fn name(&self, object: &mut Value) {
        let metadata = &mut object["metadata"];
        if let Some(prefix) = metadata["generateName"].as_str().filter(|_| metadata["name"].is_null()) {
            let name = format!("{prefix}{}", self.calls.len());
            metadata["uid"] = format!("uid-{name}").into();
            metadata["name"] = name.into();
            metadata["resourceVersion"] = "1".into();
        }
    }

    fn admitted(&self) -> Result<(), ApiFailure> {
        self.refusal.clone().map_or(Ok(()), Err)
    }
}

fn has_finalizers(object: &Value) -> bool {
    object["metadata"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty())
}

fn is_being_deleted(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// Increments the resource version of an object if the version is a number.
fn renew_version(object: &mut Value) {
    let version =
        object["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse::<u64>().ok());
    if let Some(version) = version {
        object["metadata"]["resourceVersion"] = (version + 1).to_string().into();
    }
}

/// Prefix of the name of a patch field that contains the values to remove from a list of plain values.
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList/";

/// Merges a patch like [`json_patch::merge`], except for lists: an entry of the patch replaces the entry with the same
/// `uid`, and an entry with `$patch: delete` removes it. Fields with [`DELETE_FROM_LIST`] remove plain values.
fn merge_lists_by_uid(known: &mut Value, patch: &Value) {
    match (known, patch) {
        (Value::Object(known), Value::Object(patch)) => {
            for (field, change) in patch {
                if let Some(list) = field.strip_prefix(DELETE_FROM_LIST) {
                    if let Some(Value::Array(known)) = known.get_mut(list) {
                        known.retain(|entry| !change.as_array().is_some_and(|gone| gone.contains(entry)));
                    }
                    continue;
                }
                match known.get_mut(field) {
                    Some(value) if value.is_object() || value.is_array() => merge_lists_by_uid(value, change),
                    _ if change.is_null() => drop(known.remove(field)),
                    _ => drop(known.insert(field.clone(), change.clone())),
                }
            }
        }
        (Value::Array(known), Value::Array(patch)) => {
            for change in patch {
                known.retain(|entry| entry["uid"] != change["uid"]);
                if change["$patch"] != "delete" {
                    known.push(change.clone());
                }
            }
        }
        (known, patch) => *known = patch.clone(),
    }
}

fn not_found(url: &str) -> ApiFailure {
    failure(404, "NotFound", format!("{url} not found"))
}

fn failure(code: u16, reason: &str, message: String) -> ApiFailure {
    ApiFailure { code: Some(code), reason: reason.to_owned(), message }
}

impl ClusterApi for FakeApi {
    fn bind<'a>(&'a self, pod: &'a PodInfo, node: &'a Str) -> BoxFuture<'a, Result<(), PluginError>> {
        Box::pin(async move {
            let mut state = self.state();
            state.admitted()?;
            state.bound.push(format!("{} {node}", pod.full_name()));
            Ok(())
        })
    }

    fn call(&self, call: ApiCall) -> BoxFuture<'_, Result<Reply, ApiFailure>> {
        Box::pin(async move { self.state().take(call).map(Reply::from) })
    }

    fn now(&self) -> Timestamp {
        self.state().now
    }

    fn event(&self, BindingEvent { pod, reason, action, note }: BindingEvent) {
        self.state().events.push(format!("{} {reason} {action}: {note}", pod.full_name()));
    }

    fn measure(&self, measurement: &Measurement) {
        self.state().measurements.push(measurement.clone());
    }

    /// Returns immediately, since nothing changes while a plugin waits.
    fn wait<'a>(
        &'a self,
        path: &'a ObjectPath,
        _: Duration,
        is_settled: &'a mut (dyn FnMut(Option<&Value>) -> bool + Send),
    ) -> BoxFuture<'a, Result<bool, ApiFailure>> {
        Box::pin(async move {
            let object = self.state().objects.get(&path.url()).cloned();
            Ok(is_settled(object.as_ref()))
        })
    }
}
