use harbormaster_setup::{Choices, Setup};
use serde_json::json;

use super::*;

fn read(text: &str, fill: bool) -> Result<Inventory, String> {
    let source = Source { name: "f.yaml".into(), text: text.into() };
    Inventory::from_sources(&[source], Reading { fill, ..Reading::default() }).map_err(|e| e.to_string())
}

fn in_tree() -> EngineConfig {
    Setup::read(None, &Choices::default()).unwrap().engine
}

fn names(pods: &[Pod]) -> Vec<String> {
    pods.iter().map(Pod::full_name).collect()
}

const TEMPLATE: &str = "selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: i}]}}";

#[test]
fn a_dump_of_a_cluster_becomes_nodes_and_pods() {
    let cluster = read(
        &format!(
            "apiVersion: v1\nkind: List\nitems:\n\
             - {{apiVersion: v1, kind: Node, metadata: {{name: n1}}, status: {{allocatable: {{cpu: 4}}}}}}\n\
             - {{apiVersion: v1, kind: Pod, metadata: {{name: a, uid: u}}, spec: {{nodeName: n1, containers: [{{name: c, image: i}}]}}}}\n\
             - {{apiVersion: v1, kind: Pod, metadata: {{name: b}}, spec: {{containers: [{{name: c, image: i}}]}}}}\n\
             - {{apiVersion: v1, kind: Pod, metadata: {{name: done}}, status: {{phase: Succeeded}}}}\n\
             - {{apiVersion: apps/v1, kind: Deployment, metadata: {{name: d, uid: live}}, spec: {{replicas: 2, {TEMPLATE}}}}}\n\
             - {{apiVersion: v1, kind: ConfigMap, metadata: {{name: s}}}}\n\
             - {{apiVersion: v1, kind: ConfigMap, metadata: {{name: t}}}}\n\
             - {{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {{name: t}}, spec: {{maxReplicas: 2, scaleTargetRef: {{apiVersion: apps/v1, kind: Deployment, name: d}}}}}}\n"
        ),
        false,
    )
    .unwrap();
    assert_eq!((cluster.nodes.len(), cluster.bound.len(), cluster.pending.len()), (1, 1, 1));
    assert_eq!(cluster.pending[0].uid, "default/b");
    assert_eq!(cluster.pending[0].spec.scheduler_name, "default-scheduler");
    let left =
        "1 workload(s) come from a cluster, but their pods are not in the input; --fill creates these 2 pods";
    assert_eq!(cluster.notices, [left]);
    let ignored = "ignored: 2 ConfigMap, 1 HorizontalPodAutoscaler";
    assert_eq!(cluster.custom_notices(&in_tree()), [ignored]);
}

#[test]
fn pods_get_generated_names_and_the_priority_of_a_class_defined_later() {
    let cluster = read(
        &format!(
            "{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: d, namespace: x}}, spec: {{replicas: 2, {}}}}}\n---\n\
             {{apiVersion: v1, kind: Pod, metadata: {{generateName: g-}}, spec: {{containers: [{{name: c, image: i}}]}}}}\n---\n\
             {{apiVersion: v1, kind: Pod, metadata: {{generateName: g-}}, spec: {{containers: [{{name: c, image: i}}]}}}}\n---\n\
             {{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {{name: high}}, value: 9}}\n",
            TEMPLATE.replace("spec: {", "spec: {priorityClassName: high, ")
        ),
        false,
    )
    .unwrap();
    let pods: Vec<_> = cluster.pending.iter().map(|p| (p.full_name(), p.spec.priority)).collect();
    let expected = [("x/d-1", 9), ("x/d-2", 9), ("default/g-1", 0), ("default/g-2", 0)];
    assert_eq!(pods, expected.map(|(name, priority)| (name.to_owned(), priority)));
}

#[test]
fn a_workload_whose_pods_are_not_admitted_is_reported() {
    let template = TEMPLATE.replace("spec: {", "spec: {priorityClassName: none, ");
    let text =
        format!("{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: d}}, spec: {{{template}}}}}\n");
    let cluster = read(&text, false).unwrap();
    assert!(cluster.pending.is_empty());
    let why = "Deployment default/d: its pods cannot be created: spec.priorityClassName: no PriorityClass with name none was found";
    assert_eq!(cluster.notices, [why]);
}

