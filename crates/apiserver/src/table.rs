//! Tables: what `kubectl get` prints (`meta.k8s.io/v1 Table`).

mod cells;
pub(crate) mod columns;
pub(crate) mod path;
mod pods;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use harbormaster_api::{Quantity, Timestamp};
use serde_json::{Value, json};

use crate::time::human_duration;

/// One column.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) head: std::borrow::Cow<'static, str>,
    pub(crate) kind: std::borrow::Cow<'static, str>,
    /// Shown by `-o wide` only.
    pub(crate) wide: bool,
    pub(crate) cell: Cell,
}

/// How a cell comes from an object.
#[derive(Clone, Debug)]
pub(crate) enum Cell {
    /// `metadata.name`.
    Name,
    /// Time since `metadata.creationTimestamp`.
    Age,
    /// Time since that at the pointer; `<none>` without.
    Since(&'static str),
    /// What is at the pointer, as it is; an empty text without.
    At(&'static str),
    /// What is at the pointer, or the other text.
    Or(&'static str, &'static str),
    /// The number at the pointer, or 0.
    Number(&'static str),
    /// Whether it is true at the pointer; the default for absence.
    Truth(&'static str, bool),
    /// The amount at the pointer, as it is printed canonically.
    Amount(&'static str),
    /// How many elements there are.
    Count(&'static str),
    /// Anything else.
    Of(fn(&Value, Timestamp) -> Value),
    /// The JSON path of a custom resource's column.
    Path(Arc<str>),
}

impl Column {
    fn cell(&self, object: &Value, now: Timestamp) -> Value {
        let at = |pointer: &str| object.pointer(pointer).filter(|value| !value.is_null());
        match &self.cell {
            Cell::Name => at("/metadata/name").cloned().unwrap_or_default(),
            Cell::Age => since(at("/metadata/creationTimestamp"), now).unwrap_or("<unknown>".into()),
            Cell::Since(pointer) => since(at(pointer), now).unwrap_or("<none>".into()),
            Cell::At(pointer) => at(pointer).cloned().unwrap_or("".into()),
            Cell::Or(pointer, other) => match at(pointer) {
                None => (*other).into(),
                Some(Value::String(text)) if text.is_empty() => (*other).into(),
                Some(Value::String(text)) => text.clone().into(),
                Some(value) => value.to_string().into(),
            },
            Cell::Number(pointer) => at(pointer).cloned().unwrap_or(0.into()),
            Cell::Truth(pointer, other) => at(pointer).cloned().unwrap_or((*other).into()),
            Cell::Amount(pointer) => at(pointer).map_or("".into(), amount),
            Cell::Count(pointer) => at(pointer).map_or(0, length).into(),
            Cell::Of(make) => make(object, now),
            Cell::Path(path) => path::column(object, path, &self.kind, now),
        }
    }

    fn definition(&self) -> Value {
        json!({
            "name": self.head,
            "type": self.kind,
            "format": if self.head == "Name" { "name" } else { "" },
            "description": "",
            "priority": i32::from(self.wide),
        })
    }
}

/// Time since an RFC 3339 text, as kubectl prints it.
fn since(text: Option<&Value>, now: Timestamp) -> Option<Value> {
    let then = Timestamp::parse(text?.as_str()?).ok()?;
    Some(human_duration(now.since(then)).into())
}

fn amount(value: &Value) -> Value {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    text.parse::<Quantity>().map_or(text, |quantity| quantity.to_string()).into()
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
    if object.get("kind").and_then(Value::as_str) == Some("Pod") {
        match object.pointer("/status/phase").and_then(Value::as_str) {
            Some("Succeeded") => {
                row["conditions"] = completed("Succeeded", "The pod has completed successfully.");
            }
            Some("Failed") => row["conditions"] = completed("Failed", "The pod failed."),
            _ => {}
        }
    }
    match include {
        Include::None => {}
        Include::Metadata => row["object"] = only_metadata(object),
        Include::Object => row["object"] = object,
    }
    row
}

fn completed(reason: &str, message: &str) -> Value {
    json!([{"type": "Completed", "status": "True", "reason": reason, "message": message}])
}

/// `meta.k8s.io/v1 PartialObjectMetadata`.
pub(crate) fn only_metadata(mut object: Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": object.get_mut("metadata").map(Value::take).unwrap_or_default(),
    })
}
