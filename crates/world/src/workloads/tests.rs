use super::*;

fn workload(kind: &str, spec: Value) -> Value {
    let mut workload = json!({"apiVersion": "x/v1", "kind": kind, "metadata": {"name": "w", "namespace": "ns"}, "spec": spec});
    workload["spec"]["template"] = json!({"metadata": {"labels": {"app": "w"}}, "spec": {"priority": 3}});
    workload
}

fn pods(workload: Value, existing: &ExistingPods) -> Vec<Value> {
    Workload::new("w".into(), 0, workload).unwrap().missing_pods(existing, &[], &mut Decoder::new())
}

fn names(workload: Value, existing: &ExistingPods) -> Vec<String> {
    pods(workload, existing).iter().map(|pod| name(pod).to_owned()).collect()
}

#[test]
fn workloads_have_as_many_pods_as_their_controllers_would_create() {
    for (kind, spec, expected) in [
        ("Deployment", json!({"replicas": 2}), vec!["w-1", "w-2"]),
        ("ReplicaSet", json!({}), vec!["w-1"]),
        ("ReplicaSet", json!({"replicas": 0}), vec![]),
        ("ReplicationController", json!({}), vec!["w-1"]),
        ("StatefulSet", json!({"replicas": 2}), vec!["w-0", "w-1"]),
        ("StatefulSet", json!({"replicas": 1, "ordinals": {"start": 5}}), vec!["w-5"]),
        ("Job", json!({"parallelism": 3, "completions": 2}), vec!["w-1", "w-2"]),
        ("Job", json!({}), vec!["w-1"]),
        ("Job", json!({"suspend": true}), vec![]),
    ] {
        assert_eq!(names(workload(kind, spec), &ExistingPods::default()), expected, "{kind}");
    }
}

#[test]
fn existing_pods_are_not_created_again() {
    let mut existing = ExistingPods::default();
    for (name, kind) in [("w-1", "ReplicaSet"), ("w-0", "StatefulSet"), ("other", "Job")] {
        existing.add(&json!({"metadata": {"name": name, "namespace": "ns", "ownerReferences": [
            {"kind": kind, "name": "w", "controller": true}]}}));
    }
    assert_eq!(names(workload("ReplicaSet", json!({"replicas": 3})), &existing), ["w-2", "w-3"]);
    assert_eq!(
        names(workload("StatefulSet", json!({"replicas": 3})), &existing),
        ["w-2"],
        "w-1 has another owner"
    );
    let mut half_done = workload("Job", json!({"parallelism": 3, "completions": 3}));
    half_done["status"] = json!({"succeeded": 1});
    assert_eq!(names(half_done, &existing), ["w-2"]);
}

#[test]
fn pods_have_the_labels_and_spec_of_the_template_but_their_own_claims() {
    let set = workload("StatefulSet", json!({"volumeClaimTemplates": [{"metadata": {"name": "data"}}]}));
    let pod = pods(set, &ExistingPods::default()).remove(0);
    assert_eq!(pod["metadata"]["labels"]["app"], "w");
    assert_eq!(pod["metadata"]["namespace"], "ns");
    assert_eq!(pod["spec"]["priority"], 3);
    assert_eq!(pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"], "data-w-0");
}

#[test]
fn pods_of_a_deployment_are_owned_by_its_replica_set() {
    let deployment = workload("Deployment", json!({"selector": {"matchLabels": {"app": "w"}}}));
    let pod = pods(deployment.clone(), &ExistingPods::default()).remove(0);
    let owner = &pod["metadata"]["ownerReferences"][0];
    let hash = pod["metadata"]["labels"][TEMPLATE_HASH].as_str().expect("the pod has the label");
    assert_eq!(owner["name"], format!("w-{hash}"));
    assert_eq!(pod["metadata"]["labels"]["app"], "w");
    assert_eq!((&owner["kind"], &owner["apiVersion"]), (&json!("ReplicaSet"), &json!("apps/v1")));
    let set = Workload::new("w".into(), 0, deployment).unwrap().replica_set().unwrap();
    assert_eq!(set["metadata"]["name"], owner["name"]);
    assert_eq!(set["spec"]["selector"]["matchLabels"]["app"], "w");
}

#[test]
fn invalid_numbers_of_pods_are_errors() {
    for (kind, spec, field) in [
        ("Deployment", json!({"replicas": 2_000_000}), "spec.replicas"),
        ("Job", json!({"parallelism": "2"}), "spec.parallelism"),
    ] {
        assert_eq!(Workload::new("w".into(), 0, workload(kind, spec)).unwrap_err().field, field);
    }
}
