//! The kinds of objects that are watched. Pods and nodes have inputs of their own; a further kind of
//! [`harbormaster_api::Object`] is one more row of [`BUILT_IN`]; all others, custom resources and Kubernetes' own kinds, are
//! those that plugins name.

use std::hash::Hash;

use harbormaster_api::{
    ObjectKey, ObjectKind, Str, WorkloadKind,
    wire::{DecodeError, Decoder},
};
use harbormaster_core::Input;
use harbormaster_framework::resource::{CustomKey, RawObject, ResourceName};

use super::wire::{Stub, encoded};

/// A kind of object and what the engine hears of it.
pub trait Kind: Send + 'static {
    /// What identifies an object of this kind.
    type Key: Clone + Eq + Hash + Ord + Send;

    /// The resource's name, for messages.
    fn name(&self) -> &str;
    /// Where all of them are listed.
    fn path(&self) -> &str;
    /// Which of them are of interest.
    fn field_selector(&self) -> Option<&'static str> {
        None
    }
    /// Whether an API server that does not serve this kind counts as one that has no such objects.
    fn may_be_missing(&self) -> bool {
        false
    }

    /// Whether objects go with the kind when the API server serves it no more. Kubernetes' own kinds are not switched off
    /// while it runs: whoever then answers that there is no such kind is not the API server.
    fn may_vanish(&self) -> bool {
        false
    }

    /// Decodes an object that is new or changed.
    ///
    /// # Errors
    /// Says which field is wrong.
    fn decode(&self, decoder: &mut Decoder, json: &[u8]) -> Result<Decoded<Self::Key>, DecodeError>;
    /// What identifies the object of that namespace, name and UID.
    fn key(&self, namespace: &str, name: &str, uid: &str) -> Self::Key;
    /// It is gone.
    fn gone(&self, key: Self::Key) -> Input;
}

/// Where those of interest are listed. Parts of the query without a value are left out.
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

/// An object as the watcher sees it.
#[derive(Debug)]
pub struct Decoded<K> {
    /// What identifies it.
    pub key: K,
    /// Its resource version.
    pub version: Str,
    /// What the engine is told of it.
    pub input: Input,
}

/// Pods that have not finished. A pod that finishes looks deleted.
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

    fn decode(&self, decoder: &mut Decoder, json: &[u8]) -> Result<Decoded<Str>, DecodeError> {
        let pod = decoder.pod(json)?;
        Ok(Decoded { key: pod.uid.clone(), version: pod.resource_version.clone(), input: Input::Pod(pod) })
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

    fn decode(&self, decoder: &mut Decoder, json: &[u8]) -> Result<Decoded<Str>, DecodeError> {
        let node = decoder.node(json)?;
        Ok(Decoded {
            key: node.name.clone(),
            version: node.resource_version.clone(),
            input: Input::Node(node),
        })
    }

    fn key(&self, _namespace: &str, name: &str, _uid: &str) -> Str {
        name.into()
    }

    fn gone(&self, key: Str) -> Input {
        Input::NodeGone(key)
    }
}

/// All objects of one further kind.
#[derive(Clone, Copy, Debug)]
pub struct BuiltInKind {
    kind: ObjectKind,
    name: &'static str,
    path: &'static str,
}

/// The further kinds.
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

    /// API groups can be switched off, and pods can be scheduled without these objects.
    fn may_be_missing(&self) -> bool {
        true
    }

    fn decode(&self, decoder: &mut Decoder, json: &[u8]) -> Result<Decoded<ObjectKey>, DecodeError> {
        let (object, version) = decoder.object(self.kind, json)?;
        Ok(Decoded { key: object.key(), version, input: Input::Object(object) })
    }

    fn key(&self, namespace: &str, name: &str, _uid: &str) -> ObjectKey {
        ObjectKey { kind: self.kind, namespace: namespace.into(), name: name.into() }
    }

    fn gone(&self, key: ObjectKey) -> Input {
        Input::ObjectGone(key)
    }
}

/// All objects of a kind that a plugin names. They go to the engine as they are.
#[derive(Clone, Debug)]
pub struct CustomKind {
    /// The kind, written out.
    resource: Str,
    name: String,
    path: String,
    /// Whether it is defined in the cluster; otherwise it is one of Kubernetes' own.
    is_defined: bool,
}

impl CustomKind {
    /// Those of that kind.
    pub fn new(resource: ResourceName) -> Self {
        let ResourceName { plural, version, group } = resource;
        let (name, path) = match group {
            "" => (plural.to_owned(), format!("/api/{version}/{plural}")),
            group => (format!("{plural}.{group}"), format!("/apis/{group}/{version}/{plural}")),
        };
        let is_own = !group.contains('.') || group.ends_with(".k8s.io");
        Self { resource: resource.to_string().into(), name, path, is_defined: !is_own }
    }
}

impl Kind for CustomKind {
    type Key = CustomKey;

    fn name(&self) -> &str {
        &self.name
    }

    fn path(&self) -> &str {
        &self.path
    }

    fn may_be_missing(&self) -> bool {
        true
    }

    /// Definitions come and go.
    fn may_vanish(&self) -> bool {
        self.is_defined
    }

    fn decode(&self, _: &mut Decoder, json: &[u8]) -> Result<Decoded<CustomKey>, DecodeError> {
        let wrong = |problem: String| DecodeError { kind: "custom object", path: String::new(), problem };
        let text = std::str::from_utf8(json).map_err(|error| wrong(error.to_string()))?;
        let metadata = Stub::read(json).map_err(wrong)?.metadata;
        let key = self.key(&metadata.namespace, &metadata.name, &metadata.uid);
        let input = Input::Custom(RawObject { key: key.clone(), json: text.into() });
        Ok(Decoded { key, version: metadata.resource_version.as_ref().into(), input })
    }

    fn key(&self, namespace: &str, name: &str, _uid: &str) -> CustomKey {
        CustomKey { resource: self.resource.clone(), namespace: namespace.into(), name: name.into() }
    }

    fn gone(&self, key: CustomKey) -> Input {
        Input::CustomGone(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_object_is_watched_where_its_group_is_served() {
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
