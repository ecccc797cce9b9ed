//! Scores that count the devices of a class.

use std::sync::Arc;

use harbormaster_api::{Pod, features::Features};
use harbormaster_framework::{
    attempt::{Attempt, Decision, Runner, Search},
    cluster::Cluster,
    index::IndexKind,
    pod::SpecTable,
    registry::Registry,
    window::Rotation,
};
use harbormaster_testkit::{cluster, node, pod, profile_for, random::Dice, remove_custom, set_custom};
use serde_json::{Value, json};

use super::*;

const GPU: &str = "example.com/gpu";
const NODES: [&str; 5] = ["n0", "n1", "n2", "n3", "n4"];
/// Pool of devices that every node can reach.
const NETWORK: &str = "net";

fn class(name: &str, driver: &str) -> Value {
    let selector = json!({"cel": {"expression": format!("device.driver == '{driver}'")}});
    json!({"metadata": {"name": name}, "spec": {"extendedResourceName": GPU, "selectors": [selector]}})
}

fn slice(pool: &str, driver: &str, devices: u64) -> Value {
    let devices: Vec<_> = (0..devices).map(|at| json!({"name": format!("d{at}")})).collect();
    let mut spec = json!({
        "driver": driver, "devices": devices,
        "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1},
    });
    match pool {
        NETWORK => spec["allNodes"] = true.into(),
        _ => spec["nodeName"] = pool.into(),
    }
    json!({"metadata": {"name": format!("{pool}-{driver}")}, "spec": spec})
}

fn claim(name: &str, driver: &str, pool: &str, device: u64) -> Value {
    let result = json!({"request": "r", "driver": driver, "pool": pool, "device": format!("d{device}")});
    json!({
        "metadata": {"name": name, "namespace": "default"},
        "status": {"allocation": {"devices": {"results": [result]}}},
    })
}

fn world() -> Cluster {
    let mut cluster = cluster(NODES.map(|name| node(name).allocatable("8", "32Gi", 110)), []);
    set_custom::<ResourceClaim>(&mut cluster, []);
    set_custom::<DeviceClass>(&mut cluster, [class("gpus", "x")]);
    set_custom::<ResourceSlice>(&mut cluster, NODES.map(|name| slice(name, "x", 4)));
    cluster.add_index(IndexKind::of::<Devices>());
    cluster
}

#[test]
fn a_device_in_use_changes_the_answer_for_its_node_only() {
    let mut cluster = world();
    let row = |cluster: &Cluster, name: &str| cluster.find(name).unwrap();
    let mut touched = |change: &dyn Fn(&mut Cluster)| {
        let end = |cluster: &Cluster| cluster.indexes().get::<Devices>().unwrap().changed_rows().end();
        let before = end(&cluster);
        change(&mut cluster);
        let log = cluster.indexes().get::<Devices>().unwrap().changed_rows();
        let rows = log.since(before).map(|rows| rows.collect::<std::collections::BTreeSet<_>>());
        rows.map(|rows| Vec::from_iter(rows.into_iter().map(|row| cluster.node(row).name().to_string())))
    };
    let set_claim = |pool: &'static str| {
        move |cluster: &mut Cluster| set_custom::<ResourceClaim>(cluster, [claim("c", "x", pool, 0)])
    };
    let nodes = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
    assert_eq!(touched(&set_claim("n1")), nodes(&["n1"]), "a device is taken");
    assert_eq!(touched(&set_claim("n1")), nodes(&[]), "nothing changes");
    assert_eq!(touched(&set_claim("n2")), nodes(&["n1", "n2"]), "another device is taken instead");
    let gone = |cluster: &mut Cluster| remove_custom::<ResourceClaim>(cluster, "default", "c");
    assert_eq!(touched(&gone), nodes(&["n2"]), "a device is released");
    let devices = |cluster: &mut Cluster| set_custom::<ResourceSlice>(cluster, [slice("n3", "x", 2)]);
    assert_eq!(touched(&devices), nodes(&["n3"]), "a slice changes");
    let gone = |cluster: &mut Cluster| remove_custom::<ResourceSlice>(cluster, "", "n3-x");
    assert_eq!(touched(&gone), nodes(&["n3"]), "a slice goes");
    let network = |cluster: &mut Cluster| set_custom::<ResourceSlice>(cluster, [slice(NETWORK, "x", 2)]);
    assert_eq!(touched(&network), None, "a slice that all nodes see");
    assert_eq!(touched(&set_claim(NETWORK)), None, "a device that all nodes see");
    assert_eq!(row(&cluster, "n0"), NodeIdx(0));
}

