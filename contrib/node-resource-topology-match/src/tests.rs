//! The examples of scheduler-plugins' own tests, and what differs from them.

use std::sync::Arc;

use harbormaster::{
    api::pod::Phase,
    serde_json::{Value, from_value, json},
    testkit::{
        Happening, NodeBuilder, PodBuilder, Trial, answers_are_repeatable, batch_equals_single, cluster,
        index_equals_rebuilt_one, node, pod, random::Dice, resource_fits_definition, scores_are_valid,
        set_custom, what_helps_wakes,
    },
};

mod histories;

use super::*;
use fingerprint::fingerprint;

const NIC: &str = "vendor/nic1";

fn built(args: Value) -> Result<NodeResourceTopologyMatch, String> {
    let args: Args = from_value(args).map_err(|error| error.to_string())?;
    NodeResourceTopologyMatch::build(args, &BuildCycle::default()).map_err(|error| error.to_string())
}

fn with_strategy(name: &str) -> Trial {
    Trial::of(built(json!({"scoringStrategy": {"type": name}})).unwrap())
}

fn matching() -> Trial {
    Trial::of(built(json!({})).unwrap())
}

/// A topology whose NUMA nodes have these resources.
fn topology(node: &str, policy: &str, scope: &str, zones: &[&[(&str, &str)]]) -> Value {
    let zone = |(id, resources): (usize, &&[(&str, &str)])| {
        let resources = resources.iter().map(|(name, amount)| {
            json!({"name": name, "capacity": amount, "allocatable": amount, "available": amount})
        });
        json!({"name": format!("node-{id}"), "type": "Node", "resources": resources.collect::<Vec<_>>()})
    };
    json!({
        "metadata": {"name": node},
        "attributes": [
            {"name": "topologyManagerPolicy", "value": policy},
            {"name": "topologyManagerScope", "value": scope},
        ],
        "zones": zones.iter().enumerate().map(zone).collect::<Vec<_>>(),
    })
}

fn single(node: &str, scope: &str, zones: &[&[(&str, &str)]]) -> Value {
    topology(node, "single-numa-node", scope, zones)
}

/// Adds a container that is limited to what it requests.
fn limited(pod: PodBuilder, requests: &[(&str, &str)]) -> PodBuilder {
    let pod = requests.iter().fold(pod, |pod, (name, amount)| pod.request(name, amount));
    pod.spec(|spec| {
        if let Some(last) = spec.containers.last_mut() {
            last.limits = last.requests.clone();
        }
    })
}

fn guaranteed(containers: &[&[(&str, &str)]]) -> PodBuilder {
    let first = limited(pod("p"), containers[0]);
    containers[1..].iter().fold(first, |pod, requests| limited(pod.container(), requests))
}

fn large(name: &str) -> NodeBuilder {
    node(name).allocatable("64", "128Gi", 110).offers("hugepages-2Mi", "896Mi").offers(NIC, "48")
}

/// The verdict on a node with these NUMA nodes.
fn verdict(topology: Value, pod: &PodInfo) -> Result<(), String> {
    let mut nodes = cluster([large("n")], []);
    set_custom::<NodeResourceTopology>(&mut nodes, [topology]);
    matching().verdict(&nodes, pod, "n").map_err(|reject| reject.message())
}

/// NUMA nodes with devices on both.
const TWO: &[&[(&str, &str)]] = &[
    &[("cpu", "30"), ("memory", "60Gi"), ("hugepages-2Mi", "384Mi"), (NIC, "16")],
    &[("cpu", "32"), ("memory", "64Gi"), ("hugepages-2Mi", "512Mi"), (NIC, "32")],
];

