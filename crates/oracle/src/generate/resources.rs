//! Requests, limits, init containers, sidecars, overhead, pod-level resources, extended resources and scoring
//! strategies.

use serde_json::{Value, json};

use super::flavour::Flavour;
use super::world::push;
use super::{Profile, Random, World, quantity};

/// Extended resources. [`SCALAR_NASTY`] contains other resources that the kubelet reports in the same way: hugepages
/// and prefixed native resources.
const EXTENDED: &[&str] = &[
    "example.com/gpu",
    "example.com/fpga",
    "vendor.io/nic",
    "other.org/very-long.name_1",
    "vendor.io/license",
];
const SCALAR_NASTY: &[&str] = &["hugepages-2Mi", "storage.kubernetes.io/slots", "attachable-volumes-csi-x"];

/// Requests of containers.
pub(super) struct Requests;

impl Flavour for Requests {
    fn name(&self) -> &'static str {
        "requests"
    }

    fn share(&self) -> usize {
        90
    }

    fn pod(&self, random: &mut Random, world: &World, pod: &mut Value) {
        for container in pod["spec"]["containers"].as_array_mut().into_iter().flatten() {
            fill(random, world, container);
        }
        if random.chance(20) {
            for index in 0..random.range(1, 3) {
                let mut container = json!({"name": format!("init-{index}"), "image": "setup:1"});
                fill(random, world, &mut container);
                if random.chance(45) {
                    container["restartPolicy"] = "Always".into();
                }
                push(&mut pod["spec"]["initContainers"], container);
            }
        }
        // On a real API server, the `RuntimeClass` admission plugin sets this field.
        if !world.admitted && random.chance(10) {
            pod["spec"]["overhead"] = json!({"cpu": quantity::cpu(random)});
            if random.chance(60) {
                pod["spec"]["overhead"]["memory"] = quantity::memory(random).into();
            }
        }
    }
}

/// Adds random requests and limits, or none, to a container.
fn fill(random: &mut Random, world: &World, container: &mut Value) {
    for (resource, percent) in [("cpu", 75), ("memory", 70), ("ephemeral-storage", 12)] {
        if !random.chance(percent) {
            continue;
        }
        let value = match (world.admitted, resource) {
            (true, _) => quantity::plain(random, resource),
            (false, "cpu") => quantity::cpu(random),
            (false, _) => quantity::memory(random),
        };
        // If a resource has a limit but no request, the API server copies the limit to the requests.
        let kind = if random.chance(85) { "requests" } else { "limits" };
        container["resources"][kind][resource] = value.into();
        if !world.admitted && kind == "requests" && random.chance(10) {
            container["resources"]["limits"][resource] = quantity::memory(random).into();
        }
    }
}

/// Resources of the pod as a whole (KEP-2837).
pub(super) struct PodLevel;

impl Flavour for PodLevel {
    fn name(&self) -> &'static str {
        "pod-level resources"
    }

    fn share(&self) -> usize {
        25
    }

    // An API server validates pod-level resources against the sum over the containers.
    fn admitted(&self) -> bool {
        false
    }

    fn pod(&self, random: &mut Random, _world: &World, pod: &mut Value) {
        if !random.chance(25) {
            return;
        }
        let kind = if random.chance(80) { "requests" } else { "limits" };
        if random.chance(70) {
            pod["spec"]["resources"][kind]["cpu"] = quantity::cpu(random).into();
        }
        if random.chance(60) {
            pod["spec"]["resources"][kind]["memory"] = quantity::memory(random).into();
        }
        if random.chance(5) {
            pod["spec"]["resources"]["requests"]["hugepages-2Mi"] = "4Mi".into();
        }
        round_memory(&mut pod["spec"]);
    }
}

/// Replaces fractions of bytes. An API server adds up the containers' amounts before rounding, and Harbormaster normally
/// gets this sum from the API server. Without an API server, Harbormaster rounds each amount before adding.
fn round_memory(spec: &mut Value) {
    for containers in ["initContainers", "containers"] {
        for container in spec[containers].as_array_mut().into_iter().flatten() {
            for kind in ["requests", "limits"] {
                let memory = container.pointer_mut(&format!("/resources/{kind}/memory"));
                if let Some(memory) =
                    memory.filter(|memory| quantity::FRACTIONS.iter().any(|text| *memory == *text))
                {
                    *memory = "103".into();
                }
            }
        }
    }
}

