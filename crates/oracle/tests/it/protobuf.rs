//! kube-apiserver's objects in protobuf and in JSON are decoded to the same values.

use std::{collections::BTreeMap, fmt::Debug};

use harbormaster_api::{
    ObjectKind, Release, WorkloadKind,
    protobuf::{self, ObjectList},
    wire::{Decoder, Encoded, NodeDraft, ObjectDraft, PodDraft},
};
use harbormaster_framework::resource::{
    Custom, CustomKey, RawContent, RawObject, Resource, ResourceKind, ResourceScope,
};
use harbormaster_oracle::{
    components::{ApiClient, ControlPlane, ControlPlaneOptions, Error},
    generate::{Cluster, Shape},
};
use harbormaster_plugins::{
    devices::{claim::ResourceClaim, class::DeviceClass, slice::ResourceSlice},
    gang_scheduling::PodGroupObject,
    storage::{CsiNode, PersistentVolume, PersistentVolumeClaim},
};
use serde_json::{Value, json};

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

/// A kind that plugins read.
struct PluginKind {
    name: &'static str,
    /// Collection in all namespaces.
    path: &'static str,
    describe: fn(RawContent) -> String,
}

fn plugin_kind<R: Resource + Debug>(path: &'static str) -> PluginKind {
    PluginKind { name: R::KIND, path, describe: described::<R> }
}

fn plugin_kinds() -> [PluginKind; 7] {
    [
        plugin_kind::<PersistentVolume>("/api/v1/persistentvolumes"),
        plugin_kind::<PersistentVolumeClaim>("/api/v1/persistentvolumeclaims"),
        plugin_kind::<CsiNode>("/apis/storage.k8s.io/v1/csinodes"),
        plugin_kind::<DeviceClass>("/apis/resource.k8s.io/v1/deviceclasses"),
        plugin_kind::<ResourceSlice>("/apis/resource.k8s.io/v1/resourceslices"),
        plugin_kind::<ResourceClaim>("/apis/resource.k8s.io/v1/resourceclaims"),
        plugin_kind::<PodGroupObject>("/apis/scheduling.k8s.io/v1beta1/podgroups"),
    ]
}

/// Decodes an object as a plugin gets it, and describes it.
fn described<R: Resource + Debug>(content: RawContent) -> String {
    let namespace = if R::SCOPE == ResourceScope::Cluster { "" } else { "x" };
    let key = CustomKey { resource: "".into(), namespace: namespace.into(), name: "n".into() };
    let decoded = ResourceKind::of::<R>().decode(&RawObject { key, content }).expect(VALID);
    format!("{:?}", decoded.downcast_ref::<Custom<R>>().expect("the kind has this type"))
}

/// Creates an object with its status.
fn create_whole(client: &ApiClient, path: &str, object: &Value) -> Result<(), Error> {
    let (root, plural) = path.rsplit_once('/').expect("a path has several parts");
    let path = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{root}/namespaces/{namespace}/{plural}"),
        None => path.to_owned(),
    };
    let created = client.post(&path, object)?;
    if object["status"].is_object() {
        let name = created["metadata"]["name"].as_str().unwrap_or_default();
        client.merge_patch(&format!("{path}/{name}/status"), &json!({"status": object["status"]}))?;
    }
    Ok(())
}

const AZURE_DISK: &str = "/subscriptions/s/resourcegroups/g/providers/microsoft.compute/disks/d";

