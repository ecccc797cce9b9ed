//! Where the API server keeps objects.

use serde_json::Value;

/// Kind, group and version, and resource of what scripts create in namespaces.
pub(super) const NAMESPACED: &[(&str, &str, &str)] = &[
    ("PodDisruptionBudget", "/apis/policy/v1", "poddisruptionbudgets"),
    ("Pod", "/api/v1", "pods"),
    ("Service", "/api/v1", "services"),
    ("ReplicationController", "/api/v1", "replicationcontrollers"),
    ("ReplicaSet", "/apis/apps/v1", "replicasets"),
    ("StatefulSet", "/apis/apps/v1", "statefulsets"),
    ("Event", "/apis/events.k8s.io/v1", "events"),
];

/// All nodes.
pub(super) const NODES: &str = "/api/v1/nodes";

/// The objects of all namespaces.
pub(super) fn everywhere(kind: &str) -> String {
    NAMESPACED
        .iter()
        .find(|(known, ..)| *known == kind)
        .map_or_else(|| NODES.to_owned(), |(_, group, resource)| format!("{group}/{resource}"))
}

/// Where to create `object`.
pub(super) fn collection(object: &Value) -> String {
    let kind = object["kind"].as_str().unwrap_or_default();
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
    NAMESPACED.iter().find(|(known, ..)| *known == kind).map_or_else(
        || NODES.to_owned(),
        |(_, group, resource)| format!("{group}/namespaces/{namespace}/{resource}"),
    )
}

/// Where `object` is once it has been created.
pub(super) fn path(object: &Value) -> String {
    format!("{}/{}", collection(object), object["metadata"]["name"].as_str().unwrap_or_default())
}
