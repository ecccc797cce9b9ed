//! The subresource `scale` (`autoscaling/v1 Scale`).

use serde_json::{Value, json};

use crate::{
    request::View,
    selector::as_text,
    table::{columns, table},
    time::now,
    value::{map, text},
};

/// The scale of a workload.
pub(crate) fn of(workload: &Value) -> Value {
    let metadata = &workload["metadata"];
    let kept = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"];
    let metadata: serde_json::Map<String, Value> =
        kept.iter().filter_map(|name| Some(((*name).to_owned(), metadata.get(name)?.clone()))).collect();
    json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": workload.pointer("/spec/replicas").cloned().unwrap_or(json!(0))},
        "status": {
            "replicas": workload.pointer("/status/replicas").cloned().unwrap_or(json!(0)),
            "selector": as_text(&workload["spec"]["selector"]),
        },
    })
}

/// In the form that was asked for.
pub(crate) fn shown(scale: Value, view: View) -> Value {
    let metadata = json!({"resourceVersion": scale["metadata"]["resourceVersion"]});
    match view {
        View::Table(include) => table(columns::SCALES, std::iter::once(scale), include, metadata, now()),
        _ => scale,
    }
}

/// Writes a scale into its workload.
pub(crate) fn write(scale: &Value, workload: &mut Value) {
    if let (Some(replicas), Some(spec)) = (scale.pointer("/spec/replicas"), map(workload, "spec")) {
        spec.insert("replicas".to_owned(), replicas.clone());
    }
    for field in ["resourceVersion", "uid"] {
        let given = text(scale, &format!("/metadata/{field}"));
        if !given.is_empty() {
            workload["metadata"][field] = given.into();
        }
    }
}
