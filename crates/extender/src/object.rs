//! Pods and nodes. Common fields are decoded; all other fields are available in the JSON text that the scheduler sent.

use std::{collections::BTreeMap, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, MapAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::{Value, value::RawValue};
use serde_path_to_error::Track;

use crate::wire::RawObject;

/// Labels, annotations, or quantities keyed by resource.
pub type Texts = BTreeMap<String, String>;

/// A pod.
#[derive(Clone, Debug)]
pub struct Pod {
    /// Metadata.
    pub metadata: Metadata,
    /// Specification.
    pub spec: PodSpec,
    json: RawObject,
}

/// A node.
#[derive(Clone, Debug)]
pub struct Node {
    /// Metadata.
    pub metadata: Metadata,
    /// Specification.
    pub spec: NodeSpec,
    /// Status.
    pub status: NodeStatus,
    json: RawObject,
}

/// Metadata of any object. A field that is absent or null is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// The name.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// The namespace; empty for nodes.
    #[serde(deserialize_with = "or_default")]
    pub namespace: String,
    /// The UID.
    #[serde(deserialize_with = "or_default")]
    pub uid: String,
    /// The resource version.
    #[serde(deserialize_with = "or_default")]
    pub resource_version: String,
    /// All labels.
    #[serde(deserialize_with = "or_default")]
    pub labels: Texts,
    /// All annotations.
    #[serde(deserialize_with = "or_default")]
    pub annotations: Texts,
    /// The object's owners.
    #[serde(deserialize_with = "or_default")]
    pub owner_references: Vec<Owner>,
}

impl Metadata {
    /// Returns the value of a label, if present.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(String::as_str)
    }

    /// Returns the value of an annotation, if present.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(String::as_str)
    }
}

/// An owner of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Owner {
    /// Group and version, such as `apps/v1`.
    #[serde(deserialize_with = "or_default")]
    pub api_version: String,
    /// The kind, such as `ReplicaSet`.
    #[serde(deserialize_with = "or_default")]
    pub kind: String,
    /// The name.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// The UID.
    #[serde(deserialize_with = "or_default")]
    pub uid: String,
    /// True if this owner is the object's managing controller.
    #[serde(deserialize_with = "or_default")]
    pub controller: bool,
}

/// The essential fields of a pod's specification.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// Name of the pod's node; empty until the pod is bound.
    #[serde(deserialize_with = "or_default")]
    pub node_name: String,
    /// Name of the pod's scheduler.
    #[serde(deserialize_with = "or_default")]
    pub scheduler_name: String,
    /// The pod's priority.
    #[serde(deserialize_with = "or_default")]
    pub priority: i32,
    /// Name of the pod's priority class.
    #[serde(deserialize_with = "or_default")]
    pub priority_class_name: String,
    /// Labels that the pod's node must have.
    #[serde(deserialize_with = "or_default")]
    pub node_selector: Texts,
    /// Name of the service account under which the pod runs.
    #[serde(deserialize_with = "or_default")]
    pub service_account_name: String,
    /// The pod's init containers.
    #[serde(deserialize_with = "or_default")]
    pub init_containers: Vec<Container>,
    /// The pod's containers.
    #[serde(deserialize_with = "or_default")]
    pub containers: Vec<Container>,
}

/// A container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Container {
    /// The name.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// The image.
    #[serde(deserialize_with = "or_default")]
    pub image: String,
    /// The container's requests and limits.
    #[serde(deserialize_with = "object")]
    pub resources: Resources,
}

/// Requests and limits of a container: quantities as strings, keyed by resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Resources {
    /// Requests.
    #[serde(deserialize_with = "or_default")]
    pub requests: Texts,
    /// Limits.
    #[serde(deserialize_with = "or_default")]
    pub limits: Texts,
}

/// The essential fields of a node's specification.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeSpec {
    /// True if the node accepts no new pods.
    #[serde(deserialize_with = "or_default")]
    pub unschedulable: bool,
    /// The node's taints.
    #[serde(deserialize_with = "or_default")]
    pub taints: Vec<Taint>,
}

/// A taint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Taint {
    /// The key.
    #[serde(deserialize_with = "or_default")]
    pub key: String,
    /// The value.
    #[serde(deserialize_with = "or_default")]
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    #[serde(deserialize_with = "or_default")]
    pub effect: String,
}

/// The essential fields of a node's status: quantities as strings, keyed by resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    /// Capacity.
    #[serde(deserialize_with = "or_default")]
    pub capacity: Texts,
    /// Allocatable resources.
    #[serde(deserialize_with = "or_default")]
    pub allocatable: Texts,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PodView {
    #[serde(deserialize_with = "object")]
    metadata: Metadata,
    #[serde(deserialize_with = "object")]
    spec: PodSpec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NodeView {
    #[serde(deserialize_with = "object")]
    metadata: Metadata,
    #[serde(deserialize_with = "object")]
    spec: NodeSpec,
    #[serde(deserialize_with = "object")]
    status: NodeStatus,
}

impl Pod {
    /// Reads a pod.
    ///
    /// # Errors
    /// If a field is invalid; the error contains the field's path.
    pub fn new(json: RawObject) -> Result<Self, String> {
        Self::at("Pod", json)
    }

    pub(crate) fn at(place: &str, json: RawObject) -> Result<Self, String> {
        let PodView { metadata, spec } = view(place, &json)?;
        Ok(Self { metadata, spec, json })
    }

    /// Returns the whole object as the scheduler sent it.
    pub fn json(&self) -> &RawValue {
        &self.json
    }

    /// Parses the whole object as JSON.
    pub fn value(&self) -> Value {
        value(&self.json)
    }

    /// Parses the whole object as a type chosen by the caller, for example one from `k8s-openapi`.
    ///
    /// # Errors
    /// If the object does not match the type.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.json.get())
    }
}