#[test]
fn a_pod_must_fit_a_numa_node_as_a_whole_or_container_by_container() {
    let third = &[("cpu", "26"), ("memory", "32Gi"), ("hugepages-2Mi", "512Mi"), (NIC, "26")][..];
    let (first, second) = (&[("cpu", "2"), ("memory", "2Gi")][..], &[("cpu", "4"), ("memory", "8Gi")][..]);
    let (larger, half) = (&[("cpu", "8"), ("memory", "8Gi")][..], &[("cpu", "20"), ("memory", "40Gi")][..]);
    let too_large = &[("cpu", "40"), ("memory", "8Gi")][..];
    for (scope, containers, expected) in [
        ("pod", vec![first, second, third], Ok(())),
        ("pod", vec![first, larger, third], Err("cannot align pod")),
        ("container", vec![half, half], Ok(())),
        ("container", vec![half, half, half], Err("cannot align container")),
        ("container", vec![too_large], Err("cannot align container")),
        ("pod", vec![half, half], Err("cannot align pod")),
    ] {
        let result = verdict(single("n", scope, TWO), &guaranteed(&containers).info());
        assert_eq!(result, expected.map_err(str::to_owned), "{scope} {containers:?}");
    }
}

#[test]
fn init_containers_give_their_room_back_and_sidecars_do_not() {
    let with_init = |cpu: &str, stays: bool| {
        let init = [("cpu", cpu), ("memory", "1Gi")];
        let pod = guaranteed(&[&[("cpu", "20"), ("memory", "40Gi")], &[("cpu", "20"), ("memory", "40Gi")]]);
        let pod = if stays { pod.sidecar(&init) } else { pod.init_container(&init) };
        pod.spec(|spec| spec.init_containers[0].limits = spec.init_containers[0].requests.clone()).info()
    };
    let of = |pod: Arc<PodInfo>| verdict(single("n", "container", TWO), &pod);
    assert_eq!(of(with_init("28", false)), Ok(()));
    assert_eq!(of(with_init("40", false)).unwrap_err(), "cannot align init container");
    assert_eq!(of(with_init("40", true)).unwrap_err(), "cannot align sidecar container");
    assert_eq!(of(with_init("10", true)), Ok(()));
    assert_eq!(of(with_init("20", true)).unwrap_err(), "cannot align container");
}

#[test]
fn only_what_pods_own_must_be_on_one_numa_node() {
    let burstable = pod("p").cpu("40").memory("100Gi");
    assert_eq!(verdict(single("n", "pod", TWO), &burstable.clone().info()), Ok(()));
    let device = burstable.clone().request(NIC, "33").info();
    assert_eq!(verdict(single("n", "pod", TWO), &device).unwrap_err(), "cannot align pod");
    let best_effort = pod("p").info();
    assert_eq!(verdict(single("n", "pod", &[]), &best_effort), Ok(()));
    let absent = burstable.request("vendor/fpga", "1").info();
    assert_eq!(verdict(single("n", "pod", TWO), &absent).unwrap_err(), "cannot align pod");
    // Storage belongs to the node as a whole.
    let storage = guaranteed(&[&[("cpu", "1"), ("memory", "1Gi"), ("ephemeral-storage", "1Gi")]]).info();
    assert_eq!(verdict(single("n", "container", TWO), &storage), Ok(()));
}

#[test]
fn nodes_with_other_policies_or_without_a_topology_accept_all_pods() {
    let pod = guaranteed(&[&[("cpu", "40"), ("memory", "8Gi")]]).info();
    for policy in ["none", "best-effort", "restricted", "unknown"] {
        assert_eq!(verdict(topology("n", policy, "pod", TWO), &pod), Ok(()), "{policy}");
    }
    assert_eq!(verdict(single("other", "pod", TWO), &pod), Ok(()));
}

