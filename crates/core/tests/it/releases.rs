//! Behaviour of the engine that depends on the release of Kubernetes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use harbormaster_api::{
    Pod, Release,
    pod::ContainerResources,
    taint::{Taint, TaintEffect},
};
use harbormaster_core::{EngineConfig, Note, Notes};
use harbormaster_framework::prelude::*;

use crate::world::{World, node, pod, profile_for};

/// Gates all pods and counts its calls. Waits for new nodes, which do not come; a plugin that waits for nothing would be
/// called again by the watchdog.
#[derive(Default)]
struct Closed;

static CALLS: AtomicUsize = AtomicUsize::new(0);

impl Plugin for Closed {
    const NAME: &'static str = "Closed";
    implemented_points!();

    fn events(&self) -> Option<Vec<Registration<Self>>> {
        Some(vec![Registration::always(EventResource::Node, Action::ADD)])
    }
}

impl PreEnqueue for Closed {
    fn pre_enqueue(&self, _: EnqueueCycle<'_>) -> Verdict {
        CALLS.fetch_add(1, Ordering::Relaxed);
        Err(Reject::unresolvable("closed").into())
    }
}

fn world(release: Release) -> World {
    let notes = Notes { moves: true, ..Notes::default() };
    World::with(EngineConfig { notes, ..EngineConfig::new(vec![profile_for(release, |_| Vec::new())]) })
}

/// Takes the causes of the moves in the queue.
fn causes(world: &mut World) -> Vec<String> {
    let cause = |note: Note| match note {
        Note::Moved { event, .. } => Some(event.to_string()),
        _ => None,
    };
    world.engine.take_notes().into_iter().filter_map(cause).collect()
}

#[test]
fn gated_pods_are_checked_again_every_five_minutes_from_1_37() {
    for (release, checks) in [(Release::V1_36, 0), (Release::V1_37, 3)] {
        let profile = profile_for(release, |registry| {
            registry.register::<Closed>();
            vec![("PreEnqueue", "Closed")]
        });
        let mut world = World::with(EngineConfig::new(vec![profile]));
        world.add_pod(pod("p", 1));
        world.wait(Duration::from_secs(1));
        let before = CALLS.load(Ordering::Relaxed);
        world.wait(Duration::from_secs(17 * 60));
        assert_eq!(CALLS.load(Ordering::Relaxed) - before, checks, "{release}");
        assert_eq!(world.engine.queue_lengths().gated, 1);
    }
}

#[test]
fn events_of_pods_have_the_names_of_the_release() {
    for (release, new, own) in [
        (Release::V1_36, "UnschedulablePodAdd", "UnschedulablePod"),
        (Release::V1_37, "UnscheduledPodAdd", "TargetPod"),
    ] {
        let mut world = world(release);
        world.set_node(node("a", 1000));
        world.add_pod(pod("p", 5000));
        assert_eq!(causes(&mut world), [new]);
        world.attempt().unwrap();
        causes(&mut world);
        world.add_pod(pod("p", 900));
        assert_eq!(causes(&mut world), [format!("{own}UpdatePodScaleDown")]);
    }
}

#[test]
fn a_removed_taint_wakes_pods_that_wait_for_resources_only_in_1_36() {
    for (release, expected) in [(Release::V1_36, vec!["NodeUpdateNodeTaint"]), (Release::V1_37, vec![])] {
        let mut world = world(release);
        let mut tainted = node("a", 1000);
        let (key, effect) = ("k".into(), TaintEffect::PreferNoSchedule);
        tainted.taints = vec![Taint { key, value: "v".into(), effect }].into();
        world.set_node(tainted);
        world.add_pod(pod("p", 5000));
        world.attempt().unwrap();
        causes(&mut world);
        world.set_node(node("a", 1000));
        assert_eq!(causes(&mut world), expected, "{release}");
    }
}

/// A pod with two containers that request 100 and 50 thousandths of a core. The first still has 200, and the second is
/// to shrink from 150.
fn resizing() -> Pod {
    let mut pod = pod("p", 100);
    let spec = Arc::make_mut(&mut pod.spec);
    let mut second = spec.containers[0].clone();
    second.name = "second".into();
    second.requests = vec![("cpu".into(), 50)];
    spec.containers[0].name = "first".into();
    spec.containers.push(second);
    let actual = |name: &str, cpu| ContainerResources {
        name: name.into(),
        requests: Some(vec![("cpu".into(), cpu)]),
        allocated: vec![("cpu".into(), if name == "first" { 250 } else { 50 })],
    };
    pod.status.container_resources = vec![actual("first", 200), actual("second", 150)];
    pod
}

#[test]
fn resized_containers_count_one_by_one_in_1_36_and_together_from_1_37() {
    for (release, cpu) in [(Release::V1_36, 250 + 150), (Release::V1_37, 200 + 150)] {
        let mut world = world(release);
        world.set_node(node("a", 1000));
        world.add_bound_pod(resizing(), "a");
        let cluster = &world.engine.cache().cluster;
        let requested = cluster.node(cluster.find("a").unwrap()).requested().milli_cpu;
        assert_eq!(requested, cpu, "{release}");
    }
}
