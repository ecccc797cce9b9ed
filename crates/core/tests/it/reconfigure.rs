//! New configurations, applied while pods are queued, wait on Permit or are being bound.

use std::{
    collections::{BTreeSet, btree_map::Entry},
    sync::Arc,
    time::Duration,
};

use harbormaster_api::{Str, points::ExtensionPoint};
use harbormaster_core::{
    BindOutcome, Effect, EngineConfig, Input,
    queue::Backoff,
    recording::{ReplayError, replay, replay_through},
};
use harbormaster_framework::{
    prelude::*,
    profile::{Profile, ProfileSpec},
    registry::Registry,
};
use proptest::prelude::*;
use serde_json::json;

use crate::world::{
    World, node, pod,
    steps::{Model, Step, play, step},
    with_priority, with_scheduler,
};

const DEFAULT: &str = "default-scheduler";
const OTHER: &str = "other";

/// A plugin that gates every pod.
#[derive(Default)]
struct Closed;

impl Plugin for Closed {
    const NAME: &'static str = "Closed";
    implemented_points!();
}

impl PreEnqueue for Closed {
    fn pre_enqueue(&self, _: EnqueueCycle<'_>) -> Result<(), Stop> {
        Err(Reject::evictable("closed").into())
    }
}

/// A plugin that delays pods until a pod of odd priority arrives.
#[derive(Default)]
struct Turnstile;

impl Plugin for Turnstile {
    const NAME: &'static str = "Turnstile";
    implemented_points!();
}

impl Permit for Turnstile {
    fn permit(&self, cx: &Cycle<'_>, _: &Str, waiting: &mut Waiting<'_>) -> Result<Permitted, Stop> {
        if cx.pod.priority() % 2 == 0 {
            return Ok(Permitted::Wait(Duration::from_secs(60)));
        }
        waiting.list().iter().for_each(|(pod, _)| waiting.allow(&pod.uid));
        Ok(Permitted::Allow)
    }
}

/// Differences between profiles.
#[derive(Clone, Copy, Default)]
struct Choice {
    /// Prefers nodes with more pods.
    packs: bool,
    /// Allows nodes to be overcommitted.
    overfills: bool,
    closed: bool,
    turnstile: bool,
    /// Has a plugin that reads volumes.
    volumes: bool,
}

fn profile(name: &str, choice: Choice) -> Arc<Profile> {
    use ExtensionPoint as P;
    let mut registry = Registry::default();
    harbormaster_plugins::in_tree(&mut registry);
    registry.register::<Closed>();
    registry.register::<Turnstile>();
    let strategy = if choice.packs { "MostAllocated" } else { "LeastAllocated" };
    let resources = json!([{"name": "cpu", "weight": 1}]);
    let args = json!({"scoringStrategy": {"type": strategy, "resources": resources}});
    let gates: &[&str] = if choice.closed { &["SchedulingGates", "Closed"] } else { &["SchedulingGates"] };
    let fit: &[&str] = if choice.overfills { &[] } else { &["NodeResourcesFit"] };
    let volumes: &[&str] = if choice.volumes { &["VolumeZone"] } else { &[] };
    let filters = [&["NodeUnschedulable", "NodeName"], fit, volumes].concat();
    let permit: &[&str] = if choice.turnstile { &["Turnstile"] } else { &[] };
    let list = |plugins: &[&str]| plugins.iter().map(|plugin| ((*plugin).to_owned(), 1)).collect();
    let spec = ProfileSpec {
        name: name.to_owned(),
        points: vec![
            (P::PreEnqueue, list(gates)),
            (P::QueueSort, list(&["PrioritySort"])),
            (P::PreFilter, list(&[fit, volumes].concat())),
            (P::Filter, list(&filters)),
            (P::PostFilter, list(&["DefaultPreemption"])),
            (P::PreScore, list(&["NodeResourcesFit"])),
            (P::Score, list(&["NodeResourcesFit"])),
            (P::Permit, list(permit)),
            (P::Bind, list(&["DefaultBinder"])),
        ],
        args: vec![("NodeResourcesFit".to_owned(), args)],
        percentage_of_nodes_to_score: None,
    };
    Arc::new(Profile::build(&spec, &registry, &BuildCycle::default()).unwrap())
}

fn config(profiles: &[(&str, Choice)]) -> EngineConfig {
    EngineConfig::new(profiles.iter().map(|(name, choice)| profile(name, *choice)).collect())
}

fn plain() -> EngineConfig {
    config(&[(DEFAULT, Choice::default())])
}

