//! The contents of an engine's dump.

use std::sync::Arc;

use harbormaster_api::{Timestamp, pod::Phase};
use harbormaster_core::{Dump, DumpedNode};
use harbormaster_framework::pod::PodInfo;

use crate::world::{World, node, pod};

fn names(pods: &[Arc<PodInfo>]) -> Vec<&str> {
    let mut names: Vec<&str> = pods.iter().map(|pod| pod.name.as_str()).collect();
    names.sort_unstable();
    names
}

fn on<'a>(dump: &'a Dump, name: &str) -> &'a DumpedNode {
    dump.nodes.iter().find(|node| node.name == name).unwrap()
}

#[test]
fn every_pod_is_listed_where_it_counts_or_waits() {
    let mut world = World::new();
    world.set_node(node("a", 1000));
    world.add_bound_pod(pod("bound", 100), "a");
    world.add_bound_pod(pod("ghost", 100), "unknown");
    world.add_pod(pod("assumed", 200));
    world.attempt().unwrap();
    world.add_pod(pod("large", 5000));
    world.attempt().unwrap();
    let mut gated = pod("gated", 100);
    gated.scheduling_gates = vec!["wait".into()];
    world.add_pod(gated);
    let mut theirs = pod("theirs", 100);
    Arc::make_mut(&mut theirs.spec).scheduler_name = "another".into();
    world.add_pod(theirs);
    let mut leaving = pod("leaving", 100);
    leaving.deleted = Some(Timestamp::from_secs(1));
    world.add_pod(leaving);
    world.attempt().unwrap();
    world.add_pod(pod("new", 100));

    let dump = world.engine.dump();
    let a = on(&dump, "a");
    assert_eq!((names(&a.pods), a.deleted), (vec!["assumed", "bound"], false));
    assert_eq!((a.requested.milli_cpu, a.requested.pods, a.allocatable.milli_cpu), (300, 2, 1000));
    assert_eq!((names(&on(&dump, "unknown").pods), on(&dump, "unknown").deleted), (vec!["ghost"], true));
    assert_eq!((dump.nodes.len(), names(&dump.active)), (2, vec!["new"]));
    assert_eq!((names(&dump.unschedulable), names(&dump.gated)), (vec!["large"], vec!["gated"]));
    assert_eq!(names(&dump.left_alone), ["leaving", "theirs"]);
    assert!(dump.backoff.is_empty());
}

#[test]
fn finished_pods_and_deleted_nodes_without_pods_are_not_dumped() {
    let mut world = World::new();
    world.set_node(node("a", 1000));
    world.set_node(node("b", 1000));
    world.add_bound_pod(pod("p", 100), "a");
    world.add_pod(pod("q", 5000));
    world.attempt().unwrap();
    world.set_node(node("c", 9000));
    assert_eq!(names(&world.engine.dump().backoff), ["q"], "a node that is large enough was added");
    world.remove_node("b");
    world.remove_node("c");
    world.remove_pod("q");
    let mut finished = pod("p", 100);
    (finished.node_name, finished.status.phase) = (Some("a".into()), Phase::Succeeded);
    world.add_pod(finished);
    let dump = world.engine.dump();
    assert_eq!((dump.nodes.len(), on(&dump, "a").pods.len(), dump.backoff.len()), (1, 0, 0));
}

#[test]
fn a_nominated_pod_is_listed_with_its_node() {
    let mut world = World::new();
    world.set_node(node("a", 1000));
    let mut waiting = pod("p", 5000);
    waiting.status.nominated_node_name = Some("a".into());
    world.add_pod(waiting);
    assert_eq!(names(&on(&world.engine.dump(), "a").nominated), ["p"]);
}
