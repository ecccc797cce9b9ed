//! Structural schemas: the subset of OpenAPI v3 that custom resource definitions may use.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

use super::format;
use crate::{
    ownership::{InnerField, Parts, Plain, TypedPosition},
    schema::Identity,
    value::{entries, is_true, list, text},
};

/// Schema of a value.
#[derive(Debug, Default)]
pub struct Schema {
    /// JSON types that the value may have; empty for any type.
    pub(super) types: Vec<String>,
    pub(super) nullable: bool,
    /// Format of a string or number; empty if there is none or it is unknown.
    pub(super) format: String,
    pub(super) default: Option<Value>,
    pub(super) choices: Vec<Value>,
    pub(super) minimum: Option<Bound>,
    pub(super) maximum: Option<Bound>,
    pub(super) multiple_of: Option<f64>,
    pub(super) length: Limits,
    pub(super) items_count: Limits,
    pub(super) properties_count: Limits,
    pub(super) pattern: Option<(String, Option<Regex>)>,
    pub(super) required: Vec<String>,
    pub(super) all_of: Vec<Schema>,
    pub(super) any_of: Vec<Schema>,
    pub(super) one_of: Vec<Schema>,
    pub(super) not: Option<Box<Schema>>,
    pub(super) properties: BTreeMap<String, Schema>,
    pub(super) additional: Additional,
    pub(super) items: Option<Box<Schema>>,
    /// True if unknown fields are preserved.
    pub(super) preserves: bool,
    /// True if the value is a complete Kubernetes object.
    pub(super) embedded: bool,
    pub(super) list_type: ListType,
    /// True if the value is an object that its writer owns as a whole.
    pub(super) whole: bool,
}

/// Treatment of properties that have no schema of their own.
#[derive(Debug, Default)]
pub(super) enum Additional {
    /// The schema specifies nothing about such properties.
    #[default]
    Unspecified,
    /// Such properties are forbidden.
    Never,
    /// Such properties may have any value.
    Any,
    /// Each such property has the given schema.
    Of(Box<Schema>),
}

/// Identity of list elements.
#[derive(Debug, Default)]
pub(super) enum ListType {
    /// Elements have no identity: the list is one value.
    #[default]
    Atomic,
    /// Elements are identical if they are equal.
    Set,
    /// Elements are identical if the given fields are equal.
    Map(Vec<String>),
}

/// Bound of a range of numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    pub(super) at: f64,
    pub(super) exclusive: bool,
}

/// Limits on a length or on a number of elements.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Limits {
    pub(super) least: Option<i64>,
    pub(super) most: Option<i64>,
}

