use std::hash::{DefaultHasher, Hash, Hasher};

use proptest::{prelude::*, sample::Index};
use serde_json::{Value, json};

use super::*;
use crate::WorkloadKind;

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Essence of an object, and the decoded object without its version. The object's text is the slow twin of its essence.
fn pod(json: &Value) -> Option<(u64, String)> {
    let text = json.to_string();
    let essence = hash(&PodDraft::read(Encoded::Json(text.as_bytes())).ok()?);
    let pod = Decoder::new().pod(text.as_bytes()).unwrap();
    Some((essence, format!("{:?}", Pod { resource_version: "".into(), ..pod })))
}

fn node(json: &Value) -> Option<(u64, String)> {
    let text = json.to_string();
    let essence = hash(&NodeDraft::read(Encoded::Json(text.as_bytes())).ok()?);
    let node = Decoder::new().node(text.as_bytes()).unwrap();
    Some((essence, format!("{:?}", Node { resource_version: "".into(), ..node })))
}

fn object(kind: ObjectKind, json: &Value) -> Option<(u64, String)> {
    let text = json.to_string();
    let essence = hash(&ObjectDraft::read(kind, Encoded::Json(text.as_bytes())).ok()?);
    Some((essence, format!("{:?}", Decoder::new().object(kind, text.as_bytes()).unwrap())))
}

fn metadata() -> Value {
    json!({
        "name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "7", "generation": 2,
        "creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-01-02T00:00:00Z",
        "labels": {"app": "web", "tier": "b"}, "annotations": {"x": "y"},
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "v", "controller": true}],
        "managedFields": [{"manager": "kubelet", "operation": "Update", "fieldsV1": {"f:status": {}}}],
    })
}

fn affinity() -> Value {
    let requirement = json!({"key": "k", "operator": "In", "values": ["v", "w"]});
    let selector = json!({"matchLabels": {"app": "web"}, "matchExpressions": [requirement]});
    let term = json!({
        "topologyKey": "zone", "labelSelector": selector, "namespaces": ["n"], "namespaceSelector": selector,
        "matchLabelKeys": ["rev"], "mismatchLabelKeys": ["old"],
    });
    let pods = json!({
        "requiredDuringSchedulingIgnoredDuringExecution": [term],
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 3, "podAffinityTerm": term}],
    });
    let nodes = json!({"matchExpressions": [requirement], "matchFields": [requirement]});
    json!({
        "podAffinity": pods, "podAntiAffinity": pods,
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [nodes]},
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "preference": nodes}],
        },
    })
}

