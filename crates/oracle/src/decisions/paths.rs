//! Paths of objects on the API server.

use serde_json::Value;

/// Kind of the groups of pods, which an API server serves only if asked to.
pub(super) const POD_GROUP: &str = "PodGroup";

/// Kind of the rules that taint devices, which an API server serves by default from 1.37 on.
pub(super) const TAINT_RULE: &str = "DeviceTaintRule";

/// Namespaced kinds that scripts create, each as kind, group with version, and resource, in an order in which their
/// objects can be deleted.
const NAMESPACED: &[(&str, &str, &str)] = &[
    ("PodDisruptionBudget", "/apis/policy/v1", "poddisruptionbudgets"),
    ("Pod", "/api/v1", "pods"),
    ("Service", "/api/v1", "services"),
    ("ReplicationController", "/api/v1", "replicationcontrollers"),
    ("ReplicaSet", "/apis/apps/v1", "replicasets"),
    ("StatefulSet", "/apis/apps/v1", "statefulsets"),
    ("Event", "/apis/events.k8s.io/v1", "events"),
    ("PersistentVolumeClaim", "/api/v1", "persistentvolumeclaims"),
    ("CSIStorageCapacity", "/apis/storage.k8s.io/v1", "csistoragecapacities"),
    ("ResourceClaim", "/apis/resource.k8s.io/v1", "resourceclaims"),
    ("ResourceClaimTemplate", "/apis/resource.k8s.io/v1", "resourceclaimtemplates"),
    (POD_GROUP, "/apis/scheduling.k8s.io/v1beta1", "podgroups"),
];

/// Cluster-scoped kinds that scripts create, in the same form.
const CLUSTER_WIDE: &[(&str, &str, &str)] = &[
    ("PersistentVolume", "/api/v1", "persistentvolumes"),
    ("StorageClass", "/apis/storage.k8s.io/v1", "storageclasses"),
    ("CSIDriver", "/apis/storage.k8s.io/v1", "csidrivers"),
    ("CSINode", "/apis/storage.k8s.io/v1", "csinodes"),
    ("DeviceClass", "/apis/resource.k8s.io/v1", "deviceclasses"),
    ("ResourceSlice", "/apis/resource.k8s.io/v1", "resourceslices"),
    (TAINT_RULE, "/apis/resource.k8s.io/v1", "devicetaintrules"),
    ("Node", "/api/v1", "nodes"),
];

/// Path of all nodes.
pub(super) const NODES: &str = "/api/v1/nodes";

/// All kinds that scripts create, in an order in which their objects can be deleted.
pub(super) fn kinds() -> impl Iterator<Item = &'static str> {
    NAMESPACED.iter().chain(CLUSTER_WIDE).map(|(kind, ..)| *kind)
}

fn find<'a>(table: &'a [(&str, &str, &str)], kind: &str) -> Option<&'a (&'a str, &'a str, &'a str)> {
    table.iter().find(|(known, ..)| *known == kind)
}

/// Path of the objects of a kind in all namespaces.
pub(super) fn everywhere(kind: &str) -> String {
    find(NAMESPACED, kind)
        .or_else(|| find(CLUSTER_WIDE, kind))
        .map_or_else(|| NODES.to_owned(), |(_, group, resource)| format!("{group}/{resource}"))
}

/// Path at which to create `object`.
pub(super) fn collection(object: &Value) -> String {
    let kind = object["kind"].as_str().unwrap_or_default();
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
    match find(NAMESPACED, kind) {
        Some((_, group, resource)) => format!("{group}/namespaces/{namespace}/{resource}"),
        None => everywhere(kind),
    }
}

/// Path of `object`.
pub(super) fn path(object: &Value) -> String {
    format!("{}/{}", collection(object), object["metadata"]["name"].as_str().unwrap_or_default())
}
