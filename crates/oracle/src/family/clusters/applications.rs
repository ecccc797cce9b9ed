//! Clusters with applications whose workloads depend on each other.

use harbormaster_api::Timestamp;
use serde_json::{Value, json};

use crate::generate::Random;

const GROUP: &str = "appgroup.diktyo.x-k8s.io";

/// Returns arguments and objects.
///
/// The pods of an application entered the queue together, just after its object was created, and have equal priorities
/// and different workloads: otherwise, the order of the real plugin has cycles.
pub(super) fn cluster(random: &mut Random) -> (Option<Value>, Vec<Value>) {
    let args = random.chance(50).then(|| json!({"namespaces": ["other", "default"]}));
    let (mut objects, mut pods) = (Vec::new(), Vec::new());
    for number in 0..random.range(2, 8) {
        let size = 2 * random.range(1, 5);
        if random.chance(30) {
            for _ in 0..size {
                let name = format!("pod-{}", pods.len());
                let group = random.chance(10).then_some("");
                pods.push(pod(&name, *random.pick(&[0, 0, 5, -3]), group, "w0"));
            }
            continue;
        }
        let name = format!("app-{number}");
        // As in the comparison, pairs of pods entered the queue together.
        let created = 1_800_000_000 + i64::try_from(pods.len() / 2).unwrap_or(0);
        // The real plugin panics if it does not find an object.
        let namespace = if args.is_some() { *random.pick(&["default", "other"]) } else { "default" };
        objects.push(application(random, &name, namespace, created, size));
        let priority = *random.pick(&[0, 0, 5, -3]);
        let all: Vec<String> = (0..size).map(|index| format!("w{index}")).collect();
        for workload in random.sample(&all, size) {
            pods.push(pod(&format!("pod-{}", pods.len()), priority, Some(&name), &workload));
        }
    }
    objects.push(json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "node-0"},
        "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "110"}},
    }));
    objects.extend(pods);
    (args, objects)
}

fn application(random: &mut Random, name: &str, namespace: &str, created: i64, size: usize) -> Value {
    let indexes: Vec<usize> = (1..=size).collect();
    let indexes = random.sample(&indexes, size);
    // One workload may be missing. The list is sorted, because the real plugin searches it by halves.
    let missing = random.below(size + 3);
    let order: Vec<Value> = (0..size)
        .filter(|index| *index != missing)
        .map(|index| json!({"workload": {"kind": "Deployment", "name": "w", "selector": format!("w{index}")}, "index": indexes[index]}))
        .collect();
    json!({
        "apiVersion": "appgroup.diktyo.x-k8s.io/v1alpha1",
        "kind": "AppGroup",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "creationTimestamp": Timestamp::from_secs(created).to_rfc3339(),
        },
        "spec": {"numMembers": size, "topologySortingAlgorithm": "KahnSort", "workloads": []},
        "status": {"topologyOrder": order},
    })
}

fn pod(name: &str, priority: i32, group: Option<&str>, workload: &str) -> Value {
    let mut labels = json!({});
    if let Some(group) = group {
        labels[GROUP] = group.into();
        labels[format!("{GROUP}.workload")] = workload.into();
    }
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {
            "schedulerName": "default-scheduler",
            "containers": [{"name": "c", "image": "i"}],
            "priority": priority,
        },
    })
}
