//! kube-apiserver's objects in protobuf and in JSON are decoded to the same values.

use std::collections::BTreeMap;

use harbormaster_api::{
    ObjectKind, Release, WorkloadKind,
    protobuf::{self, ObjectList},
    wire::{Decoder, Encoded, NodeDraft, ObjectDraft, PodDraft},
};
use harbormaster_oracle::{
    components::{ApiClient, ControlPlane, ControlPlaneOptions},
    generate::{Cluster, Shape},
};
use serde_json::Value;

const VALID: &str = "the API server's objects are valid";
const ANSWERS: &str = "the API server answers";

/// Kinds with their collections in all namespaces.
const KINDS: [(&str, &str, Option<ObjectKind>); 8] = [
    ("Namespace", "/api/v1/namespaces", Some(ObjectKind::Namespace)),
    ("Node", "/api/v1/nodes", None),
    ("Service", "/api/v1/services", Some(ObjectKind::Service)),
    (
        "ReplicationController",
        "/api/v1/replicationcontrollers",
        Some(ObjectKind::Workload(WorkloadKind::ReplicationController)),
    ),
    ("ReplicaSet", "/apis/apps/v1/replicasets", Some(ObjectKind::Workload(WorkloadKind::ReplicaSet))),
    ("StatefulSet", "/apis/apps/v1/statefulsets", Some(ObjectKind::Workload(WorkloadKind::StatefulSet))),
    ("PodDisruptionBudget", "/apis/policy/v1/poddisruptionbudgets", Some(ObjectKind::PodDisruptionBudget)),
    ("Pod", "/api/v1/pods", None),
];

/// Creates the objects of a cluster, as far as the server accepts them.
fn create(client: &ApiClient, cluster: &Cluster) {
    for (kind, path, _) in KINDS {
        for object in cluster.of_kind(kind) {
            let mut object = object.clone();
            if let Some(spec) = object["spec"].as_object_mut().filter(|_| kind == "Pod") {
                // These need objects that the cluster lacks.
                for name in ["priority", "priorityClassName", "runtimeClassName", "overhead"] {
                    spec.remove(name);
                }
            }
            let (root, plural) = path.rsplit_once('/').expect("a path has several parts");
            let path = match kind {
                "Namespace" | "Node" => path.to_owned(),
                _ => {
                    let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
                    format!("{root}/namespaces/{namespace}/{plural}")
                }
            };
            let Ok(created) = client.post(&path, &object) else { continue };
            if object["status"].is_object() {
                let name = created["metadata"]["name"].as_str().unwrap_or_default();
                let status = serde_json::json!({"status": object["status"]});
                let _ = client.merge_patch(&format!("{path}/{name}/status"), &status);
            }
        }
    }
}

/// Decodes an object and returns its name and its description.
fn decoded(kind: Option<ObjectKind>, is_pod: bool, object: Encoded<'_>) -> String {
    let decoder = &mut Decoder::new();
    match kind {
        Some(kind) => {
            let draft = ObjectDraft::read(kind, object).expect(VALID);
            format!("{} {:?}", draft.version().to_owned(), draft.finish(decoder).expect(VALID))
        }
        None if is_pod => format!("{:?}", PodDraft::read(object).expect(VALID).finish(decoder).expect(VALID)),
        None => format!("{:?}", NodeDraft::read(object).expect(VALID).finish(decoder).expect(VALID)),
    }
}

/// Compares all objects of the server in both forms. Returns the number of objects of each kind.
fn compare(client: &ApiClient) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for (name, path, kind) in KINDS {
        let json = client.get(path).expect(ANSWERS);
        let body = client.get_as(path, protobuf::CONTENT_TYPE).expect(ANSWERS);
        assert!(protobuf::is_meant(&body));
        let list = ObjectList::read(protobuf::open(&body).expect(VALID)).expect(VALID);
        assert_eq!(json["metadata"]["resourceVersion"], list.version);
        let items = json["items"].as_array().expect(VALID);
        assert_eq!(list.items.len(), items.len(), "{name}");
        let text = |item: &Value| item.to_string();
        for (item, message) in items.iter().zip(&list.items) {
            let from_json = decoded(kind, name == "Pod", Encoded::Json(text(item).as_bytes()));
            let from_protobuf = decoded(kind, name == "Pod", Encoded::Protobuf(message));
            assert_eq!(from_json, from_protobuf, "{item}");
        }
        counts.insert(name, items.len());
    }
    counts
}

#[test]
fn random_clusters_are_the_same_in_protobuf_and_in_json() {
    for release in [Release::V1_36, Release::V1_37] {
        let options = ControlPlaneOptions { release, ..ControlPlaneOptions::default() };
        let control_plane = ControlPlane::start(&options).unwrap();
        let client = control_plane.client();
        let shape = Shape { max_nodes: 12, max_pods: 30, admitted: true };
        for seed in 0..6 {
            let mut cluster = Cluster::new(seed, &shape);
            cluster.add_missing_namespaces();
            for object in &mut cluster.objects {
                let kind = object["kind"].as_str().unwrap_or_default().to_owned();
                if kind != "Namespace"
                    && let Some(name) = object["metadata"]["name"].as_str()
                {
                    object["metadata"]["name"] = format!("{name}-{seed}").into();
                }
            }
            create(client, &cluster);
        }
        let counts = compare(client);
        let least = [("Namespace", 4), ("Node", 10), ("Service", 1), ("ReplicaSet", 1), ("Pod", 30)];
        for (kind, least) in least {
            assert!(counts[kind] >= least, "{counts:?}");
        }
    }
}
