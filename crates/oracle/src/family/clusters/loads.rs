//! Clusters with measured loads.

use serde_json::{Value, json};

use crate::family::Plugin;
use crate::generate::{Random, push};

/// Address that the configuration names, and the name of the report of this source.
const WATCHER: &str = "http://load-watcher:2020";
const REPORT: &str = "load-watcher-load-watcher-2020";
/// Ends of the measured window: long after all pods were placed, or long before.
const AFTER: i64 = 4_000_000_000;
const BEFORE: i64 = 1_000_000_000;

/// Returns arguments and objects.
pub(super) fn cluster(plugin: Plugin, random: &mut Random) -> (Option<Value>, Vec<Value>) {
    let nodes = random.range(1, 25);
    let mut objects: Vec<Value> = (0..nodes).map(|index| node(plugin, random, index)).collect();
    // The other plugins count pods that the measurement does not contain yet, which the real ones do not.
    let end = if plugin == Plugin::TargetLoadPacking { *random.pick(&[AFTER, BEFORE]) } else { AFTER };
    objects.push(report(plugin, random, nodes, end));
    for index in 0..random.below(nodes * 4) {
        let mut pod = pod(plugin, random, &format!("bound-{index}"));
        pod["spec"]["nodeName"] = format!("node-{}", random.below(nodes)).into();
        pod["status"] = json!({"phase": "Running", "startTime": "2026-01-01T00:00:00Z"});
        objects.push(pod);
    }
    let pending = random.range(5, 30);
    objects.extend((0..pending).map(|index| pod(plugin, random, &format!("pod-{index}"))));
    (Some(args(plugin, random, nodes)), objects)
}

fn args(plugin: Plugin, random: &mut Random, nodes: usize) -> Value {
    if plugin == Plugin::Peaks {
        let model = |random: &mut Random| {
            let k1 = *random.pick(&[-91.504_930_195_883_65, -12.5, 3.0, 0.0]);
            json!({"k0": 471.7, "k1": k1, "k2": random.pick(&[-0.071_860_490_525_162_28, -0.01, 0.02])})
        };
        let models: Value = (0..nodes).map(|index| (format!("node-{index}"), model(random))).collect();
        return json!({"WatcherAddress": WATCHER, "NodePowerModel": models});
    }
    let mut args = json!({"watcherAddress": WATCHER});
    let mut maybe = |field: &str, values: &[Value]| {
        if random.chance(60) {
            args[field] = random.pick(values).clone();
        }
    };
    match plugin {
        Plugin::TargetLoadPacking => {
            maybe("targetUtilization", &[40.into(), 70.into(), 1.into(), 99.into(), 0.into(), (-3).into()]);
            maybe("defaultRequestsMultiplier", &["1.5".into(), "1".into(), "0.333".into(), "2.75".into()]);
            maybe(
                "defaultRequests",
                &[json!({"cpu": "1000m"}), json!({"cpu": "0"}), json!({"memory": "1Gi"})],
            );
        }
        Plugin::LoadVariationRiskBalancing => {
            let factors = [json!(1), json!(0), json!(2), json!(0.5), json!(-1), json!(7.25)];
            maybe("safeVarianceMargin", &factors);
            maybe("safeVarianceSensitivity", &factors);
        }
        _ => {
            maybe("smoothingWindowSize", &[5.into(), 1.into(), 0.into(), 40.into()]);
            let weights = [
                json!({"cpu": 1}),
                json!({"memory": 0.1}),
                json!({"cpu": 0, "memory": 0.9}),
                json!({}),
                json!({"cpu": 3}),
            ];
            maybe("riskLimitWeights", &weights);
        }
    }
    args
}

