//! DefaultPreemption in a cluster of hundreds of full nodes, for one preemptor after another.

use harbormaster_core::{BindOutcome, EngineConfig, EvictOutcome, Outcome};

use crate::world::{World, node, pod, profile_with, with_priority};

const NODES: usize = 300;
/// Number of pods that fill a node.
const PODS: usize = 4;
const PREEMPTORS: usize = 60;

/// Creates a cluster in which two thirds of the nodes are full of pods of priority 900, and the others are full of pods
/// of priority 0.
fn full(parity: bool) -> World {
    let profile = profile_with(|_| vec![("PostFilter", "DefaultPreemption")]);
    let mut world = World::with(EngineConfig { parity, ..EngineConfig::new(vec![profile]) });
    for at in 0..NODES {
        let name = format!("node-{at}");
        world.set_node(node(&name, 4000));
        let priority = if at < NODES * 2 / 3 { 900 } else { 0 };
        for nth in 0..PODS {
            let there = with_priority(pod(&format!("{priority}-{at}-{nth}"), 1000), priority);
            world.add_bound_pod(there, &name);
        }
    }
    world
}

/// Adds a pod that needs a whole node, and binds the pod. Returns the names of its victims.
fn preempt(world: &mut World, name: &str) -> Vec<String> {
    world.add_pod(with_priority(pod(name, 4000), 1000));
    assert!(matches!(world.attempt().unwrap().outcome, Outcome::Unschedulable(_)));
    let mut victims = Vec::new();
    loop {
        let tasks = world.evictions();
        if tasks.is_empty() {
            break;
        }
        for task in tasks {
            victims.push(task.victim.name.to_string());
            world.remove_pod(&task.victim.name);
            world.evict_finished(task, EvictOutcome::Evicted);
        }
    }
    world.wait(std::time::Duration::from_secs(60));
    let attempted = world.attempt().unwrap();
    let Outcome::Assumed { node, .. } = attempted.outcome else { panic!("{attempted:?}") };
    world.add_bound_pod(with_priority(pod(name, 4000), 1000), &node);
    world.bind_finished(name, BindOutcome::Bound);
    victims
}

fn victims_of_all(world: &mut World) -> Vec<String> {
    (0..PREEMPTORS).flat_map(|at| preempt(world, &format!("preemptor-{at}"))).collect()
}

fn important(victims: &[String]) -> usize {
    victims.iter().filter(|name| name.starts_with("900-")).count()
}

#[test]
fn no_important_pod_makes_way_while_less_important_pods_could() {
    let victims = victims_of_all(&mut full(false));
    assert_eq!(victims.len(), PREEMPTORS * PODS);
    assert_eq!(important(&victims), 0, "of {} victims", victims.len());
}

#[test]
fn in_parity_mode_different_preemptors_search_different_nodes() {
    let mut world = full(true);
    let mut seen = Vec::new();
    for at in 0..PREEMPTORS {
        let victims = preempt(&mut world, &format!("preemptor-{at}"));
        seen.push(important(&victims) > 0);
    }
    // The search visits a hundred consecutive nodes out of three hundred, so the node where it starts determines
    // whether it finds less important pods.
    let changes = seen.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!(seen.contains(&true) && seen.contains(&false), "{seen:?}");
    assert!(changes > 5, "the window hardly moves: {seen:?}");
}
