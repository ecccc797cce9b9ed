//! Clusters with applications, regions and zones.

use serde_json::{Value, json};

use crate::generate::{Random, push};

const REGION: &str = "topology.kubernetes.io/region";
const ZONE: &str = "topology.kubernetes.io/zone";
const GROUP: &str = "appgroup.diktyo.x-k8s.io";
const WORKLOADS: &[&str] = &["w1", "w2", "w3", "w4"];
const WEIGHTS: &[&str] = &["UserDefined", "NetperfCosts"];

/// Returns arguments and objects.
pub(super) fn cluster(random: &mut Random) -> (Option<Value>, Vec<Value>) {
    let weights = *random.pick(WEIGHTS);
    let args = random.chance(80).then(|| json!({"weightsName": weights, "namespaces": ["other", "default"]}));
    // The real plugin panics without these objects.
    let mut objects = vec![topology(random), group(random, "app"), group(random, "shop")];
    let nodes = random.range(1, 20);
    objects.extend((0..nodes).map(|index| node(random, index)));
    for index in 0..random.below(nodes * 3) {
        let mut pod = pod(random, &format!("bound-{index}"));
        pod["spec"]["nodeName"] = format!("node-{}", random.below(nodes)).into();
        pod["status"] = json!({"phase": "Running"});
        objects.push(pod);
    }
    let pending = random.range(5, 30);
    objects.extend((0..pending).map(|index| pod(random, &format!("pod-{index}"))));
    (args, objects)
}

fn place(random: &mut Random) -> (&'static str, &'static str) {
    let region = *random.pick(&["r1", "r1", "r2", "r3"]);
    let zone = match region {
        "r1" => *random.pick(&["z1", "z2"]),
        "r2" => *random.pick(&["z3", "z4"]),
        _ => "z5",
    };
    (region, zone)
}

fn node(random: &mut Random, index: usize) -> Value {
    let (region, zone) = place(random);
    let mut labels = json!({"kubernetes.io/hostname": format!("node-{index}")});
    if random.chance(88) {
        labels[REGION] = region.into();
    }
    if random.chance(88) {
        labels[ZONE] = zone.into();
    }
    let allocatable = json!({"cpu": "8", "memory": "8Gi", "pods": "110"});
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": format!("node-{index}"), "labels": labels},
        "status": {"allocatable": allocatable, "capacity": allocatable},
    })
}

fn pod(random: &mut Random, name: &str) -> Value {
    let mut labels = json!({});
    if random.chance(85) {
        labels[GROUP] = (*random.pick(&["app", "app", "shop"])).into();
    }
    if random.chance(90) {
        labels[format!("{GROUP}.workload")] = (*random.pick(WORKLOADS)).into();
    }
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": random.pick(&["default", "blue"]), "labels": labels},
        "spec": {
            "schedulerName": "default-scheduler",
            "containers": [{"name": "c", "image": "i"}],
            "priority": 0,
        },
    })
}

fn group(random: &mut Random, name: &str) -> Value {
    let named = |selector: &str| json!({"kind": "Deployment", "name": selector, "selector": selector});
    let workloads: Vec<Value> = WORKLOADS
        .iter()
        .map(|selector| {
            let mut workload = json!({"workload": named(selector)});
            for _ in 0..random.below(3) {
                let cost = *random.pick(&[0, 1, 5, 20, 100]);
                let on = named(random.pick::<&str>(WORKLOADS));
                push(&mut workload["dependencies"], json!({"workload": on, "maxNetworkCost": cost}));
            }
            workload
        })
        .collect();
    json!({
        "apiVersion": "appgroup.diktyo.x-k8s.io/v1alpha1",
        "kind": "AppGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"numMembers": 4, "workloads": workloads},
    })
}

fn topology(random: &mut Random) -> Value {
    let mut level = |key: &str, names: &[&str]| {
        // Sorted, because the real plugin does not sort the costs of some weights and then searches them by halves.
        let origins: Vec<Value> = names
            .iter()
            .map(|origin| {
                let others: Vec<Value> = (names.iter().filter(|other| *other != origin))
                    .filter_map(|other| {
                        let cost = *random.pick(&[0, 1, 5, 10, 20, 50, 200]);
                        random.chance(80).then(|| json!({"destination": other, "networkCost": cost}))
                    })
                    .collect();
                json!({"origin": origin, "costList": others})
            })
            .collect();
        json!({"topologyKey": key, "originList": origins})
    };
    let mut weights = |name: &str| {
        let regions = level(REGION, &["r1", "r2", "r3"]);
        let zones = level(ZONE, &["z1", "z2", "z3", "z4", "z5"]);
        json!({"name": name, "topologyList": [regions, zones]})
    };
    let all: Vec<Value> = WEIGHTS.iter().map(|name| weights(name)).collect();
    json!({
        "apiVersion": "networktopology.diktyo.x-k8s.io/v1alpha1",
        "kind": "NetworkTopology",
        "metadata": {"name": "nt-default", "namespace": "default"},
        "spec": {"configmapName": "netperf", "weights": all},
    })
}
