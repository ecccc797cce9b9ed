use std::collections::BTreeMap;

use harbormaster_yaml::Source;
use serde_json::Value;

use super::{Edit, ObjectName, Step};
use crate::{Manifests, ReadOptions};

const POD: &str = "spec: {containers: [{name: c, image: i}]}";

const CLUSTER: &str = "
apiVersion: v1
kind: Node
metadata: {name: a, uid: u, labels: {kubernetes.io/hostname: a, zone: z}}
spec: {unschedulable: true, taints: [{key: node.kubernetes.io/unschedulable, effect: NoSchedule}, {key: gpu, effect: NoSchedule}]}
status: {allocatable: {cpu: 4}, images: [{names: [i]}]}
---
{apiVersion: v1, kind: Node, metadata: {name: b}}
---
apiVersion: storage.k8s.io/v1
kind: CSINode
metadata: {name: a, uid: v}
spec: {drivers: [{name: d, nodeID: a}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: a-gpus}
spec: {driver: d, nodeName: a, pool: {name: a, generation: 1, resourceSliceCount: 1}, devices: [{name: g}]}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web, uid: w}
spec: {replicas: 1, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: web-1, uid: p, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: w, controller: true}]}
spec: {nodeName: a, containers: [{name: c, image: i}]}
status: {phase: Running}
---
apiVersion: v1
kind: Pod
metadata: {name: agent, ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: agent, uid: d, controller: true}]}
spec: {nodeName: a, containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Pod
metadata: {name: mirror, annotations: {kubernetes.io/config.mirror: x}}
spec: {nodeName: a, containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Pod
metadata: {name: alone}
spec: {nodeName: a, containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Pod
metadata: {name: ending, uid: e, deletionTimestamp: '2026-01-01T00:00:00Z'}
spec: {nodeName: a, containers: [{name: c, image: i}]}
";

fn name(text: &str) -> ObjectName {
    text.parse().unwrap()
}

/// Returns the objects after the edits, by label, and the warnings.
fn edited(text: &str, edits: &[Edit]) -> Result<(BTreeMap<String, Value>, Vec<String>), String> {
    let source = Source { name: "f.yaml".into(), text: text.into() };
    let steps: Vec<Step> = edits
        .iter()
        .map(|edit| Step { edit: edit.clone(), source: "--flag".into(), line: None, field: String::new() })
        .collect();
    let mut objects = BTreeMap::new();
    let options = ReadOptions { edits: &steps, ..ReadOptions::default() };
    let read = Manifests::read(&[source], options, |manifest, admitted| {
        objects.insert(manifest.label(), admitted.into_value());
        Ok(())
    });
    read.map(|read| (objects, read.notices())).map_err(|errors| errors.to_string())
}

/// Returns the node of each pod; an empty string for a pending pod.
fn places(objects: &BTreeMap<String, Value>) -> Vec<(&str, &str)> {
    let pods = objects.iter().filter_map(|(label, pod)| Some((label.strip_prefix("Pod default/")?, pod)));
    pods.map(|(name, pod)| (name, pod["spec"]["nodeName"].as_str().unwrap_or_default())).collect()
}

#[test]
fn a_drained_node_is_cordoned_and_its_pods_wait_except_for_those_that_belong_to_it() {
    let (objects, notices) = edited(CLUSTER, &[Edit::Drain { node: "a".into() }]).unwrap();
    assert_eq!(places(&objects), [("agent", "a"), ("alone", ""), ("mirror", "a"), ("web-1", "")]);
    assert_eq!(objects["Node a"]["spec"]["unschedulable"], true);
    assert!(
        notices[0].contains("1 pod(s) without a controller leave their node")
            && notices[0].ends_with("default/alone")
    );
}

#[test]
fn repacked_pods_wait_except_for_those_that_belong_to_their_node() {
    let (objects, notices) = edited(CLUSTER, &[Edit::Repack]).unwrap();
    assert_eq!(places(&objects), [("agent", "a"), ("alone", ""), ("mirror", "a"), ("web-1", "")]);
    assert!(notices[0].contains("1 pod(s) without a controller leave their node"), "{notices:?}");
}

#[test]
fn a_removed_node_takes_what_belongs_to_it_along() {
    let (objects, _) = edited(CLUSTER, &[Edit::Remove { node: "a".into() }]).unwrap();
    assert_eq!(places(&objects), [("alone", ""), ("web-1", "")]);
    let nodes: Vec<&String> = objects
        .keys()
        .filter(|label| ["Node ", "CSINode", "ResourceSlice"].iter().any(|kind| label.starts_with(kind)))
        .collect();
    assert_eq!(nodes, ["Node b"]);
}

#[test]
fn an_added_node_is_an_empty_copy_in_service_with_its_own_devices_and_volume_limits() {
    let (objects, _) = edited(CLUSTER, &[Edit::Add { count: 2, like: "a".into() }]).unwrap();
    let copy = &objects["Node a-copy-2"];
    assert_eq!(copy["metadata"]["labels"]["kubernetes.io/hostname"], "a-copy-2");
    assert_eq!(copy["metadata"]["labels"]["zone"], "z");
    assert_eq!(copy["spec"].get("unschedulable"), None);
    assert_eq!(copy["spec"]["taints"].as_array().map(Vec::len), Some(1));
    assert_eq!((&copy["status"]["allocatable"]["cpu"], copy["status"].get("images")), (&"4".into(), None));
    assert_eq!(objects["CSINode a-copy-1"]["spec"]["drivers"][0]["name"], "d");
    let slice = &objects["ResourceSlice a-copy-1-gpus"]["spec"];
    assert_eq!((&slice["nodeName"], &slice["pool"]["name"]), (&"a-copy-1".into(), &"a-copy-1".into()));
    let (objects, _) = edited(
        CLUSTER,
        &[Edit::Add { count: 1, like: "b".into() }, Edit::Add { count: 1, like: "b".into() }],
    )
    .unwrap();
    assert!(objects.contains_key("Node b-copy-1") && objects.contains_key("Node b-copy-2"));
}

#[test]
fn a_deleted_object_takes_along_what_it_owns_or_contains() {
    let left = |delete: &str| {
        let (objects, _) = edited(CLUSTER, &[Edit::Delete { object: name(delete) }]).unwrap();
        (objects.contains_key("ReplicaSet default/web"), objects.contains_key("Pod default/web-1"))
    };
    assert_eq!(left("rs/web"), (false, false));
    assert_eq!(left("replicasets.apps/default/web"), (false, false));
    assert_eq!(left("Pod/web-1"), (true, false));
    assert_eq!(left("pod/alone"), (true, true));
    let namespace =
        format!("{CLUSTER}---\n{{apiVersion: v1, kind: Namespace, metadata: {{name: default}}}}\n");
    let (objects, _) = edited(&namespace, &[Edit::Delete { object: name("ns/default") }]).unwrap();
    assert_eq!(places(&objects), []);
    assert!(objects.contains_key("Node a"));
}

#[test]
fn a_scaled_deployment_scales_its_replica_sets_whether_or_not_the_dump_says_what_they_had() {
    let text = |annotations: &str| {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web, uid: d}}\nspec: {{replicas: 5, selector: {{matchLabels: \
             {{a: b}}}}, template: {{metadata: {{labels: {{a: b}}}}, {POD}}}}}\n---\napiVersion: apps/v1\nkind: \
             ReplicaSet\nmetadata:\n  name: web-1\n  uid: w\n{annotations}  ownerReferences: [{{apiVersion: apps/v1, kind: \
             Deployment, name: web, uid: d, controller: true}}]\nspec: {{replicas: 5, selector: {{matchLabels: {{a: b}}}}, \
             template: {{metadata: {{labels: {{a: b}}}}, {POD}}}}}\n"
        )
    };
    for annotations in ["", "  annotations: {deployment.kubernetes.io/desired-replicas: '5'}\n"] {
        for replicas in [0, 2, 8] {
            let scale = Edit::Scale { workload: name("deploy/web"), replicas };
            let (objects, _) = edited(&text(annotations), &[scale]).unwrap();
            assert_eq!(objects["Deployment default/web"]["spec"]["replicas"], replicas);
            assert_eq!(objects["ReplicaSet default/web-1"]["spec"]["replicas"], replicas, "{annotations}");
        }
    }
    let scale = Edit::Scale { workload: name("rs/web-1"), replicas: 1 };
    let told = edited(&text(""), &[scale]).unwrap_err();
    assert_eq!(
        told,
        "--flag: ReplicaSet default/web-1 belongs to Deployment default/web; scale that instead"
    );
}