/// A pod with every field that is decoded, and others.
pub(crate) fn full_pod() -> Value {
    let resources = json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2"}});
    let container = json!({
        "name": "c", "image": "i", "resources": resources, "restartPolicy": "Always", "command": ["sh"],
        "restartPolicyRules": [{"action": "RestartAllContainers"}],
        "ports": [{"hostPort": 80, "containerPort": 8080, "hostIP": "1.2.3.4", "protocol": "UDP"}],
        "volumeMounts": [{"name": "v", "mountPath": "/v", "bindMountOptions": ["ro"]}],
    });
    let disk = json!({
        "pdName": "p", "volumeID": "v", "diskURI": "u", "kind": "Managed", "iqn": "q", "monitors": ["m"], "pool": "o",
        "image": "i", "readOnly": true,
    });
    let of_container = json!({
        "name": "c", "resources": resources, "allocatedResources": {"cpu": "1"}, "state": {"running": {}}, "ready": true,
        "restartCount": 1, "containerID": "x", "imageID": "y",
    });
    let condition = |type_: &str| {
        json!({
            "type": type_, "status": "True", "reason": "r", "message": "m", "lastProbeTime": null,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    json!({
        "metadata": metadata(),
        "spec": {
            "nodeName": "n", "schedulingGates": [{"name": "g"}], "schedulerName": "s", "priority": 5,
            "preemptionPolicy": "Never", "nodeSelector": {"a": "b"}, "affinity": affinity(),
            "tolerations": [{"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule", "tolerationSeconds": 4}],
            "topologySpreadConstraints": [{
                "maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "minDomains": 3,
                "labelSelector": {"matchLabels": {"app": "web"}}, "nodeAffinityPolicy": "Ignore",
                "nodeTaintsPolicy": "Honor", "matchLabelKeys": ["rev"],
            }],
            "containers": [container], "initContainers": [container], "ephemeralContainers": [container],
            "overhead": {"cpu": "10m"}, "resources": resources, "hostNetwork": true, "hostUsers": false,
            "volumes": [
                {"name": "a", "persistentVolumeClaim": {"claimName": "pvc"}}, {"name": "b", "ephemeral": {}},
                {"name": "c", "image": {"reference": "i"}}, {"name": "d", "csi": {"driver": "d"}},
                {"name": "e", "gcePersistentDisk": disk}, {"name": "f", "awsElasticBlockStore": disk},
                {"name": "g", "azureDisk": disk}, {"name": "h", "azureFile": {}}, {"name": "i", "cinder": disk},
                {"name": "j", "iscsi": disk}, {"name": "k", "portworxVolume": disk}, {"name": "l", "rbd": disk},
                {"name": "m", "vsphereVolume": {}}, {"name": "n", "hostPath": {"path": "/"}},
            ],
            "resourceClaims": [{"name": "r", "resourceClaimName": "x"}, {"name": "s", "resourceClaimTemplateName": "t"}],
            "schedulingGroup": {"podGroupName": "g"}, "serviceAccountName": "default", "terminationGracePeriodSeconds": 30,
        },
        "status": {
            "phase": "Running", "nominatedNodeName": "m", "startTime": "2026-01-01T00:00:00Z", "qosClass": "Burstable",
            "conditions": [condition("PodScheduled"), condition("DisruptionTarget"), condition("Ready")],
            "containerStatuses": [of_container], "initContainerStatuses": [of_container], "podIP": "10.0.0.1",
            "podIPs": [{"ip": "10.0.0.1"}], "hostIP": "10.1.0.1", "message": "m", "reason": "r",
            "resources": resources, "allocatedResources": {"cpu": "1"},
            "resourceClaimStatuses": [{"name": "r", "resourceClaimName": "x"}],
            "extendedResourceClaimStatus": {"resourceClaimName": "e", "requestMappings": []},
        },
    })
}

/// A node with every field that is decoded, and others.
pub(crate) fn full_node() -> Value {
    json!({
        "metadata": metadata(),
        "spec": {
            "unschedulable": true, "podCIDR": "10.0.0.0/24", "providerID": "p",
            "taints": [{"key": "k", "value": "v", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}],
        },
        "status": {
            "capacity": {"cpu": "4"}, "allocatable": {"cpu": "4", "memory": "32Gi", "example.com/x": "2"},
            "images": [{"names": ["i:1", "i@sha256:0"], "sizeBytes": 12}], "declaredFeatures": ["B", "A"],
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "r", "message": "m", "lastHeartbeatTime": "2026-01-01T00:00:00Z",
            }],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}], "nodeInfo": {"kernelVersion": "6"},
            "volumesInUse": ["v"], "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        },
    })
}

pub(crate) fn full_object() -> Value {
    json!({
        "metadata": metadata(),
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "replicas": 3, "minAvailable": 1},
        "status": {"disruptionsAllowed": 2, "disruptedPods": {"p": "2026-01-01T00:00:00Z"}, "replicas": 3},
    })
}

/// Calls `visit` for every value inside `value`, with the value's path.
pub(crate) fn walk<'a>(value: &'a Value, path: &str, visit: &mut impl FnMut(String, &'a Value)) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, inner)| {
            let path = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
            visit(path.clone(), inner);
            walk(inner, &path, visit);
        }),
        Value::Array(entries) => entries.iter().enumerate().for_each(|(index, inner)| {
            let path = format!("{path}/{index}");
            visit(path.clone(), inner);
            walk(inner, &path, visit);
        }),
        _ => {}
    }
}

/// Changes the value at `path`: removes it, or puts something similar in its place.
pub(crate) fn change(object: &mut Value, path: &str, how: usize) {
    let (parent, name) = path.rsplit_once('/').unwrap();
    let name = name.replace("~1", "/").replace("~0", "~");
    if how == 0 {
        match object.pointer_mut(parent) {
            Some(Value::Object(fields)) => drop(fields.remove(&name)),
            Some(Value::Array(entries)) => drop(entries.remove(name.parse().unwrap())),
            _ => {}
        }
        return;
    }
    let Some(value) = object.pointer_mut(path) else { return };
    match value {
        Value::Bool(is_on) => *is_on = !*is_on,
        Value::Number(number) => *value = (number.as_i64().unwrap() + 1).into(),
        Value::String(text) if text.ends_with('Z') => *text = "2026-03-04T05:06:07Z".to_owned(),
        Value::String(text) => {
            let others =
                ["1", "2", "True", "False", "Exists", "NoExecute", "Ready", "PodScheduled", "", "other"];
            *text = others[how % others.len()].to_owned();
        }
        Value::Array(entries) => {
            if let Some(first) = entries.first().cloned() {
                entries.push(first);
            }
        }
        Value::Object(fields) => drop(fields.insert("zone".to_owned(), "other".into())),
        Value::Null => {}
    }
}

