use std::sync::Arc;

use harbormaster::{
    api::node::{LABEL_REGION, LABEL_ZONE},
    serde_json::{Value, from_value, json},
    testkit::{
        Happening, NodeBuilder, PodBuilder, Trial, Words, answers_are_repeatable, batch_equals_single,
        cluster, index_equals_rebuilt_one, node, pod, random::Dice, resource_fits_definition,
        scores_are_valid, set_custom, what_helps_wakes,
    },
};

use super::*;
use objects::{GROUP, WORKLOAD};

fn built(args: Value) -> Result<NetworkOverhead, String> {
    let args: Args = from_value(args).map_err(|error| error.to_string())?;
    NetworkOverhead::build(args, &BuildCycle::default()).map_err(|error| error.to_string())
}

fn trial() -> Trial {
    Trial::of(built(json!({})).unwrap())
}

fn member(name: &str) -> PodBuilder {
    pod(name).label(GROUP, "app").label(WORKLOAD, name)
}

/// p1 depends on p2, and p2 on p3.
fn app(max_cost: i64) -> Value {
    let workload = |name: &str| json!({"kind": "Deployment", "name": name, "selector": name});
    let depends = |on: &str| json!([{"workload": workload(on), "maxNetworkCost": max_cost}]);
    json!({
        "metadata": {"namespace": "default", "name": "app"},
        "spec": {"numMembers": 3, "workloads": [
            {"workload": workload("p1"), "dependencies": depends("p2")},
            {"workload": workload("p2"), "dependencies": depends("p3")},
            {"workload": workload("p3")},
        ]},
    })
}

fn topology() -> Value {
    let both = |a: &str, b: &str, cost: i64| {
        let one = |from: &str, to: &str| json!({"origin": from, "costList": [{"destination": to, "networkCost": cost}]});
        vec![one(a, b), one(b, a)]
    };
    let zones = [both("Z1", "Z2", 5), both("Z3", "Z4", 10)].concat();
    json!({
        "metadata": {"namespace": "default", "name": "nt-default"},
        "spec": {"weights": [{"name": "UserDefined", "topologyList": [
            {"topologyKey": LABEL_ZONE, "originList": zones},
            {"topologyKey": LABEL_REGION, "originList": both("us-west-1", "us-east-1", 20)},
        ]}]},
    })
}

fn nodes() -> Vec<NodeBuilder> {
    let zones = ["Z1", "Z1", "Z2", "Z2", "Z3", "Z3", "Z4", "Z4"];
    let region = |at: usize| if at < 4 { "us-west-1" } else { "us-east-1" };
    let place = |(at, zone): (usize, &str)| {
        // The labels alone, so that the nodes keep their order.
        node(&format!("n-{}", at + 1)).label(LABEL_REGION, region(at)).label(LABEL_ZONE, zone)
    };
    zones.into_iter().enumerate().map(place).collect()
}

/// The nodes with p1 on n-2, p2 on n-5 and p3 on n-1.
fn world() -> Cluster {
    let pods = [("p1", "n-2"), ("p2", "n-5"), ("p3", "n-1")];
    let mut world = cluster(nodes(), pods.map(|(name, on)| member(name).uid(&format!("old-{name}")).on(on)));
    set_custom::<AppGroup>(&mut world, [app(0)]);
    set_custom::<NetworkTopology>(&mut world, [topology()]);
    world
}

fn by_name(world: &Cluster, scores: Vec<i64>) -> Vec<i64> {
    let mut named: Vec<_> = world.nodes().nodes().map(|node| node.name().to_string()).zip(scores).collect();
    named.sort();
    named.into_iter().map(|(_, score)| score).collect()
}

#[test]
fn nodes_near_dependencies_score_best() {
    let world = world();
    for (name, raw, scores) in [
        ("p1", [20, 20, 20, 20, 0, 1, 10, 10], [0, 0, 0, 0, 100, 95, 50, 50]),
        ("p2", [0, 1, 5, 5, 20, 20, 20, 20], [100, 95, 75, 75, 0, 0, 0, 0]),
    ] {
        let pod = member(name).info();
        assert_eq!(by_name(&world, trial().raw_scores(&world, &pod).unwrap().unwrap()), raw, "{name}");
        assert_eq!(by_name(&world, trial().scores(&world, &pod).unwrap().unwrap()), scores, "{name}");
    }
}

#[test]
fn nodes_that_violate_more_dependencies_than_they_satisfy_are_rejected() {
    let world = world();
    let verdict = |name: &str, node: &str| trial().verdict(&world, &member(name).info(), node).is_ok();
    assert!(!verdict("p1", "n-1") && verdict("p1", "n-6"));
    assert!(!verdict("p2", "n-5") && verdict("p2", "n-2"));
    let said = trial().verdict(&world, &member("p1").info(), "n-1").unwrap_err();
    assert_eq!(said, Reject::evictable(TOO_FAR));
    for pod in [member("p3"), pod("other"), pod("p1").label(GROUP, "app")] {
        let pod: Arc<PodInfo> = pod.info();
        assert_eq!(trial().verdict(&world, &pod, "n-1"), Ok(()));
        assert_eq!(trial().scores(&world, &pod).unwrap(), None);
    }
}

