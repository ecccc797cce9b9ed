//! Claims that belong to pods: claims for ephemeral volumes, and claims from a StatefulSet's `volumeClaimTemplates`.

use harbormaster_plugins::storage::claim::SELECTED_NODE;
use harbormaster_validation::value::{list, name, namespace, text, uid};
use serde_json::{Map, Value, json};

use super::{claiming, provision};

/// Returns the claims for a pod's ephemeral volumes. The pod owns the claims.
pub fn of_pod(pod: &Value) -> impl Iterator<Item = Value> + '_ {
    list(pod, "/spec/volumes").iter().filter_map(|volume| {
        let template = volume.pointer("/ephemeral/volumeClaimTemplate")?;
        let mut claim =
            of_template(template, namespace(pod), &format!("{}-{}", name(pod), text(volume, "/name")));
        claim["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "v1", "kind": "Pod", "name": name(pod), "uid": uid(pod),
            "blockOwnerDeletion": true, "controller": true,
        }]);
        Some(claim)
    })
}

/// Returns the claims for one pod of a StatefulSet.
pub fn of_stateful_set(set: &Value, pod: &str) -> impl Iterator<Item = Value> {
    list(set, "/spec/volumeClaimTemplates").iter().map(move |template| {
        let mut claim = of_template(template, namespace(set), &claim_name(template, pod));
        let selected = set.pointer("/spec/selector/matchLabels").and_then(Value::as_object);
        for (label, value) in selected.into_iter().flatten() {
            claim["metadata"]["labels"][label] = value.clone();
        }
        claim
    })
}

/// Returns a claim without its volume, as if it had just been created with this name and this UID.
pub fn anew(claim: &Value, name: &str, uid: &str) -> Value {
    let mut claim = claim.clone();
    claim["metadata"]["name"] = name.into();
    claim["metadata"]["uid"] = uid.into();
    for field in ["/metadata/annotations", "/metadata", "/spec", ""] {
        if let Some(fields) = claim.pointer_mut(field).and_then(Value::as_object_mut) {
            fields.retain(|field, _| !is_of_binding(field));
        }
    }
    claim
}

/// Returns true for the fields and annotations that a claim gets after its creation.
fn is_of_binding(field: &str) -> bool {
    let annotations = [claiming::BIND_COMPLETED, claiming::BOUND_BY_CONTROLLER, SELECTED_NODE];
    annotations.contains(&field)
        || provision::PROVISIONER.contains(&field)
        || ["status", "volumeName", "resourceVersion", "deletionTimestamp", "finalizers"].contains(&field)
}

/// Adds volumes for the claims of a StatefulSet's pod to the pod's spec. These volumes replace volumes of the same
/// names.
pub fn mount(set: &Value, pod: &str, spec: &mut Map<String, Value>) {
    let templates = list(set, "/spec/volumeClaimTemplates");
    if templates.is_empty() {
        return;
    }
    let volume = |template: &Value| {
        let claim = claim_name(template, pod);
        json!({"name": name(template), "persistentVolumeClaim": {"claimName": claim}})
    };
    let mut volumes: Vec<Value> = templates.iter().map(volume).collect();
    if let Some(Value::Array(others)) = spec.get("volumes") {
        let is_other = |volume: &&Value| templates.iter().all(|template| volume["name"] != name(template));
        volumes.extend(others.iter().filter(is_other).cloned());
    }
    spec.insert("volumes".to_owned(), volumes.into());
}

fn claim_name(template: &Value, pod: &str) -> String {
    format!("{}-{pod}", name(template))
}

fn of_template(template: &Value, namespace: &str, name: &str) -> Value {
    let mut metadata = json!({"name": name, "namespace": namespace});
    for field in ["labels", "annotations"] {
        if template["metadata"][field].is_object() {
            metadata[field] = template["metadata"][field].clone();
        }
    }
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": template["spec"]})
}
