//! The kinds of objects that are watched. Pods and nodes have their own inputs; each kind in
//! [`harbormaster_api::Object`] has an entry in [`BUILT_IN`]; all other kinds are named by plugins and are custom
//! resources or Kubernetes' own kinds.

use std::hash::Hash;

use harbormaster_api::{
    ObjectKey, ObjectKind, Str, WorkloadKind,
    wire::{DecodeError, Decoder, Encoded, NodeDraft, ObjectDraft, PodDraft},
};
use harbormaster_core::Input;
use harbormaster_framework::resource::{CustomKey, OlderVersion, RawContent, RawObject, ResourceName};

use super::{
    known::{Known, Mark},
    wire::{Stub, encoded},
};
use crate::served_version::ServedVersion;

/// A kind of object, and the conversion of its objects to inputs.
pub trait Kind: Send + 'static {
    /// Key of an object of this kind.
    type Key: Clone + Eq + Hash + Ord + Send;

    /// Returns the resource's name, for messages.
    fn name(&self) -> &str;
    /// Returns the path of the list of all objects.
    fn path(&self) -> &str;
    /// Returns the field selector for the needed objects.
    fn field_selector(&self) -> Option<&'static str> {
        None
    }
    /// Returns true if an API server that does not serve this kind is treated as having no objects of the kind.
    fn may_be_missing(&self) -> bool {
        false
    }

    /// Returns true if all objects are removed when the API server stops serving this kind. An API server never stops
    /// serving Kubernetes' own kinds while it runs: a response that says otherwise does not come from the API server.
    fn may_vanish(&self) -> bool {
        false
    }

    /// Returns true if the API server may send objects of this kind in protobuf.
    fn accepts_protobuf(&self) -> bool {
        true
    }

    /// Makes the watcher request the next older version of this kind. Returns false if none is left; then the newest
    /// version is requested next.
    fn try_older(&mut self) -> bool {
        false
    }

    /// Called when a list of the requested version has succeeded. Returns the version if it is an older one and has not
    /// been returned before.
    fn note_served(&mut self) -> Option<&'static str> {
        None
    }

    /// Notes the state of an object in `known`, and decodes the object if its state is new.
    ///
    /// # Errors
    /// If a field is invalid; the error contains its name.
    fn decode(
        &self,
        decoder: &mut Decoder,
        known: &mut Known<Self::Key>,
        object: Encoded<'_>,
    ) -> Result<Decoded, DecodeError>;
    /// Returns the key of the object with the given namespace, name and UID.
    fn key(&self, namespace: &str, name: &str, uid: &str) -> Self::Key;
    /// Returns the input for an object that is gone.
    fn gone(&self, key: Self::Key) -> Input;
}

/// Returns the path that lists the needed objects. Query parameters without a value are omitted.
pub(super) fn list_path(kind: &impl Kind, query: &[(&str, &str)]) -> String {
    let selector = kind.field_selector().map(|selector| ("fieldSelector", selector));
    let mut path = kind.path().to_owned();
    let mut separator = '?';
    for (key, value) in query.iter().copied().chain(selector).filter(|(_, value)| !value.is_empty()) {
        path.push(separator);
        path.push_str(key);
        path.push('=');
        path.push_str(&encoded(value));
        separator = '&';
    }
    path
}

/// A decoded object.
#[derive(Debug)]
pub struct Decoded {
    /// Resource version.
    pub version: Str,
    /// Input for the engine; `None` if the engine knows the object in this state.
    pub input: Option<Input>,
}

impl Decoded {
    /// Notes the state of an object, and decodes the object unless the state is known. `decode` also returns the key
    /// that the object has; an object that was not known is noted by it, so that both share the key's text.
    fn unless_known<K: Clone + Eq + Hash + Ord>(
        known: &mut Known<K>,
        key: &K,
        mark: Mark,
        version: Str,
        decode: impl FnOnce() -> Result<(K, Input), DecodeError>,
    ) -> Result<Self, DecodeError> {
        let is_news = known.renew(key, mark);
        let decoded = is_news.unwrap_or(true).then(decode).transpose();
        if is_news.is_none() {
            let own = decoded.as_ref().ok().and_then(|decoded| Some(&decoded.as_ref()?.0));
            known.add(own.unwrap_or(key).clone(), mark);
        }
        let input = decoded?.map(|(_, input)| input);
        Ok(Self { version, input })
    }
}

/// Pods that have not finished. A pod that finishes appears to be deleted. Requests and events about pods without a
/// node contain their versions, so every version of such a pod is new.
#[derive(Clone, Copy, Debug)]
pub struct Pods;