#[test]
fn edits_of_unknown_objects_name_the_objects_that_may_be_meant() {
    let drain = |node: &str| Edit::Drain { node: node.into() };
    let delete = |object: &str| Edit::Delete { object: name(object) };
    let scale = |workload: &str| Edit::Scale { workload: name(workload), replicas: 1 };
    for (edit, expected) in [
        (drain("c"), "--flag: no node is named \"c\" (did you mean `a`?)"),
        (Edit::Remove { node: "nowhere".into() }, "--flag: no node is named \"nowhere\""),
        (Edit::Add { count: 1, like: "far".into() }, "--flag: no node is named \"far\""),
        (Edit::Add { count: 0, like: "a".into() }, "expected a number of nodes from 1 to 100000, got 0"),
        (delete("pdo/alone"), "no kind is named \"pdo\" (did you mean `pod`?)"),
        (delete("pod/alnoe"), "no Pod is named \"alnoe\" (did you mean `alone`?)"),
        (delete("pod/defualt/alone"), "no Pod is named \"defualt/alone\" (did you mean `default/alone`?)"),
        (delete("node/a"), "a node is removed with `remove`"),
        (scale("pod/alone"), "Pod default/alone has no replicas; Deployments, "),
        (scale("deployment/web"), "no Deployment is named \"web\""),
    ] {
        let told = edited(CLUSTER, std::slice::from_ref(&edit)).unwrap_err();
        assert!(told.contains(expected), "{edit}: {told}");
    }
    let twice = format!(
        "{CLUSTER}---\n{{apiVersion: v1, kind: Pod, metadata: {{name: alone, namespace: other}}, {POD}}}\n"
    );
    let told = edited(&twice, &[delete("pod/alone")]).unwrap_err();
    assert_eq!(told, "--flag: 2 objects are named \"alone\"; add the namespace, as in pod/default/alone");
    let told = edited(CLUSTER, &[drain("x"), drain("y")]).unwrap_err();
    assert_eq!(told.lines().count(), 2, "{told}");
}
