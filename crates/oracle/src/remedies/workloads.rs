//! Workloads of the pods in manifests.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::generate::is_pending;

/// Returns the kind and name of the pod's workload in the words of a proposal.
pub(super) fn workload_of(pod: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let namespace = pod["metadata"]["namespace"].as_str().unwrap_or("default");
    let owners = pod["metadata"]["ownerReferences"].as_array();
    let Some(owner) = owners.into_iter().flatten().find(|owner| owner["controller"] == true) else {
        return format!("Pod {namespace}/{}", text(&pod["metadata"]["name"]));
    };
    let (kind, name) = (text(&owner["kind"]), text(&owner["name"]));
    let hash = text(&pod["metadata"]["labels"]["pod-template-hash"]);
    match name.strip_suffix(&format!("-{hash}")) {
        Some(deployment) if kind == "ReplicaSet" && !hash.is_empty() => {
            format!("Deployment {namespace}/{deployment}")
        }
        _ => format!("{kind} {namespace}/{name}"),
    }
}

/// Returns the `namespace/name` of the pods on nodes, by workload.
pub(super) fn workloads(objects: &[Value]) -> BTreeMap<String, Vec<&Value>> {
    let mut workloads: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for pod in objects.iter().filter(|object| object["kind"] == "Pod" && !is_pending(object)) {
        workloads.entry(workload_of(pod)).or_default().push(pod);
    }
    workloads
}

/// Returns the `namespace/name` of a pod.
pub(super) fn full_name(pod: &Value) -> String {
    let text = |field: &str, otherwise: &str| pod["metadata"][field].as_str().unwrap_or(otherwise).to_owned();
    format!("{}/{}", text("namespace", "default"), text("name", ""))
}

/// Returns the required anti-affinity terms of a pod.
pub(super) fn anti_affinity(pod: &mut Value) -> Option<&mut Vec<Value>> {
    let affinity = pod.pointer_mut("/spec/affinity/podAntiAffinity")?;
    affinity.get_mut("requiredDuringSchedulingIgnoredDuringExecution")?.as_array_mut()
}