#[test]
fn objects_that_plugins_look_up_are_kept_and_workloads_are_also_expanded() {
    let cluster = read(
        &format!(
            "apiVersion: v1\nkind: ServiceList\nitems:\n- {{metadata: {{name: s}}, spec: {{selector: {{app: web}}, ports: [{{port: 80}}]}}}}\n---\n\
             {{apiVersion: v1, kind: Namespace, metadata: {{name: team, labels: {{tier: gold}}}}}}\n---\n\
             {{apiVersion: apps/v1, kind: StatefulSet, metadata: {{name: db}}, spec: {{serviceName: db, {TEMPLATE}}}}}\n---\n\
             {{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {{name: s}}, spec: {{minAvailable: 1}}}}\n---\n\
             {{apiVersion: serving.knative.dev/v1, kind: Service, metadata: {{name: s}}}}\n"
        ),
        false,
    )
    .unwrap();
    let keys: Vec<String> = cluster
        .objects
        .iter()
        .map(Object::key)
        .map(|k| format!("{} {}/{}", k.kind.name(), k.namespace, k.name))
        .collect();
    let expected =
        ["Namespace /team", "Service default/s", "PodDisruptionBudget default/s", "StatefulSet default/db"];
    assert_eq!(keys, expected);
    assert_eq!(names(&cluster.pending), ["default/db-0"]);
    assert!(cluster.notices.is_empty());
    assert_eq!(cluster.custom_notices(&in_tree()), ["ignored: 1 Service"]);
}

/// A dump of a Deployment, its ReplicaSet (which requests three pods) and the given number of pods.
fn dumped(pods: usize) -> String {
    let mut text = format!(
        "{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: web, uid: d}}, spec: {{replicas: 3, {TEMPLATE}}}}}\n---\n\
         {{apiVersion: apps/v1, kind: ReplicaSet, metadata: {{name: web-1a, uid: s, ownerReferences: [{{apiVersion: apps/v1, kind: Deployment, name: web, uid: d, controller: true}}]}}, spec: {{replicas: 3, {TEMPLATE}}}}}\n"
    );
    for i in 0..pods {
        text += &format!(
            "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: web-1a-{i}, uid: p{i}, labels: {{app: web}}, ownerReferences: [{{apiVersion: apps/v1, kind: ReplicaSet, name: web-1a, uid: s, controller: true}}]}}, spec: {{nodeName: n1, containers: [{{name: c, image: i}}]}}}}\n"
        );
    }
    text
}

#[test]
fn missing_pods_are_created_if_their_workload_has_other_pods_or_fill_is_set() {
    for (pods, fill, bound, made) in [(2, false, 2, 1), (3, false, 3, 0), (0, false, 0, 0), (0, true, 0, 3)] {
        let cluster = read(&dumped(pods), fill).unwrap();
        assert_eq!((cluster.bound.len(), cluster.pending.len()), (bound, made), "{pods} {fill}");
    }
    let without_sets = dumped(2)
        .split("---\n")
        .filter(|text| !text.contains("kind: ReplicaSet, metadata"))
        .collect::<Vec<_>>()
        .join("---\n");
    let cluster = read(&without_sets, false).unwrap();
    assert_eq!((cluster.bound.len(), names(&cluster.pending)), (2, vec!["default/web-1a-2".to_owned()]));
}

#[test]
fn a_daemon_set_has_a_pod_on_every_node_that_its_template_allows() {
    let nodes = ["a", "b", "c", "d"].map(|name| {
        let taints = match name {
            "b" => "taints: [{key: own, effect: NoSchedule}]",
            "c" => {
                "taints: [{key: node.kubernetes.io/unschedulable, effect: NoSchedule}], unschedulable: true"
            }
            _ => "",
        };
        let labels = if name == "d" { "" } else { "labels: {disk: ssd}" };
        format!(
            "{{apiVersion: v1, kind: Node, metadata: {{name: {name}, {labels}}}, spec: {{{taints}}}}}\n---\n"
        )
    });
    let template = TEMPLATE.replace("spec: {", "spec: {nodeSelector: {disk: ssd}, ");
    let set = format!(
        "{{apiVersion: apps/v1, kind: DaemonSet, metadata: {{name: agent}}, spec: {{{template}}}}}\n"
    );
    let cluster = read(&format!("{}{set}", nodes.concat()), false).unwrap();
    assert_eq!(names(&cluster.pending), ["default/agent-a", "default/agent-c"]);
    let spec = &cluster.pending[0].spec;
    let required = spec.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref()).unwrap();
    assert!(format!("{required:?}").contains("metadata.name"), "{required:?}");
    assert_eq!(spec.tolerations.len(), 6);
}