#[test]
fn deprecated_policies_and_attributes_configure_the_kubelet() {
    let manager = |policy: &str, attributes: &[(&str, &str)]| {
        let attributes: Vec<Value> =
            attributes.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
        let object = json!({"topologyPolicies": [policy], "attributes": attributes, "zones": []});
        let manager = from_value::<NodeResourceTopology>(object).unwrap().manager;
        (manager.is_single_numa_node, manager.is_pod_scope, manager.max_numa_nodes)
    };
    assert_eq!(manager("SingleNUMANodePodLevel", &[]), (true, true, 8));
    assert_eq!(manager("SingleNUMANodeContainerLevel", &[]), (true, false, 8));
    assert_eq!(manager("RestrictedPodLevel", &[]), (false, true, 8));
    assert_eq!(manager("BestEffort", &[]), (false, false, 8));
    assert_eq!(manager("PodLevel", &[]), (false, false, 8));
    let attributes = [("topologyManagerScope", "container"), ("topologyManagerMaxNUMANodes", "16")];
    assert_eq!(manager("SingleNUMANodePodLevel", &attributes), (true, false, 16));
    let wrong =
        [("topologyManagerScope", "x"), ("topologyManagerMaxNUMANodes", "1"), ("topologyManagerPolicy", "")];
    assert_eq!(manager("SingleNUMANodePodLevel", &wrong), (true, true, 8));
    let most = [("topologyManagerMaxNUMANodes", "5000")];
    assert_eq!(manager("", &most), (false, false, 1024));
}

#[test]
fn strategies_score_the_numa_nodes() {
    let zones: [&[(&str, &str)]; 3] = [
        &[("cpu", "4"), ("memory", "500Mi")],
        &[("cpu", "2"), ("memory", "50Mi")],
        &[("cpu", "6"), ("memory", "60Mi")],
    ];
    let names = ["n1", "n2", "n3"];
    let mut nodes = cluster(names.map(large), []);
    let all = names.iter().zip(zones);
    set_custom::<NodeResourceTopology>(
        &mut nodes,
        all.map(|(name, zone)| single(name, "pod", &[zone, zone])),
    );
    let pod = guaranteed(&[&[("cpu", "2"), ("memory", "20Mi")]]).info();
    for (strategy, expected) in [
        ("LeastAllocated", [73, 30, 66]),
        ("MostAllocated", [27, 70, 33]),
        ("BalancedAllocation", [89, 82, 100]),
    ] {
        let scores = with_strategy(strategy).scores(&nodes, &pod).unwrap();
        assert_eq!(scores, Some(expected.into()), "{strategy}");
    }
    let burstable = harbormaster::testkit::pod("p").cpu("1").info();
    assert_eq!(with_strategy("MostAllocated").scores(&nodes, &burstable).unwrap(), Some(vec![100, 100, 100]));
}

#[test]
fn few_and_near_numa_nodes_are_the_best() {
    let pair: &[(&str, &str)] = &[("cpu", "4"), ("memory", "500Mi")];
    let score = |costs: &[&[i64]], zone: &[(&str, &str)], containers: &[&[(&str, &str)]]| {
        let mut object = topology("n", "restricted", "container", &vec![zone; costs.len()]);
        for (id, row) in costs.iter().enumerate() {
            let row = row.iter().enumerate();
            let row: Vec<Value> =
                row.map(|(to, cost)| json!({"name": format!("node-{to}"), "value": cost})).collect();
            object["zones"][id]["costs"] = row.into();
        }
        let mut nodes = cluster([large("n")], []);
        set_custom::<NodeResourceTopology>(&mut nodes, [object]);
        with_strategy("LeastNUMANodes").scores(&nodes, &guaranteed(containers).info()).unwrap().unwrap()[0]
    };
    let near: &[&[i64]] = &[&[10, 12], &[12, 10]];
    let of = |cpu: &'static str| [("cpu", cpu), ("memory", "50Mi")];
    assert_eq!(score(near, pair, &[&of("2")]), 94);
    assert_eq!(score(near, pair, &[&of("6")]), 82);
    assert_eq!(score(near, pair, &[&of("9")]), 0);
    assert_eq!(score(near, pair, &[&of("3"), &of("5")]), 82);
    // A resource that no NUMA node lists does not count.
    let storage = [("cpu", "2"), ("memory", "50Mi"), ("ephemeral-storage", "1Gi")];
    assert_eq!(score(near, pair, &[&storage]), 94);
    // The nearest pair of four is not free.
    let four: &[&[i64]] = &[&[10, 12, 20, 20], &[12, 10, 20, 20], &[20, 20, 10, 12], &[20, 20, 12, 10]];
    assert_eq!(score(four, pair, &[&of("6")]), 82);
    // Unknown distances do no harm, and neither do extreme ones.
    assert_eq!(score(&[&[], &[]], pair, &[&of("6")]), 82);
    assert_eq!(score(&[&[i64::MAX, i64::MAX], &[i64::MAX, i64::MAX]], pair, &[&of("2")]), 88);
}

