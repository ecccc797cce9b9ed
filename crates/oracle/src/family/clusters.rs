//! Random clusters for each plugin.

mod applications;
mod loads;
mod network;
mod numa;
mod quotas;
mod syscalls;
mod tolerance;

use serde_json::{Value, json};

use super::Plugin;
use crate::generate::{Cluster, Random};

/// Generates the cluster for a seed.
pub(super) fn cluster(plugin: Plugin, seed: u64) -> Cluster {
    let random = &mut Random::new(seed);
    let (args, objects) = match plugin {
        Plugin::CapacityScheduling => (None, quotas::cluster(random)),
        Plugin::LoadVariationRiskBalancing
        | Plugin::LowRiskOverCommitment
        | Plugin::Peaks
        | Plugin::TargetLoadPacking => loads::cluster(plugin, random),
        Plugin::NetworkOverhead => network::cluster(random),
        Plugin::NodeResourceTopologyMatch => numa::cluster(random),
        Plugin::NodeResourcesAllocatable => (Some(allocatable_args(random)), plain(random)),
        Plugin::PodState | Plugin::QOSSort => (None, plain(random)),
        Plugin::SySched => syscalls::cluster(random),
        Plugin::TopologicalSort => applications::cluster(random),
        Plugin::PreemptionToleration => (None, tolerance::cluster(random)),
    };
    Cluster { config: config(plugin, args), features: Vec::new(), objects }
}

/// Objects of a cluster without custom resources.
fn plain(random: &mut Random) -> Vec<Value> {
    let nodes = random.range(1, 30);
    let mut objects: Vec<Value> = (0..nodes).map(|index| node(random, index)).collect();
    let bound = random.below(nodes * 4);
    for index in 0..bound {
        let on = format!("node-{}", random.below(nodes));
        objects.push(bound_pod(random, &format!("bound-{index}"), &on));
    }
    let pending = random.range(5, 40);
    objects.extend((0..pending).map(|index| pending_pod(random, &format!("pod-{index}"), nodes)));
    objects
}

/// A configuration that enables one plugin, and what no scheduler can do without.
fn config(plugin: Plugin, args: Option<Value>) -> Value {
    let sorts = matches!(plugin, Plugin::QOSSort | Plugin::TopologicalSort);
    let sort = if sorts { None } else { Some("PrioritySort") };
    let names = [Some(plugin.to_string()), sort.map(str::to_owned), Some("DefaultBinder".to_owned())];
    let enabled: Vec<Value> = names.into_iter().flatten().map(|name| json!({"name": name})).collect();
    let plugin_config: Vec<Value> =
        args.into_iter().map(|args| json!({"name": plugin.to_string(), "args": args})).collect();
    let mut plugins = json!({"multiPoint": {"enabled": enabled, "disabled": [{"name": "*"}]}});
    if plugin == Plugin::PreemptionToleration {
        // The reason why pods do not fit.
        for point in ["preFilter", "filter"] {
            plugins[point] = json!({"enabled": [{"name": "NodeResourcesFit"}]});
        }
    }
    json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{
            "schedulerName": "default-scheduler",
            "plugins": plugins,
            "pluginConfig": plugin_config,
        }],
    })
}

const CPU: &[&str] = &["0", "1", "100m", "250m", "2", "3500m", "64", "0.5", "1n", "1k"];
const MEMORY: &[&str] = &["0", "1Gi", "64Mi", "1500M", "512Gi", "1", "128974848000m", "1Ti"];
const GPU: &str = "example.com/gpu";

fn node(random: &mut Random, index: usize) -> Value {
    let mut allocatable = json!({
        "cpu": random.pick(CPU),
        "memory": random.pick(MEMORY),
        "pods": random.pick(&["0", "10", "110"]),
    });
    if random.chance(30) {
        allocatable["ephemeral-storage"] = (*random.pick(MEMORY)).into();
    }
    if random.chance(30) {
        allocatable[GPU] = (*random.pick(&["0", "1", "4", "8"])).into();
    }
    let labels = json!({"kubernetes.io/hostname": format!("node-{index}")});
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": format!("node-{index}"), "labels": labels},
        "status": {"allocatable": allocatable, "capacity": allocatable},
    })
}

fn pod(random: &mut Random, name: &str) -> Value {
    let containers: Vec<Value> = (0..random.range(1, 3)).map(|index| container(random, index)).collect();
    let mut spec = json!({
        "schedulerName": "default-scheduler",
        "containers": containers,
        "priority": random.pick(&[0, 0, 0, 5, -5, 1000]),
    });
    if random.chance(20) {
        let mut init = container(random, 9);
        if random.chance(50) {
            init["restartPolicy"] = "Always".into();
        }
        spec["initContainers"] = json!([init]);
    }
    let namespace = *random.pick(&["default", "default", "blue"]);
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    })
}

/// A container; half of them are limited to what they request.
fn container(random: &mut Random, index: usize) -> Value {
    let mut container = json!({"name": format!("c{index}"), "image": "i"});
    let mut list = json!({});
    if random.chance(70) {
        list["cpu"] = (*random.pick(&["100m", "1", "0", "250m"])).into();
    }
    if random.chance(70) {
        list["memory"] = (*random.pick(&["64Mi", "1Gi", "0", "1"])).into();
    }
    if random.chance(10) {
        list[GPU] = "1".into();
    }
    match random.below(4) {
        0 => container["resources"]["requests"] = list,
        1 => container["resources"]["limits"] = list,
        2 => container["resources"] = json!({"requests": list, "limits": list}),
        _ => {}
    }
    container
}

fn bound_pod(random: &mut Random, name: &str, node: &str) -> Value {
    let mut pod = pod(random, name);
    pod["spec"]["nodeName"] = node.into();
    pod["status"] = json!({"phase": "Running"});
    if random.chance(35) {
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    }
    pod
}

fn pending_pod(random: &mut Random, name: &str, nodes: usize) -> Value {
    let mut pod = pod(random, name);
    if random.chance(40) {
        pod["status"] = json!({"nominatedNodeName": format!("node-{}", random.below(nodes + 1))});
    }
    pod
}

fn allocatable_args(random: &mut Random) -> Value {
    let mut args = json!({});
    if random.chance(75) {
        args["mode"] = (*random.pick(&["Least", "Most"])).into();
    }
    if random.chance(75) {
        let names = ["cpu", "memory", "ephemeral-storage", "pods", GPU, "unknown"];
        let count = random.range(1, 4);
        let chosen = random.sample(&names, count).into_iter();
        let spec = |name| json!({"name": name, "weight": random.pick(&[1_i64, 2, 7, 100, 1 << 20])});
        args["resources"] = chosen.map(spec).collect();
    }
    args
}
