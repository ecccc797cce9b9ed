//! Clusters that are shared by quotas. Every pod requests all resources that the quotas list, and the first quota
//! guarantees all of them.

use serde_json::{Value, json};

use crate::generate::Random;

const NAMESPACES: &[&str] = &["team-a", "team-b", "team-c", "plain"];
const GPU: &str = "example.com/gpu";

/// Returns objects.
pub(super) fn cluster(random: &mut Random) -> Vec<Value> {
    let has_gpus = random.chance(40);
    let nodes = random.range(1, 6);
    let mut objects: Vec<Value> = (0..nodes).map(|index| node(random, index)).collect();
    let quotas = random.range(1, 4);
    objects.extend((0..quotas).map(|index| quota(random, index, has_gpus)));
    for index in 0..random.below(nodes * 6) {
        let mut pod = pod(random, &format!("bound-{index}"), has_gpus);
        pod["spec"]["nodeName"] = format!("node-{}", random.below(nodes)).into();
        pod["status"] = json!({"phase": "Running", "startTime": minute(index)});
        if random.chance(10) {
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        objects.push(pod);
    }
    for index in 0..random.range(5, 20) {
        let mut pod = pod(random, &format!("pod-{index}"), has_gpus);
        if random.chance(20) {
            pod["status"] = json!({"nominatedNodeName": format!("node-{}", random.below(nodes))});
        }
        objects.push(pod);
    }
    objects
}

/// A start time. They differ, because kube-scheduler orders pods without a start time by the clock.
fn minute(index: usize) -> String {
    format!("2026-01-01T{:02}:{:02}:00Z", index / 60 % 24, index % 60)
}

fn node(random: &mut Random, index: usize) -> Value {
    let allocatable = json!({"cpu": random.pick(&["4", "8"]), "memory": "16Gi", "pods": "110", GPU: "8"});
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": format!("node-{index}")},
        "status": {"allocatable": allocatable, "capacity": allocatable},
    })
}

fn quota(random: &mut Random, index: usize, has_gpus: bool) -> Value {
    let mut spec = json!({});
    if index == 0 || random.chance(80) {
        spec["min"] = amounts(random, &["0", "1", "2500m", "4", "8", "16"], has_gpus);
    }
    if random.chance(80) {
        spec["max"] = amounts(random, &["1", "4", "4500m", "8", "16", "1k"], has_gpus);
    }
    json!({
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": "quota", "namespace": NAMESPACES[index]},
        "spec": spec,
    })
}

fn amounts(random: &mut Random, cpu: &[&str], has_gpus: bool) -> Value {
    let mut amounts =
        json!({"cpu": random.pick(cpu), "memory": random.pick(&["512Mi", "2Gi", "8Gi", "64Gi", "1e12"])});
    if has_gpus {
        amounts[GPU] = (*random.pick(&["0", "2", "4", "16"])).into();
    }
    if random.chance(10) {
        amounts["pods"] = "1".into();
    }
    amounts
}

fn pod(random: &mut Random, name: &str, has_gpus: bool) -> Value {
    let mut spec = json!({
        "schedulerName": "default-scheduler",
        "priority": random.pick(&[0, 0, 5, 100]),
        "containers": [container(random, has_gpus)],
    });
    if random.chance(15) {
        spec["initContainers"] = json!([container(random, has_gpus)]);
    }
    if random.chance(10) {
        spec["overhead"] = json!({"cpu": "250m", "memory": "32Mi"});
    }
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": random.pick(NAMESPACES)},
        "spec": spec,
    })
}

fn container(random: &mut Random, has_gpus: bool) -> Value {
    let cpu = random.pick(&["100m", "500m", "1", "2"]);
    let memory = random.pick(&["64Mi", "1Gi", "2000M"]);
    let mut requests = json!({"cpu": cpu, "memory": memory});
    if has_gpus {
        requests[GPU] = (*random.pick(&["1", "1", "2"])).into();
    }
    json!({"name": "c", "image": "i", "resources": {"requests": requests, "limits": requests}})
}
