//! Cost of the index of devices: building it, finding nodes for claims, and memory.
//!
//! `cargo bench -p harbormaster-plugins --bench devices [-- NODES]`
//!
//! Each node has a slice of eight devices. The benchmark allocates claims one by one, each on the first node that
//! fits, and evaluates every node for every claim. It then repeats this with ten pools of 100 devices that all nodes
//! can reach.

#![expect(clippy::unwrap_used, reason = "the benchmark makes its own input")]

use std::{hint::black_box, time::Instant};

use harbormaster_api::features::Features;
use harbormaster_framework::{cluster::Cluster, index::IndexKind, nodeset::NodeIdx};
use harbormaster_plugins::devices::{
    DeviceClass, DeviceGates, DeviceQuery, Devices, ResourceClaim, ResourceSlice,
};
use harbormaster_testkit::{cluster, node, set_custom};
use serde_json::{Value, json};

const DEVICES_PER_NODE: usize = 8;
const CLAIMS: usize = 500;
const DRIVER: &str = "gpu.example.com";

fn main() {
    let nodes = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(5_000);
    println!("{nodes} nodes, {DEVICES_PER_NODE} devices each");
    let mut world = with_slices(
        nodes,
        (0..nodes).map(|at| {
            let name = format!("n{at}");
            slice(&name, &json!({"nodeName": name}), DEVICES_PER_NODE)
        }),
    );
    place(&mut world, "one device", &json!({"count": 1}));
    place(&mut world, "four devices", &json!({"count": 4}));
    drop(world);
    println!("{nodes} nodes, 1,000 devices on the network");
    let slices = (0..10).map(|at| slice(&format!("s{at}"), &json!({"allNodes": true}), 100));
    place(&mut with_slices(nodes, slices), "one device", &json!({"count": 1}));
}

fn slice(name: &str, nodes: &Value, devices: usize) -> Value {
    let devices: Vec<_> = (0..devices)
        .map(|at| {
            json!({
                "name": format!("gpu-{at}"),
                "attributes": {
                    "model": {"string": "a100"}, "index": {"int": at}, "driverVersion": {"version": "1.2.3"},
                    "uuid": {"string": format!("GPU-{name}-{at}")}, "numa": {"int": at / 4},
                },
                "capacity": {"memory": {"value": "40Gi"}},
            })
        })
        .collect();
    let pool = json!({"name": name, "generation": 1, "resourceSliceCount": 1});
    let mut spec = json!({"driver": DRIVER, "pool": pool, "devices": devices});
    spec.as_object_mut().unwrap().extend(nodes.as_object().unwrap().clone());
    json!({"metadata": {"name": name, "uid": name}, "spec": spec})
}

fn with_slices(nodes: usize, slices: impl Iterator<Item = Value>) -> Cluster {
    let mut cluster = cluster((0..nodes).map(|at| node(&format!("n{at}"))), []);
    set_custom::<ResourceClaim>(&mut cluster, []);
    let expression = format!("device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].model == 'a100'");
    let class = json!({
        "metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": expression}}]},
    });
    set_custom::<DeviceClass>(&mut cluster, [class]);
    let before = resident();
    set_custom::<ResourceSlice>(&mut cluster, slices);
    let objects = resident();
    let begin = Instant::now();
    cluster.add_index(IndexKind::of::<Devices>());
    let took = begin.elapsed();
    let all = cluster.watched::<ResourceSlice>().all().map(|slice| slice.devices.len()).sum::<usize>();
    println!(
        "  built in {took:.0?}; per device, {} bytes of slices and {} bytes of the index",
        (objects - before) / all,
        (resident() - objects) / all
    );
    cluster
}

/// Allocates claims one by one and prints the costs.
fn place(cluster: &mut Cluster, what: &str, demand: &Value) {
    let gates = DeviceGates::of(Features::default());
    let mut exactly = json!({"deviceClassName": "gpu", "allocationMode": "ExactCount"});
    exactly.as_object_mut().unwrap().extend(demand.as_object().unwrap().clone());
    let memory = resident();
    let (mut first, mut others, mut kept) = (0.0, 0.0, 0.0);
    for number in 0..CLAIMS {
        let name = format!("{what}-{number}").replace(' ', "-");
        let mut claim = json!({
            "metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1"},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
        });
        set_custom::<ResourceClaim>(cluster, [claim.clone()]);
        let begin = Instant::now();
        let claims = [cluster.watched::<ResourceClaim>().get("default", &name).unwrap()];
        let query = DeviceQuery {
            claims: &claims,
            classes: cluster.watched::<DeviceClass>(),
            gates,
            max_steps: 1_000_000,
        };
        let index = cluster.indexes().get::<Devices>().unwrap();
        let row = |at: usize| cluster.node(NodeIdx::from(at));
        let fitting: Vec<_> = (0..cluster.rows()).filter(|at| index.fits(&query, row(*at)).is_ok()).collect();
        let asked = begin.elapsed().as_secs_f64();
        if number == 0 {
            first = asked;
        } else {
            others += asked;
        }
        let begin = Instant::now();
        (0..cluster.rows()).for_each(|at| drop(black_box(index.fits(&query, row(at)))));
        kept += begin.elapsed().as_secs_f64();
        let allocations = index.allocate(&query, row(fitting[0])).unwrap();
        claim["status"]["allocation"] = serde_json::to_value(&allocations[0]).unwrap();
        set_custom::<ResourceClaim>(cluster, [claim]);
    }
    let rows = cluster.rows();
    let (others, kept) = (others / (CLAIMS - 1) as f64, kept / CLAIMS as f64);
    println!(
        "  {what}: all nodes for the first claim in {:.1} ms, for each later claim in {:.3} ms; {:.3} ms if nothing \
         changed ({:.0} ns per node); {} bytes per node",
        first * 1e3,
        others * 1e3,
        kept * 1e3,
        kept * 1e9 / rows as f64,
        (resident() - memory) / rows
    );
}

/// Memory of this process in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = status.split_whitespace().nth(1).and_then(|pages| pages.parse().ok());
    pages.unwrap_or(0) * 4096
}
