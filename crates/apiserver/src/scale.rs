//! The `scale` subresource (`autoscaling/v1 Scale`).

use harbormaster_validation::custom::ScalePaths;
use serde_json::{Value, json};

use crate::{
    kinds::Kind,
    request::View,
    selector::as_text,
    status::{Failure, Result},
    table::{columns, table},
    time::now,
    value::{map, text},
};

/// Returns the paths of a kind's replica counts. The definition of a custom resource specifies them; all built-in
/// kinds have the same paths.
fn paths(kind: &Kind) -> ScalePaths {
    let of_workloads = || ScalePaths {
        spec: ".spec.replicas".to_owned(),
        status: ".status.replicas".to_owned(),
        selector: String::new(),
    };
    kind.custom.as_ref().and_then(|custom| custom.scale.clone()).unwrap_or_else(of_workloads)
}

/// Replica count in the scale of a custom resource that does not specify one.
const UNSPECIFIED: i64 = i32::MIN as i64;

/// Returns the scale of an object, or a failure for a custom resource that does not specify its replicas.
pub(crate) fn found(kind: &Kind, object: &Value) -> Result<Value> {
    let scale = of(kind, object);
    if scale.pointer("/spec/replicas") == Some(&json!(UNSPECIFIED)) {
        let why = format!("the spec replicas field {:?} does not exist", paths(kind).spec);
        let failure = Failure::new(500, "InternalError", format!("Internal error occurred: {why}"));
        return Err(failure.with_cause("", &why));
    }
    Ok(scale)
}

/// Returns the scale of an object.
pub(crate) fn of(kind: &Kind, object: &Value) -> Value {
    let paths = paths(kind);
    let metadata = &object["metadata"];
    let kept = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"];
    let metadata: serde_json::Map<String, Value> =
        kept.iter().filter_map(|name| Some(((*name).to_owned(), metadata.get(name)?.clone()))).collect();
    let at = |path: &str| object.pointer(&ScalePaths::pointer(path));
    let unspecified = if kind.is_custom() { UNSPECIFIED } else { 0 };
    let mut status = json!({"replicas": at(&paths.status).cloned().unwrap_or(json!(0))});
    if !kind.is_custom() {
        status["selector"] = as_text(&object["spec"]["selector"]).into();
    } else if let Some(selector) = at(&paths.selector).filter(|_| !paths.selector.is_empty()) {
        status["selector"] = selector.clone();
    }
    json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": at(&paths.spec).cloned().unwrap_or(json!(unspecified))},
        "status": status,
    })
}

/// Returns a scale in the requested form.
pub(crate) fn shown(scale: Value, view: View) -> Value {
    let metadata = json!({"resourceVersion": scale["metadata"]["resourceVersion"]});
    match view {
        View::Table(include) => table(columns::SCALES, std::iter::once(scale), include, metadata, now()),
        _ => scale,
    }
}

/// Writes a scale into the object that it belongs to.
pub(crate) fn write(kind: &Kind, scale: &Value, object: &mut Value) -> Result<()> {
    let path = paths(kind).spec;
    let replicas = scale.pointer("/spec/replicas");
    if replicas == Some(&json!(UNSPECIFIED)) {
        return Err(Failure::bad_request(format!("the spec replicas field {path:?} cannot be empty")));
    }
    let mut parts = path.split('.').filter(|part| !part.is_empty()).peekable();
    let mut at = replicas.and(Some(&mut *object));
    while let (Some(value), Some(part)) = (at.take(), parts.next()) {
        if parts.peek().is_some() {
            let is_map = map(value, part).is_some();
            at = if is_map { value.get_mut(part) } else { None };
        } else if let (Some(map), Some(replicas)) = (value.as_object_mut(), replicas) {
            map.insert(part.to_owned(), replicas.clone());
        }
    }
    for field in ["resourceVersion", "uid"] {
        let given = text(scale, &format!("/metadata/{field}"));
        if !given.is_empty() {
            object["metadata"][field] = given.into();
        }
    }
    Ok(())
}