fn node(plugin: Plugin, random: &mut Random, index: usize) -> Value {
    // Peaks treats an overloaded node differently, so its nodes are large.
    let sizes: &[(&str, &str)] = match plugin {
        Plugin::Peaks => &[("64", "512Gi"), ("48", "256Gi")],
        _ => &[("4", "16Gi"), ("3500m", "4Gi"), ("64", "512Gi"), ("1", "1500M"), ("0", "0")],
    };
    let (cpu, memory) = *random.pick(sizes);
    let capacity = json!({"cpu": cpu, "memory": memory, "pods": "110"});
    let mut allocatable = capacity.clone();
    if cpu == "4" {
        allocatable["cpu"] = (*random.pick(&["4", "3800m", "3"])).into();
        allocatable["memory"] = (*random.pick(&["16Gi", "15Gi"])).into();
    }
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": format!("node-{index}")},
        "status": {"allocatable": allocatable, "capacity": capacity},
    })
}

fn report(plugin: Plugin, random: &mut Random, nodes: usize, end: i64) -> Value {
    let mut map = json!({});
    for index in 0..nodes {
        if plugin == Plugin::Peaks || random.chance(90) {
            map[format!("node-{index}")] = json!({"metrics": metrics(plugin, random)});
        }
    }
    json!({
        "apiVersion": "trimaran.scheduler-plugins.x-k8s.io/v1alpha1",
        "kind": "NodeLoads",
        "metadata": {"name": REPORT},
        "timestamp": end,
        "window": {"duration": "15m", "start": end - 900, "end": end},
        "source": "Prometheus",
        "data": {"NodeMetricsMap": map},
    })
}

/// Measurements of a node, in any order.
fn metrics(plugin: Plugin, random: &mut Random) -> Value {
    let mut metrics = json!([]);
    let mut add = |random: &mut Random, kind: &str, operator: &str, value: f64| {
        let name = random.pick(&["a", "b"]);
        push(
            &mut metrics,
            json!({"name": name, "type": kind, "operator": operator, "rollup": "", "value": value}),
        );
    };
    let level = |random: &mut Random| f64::from(u32::try_from(random.below(9000)).unwrap_or(0)) / 100.0;
    if plugin == Plugin::Peaks {
        let value = level(random);
        add(random, "CPU", "AVG", value);
    }
    for _ in 0..random.below(6) {
        let kind = *random.pick(&["CPU", "CPU", "Memory", "Memory", "Bandwidth"]);
        let operator = *random.pick(&["AVG", "AVG", "STD", "STD", "Latest", ""]);
        let value = match operator {
            "STD" => level(random) / 3.0,
            _ => level(random),
        };
        let value = if random.chance(5) { *random.pick(&[0.0, 100.0, 120.0]) } else { value };
        // Peaks reads the first measurement only, which must not overload the node.
        add(random, kind, operator, value);
    }
    metrics
}

fn pod(plugin: Plugin, random: &mut Random, name: &str) -> Value {
    let mut containers: Vec<Value> = (0..random.range(1, 3)).map(|index| container(random, index)).collect();
    if plugin == Plugin::Peaks {
        // Otherwise, the scores of the real plugin are errors of rounding.
        containers[0]["resources"]["requests"]["cpu"] = "100m".into();
    }
    let mut spec = json!({"schedulerName": "default-scheduler", "containers": containers, "priority": 0});
    if random.chance(20) {
        spec["initContainers"] = json!([container(random, 9)]);
    }
    if random.chance(10) {
        spec["overhead"] = json!({"cpu": "50m", "memory": "16Mi"});
    }
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    })
}

fn container(random: &mut Random, index: usize) -> Value {
    let mut container = json!({"name": format!("c{index}"), "image": "i"});
    let mut list = |values: &[(&str, &[&str])], percent: usize| {
        let mut list = json!({});
        for (name, amounts) in values {
            if random.chance(percent) {
                list[*name] = (*random.pick(amounts)).into();
            }
        }
        list
    };
    let requests = list(&[("cpu", &["100m", "1", "0", "333m"]), ("memory", &["64Mi", "1Gi", "0", "1"])], 60);
    let limits = list(&[("cpu", &["1", "1500m", "2"]), ("memory", &["1Gi", "2Gi", "5Gi"])], 40);
    container["resources"] = json!({"requests": requests, "limits": limits});
    container
}