/// Devices and other scalar resources.
pub(super) struct ExtendedResources;

impl Flavour for ExtendedResources {
    fn name(&self) -> &'static str {
        "extended resources"
    }

    fn node(&self, random: &mut Random, world: &World, node: &mut Value) {
        let count = random.below(4);
        for resource in random.sample(&names(world), count) {
            let amount = if resource.starts_with("hugepages") {
                *random.pick(&["8Mi", "64Mi"])
            } else {
                *random.pick(&["0", "1", "2", "4", "8"])
            };
            node["status"]["allocatable"][resource] = amount.into();
            node["status"]["capacity"][resource] = amount.into();
        }
    }

    fn pod(&self, random: &mut Random, world: &World, pod: &mut Value) {
        if !random.chance(35) {
            return;
        }
        let count = random.range(1, 2);
        for resource in random.sample(&names(world), count) {
            let amount = if resource.starts_with("hugepages") {
                *random.pick(&["2Mi", "4Mi"])
            } else {
                *random.pick(&["0", "1", "1", "2", "3", "100"])
            };
            let resources = &mut pod["spec"]["containers"][0]["resources"];
            resources["requests"][resource] = amount.into();
            resources["limits"][resource] = amount.into();
        }
    }

    fn profile(&self, random: &mut Random, _world: &World, profile: &mut Profile) {
        if !random.chance(35) {
            return;
        }
        let args = profile.args.entry("NodeResourcesFit".to_owned()).or_insert_with(|| json!({}));
        if random.chance(60) {
            args["ignoredResources"] = json!([random.pick(EXTENDED)]);
        }
        if random.chance(50) {
            args["ignoredResourceGroups"] = json!([random.pick(&["example.com", "vendor.io"])]);
        }
    }
}

fn names(world: &World) -> Vec<&'static str> {
    let nasty = if world.admitted { &[] } else { SCALAR_NASTY };
    EXTENDED.iter().chain(nasty).copied().collect()
}

/// Scoring strategies of NodeResourcesFit and NodeResourcesBalancedAllocation.
pub(super) struct ScoringStrategies;

impl Flavour for ScoringStrategies {
    fn name(&self) -> &'static str {
        "scoring strategies"
    }

    fn profile(&self, random: &mut Random, _world: &World, profile: &mut Profile) {
        if random.chance(75) {
            let args = profile.args.entry("NodeResourcesFit".to_owned()).or_insert_with(|| json!({}));
            args["scoringStrategy"] = strategy(random);
        }
        if random.chance(40) {
            let count = random.range(1, 4);
            let resources: Vec<Value> = random
                .sample(&["cpu", "memory", "ephemeral-storage", EXTENDED[0], EXTENDED[1]], count)
                .into_iter()
                .map(|name| json!({"name": name, "weight": 1}))
                .collect();
            profile
                .args
                .insert("NodeResourcesBalancedAllocation".to_owned(), json!({"resources": resources}));
        }
    }
}

fn strategy(random: &mut Random) -> Value {
    let kind = *random.pick(&["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"]);
    let count = random.range(1, 4);
    let resources: Vec<Value> = random
        .sample(&["cpu", "memory", "ephemeral-storage", EXTENDED[0], EXTENDED[2]], count)
        .into_iter()
        .map(|name| json!({"name": name, "weight": random.pick(&[1, 1, 2, 3, 5, 100])}))
        .collect();
    let mut strategy = json!({"type": kind, "resources": resources});
    if kind == "RequestedToCapacityRatio" {
        strategy["requestedToCapacityRatio"] = json!({"shape": shape(random)});
    }
    strategy
}

/// Generates a shape with strictly increasing utilization in 0..=100 and scores in 0..=10.
pub(super) fn shape(random: &mut Random) -> Vec<Value> {
    let mut points = Vec::new();
    let mut utilization = random.below(30);
    while utilization <= 100 && points.len() < 5 {
        points.push(json!({"utilization": utilization, "score": random.range(0, 10)}));
        utilization += random.range(1, 60);
    }
    points
}
