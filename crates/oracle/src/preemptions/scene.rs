//! Full clusters generated from seeds, and pods that do not fit in them.

use std::ops::RangeInclusive;

use serde_json::{Value, json};

use crate::generate::Random;

/// Distribution of priorities.
#[derive(Debug, Clone, Copy)]
enum Mix {
    /// All pods on a node have the same priority, which is high on most nodes.
    ByNode,
    /// Every pod has a random priority.
    Everywhere,
    /// Every node has a small pod with the lowest priority; all other pods have random priorities.
    WithDaemons,
    /// All pods have the same priority.
    Alike,
}

const MIXES: &[Mix] = &[Mix::ByNode, Mix::Everywhere, Mix::WithDaemons, Mix::Alike];
const PRIORITIES: &[i64] = &[-10, 0, 0, 100, 100, 300, 900];
/// Values of the label with which budgets select pods. Every budget has its own value, so no pod belongs to
/// several budgets.
const APPS: &[&str] = &["a", "b", "c", "d"];
const GPU: &str = "example.com/gpu";
const PORT: u16 = 8080;

/// A cluster with preemptors.
#[derive(Debug)]
pub(super) struct Scene {
    pub(super) seed: u64,
    pub(super) objects: Vec<Value>,
}

impl Scene {
    pub(super) fn new(seed: u64, nodes: &RangeInclusive<usize>, preemptors: usize) -> Self {
        let mut random = Random::new(seed);
        let nodes = random.range(*nodes.start(), *nodes.end());
        let mix = *random.pick(MIXES);
        // With few seconds to choose from, many pods have equal start times.
        let seconds = *random.pick(&[5, 3000]);
        let mut objects: Vec<Value> = Vec::new();
        if random.chance(60) {
            objects.extend(APPS.iter().map(|app| budget(&mut random, app)));
        }
        let mut bound = Vec::new();
        for at in 0..nodes {
            objects.push(node(&mut random, at));
            fill(&mut random, at, mix, seconds, &objects[objects.len() - 1], &mut bound);
        }
        objects.append(&mut bound);
        objects.extend((0..preemptors).map(|at| preemptor(&mut random, at)));
        Self { seed, objects }
    }
}

fn budget(random: &mut Random, app: &str) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": app, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": random.pick(&[0, 0, 1, 2, 20]), "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0},
    })
}

fn node(random: &mut Random, at: usize) -> Value {
    let name = format!("node-{at}");
    let mut resources = json!({
        "cpu": random.pick(&["4", "4", "8", "16"]),
        "memory": random.pick(&["8Gi", "16Gi", "32Gi"]),
        "pods": random.pick(&["110", "110", "6"]),
    });
    if random.chance(30) {
        resources[GPU] = "4".into();
    }
    let mut node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name,
            "topology.kubernetes.io/zone": format!("zone-{}", random.below(3)),
        }},
        "spec": {},
        "status": {"capacity": resources, "allocatable": resources},
    });
    if random.chance(5) {
        node["spec"]["taints"] = json!([{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]);
    }
    node
}

/// Adds pods to the node until its CPU is used up.
fn fill(random: &mut Random, at: usize, mix: Mix, seconds: usize, node: &Value, pods: &mut Vec<Value>) {
    let of_node = *random.pick(&[0, 100, 900, 900, 900]);
    let has = &node["status"]["allocatable"];
    let mut free = has["cpu"].as_str().and_then(|cpu| cpu.parse::<i64>().ok()).unwrap_or(0) * 1000;
    let mut gpus = if has[GPU].is_null() { 0 } else { 4 };
    let most = if has["pods"] == "6" { 6 } else { 12 };
    let step = *random.pick(&[300, 600, 1000, 2000]);
    for nth in 0..most {
        let is_daemon = nth == 0 && matches!(mix, Mix::WithDaemons);
        let cpu = match step * random.range(1, 2) as i64 {
            _ if is_daemon => 10,
            _ if nth == most - 1 => free,
            cpu => cpu.min(free),
        };
        if cpu == 0 {
            break;
        }
        free -= cpu;
        let priority = match mix {
            _ if is_daemon => -10,
            Mix::ByNode => of_node,
            Mix::Everywhere | Mix::WithDaemons => *random.pick(PRIORITIES),
            Mix::Alike => 0,
        };
        let mut requests =
            json!({"cpu": format!("{cpu}m"), "memory": random.pick(&["64Mi", "512Mi", "1Gi"])});
        if gpus > 0 && random.chance(60) {
            gpus -= 1;
            requests[GPU] = "1".into();
        }
        let mut pod = pod(&format!("bound-{at}-{nth}"), priority, requests);
        if random.chance(70) {
            pod["metadata"]["labels"] = json!({"app": random.pick(APPS)});
        }
        if nth == 1 && random.chance(30) {
            pod["spec"]["containers"][0]["ports"] = json!([{"containerPort": PORT, "hostPort": PORT}]);
        }
        pod["spec"]["nodeName"] = format!("node-{at}").into();
        let second = random.below(seconds);
        let started = format!("2026-01-01T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60);
        pod["status"] = json!({"phase": "Running", "startTime": started});
        pods.push(pod);
    }
}

fn preemptor(random: &mut Random, at: usize) -> Value {
    let mut requests = json!({
        "cpu": random.pick(&["500m", "1", "2", "3500m", "4", "7"]),
        "memory": random.pick(&["64Mi", "1Gi", "4Gi"]),
    });
    if random.chance(25) {
        requests[GPU] = (*random.pick(&["1", "2", "4"])).into();
    }
    let mut pod = pod(&format!("preemptor-{at}"), *random.pick(&[1000, 1000, 1000, 500]), requests);
    if random.chance(15) {
        pod["spec"]["containers"][0]["ports"] = json!([{"containerPort": PORT, "hostPort": PORT}]);
    }
    if random.chance(20) {
        pod["spec"]["nodeSelector"] = json!({"topology.kubernetes.io/zone": "zone-1"});
    }
    if random.chance(20) {
        let term = json!({
            "labelSelector": {"matchLabels": {"app": random.pick(APPS)}},
            "topologyKey": "kubernetes.io/hostname",
        });
        pod["spec"]["affinity"] =
            json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    }
    pod
}

fn pod(name: &str, priority: i64, requests: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {
            "priority": priority,
            "containers": [{"name": "c", "image": "app:1", "resources": {"requests": requests}}],
        },
    })
}