impl Kind for Pods {
    /// The UID.
    type Key = Str;

    fn name(&self) -> &str {
        "pods"
    }

    fn path(&self) -> &str {
        "/api/v1/pods"
    }

    fn field_selector(&self) -> Option<&'static str> {
        Some("status.phase!=Succeeded,status.phase!=Failed")
    }

    fn decode(
        &self,
        decoder: &mut Decoder,
        known: &mut Known<Str>,
        object: Encoded<'_>,
    ) -> Result<Decoded, DecodeError> {
        let draft = PodDraft::read(object)?;
        let (key, version) = (Str::from(draft.uid()), Str::from(draft.version()));
        let mark = match draft.is_bound() {
            true => known.mark(&draft, &version),
            false => known.mark_version(&version),
        };
        Decoded::unless_known(known, &key, mark, version, || {
            let pod = draft.finish(decoder)?;
            Ok((pod.uid.clone(), Input::Pod(pod)))
        })
    }

    fn key(&self, _namespace: &str, _name: &str, uid: &str) -> Str {
        uid.into()
    }

    fn gone(&self, key: Str) -> Input {
        Input::PodGone(key)
    }
}

/// All nodes.
#[derive(Clone, Copy, Debug)]
pub struct Nodes;

impl Kind for Nodes {
    /// The name.
    type Key = Str;

    fn name(&self) -> &str {
        "nodes"
    }

    fn path(&self) -> &str {
        "/api/v1/nodes"
    }

    fn decode(
        &self,
        decoder: &mut Decoder,
        known: &mut Known<Str>,
        object: Encoded<'_>,
    ) -> Result<Decoded, DecodeError> {
        let draft = NodeDraft::read(object)?;
        let (key, version) = (Str::from(draft.name()), Str::from(draft.version()));
        let mark = known.mark(&draft, &version);
        Decoded::unless_known(known, &key, mark, version, || {
            let node = draft.finish(decoder)?;
            Ok((node.name.clone(), Input::Node(node)))
        })
    }

    fn key(&self, _namespace: &str, name: &str, _uid: &str) -> Str {
        name.into()
    }

    fn gone(&self, key: Str) -> Input {
        Input::NodeGone(key)
    }
}

/// All objects of a built-in kind other than pods and nodes.
#[derive(Clone, Copy, Debug)]
pub struct BuiltInKind {
    kind: ObjectKind,
    name: &'static str,
    path: &'static str,
}

/// The built-in kinds other than pods and nodes.
pub const BUILT_IN: [BuiltInKind; 6] = [
    BuiltInKind { kind: ObjectKind::Namespace, name: "namespaces", path: "/api/v1/namespaces" },
    BuiltInKind { kind: ObjectKind::Service, name: "services", path: "/api/v1/services" },
    BuiltInKind {
        kind: ObjectKind::Workload(WorkloadKind::ReplicationController),
        name: "replicationcontrollers",
        path: "/api/v1/replicationcontrollers",
    },
    BuiltInKind {
        kind: ObjectKind::Workload(WorkloadKind::ReplicaSet),
        name: "replicasets",
        path: "/apis/apps/v1/replicasets",
    },
    BuiltInKind {
        kind: ObjectKind::Workload(WorkloadKind::StatefulSet),
        name: "statefulsets",
        path: "/apis/apps/v1/statefulsets",
    },
    BuiltInKind {
        kind: ObjectKind::PodDisruptionBudget,
        name: "poddisruptionbudgets",
        path: "/apis/policy/v1/poddisruptionbudgets",
    },
];

impl Kind for BuiltInKind {
    type Key = ObjectKey;

    fn name(&self) -> &str {
        self.name
    }

    fn path(&self) -> &str {
        self.path
    }

    /// API groups can be disabled, and pods can be scheduled without these objects.
    fn may_be_missing(&self) -> bool {
        true
    }

    fn decode(
        &self,
        decoder: &mut Decoder,
        known: &mut Known<ObjectKey>,
        object: Encoded<'_>,
    ) -> Result<Decoded, DecodeError> {
        let draft = ObjectDraft::read(self.kind, object)?;
        let (key, version) = (draft.key(), Str::from(draft.version()));
        let mark = known.mark(&draft, &version);
        Decoded::unless_known(known, &key, mark, version, || {
            let object = draft.finish(decoder)?;
            Ok((object.key(), Input::Object(object)))
        })
    }

    fn key(&self, namespace: &str, name: &str, _uid: &str) -> ObjectKey {
        ObjectKey { kind: self.kind, namespace: namespace.into(), name: name.into() }
    }