#[test]
fn jobs_get_their_pods_and_cron_jobs_get_the_pods_of_one_run() {
    let job = "template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}";
    let cluster = read(
        &format!(
            "{{apiVersion: batch/v1, kind: Job, metadata: {{name: j}}, spec: {{parallelism: 3, completions: 2, {job}}}}}\n---\n\
             {{apiVersion: batch/v1, kind: Job, metadata: {{name: later}}, spec: {{suspend: true, {job}}}}}\n---\n\
             {{apiVersion: batch/v1, kind: CronJob, metadata: {{name: nightly}}, spec: {{schedule: '0 3 * * *', jobTemplate: {{spec: {{{job}}}}}}}}}\n---\n\
             {{apiVersion: batch/v1, kind: CronJob, metadata: {{name: live, uid: u}}, spec: {{schedule: '0 3 * * *', jobTemplate: {{spec: {{{job}}}}}}}}}\n"
        ),
        false,
    )
    .unwrap();
    assert_eq!(names(&cluster.pending), ["default/j-1", "default/j-2", "default/nightly-1"]);
}

#[test]
fn objects_from_memory_are_named_by_their_index() {
    let errors =
        Inventory::from_objects(vec![json!({"kind": "Pod"}), json!(1)], Release::NEWEST).unwrap_err();
    let text = errors.to_string();
    assert!(
        text.starts_with("objects[0]: Pod: metadata.name: ")
            && text.contains("\nobjects[1]: not a Kubernetes object"),
        "{text}"
    );
}

#[test]
fn custom_resources_are_kept_with_the_defaults_of_their_schema() {
    let text = "apiVersion: core.run-linux.com/v1\nkind: Scv\nmetadata: {name: n1}\nspec: {cards: 2}\nstatus: {free: 16}\n---\n\
        apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: t}\n---\n\
        apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: scvs.core.run-linux.com}\n\
        spec: {group: core.run-linux.com, scope: Cluster, names: {plural: scvs, kind: Scv}, versions: [{name: v1, served: true, \
        storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, \
        properties: {cards: {type: integer, maximum: 8}, mode: {type: string, default: Slow}}}, status: {type: object, \
        properties: {free: {type: integer}}}}}}}]}\n";
    let read = |text: &str| {
        let source = Source { name: "f".to_owned(), text: text.to_owned() };
        Inventory::from_sources(&[source], Reading::default())
    };
    let cluster = read(text).unwrap();
    let scvs: Vec<&Value> = cluster.custom_of("core.run-linux.com", "Scv").collect();
    assert_eq!(scvs.len(), 1);
    assert_eq!(scvs[0]["spec"], serde_json::json!({"cards": 2, "mode": "Slow"}));
    assert_eq!(scvs[0]["status"], serde_json::json!({"free": 16}));
    for (wrong, expected) in [
        ("cards: two", "spec.cards in body must be of type integer"),
        ("cards: 9", "spec.cards in body should be less than or equal to 8"),
        ("card: 2", "f:4: Scv n1: spec.card: unknown field (did you mean `cards`?)"),
    ] {
        let told = read(&text.replace("cards: 2", wrong)).unwrap_err().to_string();
        assert!(told.contains(expected), "{told}");
    }
}