#[test]
fn missing_objects_are_named() {
    let mut world = world();
    let stranger = pod("p").label(GROUP, "other").info();
    let why = trial().verdict(&world, &stranger, "n-1").unwrap_err().message();
    assert_eq!(why, "AppGroup other was not found (namespaces: default)");
    harbormaster::testkit::remove_custom::<NetworkTopology>(&mut world, "default", "nt-default");
    let why = trial().verdict(&world, &member("p1").info(), "n-1").unwrap_err().message();
    assert_eq!(why, "NetworkTopology nt-default was not found (namespaces: default)");
    // Without dependencies, the topology does not matter.
    assert_eq!(trial().verdict(&world, &member("p3").info(), "n-1"), Ok(()));
}

#[test]
fn nodes_without_a_place_violate_dependencies_and_unknown_costs_do_not() {
    let pods = [member("p2").on("nowhere"), member("p2").uid("x").on("n-5")];
    let mut world = cluster(nodes().into_iter().chain([node("nowhere")]), pods);
    set_custom::<AppGroup>(&mut world, [app(1000)]);
    set_custom::<NetworkTopology>(&mut world, [topology()]);
    let of = |node: &str| trial().verdict(&world, &member("p1").info(), node).is_ok();
    // One dependency is satisfied, and one is violated.
    assert!(of("n-1") && of("n-5") && of("nowhere"));
    let args = json!({"weightsName": "Other"});
    let unknown = Trial::of(built(args).unwrap());
    assert!(unknown.verdict(&world, &member("p1").info(), "n-1").is_err());
}

#[test]
fn whatever_helps_wakes_the_pod() {
    let full = || {
        let mut world = cluster(
            [node("n-1").label(LABEL_REGION, "us-west-1").label(LABEL_ZONE, "Z1")],
            [member("p2").on("far")],
        );
        world.set_node(
            node("far")
                .label(LABEL_REGION, "us-east-1")
                .label(LABEL_ZONE, "Z3")
                .taint("a", "b", "NoSchedule")
                .build()
                .into(),
        );
        world.refresh();
        set_custom::<AppGroup>(&mut world, [app(0)]);
        set_custom::<NetworkTopology>(&mut world, [topology()]);
        world
    };
    let near = node("near").label(LABEL_REGION, "us-east-1").label(LABEL_ZONE, "Z3").build();
    for help in [Happening::Node(near), Happening::custom::<AppGroup>(&app(20))] {
        let said = format!("{help:?}");
        let helped = what_helps_wakes(&trial(), &mut full(), &member("p1").info(), [help]);
        assert_eq!(helped, 1, "{said}");
    }
}

#[test]
fn the_index_follows_all_changes() {
    for seed in 0..20 {
        index_equals_rebuilt_one::<Members>(
            seed,
            |dice, name| dice.node(name),
            |dice, name| match dice.below(4) {
                0 => pod(name),
                1 => pod(name).label(GROUP, "app"),
                _ => pod(name).label(GROUP, "app").label(WORKLOAD, dice.pick(&["p1", "p2"])),
            },
        );
    }
}

#[test]
fn it_passes_the_conformance_checks() {
    let words = || {
        let places = Words::default().node_label(LABEL_REGION, &["us-west-1", "us-east-1"]);
        let places = places.node_label(LABEL_ZONE, &["Z1", "Z2", "Z3", "Z4"]);
        places.pod_label(GROUP, &["app"]).pod_label(WORKLOAD, &["p1", "p2", "p3"])
    };
    for seed in 0..20 {
        let mut dice = Dice::knowing(seed, words());
        let mut nodes = dice.cluster(6);
        set_custom::<AppGroup>(&mut nodes, [app(5)]);
        set_custom::<NetworkTopology>(&mut nodes, [topology()]);
        let (pod, meanwhile) = (dice.pod("p").info(), dice.pod("meanwhile").info());
        let trial = trial().knowing(words());
        answers_are_repeatable(&trial, &nodes, &pod, &meanwhile);
        batch_equals_single(&trial, &nodes, &pod);
        scores_are_valid(&trial, &nodes, &pod);
    }
}

#[test]
fn the_types_fit_the_definitions() {
    let text = include_str!("../deploy/crd.yaml");
    let definitions: Vec<Value> =
        text.split("\n---\n").map(|document| serde_saphyr::from_str(document).unwrap()).collect();
    resource_fits_definition::<AppGroup>(&definitions[0]);
    resource_fits_definition::<NetworkTopology>(&definitions[1]);
}

#[test]
fn unknown_arguments_are_refused() {
    assert!(built(json!({"weights": "x"})).unwrap_err().starts_with("unknown field `weights`"));
    let given = built(json!({"namespaces": ["a", "b"], "networkTopologyName": "nt"})).unwrap();
    assert_eq!((given.namespaces.len(), given.topology_name.as_str()), (2, "nt"));
    assert_eq!(built(json!({"namespaces": []})).unwrap().namespaces, ["default"]);
}
