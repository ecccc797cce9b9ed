//! Tables, as `kubectl get` prints them (`meta.k8s.io/v1 Table`).

mod cells;
pub(crate) mod columns;
mod path;
mod pods;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use harbormaster_api::Timestamp;
use serde_json::{Value, json};

use crate::{
    time::human_duration,
    value::{shown, text},
};

/// One column.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) head: std::borrow::Cow<'static, str>,
    pub(crate) kind: std::borrow::Cow<'static, str>,
    /// Format of the cells; `name` for names.
    pub(crate) format: std::borrow::Cow<'static, str>,
    /// Human-readable description; empty for built-in kinds.
    pub(crate) description: std::borrow::Cow<'static, str>,
    /// Columns with a priority above 0 are shown only by `-o wide`.
    pub(crate) priority: i64,
    pub(crate) cell: Cell,
}

/// Source of a cell's content. The first string of most variants is a JSON path; if several values match it, the first
/// value is used.
#[derive(Clone, Debug)]
pub(crate) enum Cell {
    /// Time since the timestamp at the path, or the second string if there is no timestamp.
    Since(&'static str, &'static str),
    /// The value itself, or an empty string if it is missing.
    At(&'static str),
    /// The value as a string, or the second string if the value is missing or empty.
    Or(&'static str, &'static str),
    /// All values as strings, separated by commas.
    All(&'static str),
    /// The number, or 0.
    Number(&'static str),
    /// The boolean, or the default if it is missing.
    Truth(&'static str, bool),
    /// Number of elements.
    Count(&'static str),
    /// String computed by a function.
    Text(fn(&Value) -> String),
    /// Any value computed by a function.
    Made(fn(&Value, Timestamp) -> Value),
    /// Value of a custom resource's column.
    Custom(Arc<str>),
}

impl Column {
    fn cell(&self, object: &Value, now: Timestamp) -> Value {
        let at = |path: &str| path::find(object, path).into_iter().next().filter(|value| !value.is_null());
        let since = |text: &Value| since(text.as_str()?, now);
        match &self.cell {
            Cell::Since(path, other) => at(path).and_then(since).unwrap_or((*other).into()),
            Cell::At(path) => at(path).cloned().unwrap_or("".into()),
            Cell::Or(path, other) => {
                at(path).map(shown).filter(|text| !text.is_empty()).unwrap_or((*other).into()).into()
            }
            Cell::All(path) => path::joined(&path::find(object, path), ",").into(),
            Cell::Number(path) => at(path).cloned().unwrap_or(0.into()),
            Cell::Truth(path, other) => at(path).cloned().unwrap_or((*other).into()),
            Cell::Count(path) => at(path).map_or(0, length).into(),
            Cell::Text(make) => make(object).into(),
            Cell::Made(make) => make(object, now),
            Cell::Custom(path) => self.custom(&path::find(object, path), now),
        }
    }

    /// Returns the cell of a custom resource in the form that the column's type requires.
    fn custom(&self, found: &[&Value], now: Timestamp) -> Value {
        let Some(first) = found.first().filter(|value| !value.is_null()) else { return Value::Null };
        match (&*self.kind, first) {
            ("date", Value::String(text)) => since(text, now).unwrap_or("<invalid>".into()),
            ("date", _) => Value::Null,
            ("integer", Value::Number(number)) => {
                number.as_i64().or(number.as_f64().map(|number| number as i64)).into()
            }
            ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => (*first).clone(),
            ("string", first) => shown(first).into(),
            _ => Value::Null,
        }
    }

    fn definition(&self) -> Value {
        json!({
            "name": self.head,
            "type": self.kind,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        })
    }
}

/// Returns the time since an RFC 3339 timestamp, as kubectl prints it.
fn since(text: &str, now: Timestamp) -> Option<Value> {
    let then = Timestamp::parse(text).ok()?;
    Some(human_duration(now.since(then)).into())
}

fn length(value: &Value) -> usize {
    value.as_array().map(Vec::len).or(value.as_object().map(serde_json::Map::len)).unwrap_or_default()
}

/// Part of each object that its row contains (`includeObject`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Include {
    None,
    Metadata,
    Object,
}

impl Include {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "" | "Metadata" => Some(Self::Metadata),
            "None" => Some(Self::None),
            "Object" => Some(Self::Object),
            _ => None,
        }
    }
}

/// Returns a table of objects. `metadata` is the metadata of the list.
pub(crate) fn table(
    columns: &[Column],
    objects: impl Iterator<Item = Value>,
    include: Include,
    metadata: Value,
    now: Timestamp,
) -> Value {
    let rows: Vec<Value> = objects.map(|object| row(columns, object, include, now)).collect();
    let heads: Vec<Value> = columns.iter().map(Column::definition).collect();
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": heads,
        "rows": rows,
    })
}

fn row(columns: &[Column], object: Value, include: Include, now: Timestamp) -> Value {
    let cells: Vec<Value> = columns.iter().map(|column| column.cell(&object, now)).collect();
    let mut row = json!({"cells": cells});
    if text(&object, "/kind") == "Pod" {
        let (phase, message) = match text(&object, "/status/phase") {
            phase @ "Succeeded" => (phase, "The pod has completed successfully."),
            phase => (phase, "The pod failed."),
        };
        if matches!(phase, "Succeeded" | "Failed") {
            row["conditions"] =
                json!([{"type": "Completed", "status": "True", "reason": phase, "message": message}]);
        }
    }
    match include {
        Include::None => {}
        Include::Metadata => row["object"] = only_metadata(object),
        Include::Object => row["object"] = object,
    }
    row
}

/// Returns the object as `meta.k8s.io/v1 PartialObjectMetadata`.
pub(crate) fn only_metadata(mut object: Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": object.get_mut("metadata").map(Value::take).unwrap_or_default(),
    })
}