    fn gone(&self, key: ObjectKey) -> Input {
        Input::ObjectGone(key)
    }
}

/// All objects of a kind named by a plugin, undecoded. Objects in JSON come without their managed fields.
#[derive(Clone, Debug)]
pub struct CustomKind {
    /// The [`ResourceName`] as a string.
    resource: Str,
    name: String,
    /// Path of the list in each version, most preferred first.
    paths: Vec<String>,
    /// Index of the requested version.
    requested: usize,
    served: ServedVersion,
    /// True for a custom resource; false for a kind of Kubernetes itself.
    is_defined: bool,
}

impl CustomKind {
    /// Returns the kind, which is watched in the first of its versions that the server serves.
    pub fn new(served: ServedVersion) -> Self {
        let resource = served.resource();
        let ResourceName { plural, group, .. } = resource;
        let name = match group {
            "" => plural.to_owned(),
            group => format!("{plural}.{group}"),
        };
        let path = |version: &str| match group {
            "" => format!("/api/{version}/{plural}"),
            group => format!("/apis/{group}/{version}/{plural}"),
        };
        let paths = served.versions().map(path).collect();
        let is_own = !group.contains('.') || group.ends_with(".k8s.io");
        Self { resource: resource.to_string().into(), name, paths, requested: 0, served, is_defined: !is_own }
    }
}

impl Kind for CustomKind {
    type Key = CustomKey;

    fn name(&self) -> &str {
        &self.name
    }

    fn path(&self) -> &str {
        &self.paths[self.requested]
    }

    fn may_be_missing(&self) -> bool {
        true
    }

    fn accepts_protobuf(&self) -> bool {
        self.served.has_protobuf(self.requested)
    }

    /// Custom resource definitions may be added and removed.
    fn may_vanish(&self) -> bool {
        self.is_defined
    }

    fn try_older(&mut self) -> bool {
        self.requested = (self.requested + 1) % self.paths.len();
        self.requested > 0
    }

    fn note_served(&mut self) -> Option<&'static str> {
        self.served.note(self.requested)
    }

    fn decode(
        &self,
        _: &mut Decoder,
        known: &mut Known<CustomKey>,
        object: Encoded<'_>,
    ) -> Result<Decoded, DecodeError> {
        let wrong = |problem: String| DecodeError { kind: "custom object", path: String::new(), problem };
        let stub = Stub::read(object).map_err(wrong)?;
        let metadata = &stub.metadata;
        let key = self.key(&metadata.namespace, &metadata.name, &metadata.uid);
        let version = Str::from(&*metadata.resource_version);
        let mark = known.mark_version(&version);
        Decoded::unless_known(known, &key, mark, version, || {
            let content = match (object, self.served.older(self.requested)) {
                (Encoded::Protobuf(bytes), None) => RawContent::Protobuf(bytes.into()),
                (Encoded::Protobuf(_), Some(_)) => {
                    return Err(wrong("objects of older versions are read as JSON only".to_owned()));
                }
                (Encoded::Json(json), older) => {
                    let text = std::str::from_utf8(json).map_err(|error| wrong(error.to_string()))?;
                    let json = stub.without_managed_fields(text);
                    let upgraded = older.map(|older| upgraded(older, &json)).transpose();
                    RawContent::Json(upgraded.map_err(|error| wrong(error.to_string()))?.unwrap_or(json))
                }
            };
            Ok((key.clone(), Input::Custom(RawObject { key: key.clone(), content })))
        })
    }

    fn key(&self, namespace: &str, name: &str, _uid: &str) -> CustomKey {
        CustomKey { resource: self.resource.clone(), namespace: namespace.into(), name: name.into() }
    }

    fn gone(&self, key: CustomKey) -> Input {
        Input::CustomGone(key)
    }
}

/// Returns an object in the version that plugins read.
fn upgraded(older: &OlderVersion, json: &str) -> Result<Str, serde_json::Error> {
    let mut object = serde_json::from_str(json)?;
    (older.upgrade)(&mut object);
    Ok(object.to_string().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_object_is_watched_at_the_path_of_its_group() {
        assert_eq!(BUILT_IN.map(|objects| objects.kind), ObjectKind::ALL);
        for BuiltInKind { kind, name, path } in BUILT_IN {
            assert_eq!(name, format!("{}s", kind.name().to_lowercase()));
            let root = match kind.group() {
                "" => "/api/v1".to_owned(),
                group => format!("/apis/{group}/v1"),
            };
            assert_eq!(path, format!("{root}/{name}"));
        }
    }
}