#[test]
fn a_topology_with_very_many_numa_nodes_does_not_hold_up_the_scheduler() {
    let zone: &[(&str, &str)] = &[("cpu", "1"), ("memory", "1Gi")];
    let mut nodes = cluster([large("n")], []);
    set_custom::<NodeResourceTopology>(&mut nodes, [topology("n", "none", "pod", &vec![zone; 64])]);
    let pod = guaranteed(&[&[("cpu", "40"), ("memory", "1Gi")]]).info();
    assert_eq!(with_strategy("LeastNUMANodes").scores(&nodes, &pod).unwrap(), Some(vec![0]));
}

#[test]
fn odd_zones_are_ignored() {
    let mut object = single("n", "container", TWO);
    object["zones"][0]["name"] = "node-64".into();
    object["zones"][1]["name"] = "numa-node-0".into();
    let odd = json!({"name": "node--1", "type": "Node", "resources": [{"name": "cpu"}]});
    object["zones"].as_array_mut().unwrap().push(odd);
    let pod = guaranteed(&[&[("cpu", "1"), ("memory", "1Gi")]]).info();
    assert_eq!(verdict(object, &pod).unwrap_err(), "cannot align container");
    let sparse = json!([{"name": "node-7", "type": "Node", "resources": [
        {"name": "cpu", "available": "4"}, {"name": "memory", "available": "4Gi"}]}]);
    let mut object = single("n", "container", TWO);
    object["zones"] = sparse;
    assert_eq!(verdict(object.clone(), &pod), Ok(()));
    let mut nodes = cluster([large("n")], []);
    set_custom::<NodeResourceTopology>(&mut nodes, [object]);
    for strategy in ["LeastAllocated", "LeastNUMANodes"] {
        assert!(with_strategy(strategy).scores(&nodes, &pod).unwrap().unwrap()[0] > 0, "{strategy}");
    }
}

/// A pod that owns 20 cpus on node n.
fn neighbour(phase: Phase) -> PodBuilder {
    let pod = guaranteed(&[&[("cpu", "20"), ("memory", "1Gi")]]).uid("neighbour").on("n");
    pod.pod(|pod| {
        pod.name = "neighbour".into();
        pod.status.phase = phase;
    })
}

#[test]
fn pods_that_start_count_on_every_numa_node_until_the_topology_contains_them() {
    let twenty = guaranteed(&[&[("cpu", "20"), ("memory", "1Gi")]]).info();
    let of = |phase: Phase, fingerprint: Option<String>| {
        let mut object = single("n", "container", TWO);
        if let Some(text) = fingerprint {
            let attribute = json!({"name": "nodeTopologyPodsFingerprint", "value": text});
            object["attributes"].as_array_mut().unwrap().push(attribute);
        }
        let mut nodes = cluster([large("n")], [neighbour(phase)]);
        set_custom::<NodeResourceTopology>(&mut nodes, [object]);
        matching().verdict(&nodes, &twenty, "n").map_err(|reject| reject.message())
    };
    assert_eq!(of(Phase::Running, None), Ok(()));
    assert_eq!(of(Phase::Pending, None).unwrap_err(), "cannot align container");
    let with = fingerprint([("default", "neighbour")].into_iter());
    assert_eq!(of(Phase::Pending, Some(with)), Ok(()));
    let without = fingerprint([].into_iter());
    assert_eq!(of(Phase::Pending, Some(without)).unwrap_err(), "cannot align container");
}

