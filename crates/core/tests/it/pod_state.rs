//! The state of one pod, as a running scheduler tells it.

use std::{sync::Arc, time::Duration};

use harbormaster_api::Str;
use harbormaster_core::{EngineConfig, PodState};
use harbormaster_framework::{
    outcome::{Permitted, Stop},
    prelude::*,
};

use crate::world::{self, World, node, pod};

fn state(world: &World, name: &str) -> PodState {
    let namespace = pod(name, 0).namespace;
    world.engine.pod_state(&namespace, name).unwrap_or_else(|| panic!("{name} waits"))
}

/// Delays every pod for a minute.
struct Slow;

impl Plugin for Slow {
    const NAME: &'static str = "Slow";
    implemented_points!();
}

impl Build for Slow {
    type Args = NoArgs;
    fn build(_: NoArgs, _: &BuildCycle) -> Result<Self, PluginError> {
        Ok(Self)
    }
}

impl Permit for Slow {
    fn permit(&self, _: &Cycle<'_>, _: &Str, _: &mut Waiting<'_>) -> Result<Permitted, Stop> {
        Ok(Permitted::Wait(Duration::from_secs(60)))
    }
}

#[test]
fn a_pod_that_waits_on_permit_names_the_plugin_the_node_and_the_end_of_the_wait() {
    let profile = world::profile_with(|registry| {
        registry.register::<Slow>();
        vec![("Permit", "Slow")]
    });
    let mut world = World::with(EngineConfig::new(vec![profile]));
    world.set_node(node("a", 1000));
    world.add_pod(pod("slow", 100));
    world.attempt().unwrap();
    let slow = state(&world, "slow");
    assert_eq!((slow.state, slow.node.as_deref(), slow.attempts), ("permit", Some("a"), 1));
    let [wait] = &slow.permit[..] else { panic!("one plugin: {:?}", slow.permit) };
    assert_eq!(
        (wait.plugin, wait.until.as_str()),
        ("Slow", (world.now + Duration::from_secs(60)).to_rfc3339().as_str())
    );
}

#[test]
fn a_pod_that_waits_has_a_state_and_any_other_pod_has_none() {
    let mut world = World::new();
    world.set_node(node("a", 1000));
    world.add_bound_pod(pod("bound", 100), "a");
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
    let mut nominated = pod("new", 100);
    nominated.status.nominated_node_name = Some("a".into());
    world.add_pod(nominated);

    let assumed = state(&world, "assumed");
    assert_eq!((assumed.state, assumed.node.as_deref(), assumed.attempts), ("binding", Some("a"), 1));
    let new = state(&world, "new");
    assert_eq!((new.state, new.attempts, new.nominated_node.as_deref()), ("active", 0, Some("a")));
    assert_eq!(new.woken_by, []);
    let gated = state(&world, "gated");
    assert_eq!((gated.state, gated.gated_by, gated.attempts), ("gated", Some("SchedulingGates"), 0));
    assert_eq!(gated.woken_by[0].plugin, "SchedulingGates");
    let large = state(&world, "large");
    assert_eq!((large.state, large.attempts, large.backoff_until), ("unschedulable", 1, None));
    let wakers: Vec<&str> = large.woken_by.iter().map(|waker| waker.plugin).collect();
    assert_eq!(wakers, ["NodeResourcesFit"]);
    assert!(large.tried_again_by > large.since, "{:?}", large.tried_again_by);
    let namespace = pod("x", 0).namespace;
    for name in ["bound", "theirs", "absent"] {
        assert_eq!(world.engine.pod_state(&namespace, name), None, "{name}");
    }

    world.set_node(node("b", 9000));
    let large = state(&world, "large");
    assert_eq!((large.state, &large.tried_again_by), ("backoff", &large.backoff_until));
    assert!(large.backoff_until.is_some());
}
