//! Clusters whose nodes have NUMA nodes.

use serde_json::{Value, json};

use crate::generate::Random;

const NIC: &str = "vendor.io/nic";
const HUGE: &str = "hugepages-2Mi";
const STRATEGIES: &[&str] = &["LeastAllocated", "MostAllocated", "BalancedAllocation", "LeastNUMANodes"];
const POLICIES: &[&str] =
    &["SingleNUMANodePodLevel", "SingleNUMANodeContainerLevel", "BestEffortPodLevel", "Restricted", "None"];

/// Returns arguments and objects.
pub(super) fn cluster(random: &mut Random) -> (Option<Value>, Vec<Value>) {
    let strategy = *random.pick(STRATEGIES);
    // Scores by the number of NUMA nodes differ if a resource is listed nowhere.
    let devices = strategy != "LeastNUMANodes" && random.chance(60);
    let args = match random.chance(85) || strategy == "LeastNUMANodes" {
        true => Some(arguments(random, strategy)),
        false => None,
    };
    let nodes = random.range(1, 20);
    let mut objects: Vec<Value> = Vec::new();
    for index in 0..nodes {
        let name = format!("node-{index}");
        objects.push(node(random, &name, devices));
        if random.chance(90) {
            objects.push(topology(random, &name, devices));
        }
    }
    let pods = random.range(10, 40);
    objects.extend((0..pods).map(|index| pod(random, &format!("pod-{index}"), devices)));
    (args, objects)
}

fn arguments(random: &mut Random, strategy: &str) -> Value {
    let mut args = json!({"scoringStrategy": {"type": strategy}});
    if random.chance(50) {
        let spec = |name: &str| json!({"name": name, "weight": random.pick(&[0, 1, 2, 5])});
        args["scoringStrategy"]["resources"] = ["cpu", "memory", NIC].map(spec).into();
    }
    args
}

fn node(random: &mut Random, name: &str, devices: bool) -> Value {
    let mut allocatable =
        json!({"cpu": "64", "memory": "256Gi", "pods": "110", "ephemeral-storage": "100Gi"});
    if devices && random.chance(80) {
        allocatable[NIC] = "16".into();
    }
    if devices && random.chance(50) {
        allocatable[HUGE] = "1Gi".into();
    }
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"allocatable": allocatable, "capacity": allocatable},
    })
}

fn topology(random: &mut Random, name: &str, devices: bool) -> Value {
    let count = random.range(1, 4);
    let zones: Vec<Value> = (0..count).map(|id| zone(random, id, count, devices)).collect();
    let mut object = json!({
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": name},
        "zones": zones,
    });
    if random.chance(60) {
        object["topologyPolicies"] = json!([random.pick(POLICIES)]);
    }
    if random.chance(75) {
        let policy = *random.pick(&["single-numa-node", "single-numa-node", "restricted", "none", "wrong"]);
        let scope = *random.pick(&["pod", "container", "wrong"]);
        object["attributes"] = json!([
            {"name": "topologyManagerPolicy", "value": policy},
            {"name": "topologyManagerScope", "value": scope},
            {"name": "topologyManagerMaxNUMANodes", "value": random.pick(&["8", "4", "16", "1", "x", "100"])},
        ]);
    }
    object
}

fn zone(random: &mut Random, id: usize, count: usize, devices: bool) -> Value {
    let mut resources = Vec::new();
    let mut list = |name: &str, amounts: &[&str], percent: usize| {
        if random.chance(percent) {
            let amount = *random.pick(amounts);
            resources
                .push(json!({"name": name, "capacity": amount, "allocatable": amount, "available": amount}));
        }
    };
    // Without devices, all NUMA nodes list the same resources.
    let usual = if devices { 95 } else { 100 };
    list("cpu", &["0", "1", "2500m", "4", "8", "16", "32"], usual);
    list("memory", &["0", "512Mi", "4Gi", "16Gi", "128Gi", "1"], usual);
    if devices {
        list(NIC, &["0", "1", "4", "8"], 60);
        list(HUGE, &["0", "4Mi", "512Mi"], 40);
    }
    let costs: Vec<Value> = (0..count)
        .filter_map(|to| {
            let near = if to == id { 10 } else { *random.pick(&[12, 20, 21, 255]) };
            random.chance(90).then(|| json!({"name": format!("node-{to}"), "value": near}))
        })
        .collect();
    // The real plugin panics if the numbers of NUMA nodes have gaps.
    let is_other = devices && id > 0 && id + 1 == count && random.chance(10);
    let kind = if is_other { "Cluster" } else { "Node" };
    json!({"name": format!("node-{id}"), "type": kind, "resources": resources, "costs": costs})
}

fn pod(random: &mut Random, name: &str, devices: bool) -> Value {
    let is_guaranteed = random.chance(65);
    let containers: Vec<Value> =
        (0..random.range(1, 3)).map(|index| container(random, index, is_guaranteed, devices)).collect();
    let mut spec = json!({"schedulerName": "default-scheduler", "containers": containers, "priority": 0});
    if random.chance(25) {
        spec["initContainers"] = json!([container(random, 9, is_guaranteed, devices)]);
    }
    if random.chance(8) {
        spec["overhead"] = json!({"cpu": "250m", "memory": "120Mi"});
    }
    let metadata = json!({"name": name, "namespace": "default"});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}

fn container(random: &mut Random, index: usize, is_guaranteed: bool, devices: bool) -> Value {
    let mut list = json!({});
    let always = if is_guaranteed { 100 } else { 40 };
    if random.chance(always) {
        list["cpu"] = (*random.pick(&["100m", "1", "2", "2500m", "4", "8", "20"])).into();
    }
    if random.chance(always) {
        list["memory"] = (*random.pick(&["64Mi", "1Gi", "4Gi", "16Gi", "1"])).into();
    }
    if devices && random.chance(25) {
        list[NIC] = (*random.pick(&["0", "1", "2", "8"])).into();
    }
    if devices && random.chance(15) {
        list[HUGE] = (*random.pick(&["2Mi", "256Mi"])).into();
    }
    if devices && random.chance(10) {
        list["ephemeral-storage"] = "1Gi".into();
    }
    let mut resources = json!({"requests": list});
    if is_guaranteed {
        resources["limits"] = list;
    }
    json!({"name": format!("c{index}"), "image": "i", "resources": resources})
}