/// A profile whose scores count devices.
fn runner() -> Runner {
    let mut registry = Registry::default();
    crate::in_tree(&mut registry);
    let (filters, scorers) =
        (&["NodeResourcesFit"][..], &["NodeResourcesFit", "NodeResourcesBalancedAllocation"][..]);
    let resources =
        json!([{"name": GPU, "weight": 3}, {"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]);
    let args = [
        ("NodeResourcesFit", json!({"scoringStrategy": {"type": "LeastAllocated", "resources": resources}})),
        ("NodeResourcesBalancedAllocation", json!({ "resources": resources })),
    ];
    Runner::new(profile_for(
        Features::default(),
        &registry,
        &[("PreFilter", filters), ("Filter", filters), ("PreScore", scorers), ("Score", scorers)],
        &args,
    ))
}

/// The chosen node, or the message.
fn chosen(runner: &mut Runner, cluster: &mut Cluster, pod: &Arc<PodInfo>, rotation: &mut Rotation) -> String {
    match runner.find(cluster, pod, Search::all(rotation)).map(Attempt::into_decision).unwrap() {
        Decision::Node { row, .. } => cluster.node(row).name().to_string(),
        Decision::Unschedulable(diagnosis) => diagnosis.message(),
    }
}

/// Changes a device class, a slice, a claim or a node.
fn change(dice: &mut Dice, cluster: &mut Cluster) {
    let pool = if dice.one_in(8) { NETWORK } else { dice.pick(&NODES) };
    let driver = if dice.one_in(4) { "y" } else { "x" };
    match dice.below(10) {
        0 => {
            let (name, driver) = (dice.pick(&["gpus", "others"]), dice.pick(&["x", "y"]));
            match dice.one_in(3) {
                true => remove_custom::<DeviceClass>(cluster, "", name),
                false => set_custom::<DeviceClass>(cluster, [class(name, driver)]),
            }
        }
        1 => set_custom::<ResourceSlice>(cluster, [slice(pool, driver, dice.below(5))]),
        2 => remove_custom::<ResourceSlice>(cluster, "", &format!("{pool}-{driver}")),
        3 => {
            let mut changed = node(dice.pick(&NODES)).allocatable("8", "32Gi", 110);
            if dice.one_in(2) {
                changed = changed.offers(GPU, "4");
            }
            cluster.set_node(Arc::new(changed.build()));
        }
        4 => remove_custom::<ResourceClaim>(cluster, "default", &format!("c{}", dice.below(8))),
        _ => {
            let name = format!("c{}", dice.below(8));
            set_custom::<ResourceClaim>(cluster, [claim(&name, driver, pool, dice.below(4))]);
        }
    }
}

#[test]
fn scores_that_are_kept_equal_scores_that_count_all_devices_again() {
    let mut nodes = std::collections::BTreeMap::<String, u32>::new();
    for seed in 0..200 {
        let (mut dice, mut cluster, mut specs) = (Dice::new(seed), world(), SpecTable::default());
        let (mut kept, mut rotation) = (runner(), Rotation::default());
        for step in 0..40 {
            change(&mut dice, &mut cluster);
            let wanted = dice.below(3).to_string();
            let uid = format!("p{step}");
            let new: Pod = pod(&uid).uid(&uid).cpu("100m").request(GPU, &wanted).build();
            let new = Arc::new(PodInfo::new(new, &mut specs));
            cluster.refresh();
            let mut same_rotation = rotation;
            let expected = chosen(&mut runner(), &mut cluster, &new, &mut same_rotation);
            let found = chosen(&mut kept, &mut cluster, &new, &mut rotation);
            assert_eq!(found, expected, "seed {seed}, step {step}");
            if let Some(row) = cluster.find(&found)
                && dice.one_in(2)
            {
                let name = cluster.node(row).name().clone();
                cluster.add_pod(&name, new);
            }
            *nodes.entry(found).or_default() += 1;
        }
    }
    assert!(NODES.iter().all(|name| nodes.get(*name).is_some_and(|times| *times > 500)), "{nodes:?}");
}