impl Node {
    /// Reads a node.
    ///
    /// # Errors
    /// If a field is invalid; the error contains the field's path.
    pub fn new(json: RawObject) -> Result<Self, String> {
        Self::at("Node", json)
    }

    pub(crate) fn at(place: &str, json: RawObject) -> Result<Self, String> {
        let NodeView { metadata, spec, status } = view(place, &json)?;
        Ok(Self { metadata, spec, status, json })
    }

    /// Returns the whole object as the scheduler sent it.
    pub fn json(&self) -> &RawValue {
        &self.json
    }

    /// Parses the whole object as JSON.
    pub fn value(&self) -> Value {
        value(&self.json)
    }

    /// Parses the whole object as a type chosen by the caller, for example one from `k8s-openapi`.
    ///
    /// # Errors
    /// If the object does not match the type.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.json.get())
    }
}

/// Reads an object whose path in the request is `place`.
fn view<T: DeserializeOwned + Default>(place: &str, json: &RawValue) -> Result<T, String> {
    let (mut text, mut track) = (serde_json::Deserializer::from_str(json.get()), Track::new());
    let read = object(serde_path_to_error::Deserializer::new(&mut text, &mut track));
    read.map_err(|error: serde_json::Error| match track.path().to_string().as_str() {
        "." => format!("{place}: {error}"),
        path => format!("{place}.{path}: {error}"),
    })
}

/// Parses an object as JSON. The text was parsed before, so parsing can fail only for numbers that are too large for
/// [`Value`].
fn value(json: &RawValue) -> Value {
    serde_json::from_str(json.get()).unwrap_or_default()
}

/// Accepts a JSON object, but not a list of the fields' values, which serde would otherwise accept. Treats null as
/// absent.
fn object<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(from: D) -> Result<T, D::Error> {
    struct Object<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de> + Default> Visitor<'de> for Object<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_unit<E>(self) -> Result<T, E> {
            Ok(T::default())
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
            T::deserialize(MapAccessDeserializer::new(map))
        }
    }

    from.deserialize_any(Object(PhantomData))
}

/// Treats null as absent.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> RawObject {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn a_pod_has_fields_for_the_essentials_and_the_whole_json() {
        let text = r#"{"metadata":{"name":"web","namespace":"shop","uid":"u","creationTimestamp":null,"labels":{"app":"web"},
            "ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web","uid":"r","controller":true}]},
            "spec":{"priority":7,"nodeSelector":null,"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"100m"}}}],
            "hostNetwork":true}}"#;
        let pod = Pod::new(raw(text)).unwrap();
        assert_eq!(pod.metadata.label("app"), Some("web"));
        assert_eq!(pod.metadata.annotation("app"), None);
        assert!(pod.metadata.owner_references[0].controller);
        assert_eq!((pod.spec.priority, pod.spec.node_name.as_str()), (7, ""));
        assert_eq!(pod.spec.containers[0].resources.requests["cpu"], "100m");
        assert_eq!(pod.value()["spec"]["hostNetwork"], true);
        assert_eq!(pod.json().get(), text);
        #[derive(serde::Deserialize)]
        struct Mine {
            metadata: Metadata,
        }
        assert_eq!(pod.decode::<Mine>().unwrap().metadata, pod.metadata);
    }

    #[test]
    fn a_node_has_fields_for_the_essentials() {
        let node = Node::new(raw(
            r#"{"metadata":{"name":"n"},"spec":{"unschedulable":true,"taints":[{"key":"k","effect":"NoSchedule"}]},
            "status":{"allocatable":{"cpu":"4"},"capacity":null}}"#,
        ))
        .unwrap();
        assert!(node.spec.unschedulable);
        assert_eq!(node.spec.taints[0].effect, "NoSchedule");
        assert_eq!(node.status.allocatable["cpu"], "4");
        assert!(node.status.capacity.is_empty());
    }

    #[test]
    fn an_error_about_a_field_of_the_wrong_type_contains_its_path() {
        for (text, expected) in [
            (r#"{"metadata":{"labels":{"a":1}}}"#, "Pod.metadata.labels.a: invalid type: integer `1`"),
            (
                r#"{"spec":{"containers":[{"name":[]}]}}"#,
                "Pod.spec.containers[0].name: invalid type: sequence",
            ),
            (r#"{"metadata":["web"]}"#, "Pod.metadata: invalid type: sequence, expected an object"),
            ("7", "Pod: invalid type: integer `7`, expected an object"),
            ("[]", "Pod: invalid type: sequence, expected an object"),
        ] {
            let error = Pod::new(raw(text)).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