fn closed() -> EngineConfig {
    config(&[(DEFAULT, Choice { closed: true, ..Choice::default() })])
}

fn with_turnstile() -> EngineConfig {
    config(&[(DEFAULT, Choice { turnstile: true, ..Choice::default() })])
}

fn only_other() -> EngineConfig {
    config(&[(OTHER, Choice::default())])
}

#[test]
fn the_next_pod_goes_to_the_best_node_by_the_new_scores() {
    let mut world = World::with(plain());
    world.set_node(node("empty", 1000));
    world.set_node(node("half", 1000));
    world.add_bound_pod(pod("there", 500), "half");
    world.add_pod(pod("p", 100));
    world.attempt();
    assert_eq!(world.bindings(), [("p".to_owned(), "empty".to_owned())]);
    world.reconfigure(config(&[(DEFAULT, Choice { packs: true, ..Choice::default() })]));
    world.add_pod(pod("q", 100));
    world.attempt();
    assert_eq!(world.bindings(), [("q".to_owned(), "half".to_owned())]);
}

#[test]
fn pods_rejected_under_the_old_configuration_are_tried_again() {
    let mut world = World::with(plain());
    world.set_node(node("n", 1000));
    world.add_pod(pod("big", 2000));
    world.attempt();
    world.wait(Duration::from_secs(5));
    assert_eq!(world.engine.queue_lengths().unschedulable, 1);
    world.reconfigure(config(&[(DEFAULT, Choice { overfills: true, ..Choice::default() })]));
    world.attempt();
    assert_eq!(world.bindings(), [("big".to_owned(), "n".to_owned())]);
}

#[test]
fn backoff_continues_with_the_new_delays() {
    let mut world = World::with(EngineConfig {
        backoff: Backoff { initial: Duration::from_secs(600), max: Duration::from_secs(600) },
        ..plain()
    });
    world.set_node(node("n", 1000));
    world.add_pod(pod("p", 100));
    world.attempt();
    world.bind_finished("p", BindOutcome::Failed("broken".into()));
    world.wait(Duration::from_secs(60));
    assert!(!world.engine.has_work());
    world.reconfigure(plain());
    world.wait(Duration::from_secs(2));
    assert!(world.engine.has_work());
}

#[test]
fn gates_are_checked_again_under_a_new_configuration() {
    let mut world = World::with(plain());
    world.set_node(node("n", 1000));
    world.add_pod(pod("p", 100));
    world.reconfigure(closed());
    assert_eq!(world.engine.queue_lengths().gated, 1);
    assert!(world.attempt().is_none());
    world.reconfigure(plain());
    world.attempt();
    assert_eq!(world.bindings().len(), 1);
}

#[test]
fn pods_are_added_and_dropped_with_their_profiles() {
    let mut world = World::with(plain());
    world.set_node(node("n", 1000));
    world.add_pod(pod("ours", 100));
    world.add_pod(with_scheduler(pod("b", 100), OTHER));
    world.add_pod(with_scheduler(pod("a", 100), OTHER));
    world.add_pod(with_scheduler(pod("nobodys", 100), "nobody"));
    world.reconfigure(only_other());
    assert_eq!(world.engine.queue_lengths().active, 2);
    world.attempt();
    world.attempt();
    assert!(world.attempt().is_none());
    let bound: Vec<String> = world.bindings().into_iter().map(|(pod, _)| pod).collect();
    assert_eq!(bound, ["a", "b"]);
    let two = config(&[(OTHER, Choice::default()), (DEFAULT, Choice::default())]);
    world.reconfigure(two);
    world.attempt();
    assert_eq!(world.bindings(), [("ours".to_owned(), "n".to_owned())]);
    assert!(world.attempt().is_none(), "pods that are being bound are not tried again");
}

#[test]
fn a_nomination_is_dropped_with_the_profile() {
    let mut world = World::with(plain());
    let mut nominated = pod("p", 900);
    nominated.status.nominated_node_name = Some("n".into());
    world.add_pod(nominated);
    world.reconfigure(only_other());
    world.set_node(node("n", 1000));
    world.add_pod(with_scheduler(pod("q", 900), OTHER));
    world.attempt();
    assert_eq!(world.bindings(), [("q".to_owned(), "n".to_owned())]);
}

#[test]
fn a_victim_stays_once_no_pod_needs_its_room() {
    let mut world = World::with(plain());
    world.set_node(node("n", 1000));
    world.add_bound_pod(pod("v1", 500), "n");
    world.add_bound_pod(pod("v2", 500), "n");
    world.add_pod(with_priority(pod("high", 1000), 10));
    world.attempt();
    let mut first = world.evictions();
    assert_eq!(first.len(), 1, "the last victim waits for the others");
    world.reconfigure(only_other());
    world.evict_finished(first.remove(0), harbormaster_core::EvictOutcome::Evicted);
    assert!(world.evictions().is_empty());
}

