//! A version of an object, encoded once and shared by all readers.

use std::sync::Arc;

use bytes::Bytes;
use harbormaster_api::{Labels, Str};
use serde_json::{Map, Value};

/// One version of an object. It is immutable; each write creates a new version.
#[derive(Clone, Debug)]
pub struct StoredObject {
    /// `namespace/name`, or only the name for cluster-scoped objects. Sorts like the keys of etcd.
    pub(crate) key: Arc<str>,
    /// `metadata.resourceVersion`.
    pub(crate) version: u64,
    json: Bytes,
    /// Offset of the version's digits in the JSON.
    version_at: usize,
    pub(crate) labels: Labels,
    /// Values of the fields that this kind's field selectors may name, in the kind's order.
    pub(crate) fields: Box<[Str]>,
}

impl StoredObject {
    /// Returns the object as JSON, without a line break.
    pub fn json(&self) -> &Bytes {
        &self.json
    }

    /// Returns `metadata.resourceVersion`.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the namespace, or an empty string for cluster-scoped objects.
    pub fn namespace(&self) -> &str {
        self.key.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        self.key.split_once('/').map_or(&self.key, |(_, name)| name)
    }

    /// Decodes the object.
    pub fn value(&self) -> Value {
        // This module encoded the JSON, so decoding cannot fail.
        serde_json::from_slice(&self.json).unwrap_or_default()
    }

    /// Returns the same content with another version: the deletion of an object gives its final state a new version.
    pub(crate) fn at_version(&self, version: u64) -> Self {
        let digits = self.version.to_string().len();
        let (head, tail) = (&self.json[..self.version_at], &self.json[self.version_at + digits..]);
        Self { version, json: joined(head, version, tail), ..self.clone() }
    }
}

/// Parses a `resourceVersion` that a client sent. The error is Go's message.
pub(crate) fn parse_version(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("strconv.ParseUint: parsing {text:?}: invalid syntax"))
}

fn joined(head: &[u8], version: u64, tail: &[u8]) -> Bytes {
    let digits = version.to_string();
    let mut json = Vec::with_capacity(head.len() + digits.len() + tail.len());
    json.extend_from_slice(head);
    json.extend_from_slice(digits.as_bytes());
    json.extend_from_slice(tail);
    json.into()
}

/// An object whose JSON is complete except for the version, so that the version can be assigned under the store's lock.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) key: Arc<str>,
    head: Vec<u8>,
    tail: Vec<u8>,
    labels: Labels,
    fields: Box<[Str]>,
}

impl Draft {
    /// Encodes `value`. `fields` are the paths that field selectors may name, such as `spec.nodeName`.
    pub(crate) fn new(value: &Value, fields: &[String]) -> Self {
        let empty = Map::new();
        let metadata = value.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
        let (head, tail) = encoded(value, metadata);
        let labels = metadata.get("labels").and_then(Value::as_object).unwrap_or(&empty);
        Self {
            key: key(text(metadata.get("namespace")), text(metadata.get("name"))).into(),
            head,
            tail,
            labels: labels.iter().map(|(k, v)| (k.as_str(), text(Some(v)))).collect(),
            fields: fields.iter().map(|path| field(value, path)).collect(),
        }
    }

    /// Returns the object as it would be stored, but without a version.
    pub(crate) fn unsealed(mut self) -> StoredObject {
        // Drops the unfinished version field, so that the metadata ends before it.
        let field = b"\"resourceVersion\":\"";
        self.head.truncate(self.head.len() - field.len());
        if self.head.last() == Some(&b',') {
            self.head.pop();
        }
        let json = [&self.head, &self.tail[1..]].concat().into();
        StoredObject {
            key: self.key,
            version: 0,
            json,
            version_at: 0,
            labels: self.labels,
            fields: self.fields,
        }
    }

    /// Returns the object with its version.
    pub(crate) fn seal(self, version: u64) -> StoredObject {
        StoredObject {
            key: self.key,
            version,
            json: joined(&self.head, version, &self.tail),
            version_at: self.head.len(),
            labels: self.labels,
            fields: self.fields,
        }
    }
}

