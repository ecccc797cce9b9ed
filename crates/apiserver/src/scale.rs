//! The subresource `scale` (`autoscaling/v1 Scale`).

use harbormaster_objects::custom::ScalePaths;
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

/// Where the numbers of a kind are: as in the definition of a custom resource, or where workloads have them.
fn paths(kind: &Kind) -> ScalePaths {
    let of_workloads = || ScalePaths {
        spec: ".spec.replicas".to_owned(),
        status: ".status.replicas".to_owned(),
        selector: String::new(),
    };
    kind.custom.as_ref().and_then(|custom| custom.scale.clone()).unwrap_or_else(of_workloads)
}

/// The scale of an object.
pub(crate) fn of(kind: &Kind, object: &Value) -> Result<Value> {
    let paths = paths(kind);
    let metadata = &object["metadata"];
    let kept = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"];
    let metadata: serde_json::Map<String, Value> =
        kept.iter().filter_map(|name| Some(((*name).to_owned(), metadata.get(name)?.clone()))).collect();
    let at = |path: &str| object.pointer(&ScalePaths::pointer(path));
    let replicas = at(&paths.spec);
    if kind.is_custom() && replicas.is_none() {
        let why = format!("the spec replicas field {:?} does not exist", paths.spec);
        return Err(Failure::new(500, "InternalError", format!("Internal error occurred: {why}"))
            .with_cause("", &why));
    }
    let mut status = json!({"replicas": at(&paths.status).cloned().unwrap_or(json!(0))});
    if !kind.is_custom() {
        status["selector"] = as_text(&object["spec"]["selector"]).into();
    } else if let Some(selector) = at(&paths.selector).filter(|_| !paths.selector.is_empty()) {
        status["selector"] = selector.clone();
    }
    Ok(json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": replicas.cloned().unwrap_or(json!(0))},
        "status": status,
    }))
}

/// In the form that was asked for.
pub(crate) fn shown(scale: Value, view: View) -> Value {
    let metadata = json!({"resourceVersion": scale["metadata"]["resourceVersion"]});
    match view {
        View::Table(include) => table(columns::SCALES, std::iter::once(scale), include, metadata, now()),
        _ => scale,
    }
}

/// Writes a scale into its object.
pub(crate) fn write(kind: &Kind, scale: &Value, object: &mut Value) {
    let path = paths(kind).spec;
    let mut parts = path.split('.').filter(|part| !part.is_empty()).peekable();
    let (Some(replicas), mut at) = (scale.pointer("/spec/replicas"), Some(&mut *object)) else { return };
    while let Some(part) = parts.next() {
        let Some(value) = at else { break };
        if parts.peek().is_none()
            && let Some(map) = value.as_object_mut()
        {
            map.insert(part.to_owned(), replicas.clone());
            break;
        }
        at = map(value, part).is_some().then_some(value).and_then(|value| value.get_mut(part));
    }
    for field in ["resourceVersion", "uid"] {
        let given = text(scale, &format!("/metadata/{field}"));
        if !given.is_empty() {
            object["metadata"][field] = given.into();
        }
    }
}