/// Checks one changed object against the original: if what is decoded differs, so does the essence. Returns true if the
/// essence differs.
fn check(read: impl Fn(&Value) -> Option<(u64, String)>, original: &Value, changed: &Value) -> bool {
    let (Some(before), Some(after)) = (read(original), read(changed)) else { return false };
    assert!(before.1 == after.1 || before.0 != after.0, "{changed}");
    before.0 != after.0
}

/// Changes every value of an object in several ways.
fn check_every_value(read: impl Fn(&Value) -> Option<(u64, String)>, original: &Value) {
    let mut paths = Vec::new();
    walk(original, "", &mut |path, _| paths.push(path));
    for (path, how) in paths.iter().flat_map(|path| (0..11).map(move |how| (path, how))) {
        let mut changed = original.clone();
        change(&mut changed, path, how);
        check(&read, original, &changed);
    }
}

#[test]
fn whatever_changes_a_decoded_field_changes_the_essence() {
    check_every_value(pod, &full_pod());
    check_every_value(node, &full_node());
    for kind in ObjectKind::ALL {
        check_every_value(|json| object(kind, json), &full_object());
    }
    check_every_value(
        |json| object(ObjectKind::Service, json),
        &json!({"metadata": metadata(), "spec": {"selector": {"app": "web"}}}),
    );
}

proptest! {
    #[test]
    fn objects_with_equal_essences_are_equal(changes in prop::collection::vec((any::<Index>(), 0_usize..11), 1..6)) {
        let full = [(full_pod(), true), (full_node(), false)];
        for (original, is_pod) in full {
            let mut changed = original.clone();
            for (index, how) in &changes {
                let mut paths = Vec::new();
                walk(&changed, "", &mut |path, _| paths.push(path));
                if !paths.is_empty() {
                    let path: &String = index.get(&paths);
                    change(&mut changed, path, *how);
                }
            }
            check(if is_pod { pod } else { node }, &original, &changed);
        }
    }
}

#[test]
fn what_kubelets_write_all_the_time_is_not_part_of_the_essence() {
    let changes = |read: fn(&Value) -> Option<(u64, String)>, original: &Value, paths: &[&str]| {
        for path in paths {
            let mut changed = original.clone();
            let value = changed.pointer_mut(path).unwrap_or_else(|| panic!("no {path}"));
            *value = match value {
                Value::String(text) if text.ends_with('Z') => "2026-03-04T05:06:07Z".into(),
                Value::String(_) => "other".into(),
                Value::Number(_) => 77.into(),
                Value::Bool(is_on) => (!*is_on).into(),
                Value::Array(_) => json!([]),
                _ => json!({"waiting": {}}),
            };
            assert_ne!(changed, *original, "{path}");
            assert!(!check(read, original, &changed), "{path}");
        }
    };
    changes(
        pod,
        &full_pod(),
        &[
            "/metadata/resourceVersion",
            "/metadata/managedFields",
            "/status/qosClass",
            "/status/podIP",
            "/status/podIPs",
            "/status/hostIP",
            "/status/message",
            "/status/reason",
            "/status/conditions/2/status",
            "/status/conditions/2/lastTransitionTime",
            "/status/containerStatuses/0/state",
            "/status/containerStatuses/0/ready",
            "/status/containerStatuses/0/restartCount",
            "/status/containerStatuses/0/containerID",
            "/status/containerStatuses/0/imageID",
        ],
    );
    changes(
        node,
        &full_node(),
        &[
            "/metadata/resourceVersion",
            "/metadata/managedFields",
            "/status/addresses",
            "/status/nodeInfo",
            "/status/daemonEndpoints",
            "/status/volumesInUse",
            "/status/conditions/0/lastHeartbeatTime",
            "/status/conditions/0/reason",
            "/status/conditions/0/message",
        ],
    );
    let kind = ObjectKind::Workload(WorkloadKind::ReplicaSet);
    let mut changed = full_object();
    changed["status"]["replicas"] = 4.into();
    changed["metadata"]["resourceVersion"] = "8".into();
    assert!(!check(|json| object(kind, json), &full_object(), &changed));
}
