//! Tables: what `kubectl get` prints (`meta.k8s.io/v1 Table`).

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
    /// How the text is to be read; of names `name`.
    pub(crate) format: std::borrow::Cow<'static, str>,
    /// For people; of built-in kinds empty.
    pub(crate) description: std::borrow::Cow<'static, str>,
    /// Shown by `-o wide` if it is more than 0.
    pub(crate) priority: i64,
    pub(crate) cell: Cell,
}

/// How a cell comes from an object. Places are JSON paths, and of several the first counts.
#[derive(Clone, Debug)]
pub(crate) enum Cell {
    /// Time since that, or the other text.
    Since(&'static str, &'static str),
    /// What is there, as it is; an empty text without.
    At(&'static str),
    /// The text of what is there, or the other text.
    Or(&'static str, &'static str),
    /// All texts there, with commas between them.
    All(&'static str),
    /// The number there, or 0.
    Number(&'static str),
    /// Whether it is true; the default for absence.
    Truth(&'static str, bool),
    /// How many elements there are.
    Count(&'static str),
    /// Another text.
    Text(fn(&Value) -> String),
    /// Anything else.
    Made(fn(&Value, Timestamp) -> Value),
    /// What a custom resource's column shows.
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

    /// The cell of a custom resource, by the type of the column.
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

/// Time since an RFC 3339 text, as kubectl prints it.
fn since(text: &str, now: Timestamp) -> Option<Value> {
    let then = Timestamp::parse(text).ok()?;
    Some(human_duration(now.since(then)).into())
}

fn length(value: &Value) -> usize {
    value.as_array().map(Vec::len).or(value.as_object().map(serde_json::Map::len)).unwrap_or_default()
}

/// How much of the objects the rows carry (`includeObject`).
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

/// A table of objects. `metadata` is that of the list.
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

/// `meta.k8s.io/v1 PartialObjectMetadata`.
pub(crate) fn only_metadata(mut object: Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": object.get_mut("metadata").map(Value::take).unwrap_or_default(),
    })
}