impl Schema {
    /// Reads a schema. Malformed parts are treated as absent, because definitions are checked earlier.
    pub fn parse(schema: &Value) -> Self {
        let number = |name: &str| schema.get(name).and_then(Value::as_f64);
        let bound = |name: &str, exclusive: &str| {
            number(name).map(|at| Bound { at, exclusive: schema.get(exclusive) == Some(&Value::Bool(true)) })
        };
        let limits = |least: &str, most: &str| Limits {
            least: schema.get(least).and_then(Value::as_i64),
            most: schema.get(most).and_then(Value::as_i64),
        };
        let texts = |name: &str| -> Vec<String> {
            list(schema, name).iter().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let all = |pointer: &str| list(schema, pointer).iter().map(Self::parse).collect();
        let boxed = |name: &str| {
            schema.get(name).filter(|inner| inner.is_object()).map(|inner| Box::new(Self::parse(inner)))
        };
        let types = match (is_true(schema, "/x-kubernetes-int-or-string"), text(schema, "/type")) {
            (true, _) => vec!["integer".to_owned(), "string".to_owned()],
            (false, "") => Vec::new(),
            (false, one) => vec![one.to_owned()],
        };
        let pattern = text(schema, "/pattern");
        Self {
            nullable: is_true(schema, "/nullable"),
            format: format::known(text(schema, "/format"), &types).to_owned(),
            types,
            default: schema.get("default").filter(|default| !default.is_null()).cloned(),
            choices: list(schema, "/enum").to_vec(),
            minimum: bound("minimum", "exclusiveMinimum"),
            maximum: bound("maximum", "exclusiveMaximum"),
            multiple_of: number("multipleOf"),
            length: limits("minLength", "maxLength"),
            items_count: limits("minItems", "maxItems"),
            properties_count: limits("minProperties", "maxProperties"),
            pattern: (!pattern.is_empty()).then(|| (pattern.to_owned(), Regex::new(pattern).ok())),
            required: texts("/required"),
            all_of: all("/allOf"),
            any_of: all("/anyOf"),
            one_of: all("/oneOf"),
            not: boxed("not"),
            properties: entries(schema, "/properties")
                .map(|(name, schema)| (name.clone(), Self::parse(schema)))
                .collect(),
            additional: match schema.get("additionalProperties") {
                Some(Value::Bool(false)) => Additional::Never,
                Some(Value::Bool(true)) => Additional::Any,
                Some(inner @ Value::Object(_)) => Additional::Of(Box::new(Self::parse(inner))),
                _ => Additional::Unspecified,
            },
            items: boxed("items"),
            preserves: is_true(schema, "/x-kubernetes-preserve-unknown-fields"),
            embedded: is_true(schema, "/x-kubernetes-embedded-resource"),
            list_type: match text(schema, "/x-kubernetes-list-type") {
                "set" => ListType::Set,
                "map" => ListType::Map(texts("/x-kubernetes-list-map-keys")),
                _ => ListType::Atomic,
            },
            whole: text(schema, "/x-kubernetes-map-type") == "atomic",
        }
    }

    /// Returns the schema of a property.
    pub(super) fn property(&self, name: &str) -> Option<&Self> {
        self.properties.get(name).or(match &self.additional {
            Additional::Of(schema) => Some(schema),
            _ => None,
        })
    }

    /// Returns the parts of a value.
    pub(crate) fn parts(&self, value: &Value) -> Parts<'_> {
        match value {
            Value::Object(_) if !self.whole => Parts::Fields,
            Value::Array(_) => match &self.list_type {
                ListType::Atomic => Parts::None,
                ListType::Set => Parts::Elements(Identity::Values),
                ListType::Map(keys) => {
                    let default = |key: &str| {
                        let schema = self.items.as_ref().and_then(|items| items.properties.get(key));
                        schema.and_then(|schema| schema.default.as_ref()?.as_str())
                    };
                    Parts::Elements(Identity::Keys(
                        keys.iter().map(|key| (key.as_str(), default(key))).collect(),
                    ))
                }
            },
            _ => Parts::None,
        }
    }

    /// Returns the type of plain values that the schema allows, if there is only one.
    pub(crate) fn plain(&self) -> Option<Plain> {
        match self.types.as_slice() {
            [only] if only == "string" => Some(Plain::Text),
            [only] if only == "integer" || only == "number" => Some(Plain::Number),
            [only] if only == "boolean" => Some(Plain::Truth),
            _ => None,
        }
    }

    /// Returns the position of a property.
    pub(crate) fn inner(&self, name: &str) -> Option<InnerField<'_>> {
        if self.embedded && matches!(name, "kind" | "apiVersion" | "metadata") {
            return Some(InnerField { place: TypedPosition::Untyped, named: true });
        }
        match (self.properties.get(name), &self.additional) {
            (Some(schema), _) => Some(InnerField { place: TypedPosition::Schema(schema), named: true }),
            (None, Additional::Of(schema)) => {
                Some(InnerField { place: TypedPosition::Schema(schema), named: false })
            }
            (None, Additional::Any) => Some(InnerField { place: TypedPosition::Untyped, named: false }),
            (None, _) if self.preserves => Some(InnerField { place: TypedPosition::Untyped, named: false }),
            (None, Additional::Never | Additional::Unspecified) => None,
        }
    }

    /// Returns the position of the elements of a list.
    pub(crate) fn element(&self) -> TypedPosition<'_> {
        self.items.as_deref().map_or(TypedPosition::Untyped, TypedPosition::Schema)
    }

    /// Returns the names of the properties.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.properties.keys().map(String::as_str)
    }
}