#[test]
fn replicas_become_the_same_pods_as_when_each_is_read_on_its_own() {
    let pod = |template: u8, i: u8| {
        let (time, access) = (format!("2026-01-01T00:0{template}:0{i}Z"), format!("kube-api-access-abcd{i}"));
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("p{template}-{i}"), "uid": format!("u{template}-{i}"), "creationTimestamp": time, "labels": {"app": "a"},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "s", "controller": true}]},
            "spec": {
                "nodeName": format!("n{i}"), "volumes": [{"name": access, "projected": {"sources": []}}],
                "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}},
                    "volumeMounts": [{"name": access, "mountPath": "/x"}]}],
            },
            "status": {
                "phase": "Running", "startTime": time, "podIP": format!("10.0.0.{i}"),
                "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": time}],
            },
        });
        match template {
            0 => {}
            1 => {
                pod["spec"]["volumes"][0] =
                    json!({"name": access, "persistentVolumeClaim": {"claimName": "data"}});
            }
            2 => {
                let claim = json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
                pod["spec"]["volumes"][0] =
                    json!({"name": access, "ephemeral": {"volumeClaimTemplate": claim}});
            }
            3 => drop(pod["metadata"].as_object_mut().and_then(|metadata| metadata.remove("uid"))),
            4 => drop(pod["spec"].as_object_mut().and_then(|spec| spec.remove("nodeName"))),
            5 => pod["status"]["conditions"][0]["lastTransitionTime"] = json!("2026-01-01"),
            _ => pod["spec"]["resourceClaims"] = json!([{"name": "gpu", "resourceClaimName": "gpu"}]),
        }
        pod
    };
    for templates in [vec![0, 1, 2, 3, 4, 6], vec![5]] {
        let pods: Vec<Value> = templates.iter().flat_map(|of| (1..5).map(|i| pod(*of, i))).collect();
        let text = harbormaster_yaml::write(&json!({"apiVersion": "v1", "kind": "List", "items": pods}));
        for full in [false, true] {
            let read = |text: String| {
                let source = Source { name: "f.yaml".into(), text };
                Inventory::from_sources(&[source], Reading { full, ..Reading::default() })
                    .map_err(|e| e.to_string())
            };
            // The mark of the document's end keeps the text from being read piece by piece.
            let (fast, slow) = (read(text.clone()), read(text.clone() + "...\n"));
            assert_eq!(fast.is_err(), templates == [5], "{:?}", fast.err());
            let shown = |read: Result<Inventory, String>| {
                read.map(|cluster| {
                    let full: Vec<Value> = cluster.full.into_iter().map(|(_, value)| value).collect();
                    (cluster.bound, cluster.pending, cluster.custom, full, cluster.notices)
                })
            };
            assert_eq!(shown(fast), shown(slow));
        }
    }
}

#[test]
fn nodes_of_a_pool_become_the_same_nodes_as_when_each_is_read_on_its_own() {
    let node = |pool: u8, i: u8| {
        let name = format!("pool{pool}-{i}");
        let mut node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "uid": format!("u{pool}-{i}"), "resourceVersion": "7", "annotations": {"kubernetes.io/hostname": name, "a": "1"},
                "labels": {"kubernetes.io/hostname": name, "pool": format!("p{pool}"), "kubernetes.io/os": "linux"}},
            "spec": {"podCIDR": format!("10.0.{i}.0/24"), "podCIDRs": [format!("10.0.{i}.0/24")], "providerID": format!("cloud://{i}"),
                "taints": [{"key": "k", "effect": "NoExecute", "timeAdded": format!("2026-01-01T00:00:0{i}Z")}]},
            "status": {
                "capacity": {"cpu": "4", "pods": "110"}, "images": [{"names": ["a:1"], "sizeBytes": 5}],
                "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": format!("2026-01-01T00:00:0{i}Z")}],
            },
        });
        match pool {
            0 => {}
            1 => node["metadata"]["labels"]["kubernetes.io/hostname"] = "same".into(),
            2 => drop(node["metadata"].as_object_mut().and_then(|metadata| metadata.remove("labels"))),
            3 => drop(node.as_object_mut().and_then(|node| node.remove("spec"))),
            4 => node["metadata"]["labels"]["kubernetes.io/hostname"] = "pool4-1".into(),
            _ => node["status"]["images"][0]["sizeBytes"] = i.into(),
        }
        node
    };
    let nodes: Vec<Value> = (0..6).flat_map(|of| (1..5).map(move |i| node(of, i))).collect();
    let text = harbormaster_yaml::write(&json!({"apiVersion": "v1", "kind": "List", "items": nodes}));
    for full in [false, true] {
        let read = |text: String| {
            let source = Source { name: "f.yaml".into(), text };
            let cluster = Inventory::from_sources(&[source], Reading { full, ..Reading::default() }).unwrap();
            let full: Vec<Value> = cluster.full.into_iter().map(|(_, value)| value).collect();
            (cluster.nodes, full)
        };
        // The mark of the document's end keeps the text from being read piece by piece.
        let (fast, slow) = (read(text.clone()), read(text.clone() + "...\n"));
        assert_eq!(fast, slow);
        assert_eq!(fast.0.len(), 24);
    }
}
