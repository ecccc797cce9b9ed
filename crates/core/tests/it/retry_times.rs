//! Pods whose plugins want them to be tried again at a certain time.

use std::time::Duration;

use harbormaster_api::Timestamp;
use harbormaster_core::EngineConfig;
use harbormaster_framework::{outcome::Nomination, prelude::*};

use crate::world::{World, node, pod, profile_with};

/// Accepts pods when as many seconds have passed as their priority says. Tells so in PostFilter.
#[derive(Default)]
struct Opening;

fn opens(pod: &PodInfo) -> Timestamp {
    Timestamp::from_secs(1_000_000_000) + Duration::from_secs(pod.priority().unsigned_abs().into())
}

impl Plugin for Opening {
    const NAME: &'static str = "Opening";
    implemented_points!();
    fn events(&self) -> Option<Vec<Registration<Self>>> {
        Some(vec![Registration::always(EventResource::Node, Action::ADD)])
    }
}

impl Filter for Opening {
    fn filter(&self, cx: &Cycle<'_>, (): &(), _: NodeRef<'_>) -> Verdict {
        if cx.now < opens(cx.pod) { Err(Reject::unresolvable("closed").into()) } else { Ok(()) }
    }
}

impl PostFilter for Opening {
    fn post_filter(&self, cx: &mut PostFilterCycle<'_>, (): &()) -> PluginResult<PostFiltered> {
        cx.try_again_at(opens(cx.pod) + Duration::from_secs(900));
        cx.try_again_at(opens(cx.pod));
        cx.try_again_at(opens(cx.pod) + Duration::from_secs(600));
        Ok(PostFiltered::NoHelp { reasons: Vec::new(), nomination: Nomination::Keep })
    }
}

fn world() -> World {
    let profile = profile_with(|registry| {
        registry.register::<Opening>();
        vec![("Filter", "Opening"), ("PostFilter", "Opening")]
    });
    let mut world = World::with(EngineConfig::new(vec![profile]));
    world.set_node(node("a", 1000));
    world
}

/// A pod for which the node opens after some seconds.
fn opening_after(world: &mut World, name: &str, seconds: i32) {
    let mut pod = pod(name, 100);
    std::sync::Arc::make_mut(&mut pod.spec).priority = seconds;
    world.add_pod(pod);
    world.attempt().unwrap();
}

#[test]
fn a_pod_is_tried_again_at_the_earliest_time_that_a_plugin_names_without_any_event() {
    let mut world = world();
    opening_after(&mut world, "late", 60);
    opening_after(&mut world, "early", 30);
    let last = opens(&world.engine.pods().find(|pod| pod.name == "late").unwrap().clone());
    let state = |world: &World| world.engine.pod_state("default", "late").unwrap();
    assert_eq!(state(&world).tried_again_by, Some(last.to_rfc3339()));
    world.wait(Duration::from_secs(29));
    assert!(!world.engine.has_work());
    world.wait(Duration::from_secs(1));
    assert_eq!((world.engine.queue_lengths().active, state(&world).attempts), (1, 1));
    world.attempt().unwrap();
    assert_eq!(world.bindings(), [("early".into(), "a".into())]);
    world.wait(Duration::from_secs(29));
    assert!(!world.engine.has_work());
    world.wait(Duration::from_secs(2));
    world.attempt().unwrap();
    assert_eq!(world.bindings(), [("late".into(), "a".into())]);
}

#[test]
fn an_event_that_wakes_the_pod_earlier_replaces_the_time() {
    let mut world = world();
    opening_after(&mut world, "p", 60);
    world.wait(Duration::from_secs(5));
    world.set_node(node("b", 1000));
    world.attempt().unwrap();
    assert_eq!(world.engine.queue_lengths().unschedulable, 1);
    world.wait(Duration::from_secs(50));
    assert!(!world.engine.has_work());
    world.wait(Duration::from_secs(5));
    assert!(world.engine.has_due_work());
}

#[test]
fn a_time_that_passes_during_the_attempt_is_not_missed() {
    let mut world = world();
    let mut pod = pod("p", 100);
    std::sync::Arc::make_mut(&mut pod.spec).priority = 1;
    world.add_pod(pod);
    world.attempt_for(Duration::from_secs(2)).unwrap();
    assert_eq!(world.engine.queue_lengths().backoff, 1);
}

#[test]
fn times_of_pods_that_are_gone_wake_nobody() {
    let mut world = world();
    opening_after(&mut world, "p", 60);
    let before = world.engine.next_wakeup();
    world.remove_pod("p");
    assert!(before.is_some());
    assert_eq!(world.engine.next_wakeup(), None);
}
