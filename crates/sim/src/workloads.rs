//! Pods of workloads, as their controllers would create them.

use serde_json::{Map, Value, json};

/// More pods than this in one workload are a typing error.
const MAX_PODS: i64 = 1_000_000;

/// A field and what is wrong with it.
type Wrong = (&'static str, String);

/// Kinds whose pods are made here.
pub(crate) fn is_workload(kind: &str) -> bool {
    matches!(kind, "Deployment" | "ReplicaSet" | "ReplicationController" | "StatefulSet" | "Job")
}

/// A Deployment owns its pods through a ReplicaSet: here one of the same name.
pub(crate) fn replica_set_of(deployment: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": deployment["metadata"]["name"], "namespace": deployment["metadata"]["namespace"]},
        "spec": {"selector": deployment["spec"]["selector"]},
    })
}

/// The pods of a workload. Empty for one that lives in a cluster already (it has a UID): its controller has made them.
pub(crate) fn pods_of(workload: &Value) -> Result<Vec<Value>, Wrong> {
    let metadata = &workload["metadata"];
    if metadata["uid"].is_string() {
        return Ok(Vec::new());
    }
    let kind = workload["kind"].as_str().unwrap_or_default();
    let spec = &workload["spec"];
    let wanted = wanted(kind, spec)?;
    let Some(template) = spec["template"].as_object() else {
        return Err(("spec.template", "required value".to_owned()));
    };
    let name = metadata["name"].as_str().unwrap_or_default();
    let first = i64::from(kind != "StatefulSet");
    Ok((first..first + wanted).map(|number| pod(workload, kind, name, template, number)).collect())
}

fn wanted(kind: &str, spec: &Value) -> Result<i64, Wrong> {
    let number = |field: &'static str, path: &'static str, default| match &spec[field] {
        Value::Null => Ok(default),
        value => match value.as_i64() {
            Some(n @ 0..=MAX_PODS) => Ok(n),
            _ => Err((path, format!("expected a number from 0 to {MAX_PODS}, got {value}"))),
        },
    };
    if kind != "Job" {
        return number("replicas", "spec.replicas", 1);
    }
    if spec["suspend"] == true {
        return Ok(0);
    }
    let parallelism = number("parallelism", "spec.parallelism", 1)?;
    Ok(parallelism.min(number("completions", "spec.completions", parallelism.max(1))?))
}

fn pod(workload: &Value, kind: &str, name: &str, template: &Map<String, Value>, number: i64) -> Value {
    let pod_name = format!("{name}-{number}");
    let mut metadata = template.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    metadata.insert("name".into(), json!(pod_name));
    metadata.remove("generateName");
    match workload["metadata"].get("namespace") {
        Some(namespace) => metadata.insert("namespace".into(), namespace.clone()),
        None => metadata.remove("namespace"),
    };
    let namespace = workload["metadata"]["namespace"].as_str().unwrap_or("default");
    let (version, owner) = match kind {
        "Deployment" => (json!("apps/v1"), "ReplicaSet"),
        _ => (workload["apiVersion"].clone(), kind),
    };
    metadata.insert(
        "ownerReferences".into(),
        json!([{
            "apiVersion": version, "kind": owner, "name": name,
            "uid": format!("{owner}/{namespace}/{name}"), "controller": true,
        }]),
    );
    let mut spec = template.get("spec").cloned().unwrap_or_else(|| json!({}));
    add_claims(&mut spec, &workload["spec"]["volumeClaimTemplates"], &pod_name);
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}

/// Each pod of a StatefulSet has claims of its own.
fn add_claims(spec: &mut Value, templates: &Value, pod_name: &str) {
    let Some(spec) = spec.as_object_mut() else { return };
    let names = templates.as_array().into_iter().flatten().filter_map(|t| t["metadata"]["name"].as_str());
    for name in names {
        let volume =
            json!({"name": name, "persistentVolumeClaim": {"claimName": format!("{name}-{pod_name}")}});
        if let Some(volumes) = spec.entry("volumes").or_insert_with(|| json!([])).as_array_mut() {
            volumes.push(volume);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(kind: &str, spec: Value) -> Value {
        let mut workload = json!({"apiVersion": "x/v1", "kind": kind, "metadata": {"name": "w", "namespace": "ns"}, "spec": spec});
        workload["spec"]["template"] = json!({"metadata": {"labels": {"app": "w"}}, "spec": {"priority": 3}});
        workload
    }

    fn names(workload: &Value) -> Vec<String> {
        let pods = pods_of(workload).unwrap();
        pods.iter().map(|p| p["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn workloads_have_as_many_pods_as_their_controllers_would_make() {
        for (kind, spec, expected) in [
            ("Deployment", json!({"replicas": 2}), vec!["w-1", "w-2"]),
            ("ReplicaSet", json!({}), vec!["w-1"]),
            ("ReplicaSet", json!({"replicas": 0}), vec![]),
            ("ReplicationController", json!({}), vec!["w-1"]),
            ("StatefulSet", json!({"replicas": 2}), vec!["w-0", "w-1"]),
            ("Job", json!({"parallelism": 3, "completions": 2}), vec!["w-1", "w-2"]),
            ("Job", json!({}), vec!["w-1"]),
            ("Job", json!({"suspend": true}), vec![]),
        ] {
            assert_eq!(names(&workload(kind, spec)), expected, "{kind}");
        }
    }

    #[test]
    fn pods_take_labels_and_spec_from_the_template_and_claims_of_their_own() {
        let mut set =
            workload("StatefulSet", json!({"volumeClaimTemplates": [{"metadata": {"name": "data"}}]}));
        let pod = pods_of(&set).unwrap().remove(0);
        assert_eq!(pod["metadata"]["labels"]["app"], "w");
        assert_eq!(pod["metadata"]["namespace"], "ns");
        assert_eq!(pod["spec"]["priority"], 3);
        assert_eq!(pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"], "data-w-0");
        set["metadata"]["uid"] = json!("from-a-cluster");
        assert!(pods_of(&set).unwrap().is_empty());
    }

    #[test]
    fn pods_of_a_deployment_are_owned_by_its_replica_set() {
        let deployment = workload("Deployment", json!({"selector": {"matchLabels": {"app": "w"}}}));
        let owner = &pods_of(&deployment).unwrap()[0]["metadata"]["ownerReferences"][0];
        assert_eq!((&owner["kind"], &owner["apiVersion"]), (&json!("ReplicaSet"), &json!("apps/v1")));
        let set = replica_set_of(&deployment);
        assert_eq!(set["metadata"]["name"], owner["name"]);
        assert_eq!(set["spec"]["selector"]["matchLabels"]["app"], "w");
    }

    #[test]
    fn odd_numbers_of_pods_and_missing_templates_are_errors() {
        assert_eq!(pods_of(&workload("Deployment", json!({"replicas": -1}))).unwrap_err().0, "spec.replicas");
        assert_eq!(pods_of(&workload("Job", json!({"parallelism": "2"}))).unwrap_err().0, "spec.parallelism");
        let (field, message) =
            pods_of(&json!({"kind": "Job", "metadata": {"name": "j"}, "spec": {}})).unwrap_err();
        assert_eq!((field, message.as_str()), ("spec.template", "required value"));
    }
}