/// Returns the key of an object in the store.
pub(crate) fn key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

/// Returns the JSON before and after the digits of the version, which is the last field of the metadata.
fn encoded(value: &Value, metadata: &Map<String, Value>) -> (Vec<u8>, Vec<u8>) {
    let mut head = Vec::with_capacity(1024);
    head.push(b'{');
    for name in ["kind", "apiVersion"] {
        if let Some(value) = value.get(name) {
            write_field(&mut head, name, value);
        }
    }
    comma(&mut head);
    head.extend_from_slice(b"\"metadata\":{");
    for (name, value) in metadata.iter().filter(|(name, _)| *name != "resourceVersion") {
        write_field(&mut head, name, value);
    }
    comma(&mut head);
    head.extend_from_slice(b"\"resourceVersion\":\"");
    let mut tail = b"\"}".to_vec();
    let others = value.as_object().into_iter().flatten();
    for (name, value) in
        others.filter(|(name, _)| !matches!(name.as_str(), "kind" | "apiVersion" | "metadata"))
    {
        write_field(&mut tail, name, value);
    }
    tail.push(b'}');
    (head, tail)
}

fn write_field(out: &mut Vec<u8>, name: &str, value: &Value) {
    comma(out);
    // Writing to memory cannot fail, and all keys are strings.
    let _ = serde_json::to_writer(&mut *out, name);
    out.push(b':');
    let _ = serde_json::to_writer(out, value);
}

fn comma(out: &mut Vec<u8>) {
    if out.last().is_some_and(|last| *last != b'{') {
        out.push(b',');
    }
}

/// Returns the value at a path such as `status.phase`, as field selectors compare it.
fn field(value: &Value, path: &str) -> Str {
    let mut at = Some(value);
    for part in path.split('.') {
        at = at.and_then(|value| value.get(part));
    }
    match at {
        None | Some(Value::Null) => match path {
            "spec.unschedulable" | "spec.hostNetwork" => "false".into(),
            "status.replicas" | "status.successful" => "0".into(),
            _ => Str::default(),
        },
        Some(Value::String(text)) => text.as_str().into(),
        Some(other) => other.to_string().into(),
    }
}

fn text(value: Option<&Value>) -> &str {
    value.and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_object_equals_the_encoded_value_plus_its_version() {
        let value = json!({
            "kind": "Pod", "apiVersion": "v1",
            "metadata": {"name": "a", "namespace": "b", "labels": {"x": "y"}, "resourceVersion": "3",
                         "annotations": {"resourceVersion": "9", "q": "\"resourceVersion\":\"7\""}},
            "spec": {"nodeName": "n", "hostNetwork": true},
        });
        let fields = ["spec.nodeName", "spec.hostNetwork", "status.phase"].map(String::from);
        let object = Draft::new(&value, &fields).seal(41);
        let mut expected = value;
        expected["metadata"]["resourceVersion"] = json!("41");
        assert_eq!(object.value(), expected);
        assert_eq!((object.namespace(), object.name(), object.version()), ("b", "a", 41));
        assert_eq!(object.fields.iter().map(Str::as_str).collect::<Vec<_>>(), ["n", "true", ""]);
        expected["metadata"]["resourceVersion"] = json!("1000");
        assert_eq!(object.at_version(1000).value(), expected);
        expected["metadata"].as_object_mut().unwrap().remove("resourceVersion");
        assert_eq!(Draft::new(&expected, &fields).unsealed().value(), expected);
    }

    #[test]
    fn odd_values_are_encoded_too() {
        for odd in [json!({}), json!({"metadata": {}}), json!({"a": 1, "metadata": 5})] {
            let object = Draft::new(&odd, &[]).seal(1);
            assert_eq!(object.value()["metadata"]["resourceVersion"], json!("1"), "{odd}");
        }
    }
}