#[test]
fn a_binding_finishes_under_the_profile_that_began_it() {
    let mut world = World::with(plain());
    world.set_node(node("n", 1000));
    world.add_pod(pod("p", 100));
    world.attempt();
    world.reconfigure(config(&[(OTHER, Choice::default()), (DEFAULT, Choice::default())]));
    assert_eq!(world.engine.bindings_in_progress(), 1);
    assert!(world.engine.cache().is_assumed("p"));
    assert!(world.attempt().is_none());
    world.bind_finished("p", BindOutcome::Bound);
    assert!(world.events().iter().any(|event| event.contains("Successfully assigned default/p to n")));
}

#[test]
fn a_pod_whose_binding_fails_is_tried_again_if_it_has_a_profile() {
    for (config, again) in
        [(config(&[(OTHER, Choice::default()), (DEFAULT, Choice::default())]), true), (only_other(), false)]
    {
        let mut world = World::with(plain());
        world.set_node(node("n", 1000));
        world.add_pod(pod("p", 100));
        world.attempt();
        world.reconfigure(config);
        world.events();
        world.bind_finished("p", BindOutcome::Failed("broken".into()));
        assert!(!world.engine.cache().is_on_node("p"));
        assert_eq!(world.engine.queue().get(&"p".into()).is_some(), again);
        assert_eq!(world.events().len(), usize::from(again));
        world.wait(Duration::from_secs(5));
        assert_eq!(world.attempt().is_some(), again);
    }
}

#[test]
fn pods_that_wait_on_permit_give_up_their_nodes_and_are_tried_again() {
    let mut world = World::with(with_turnstile());
    world.set_node(node("n", 1000));
    world.add_pod(pod("p", 100));
    world.attempt();
    assert!(world.bindings().is_empty() && world.engine.cache().is_assumed("p"));
    world.events();
    world.reconfigure(plain());
    assert!(!world.engine.cache().is_on_node("p"));
    assert_eq!(
        world.events(),
        ["Warning FailedScheduling Scheduling: the configuration of the scheduler has changed"]
    );
    world.wait(Duration::from_secs(3));
    world.attempt();
    assert_eq!(world.bindings(), [("p".to_owned(), "n".to_owned())]);
}

#[test]
fn kinds_of_objects_that_are_not_stored_yet_are_named() {
    let with_volumes = config(&[(DEFAULT, Choice { volumes: true, ..Choice::default() })]);
    let mut world = World::with(plain());
    assert!(world.engine.missing_resources(&plain().profiles).is_empty());
    let lacking = world.engine.missing_resources(&with_volumes.profiles);
    assert!(lacking.iter().any(|kind| kind.name().plural == "persistentvolumeclaims"), "{lacking:?}");
    world.reconfigure(with_volumes.clone());
    assert!(world.engine.missing_resources(&with_volumes.profiles).is_empty());
}

#[test]
fn a_recording_continues_across_configurations() {
    let mut world = World::with(plain());
    world.set_node(node("n", 1000));
    world.add_pod(pod("p", 100));
    world.reconfigure(closed());
    world.attempt();
    world.reconfigure(plain());
    world.attempt();
    let recording = world.engine.finish().unwrap();
    let played = replay_through(plain(), [closed(), plain()], &*recording).unwrap();
    assert_eq!(played.attempts, 1);
    let missing = replay(plain(), &*recording).unwrap_err();
    assert!(matches!(missing, ReplayError::NotReplayable(..)), "{missing}");
    let others = replay_through(plain(), [only_other(), plain()], &*recording).unwrap_err();
    assert!(matches!(others, ReplayError::Differs { .. }), "{others}");
}

// --- random steps ---

#[derive(Clone, Debug)]
enum Any {
    Step(Step),
    /// A new pod that names the other scheduler.
    Other {
        name: u8,
        cpu: u8,
        priority: u8,
    },
    TakeOver(usize),
}

fn any_step() -> impl Strategy<Value = Any> {
    prop_oneof![
        12 => step().prop_map(Any::Step),
        3 => (0u8..10, 0u8..40, 0u8..4).prop_map(|(name, cpu, priority)| Any::Other { name, cpu, priority }),
        2 => (0usize..5).prop_map(Any::TakeOver),
    ]
}

