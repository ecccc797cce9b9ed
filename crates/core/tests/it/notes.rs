//! Notes for log lines, recorded on request.

use std::time::Duration;

use harbormaster_core::{EngineConfig, Note, Notes};

use crate::world::{self, World, node, pod};

fn world(notes: Notes) -> World {
    World::with(EngineConfig { notes, ..EngineConfig::new(vec![world::profile()]) })
}

/// Takes the notes, each as a short line.
fn taken(world: &mut World) -> Vec<String> {
    let word = |note: Note| match note {
        Note::Rejected { pod, plugin, reason, nodes } => format!("{}: {plugin} {reason} {nodes}", pod.name),
        Note::Moved { pod, from, to, event } => format!("{}: {from} -> {to} for {event}", pod.name),
        Note::Scored { pod, node, plugin, score } => format!("{}: {plugin} {node} {score}", pod.name),
        Note::Total { pod, node, score } => format!("{}: {node} {score}", pod.name),
        Note::PluginFailed { error, .. } => error,
        Note::Undecodable(error) => error.to_string(),
        Note::Contradiction(found) => found.problem.to_owned(),
        Note::Stuck { why, .. } => why.name().to_owned(),
    };
    world.engine.take_notes().into_iter().map(word).collect()
}

#[test]
fn each_move_of_a_pod_in_the_queue_is_noted_with_its_cause() {
    let mut world = world(Notes { moves: true, ..Notes::default() });
    world.set_node(node("a", 1000));
    world.add_pod(pod("p", 5000));
    assert_eq!(taken(&mut world), ["p: New -> Active for UnschedulablePodAdd"]);
    world.attempt().unwrap();
    assert_eq!(taken(&mut world), ["p: InFlight -> Unschedulable for ScheduleAttemptFailure"]);
    world.set_node(node("b", 5000));
    assert_eq!(taken(&mut world), ["p: Unschedulable -> Backoff for NodeAdd"]);
    world.wait(Duration::from_secs(3));
    assert_eq!(taken(&mut world), ["p: Backoff -> Active for BackoffComplete"]);
}

#[test]
fn rejections_are_noted_by_plugin_and_reason() {
    let mut world = world(Notes { rejections: true, ..Notes::default() });
    for name in ["a", "b", "c"] {
        let mut node = node(name, 1000);
        node.unschedulable = name == "c";
        world.set_node(node);
    }
    world.add_pod(pod("p", 5000));
    world.attempt().unwrap();
    let mut lines = taken(&mut world);
    lines.sort();
    assert_eq!(
        lines,
        ["p: NodeResourcesFit Insufficient cpu 2", "p: NodeUnschedulable node(s) were unschedulable 1"]
    );
}

#[test]
fn scores_are_noted_by_node_and_plugin_and_add_up() {
    let mut world = world(Notes { scores: true, ..Notes::default() });
    world.set_node(node("a", 1000));
    world.add_pod(pod("alone", 100));
    world.attempt().unwrap();
    assert!(taken(&mut world).is_empty(), "with one node there is nothing to compare");
    world.set_node(node("b", 4000));
    world.add_pod(pod("p", 100));
    world.attempt().unwrap();
    let lines = taken(&mut world);
    let of = |part: &str| lines.iter().filter(|line| line.contains(part)).count();
    assert_eq!((of("NodeResourcesFit"), of("p: a "), of("p: b ")), (2, 1, 1), "{lines:?}");
    let number = |line: &String| line.rsplit(' ').next().unwrap().parse::<i64>().unwrap();
    let by_plugin: i64 = lines.iter().filter(|line| line.split(' ').nth(2) == Some("b")).map(number).sum();
    let total: i64 = lines.iter().filter(|line| line.starts_with("p: b ")).map(number).sum();
    assert!(total > 0 && by_plugin == total, "{lines:?}");
}

#[test]
fn nothing_is_noted_unless_requested() {
    let mut world = World::new();
    world.set_node(node("a", 1000));
    world.add_pod(pod("p", 5000));
    world.attempt().unwrap();
    assert!(taken(&mut world).is_empty());
}