#[test]
fn whatever_helps_wakes_the_pod() {
    let pod = guaranteed(&[&[("cpu", "20"), ("memory", "1Gi")]]).info();
    let world = || {
        let mut nodes = cluster([large("n")], [neighbour(Phase::Pending)]);
        set_custom::<NodeResourceTopology>(&mut nodes, [single("n", "container", TWO)]);
        nodes
    };
    let free: &[&[(&str, &str)]] = &[&[("cpu", "60"), ("memory", "60Gi")]];
    for help in [
        Happening::Node(large("empty").build()),
        Happening::custom::<NodeResourceTopology>(&single("n", "container", free)),
        Happening::custom::<NodeResourceTopology>(&topology("n", "none", "container", TWO)),
        Happening::custom_gone::<NodeResourceTopology>("", "n"),
    ] {
        let said = format!("{help:?}");
        assert_eq!(what_helps_wakes(&matching(), &mut world(), &pod, [help]), 1, "{said}");
    }
}

#[test]
fn the_index_follows_all_changes() {
    for seed in 0..20 {
        index_equals_rebuilt_one::<Books>(
            seed,
            |dice, name| dice.node(name),
            |dice, name| {
                let phase = if dice.one_in(2) { Phase::Running } else { Phase::Pending };
                dice.pod(name).pod(|pod| pod.status.phase = phase)
            },
        );
    }
}

#[test]
fn the_type_fits_the_definition() {
    let definition: Value = serde_saphyr::from_str(include_str!("../deploy/crd.yaml")).unwrap();
    resource_fits_definition::<NodeResourceTopology>(&definition);
}

#[test]
fn it_passes_the_conformance_checks() {
    for seed in 0..10 {
        let mut dice = Dice::new(seed);
        let mut nodes = dice.cluster(6);
        let names: Vec<String> = nodes.nodes().nodes().map(|node| node.name().to_string()).collect();
        let scopes = ["pod", "container"];
        let objects = names.iter().map(|name| single(name, scopes[dice.below(2) as usize], TWO));
        set_custom::<NodeResourceTopology>(&mut nodes, objects.collect::<Vec<_>>());
        let (pod, meanwhile) = (dice.pod("p").info(), dice.pod("meanwhile").info());
        for trial in [matching(), with_strategy("LeastNUMANodes")] {
            answers_are_repeatable(&trial, &nodes, &pod, &meanwhile);
            batch_equals_single(&trial, &nodes, &pod);
            scores_are_valid(&trial, &nodes, &pod);
        }
    }
}

#[test]
fn wrong_arguments_are_refused() {
    for (args, error) in [
        (
            json!({"scoringStrategy": {}}),
            "scoringStrategy.type: Invalid value: \"\": invalid ScoringStrategyType",
        ),
        (json!({"scoringStrategy": {"type": "Best"}}), "scoringStrategy.type: Invalid value: \"Best\""),
        (json!({"preemptionMode": "Some"}), "unknown variant `Some`, expected `Disabled` or `Enabled`"),
        (
            json!({"cache": {"informerMode": "shared"}}),
            "unknown variant `shared`, expected `Dedicated` or `Shared`",
        ),
    ] {
        let said = built(args).unwrap_err();
        assert!(said.starts_with(error), "{said}");
    }
    let all = json!({
        "scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 0}]},
        "cacheResyncPeriodSeconds": 5,
        "discardReservedNodes": false,
        "cache": {"foreignPodsDetect": "None", "resyncMethod": "All", "informerMode": "Shared", "resyncScope": "All"},
        "preemptionMode": "Enabled",
    });
    assert!(built(all).is_ok());
}

#[test]
fn a_pod_with_an_equal_name_elsewhere_has_another_fingerprint() {
    let shared: Arc<PodInfo> = neighbour(Phase::Running).info();
    assert_ne!(
        fingerprint([(shared.namespace.as_str(), shared.name.as_str())].into_iter()),
        fingerprint([("elsewhere", shared.name.as_str())].into_iter())
    );
}