/// Objects with the fields that generated ones lack.
fn rare_objects() -> Vec<Value> {
    let meta = |name: &str| json!({"name": name, "namespace": "default"});
    let opaque =
        json!({"opaque": {"driver": "d.example.com", "parameters": {"a": [1, {"b": null}], "c": "x"}}});
    let of = |request: &str| {
        let mut all = json!({"requests": [request]});
        all["opaque"] = opaque["opaque"].clone();
        all
    };
    let device = json!({"driver": "d.example.com", "pool": "p", "device": "dev"});
    let mut result = device.clone();
    result["request"] = json!("r");
    result["tolerations"] = json!([{"key": "k", "operator": "Exists", "tolerationSeconds": 5}]);
    let mut from_claim = of("r");
    from_claim["source"] = json!("FromClaim");
    let mut report = device;
    report["data"] = json!({"x": [true, 1.5]});
    report["networkData"] =
        json!({"interfaceName": "eth0", "ips": ["10.0.0.1/24"], "hardwareAddress": "aa:bb"});
    report["conditions"] = json!([{
        "type": "Ready", "status": "True", "reason": "Ok", "message": "m", "observedGeneration": 3,
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    }]);
    let term = json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]});
    vec![
        json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass",
            "metadata": {"name": "rare", "labels": {"a": "b"}},
            "spec": {"config": [opaque], "extendedResourceName": "example.com/rare"},
        }),
        json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {
                "name": "rare", "namespace": "default", "finalizers": ["example.com/stay"],
                "annotations": {"a": "b"},
                "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": true}],
            },
            "spec": {"devices": {
                "requests": [{"name": "r", "exactly": {"deviceClassName": "rare"}}], "config": [of("r")],
            }},
            "status": {
                "allocation": {
                    "devices": {"results": [result], "config": [from_claim]},
                    "nodeSelector": {"nodeSelectorTerms": [term]},
                    "allocationTimestamp": "2026-01-02T03:04:05Z",
                },
                "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
                "devices": [report],
            },
        }),
        json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "rare"},
            "spec": {
                "capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
                "azureDisk": {"diskName": "d", "diskURI": AZURE_DISK, "readOnly": true, "kind": "Managed"},
                "claimRef": {"namespace": "default", "name": "c", "uid": "u"}, "storageClassName": "slow",
                "volumeMode": "Block", "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
            },
        }),
        json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "rare-csi"},
            "spec": {
                "capacity": {"storage": "1"}, "accessModes": ["ReadWriteOncePod"],
                "csi": {"driver": "d.example.com", "volumeHandle": "h"},
            },
        }),
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta("rare"),
            "spec": {
                "accessModes": ["ReadWriteMany"], "storageClassName": "slow", "volumeMode": "Block",
                "volumeAttributesClassName": "gold", "volumeName": "rare",
                "resources": {"requests": {"storage": "1500m"}},
                "selector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "Exists"}]},
            },
            "status": {"phase": "Lost"},
        }),
        json!({
            "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": meta("rare"),
            "spec": {
                "schedulingPolicy": {"gang": {"minCount": 3}}, "disruptionMode": {"all": {}},
                "schedulingConstraints": {"topology": [{"key": "zone"}]},
            },
            "status": {"conditions": [{
                "type": "PodGroupInitiallyScheduled", "status": "False", "reason": "Unschedulable", "message": "m",
                "observedGeneration": 1, "lastTransitionTime": "2026-01-02T03:04:05Z",
            }]},
        }),
        json!({
            "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": meta("basic"),
            "spec": {"schedulingPolicy": {"basic": {}}, "disruptionMode": {"single": {}}},
        }),
    ]
}

#[test]
fn what_plugins_read_is_the_same_in_protobuf_and_in_json() {
    let options = ControlPlaneOptions {
        release: Release::V1_37,
        apiserver_flags: ["--runtime-config=api/all=true", "--feature-gates=AllAlpha=true,AllBeta=true"]
            .map(str::to_owned)
            .into(),
        ..ControlPlaneOptions::default()
    };
    let control_plane = ControlPlane::start(&options).unwrap();
    let (client, kinds) = (control_plane.client(), plugin_kinds());
    for object in rare_objects() {
        let kind =
            kinds.iter().find(|kind| object["kind"] == kind.name).expect("the kind is read by plugins");
        create_whole(client, kind.path, &object).unwrap();
    }
    for seed in 0..12 {
        let mut cluster = Cluster::new(seed, &Shape { max_nodes: 8, max_pods: 8, admitted: false });
        for object in &mut cluster.objects {
            if let Some(kind) = kinds.iter().find(|kind| object["kind"] == kind.name) {
                if let Some(metadata) = object["metadata"].as_object_mut() {
                    metadata.remove("resourceVersion");
                    let name = metadata["name"].as_str().unwrap_or_default();
                    let name = format!("{name}-{seed}");
                    metadata.insert("name".to_owned(), name.into());
                }
                // The server rejects many of them.
                let _ = create_whole(client, kind.path, object);
            }
        }
    }
    for PluginKind { name, path, describe } in kinds {
        let json = client.get(path).expect(ANSWERS);
        let body = client.get_as(path, protobuf::CONTENT_TYPE).expect(ANSWERS);
        let list = ObjectList::read(protobuf::open(&body).expect(VALID)).expect(VALID);
        let items = json["items"].as_array().expect(VALID);
        assert_eq!(list.items.len(), items.len());
        assert!(items.len() >= 2, "{name}: {}", items.len());
        for (item, message) in items.iter().zip(list.items) {
            let from_json = describe(RawContent::Json(item.to_string().into()));
            assert_eq!(describe(RawContent::Protobuf(message.into())), from_json, "{item}");
        }
    }
}