/// Returns the configuration with the given number, and the names of its profiles.
fn numbered(which: usize) -> (EngineConfig, &'static [&'static str]) {
    let (plain, turnstile) = (Choice::default(), Choice { turnstile: true, ..Choice::default() });
    match which {
        0 => (config(&[(DEFAULT, plain)]), &[DEFAULT]),
        1 => (only_other(), &[OTHER]),
        2 => (config(&[(DEFAULT, turnstile), (OTHER, turnstile)]), &[DEFAULT, OTHER]),
        3 => (config(&[(OTHER, plain), (DEFAULT, Choice { packs: true, ..turnstile })]), &[DEFAULT, OTHER]),
        _ => (closed(), &[DEFAULT]),
    }
}

fn check(world: &World, model: &Model, live: &[&str]) -> Result<(), TestCaseError> {
    let engine = &world.engine;
    for pod in model.pods.values() {
        let queued = engine.queue().get(&pod.uid).is_some();
        let binding = model.bindings.iter().any(|(uid, _)| pod.uid == uid.as_str());
        let bound = pod.node_name.is_some();
        let waits = !bound && !binding && engine.cache().is_assumed(&pod.uid);
        let ours = live.contains(&pod.spec.scheduler_name.as_str());
        let places = usize::from(queued) + usize::from(binding) + usize::from(waits);
        prop_assert!(places <= 1, "{} is in several places", pod.name);
        prop_assert!(!(queued && bound), "{} is bound and still queued", pod.name);
        prop_assert!(!queued || ours, "{} has no profile and is still queued", pod.name);
        prop_assert!(places == 1 || bound || !ours || pod.is_terminating(), "{} is lost", pod.name);
        prop_assert!(!(binding || bound) || engine.cache().is_on_node(&pod.uid) || pod.is_terminating());
    }
    let known = model.pods.values().filter(|p| engine.cache().is_on_node(&p.uid)).count();
    prop_assert_eq!(engine.cache().pod_counts().0, known, "a pod that is gone still counts");
    let waiting = engine.bindings_in_progress() - model.bindings.len();
    prop_assert_eq!(engine.sizes().in_flight, waiting, "only pods that wait on Permit are in flight");
    let uids: BTreeSet<&String> = model.bindings.iter().map(|(uid, _)| uid).collect();
    prop_assert_eq!(uids.len(), model.bindings.len(), "a pod is bound twice at the same time");
    Ok(())
}

fn carry_out_evictions(world: &mut World, model: &mut Model) {
    for task in world.evictions() {
        model.pods.remove(task.victim.name.as_str());
        world.input(Input::PodGone(task.victim.uid.clone()));
        world.evict_finished(task, harbormaster_core::EvictOutcome::Evicted);
    }
}

fn run(steps: Vec<Any>) -> Result<(), TestCaseError> {
    let (first, mut live) = numbered(0);
    let (mut world, mut model, mut later) = (World::with(first), Model::default(), Vec::new());
    for step in steps {
        match step {
            Any::Step(step) => play(&mut world, &mut model, step),
            Any::Other { name, cpu, priority } => {
                let name = format!("o{name}");
                if let Entry::Vacant(place) = model.pods.entry(name.clone()) {
                    let new = with_priority(pod(&name, i64::from(cpu)), i32::from(priority));
                    let mut new = with_scheduler(new, OTHER);
                    new.uid = format!("{name}-{}", world.now.0).into();
                    place.insert(new.clone());
                    world.add_pod(new);
                }
            }
            Any::TakeOver(which) => {
                let config;
                (config, live) = numbered(which);
                later.push(config.clone());
                world.reconfigure(config);
            }
        }
        model.bindings.extend(world.binding_uids());
        carry_out_evictions(&mut world, &mut model);
        model.bindings.extend(world.binding_uids());
        check(&world, &model, live)?;
    }
    let recording = world.engine.finish().unwrap();
    replay_through(numbered(0).0, later, &*recording).unwrap();
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_pod_is_lost_or_bound_twice_across_configurations(steps in prop::collection::vec(any_step(), 1..120)) {
        run(steps)?;
    }
}

#[test]
fn a_new_configuration_requests_no_binding_or_eviction() {
    let mut world = World::with(with_turnstile());
    world.set_node(node("n", 1000));
    world.add_pod(pod("p", 100));
    world.attempt();
    world.all_effects();
    world.reconfigure(closed());
    let asked = world.all_effects();
    assert!(!asked.iter().any(|effect| matches!(effect, Effect::Bind(_) | Effect::Evict(_))), "{asked:?}");
}
