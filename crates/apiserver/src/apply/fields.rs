//! Sets of fields, in the format of `metadata.managedFields` (`FieldsV1`).

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// A set of an object's fields, as a tree whose edges are steps into a value.
///
/// Steps have the form of `FieldsV1`: `f:NAME` is a field, `k:{…}` is the list element with the given keys, `v:…` is
/// the list element with the given value, and `i:…` is the list element at the given index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields {
    /// True if the value itself is in the set.
    pub(super) own: bool,
    /// Sets of fields below this value, by step.
    pub(super) below: BTreeMap<String, Fields>,
}

/// Key of `FieldsV1` that represents the value itself.
const ITSELF: &str = ".";

impl Fields {
    /// Parses `FieldsV1`. Returns `None` if the value has another form.
    pub(super) fn parse(value: &Value) -> Option<Self> {
        let mut fields = Self::default();
        let map = value.as_object()?;
        for (step, value) in map {
            if step == ITSELF {
                fields.own = true;
                continue;
            }
            if !matches!(step.as_bytes(), [b'f' | b'k' | b'v' | b'i', b':', ..]) {
                return None;
            }
            let mut inner = Self::parse(value)?;
            inner.own |= inner.below.is_empty();
            fields.below.insert(step.clone(), inner);
        }
        Some(fields)
    }

    /// Returns the set as `FieldsV1`.
    pub(super) fn json(&self) -> Value {
        let mut map = Map::new();
        if self.own && !self.below.is_empty() {
            map.insert(ITSELF.to_owned(), Value::Object(Map::new()));
        }
        map.extend(self.below.iter().map(|(step, fields)| (step.clone(), fields.json())));
        Value::Object(map)
    }

    /// Returns true if the set is empty.
    pub(super) fn is_empty(&self) -> bool {
        !self.own && self.below.is_empty()
    }

    /// Returns the part of the set below a step.
    pub(super) fn at(&self, step: &str) -> Option<&Self> {
        self.below.get(step)
    }

    /// Adds a field to the set.
    pub(super) fn insert(&mut self, path: &[String]) {
        match path {
            [] => self.own = true,
            [step, rest @ ..] => self.below.entry(step.clone()).or_default().insert(rest),
        }
    }

    /// Adds all fields of another set.
    pub(super) fn add(&mut self, other: &Self) {
        self.own |= other.own;
        for (step, fields) in &other.below {
            self.below.entry(step.clone()).or_default().add(fields);
        }
    }

    /// Removes all fields of another set.
    pub(super) fn subtract(&mut self, other: &Self) {
        self.own &= !other.own;
        for (step, fields) in &other.below {
            if let Some(own) = self.below.get_mut(step) {
                own.subtract(fields);
                if own.is_empty() {
                    self.below.remove(step);
                }
            }
        }
    }

    /// Removes a field and everything below it.
    pub(super) fn cut(&mut self, step: &str) {
        self.below.remove(step);
    }

    /// Returns the intersection of the two sets.
    pub(super) fn common(&self, other: &Self) -> Self {
        let both = self.below.iter().filter_map(|(step, fields)| {
            let common = fields.common(other.below.get(step)?);
            (!common.is_empty()).then(|| (step.clone(), common))
        });
        Self { own: self.own && other.own, below: both.collect() }
    }

    /// Returns the paths of all fields in readable form: `.spec.containers[name="a"].image`. At each level, the fields
    /// of that level precede the deeper fields.
    pub(super) fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect("", &mut paths);
        paths
    }

    fn collect(&self, before: &str, paths: &mut Vec<String>) {
        let steps = || self.below.iter().map(|(step, fields)| (format!("{before}{}", shown(step)), fields));
        paths.extend(steps().filter(|(_, fields)| fields.own).map(|(path, _)| path));
        for (path, fields) in steps() {
            fields.collect(&path, paths);
        }
    }
}

/// Returns the step into a field.
pub(super) fn field(name: &str) -> String {
    format!("f:{name}")
}

/// Returns a step in readable form.
pub(super) fn shown(step: &str) -> String {
    let (kind, rest) = step.split_at_checked(2).unwrap_or((step, ""));
    match (kind, serde_json::from_str::<Map<String, Value>>(rest)) {
        ("f:", _) => format!(".{rest}"),
        ("v:", _) => format!("[={rest}]"),
        ("k:", Ok(keys)) => {
            let keys: Vec<String> = keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
            format!("[{}]", keys.join(","))
        }
        _ => format!("[{rest}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_set_that_is_read_and_written_stays_the_same() {
        let told = json!({
            "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
            "f:spec": {"f:replicas": {}, "f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:name": {}}}},
        });
        let fields = Fields::parse(&told).unwrap();
        assert_eq!(fields.json(), told);
        assert_eq!(
            fields.paths(),
            [
                ".metadata.labels",
                ".metadata.labels.app",
                ".spec.replicas",
                ".spec.ports[port=80,protocol=\"TCP\"]",
                ".spec.ports[port=80,protocol=\"TCP\"].name",
            ]
        );
        assert_eq!(Fields::parse(&json!({"x": {}})), None);
    }

    #[test]
    fn sets_can_be_added_subtracted_and_intersected() {
        let set = |value: Value| Fields::parse(&value).unwrap();
        let mut all = set(json!({"f:a": {".": {}, "f:b": {}}, "f:c": {}}));
        let some = set(json!({"f:a": {"f:b": {}}, "f:d": {}}));
        assert_eq!(all.common(&some), set(json!({"f:a": {"f:b": {}}})));
        all.subtract(&some);
        assert_eq!(all, set(json!({"f:a": {}, "f:c": {}})));
        all.add(&some);
        assert_eq!(all, set(json!({"f:a": {".": {}, "f:b": {}}, "f:c": {}, "f:d": {}})));
        all.subtract(&all.clone());
        assert!(all.is_empty());
    }
}
