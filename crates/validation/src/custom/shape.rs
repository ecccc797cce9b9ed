//! Pruning and defaulting: removal of unknown fields and forbidden nulls, and setting of defaults.

use harbormaster_api::similar::similar;
use serde_json::{Map, Value};

use super::schema::{Additional, Schema};

/// A field that a schema does not have.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Pruned {
    /// Path of the field: `spec.cards[0].size`.
    pub(crate) field: String,
    /// Similar field that may have been meant.
    pub(crate) similar: Option<String>,
}

/// Fields that every object may have, whatever its schema specifies.
const META: [&str; 3] = ["apiVersion", "kind", "metadata"];

impl Schema {
    /// Removes from an object the fields that its schema does not have. Returns the removed fields.
    pub(crate) fn prune(&self, object: &mut Value) -> Vec<Pruned> {
        let mut walk = Walk { path: String::new(), pruned: Vec::new() };
        let Value::Object(map) = object else { return Vec::new() };
        walk.map(map, Some(self), true, false);
        walk.pruned.sort_by(|a, b| a.field.cmp(&b.field));
        walk.pruned
    }

    /// Removes unknown fields, and nulls that the schema does not allow.
    pub(crate) fn shape(&self, object: &mut Value) {
        self.prune(object);
        self.drop_nulls(object);
    }

    /// Removes nulls where the schema does not allow them, unless a default replaces them.
    pub(crate) fn drop_nulls(&self, value: &mut Value) {
        drop_nulls(value, Some(self));
    }

    /// Sets missing fields, and nulls that the schema does not allow, to their defaults.
    pub(crate) fn fill(&self, value: &mut Value) {
        match value {
            Value::Object(map) => {
                for (name, schema) in &self.properties {
                    if let Some(default) = &schema.default
                        && map.get(name).is_none_or(|value| value.is_null() && !schema.nullable)
                    {
                        map.insert(name.clone(), default.clone());
                    }
                }
                for (name, value) in map {
                    if let Some(schema) = self.property(name) {
                        schema.replace_null(value);
                        schema.fill(value);
                    }
                }
            }
            Value::Array(list) => {
                for (value, schema) in list.iter_mut().zip(std::iter::repeat(&self.items)) {
                    if let Some(schema) = schema {
                        schema.replace_null(value);
                        schema.fill(value);
                    }
                }
            }
            _ => {}
        }
    }

    fn replace_null(&self, value: &mut Value) {
        if value.is_null() && !self.nullable {
            *value = self.default.clone().unwrap_or_default();
        }
    }
}

fn drop_nulls(value: &mut Value, schema: Option<&Schema>) {
    let Some(schema) = schema else { return };
    match value {
        Value::Object(map) => {
            map.retain(|name, value| {
                let schema = schema.property(name);
                let stays = schema
                    .is_none_or(|schema| !value.is_null() || schema.nullable || schema.default.is_some());
                if stays {
                    drop_nulls(value, schema);
                }
                stays
            });
        }
        Value::Array(list) => list.iter_mut().for_each(|value| drop_nulls(value, schema.items.as_deref())),
        _ => {}
    }
}

struct Walk {
    path: String,
    pruned: Vec<Pruned>,
}

impl Walk {
    /// Prunes a value. Without a schema, no field of the value is known. `keeps` is true for elements of a list that
    /// preserves unknown fields.
    fn value(&mut self, value: &mut Value, schema: Option<&Schema>, keeps: bool) {
        match value {
            Value::Object(map) => self.map(map, schema, schema.is_some_and(|schema| schema.embedded), keeps),
            Value::Array(list) => {
                let keeps = keeps || schema.is_some_and(|schema| schema.preserves);
                let items = schema.and_then(|schema| schema.items.as_deref());
                if keeps && items.is_none() {
                    return;
                }
                for (i, value) in list.iter_mut().enumerate() {
                    self.at(&format!("[{i}]"), |walk| walk.value(value, items, keeps));
                }
            }
            _ => {}
        }
    }

    fn map(&mut self, map: &mut Map<String, Value>, schema: Option<&Schema>, is_object: bool, keeps: bool) {
        let preserves = keeps || schema.is_some_and(|schema| schema.preserves);
        let names: Vec<&str> = schema.map(|schema| schema.names().collect()).unwrap_or_default();
        map.retain(|name, value| {
            if is_object && META.contains(&name.as_str()) {
                return true;
            }
            let inner = schema.and_then(|schema| schema.property(name));
            let additional = schema.map(|schema| &schema.additional);
            let dot = if self.path.is_empty() { "" } else { "." };
            if inner.is_some() || !matches!(additional, None | Some(Additional::Unspecified)) {
                self.at(&format!("{dot}{name}"), |walk| walk.value(value, inner, false));
                return true;
            }
            if !preserves {
                let field = format!("{}{dot}{name}", self.path);
                let similar = similar(name, names.iter().copied()).map(str::to_owned);
                self.pruned.push(Pruned { field, similar });
            }
            preserves
        });
    }

    fn at(&mut self, step: &str, inside: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        self.path.push_str(step);
        inside(self);
        self.path.truncate(length);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Schema {
        Schema::parse(&json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "size": {"type": "integer", "default": 3},
                "mode": {"type": "string", "nullable": true, "default": "a"},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "cards": {"type": "array", "items": {"type": "object", "properties": {
                    "id": {"type": "string"}, "free": {"type": "boolean", "default": true}}}},
                "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                    "properties": {"inner": {"type": "object"}}},
                "template": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}}},
            }},
        }}))
    }

    #[test]
    fn fields_that_the_schema_does_not_have_are_removed_and_reported() {
        let mut object = json!({
            "kind": "A", "apiVersion": "b/v1", "metadata": {"name": "x"}, "more": 1,
            "spec": {"sise": 1, "labels": {"a": "b"}, "cards": [{"id": "1", "x": {}}],
                     "any": {"thing": {"deep": 1}, "inner": {"lost": 1}},
                     "template": {"kind": "Pod", "metadata": {}, "status": {}}},
        });
        let pruned = schema().prune(&mut object);
        let told: Vec<_> = pruned.iter().map(|p| (p.field.as_str(), p.similar.as_deref())).collect();
        assert_eq!(
            told,
            [
                ("more", None),
                ("spec.any.inner.lost", None),
                ("spec.cards[0].x", None),
                ("spec.sise", Some("size")),
                ("spec.template.status", None)
            ]
        );
        assert_eq!(
            object["spec"],
            json!({"labels": {"a": "b"}, "cards": [{"id": "1"}], "any": {"thing": {"deep": 1}, "inner": {}},
                   "template": {"kind": "Pod", "metadata": {}}})
        );
    }

    #[test]
    fn missing_fields_get_defaults_and_forbidden_nulls_are_removed() {
        let mut object = json!({"spec": {"size": null, "mode": null, "labels": null, "cards": [{"id": null}, {"free": false}]}});
        schema().drop_nulls(&mut object);
        schema().fill(&mut object);
        assert_eq!(
            object,
            json!({"spec": {"size": 3, "mode": null, "cards": [{"free": true}, {"free": false}]}})
        );
        let mut empty = json!({});
        schema().fill(&mut empty);
        assert_eq!(empty, json!({}), "no defaults are set within a missing field");
    }
}
