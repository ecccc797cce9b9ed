//! Evictions: the victims and their order, and the preemptor's next attempt.

use std::time::Duration;

use harbormaster_api::Pod;
use harbormaster_core::{BindOutcome, Effect, EngineConfig, EvictOutcome, EvictTask, Outcome};
use harbormaster_framework::{prelude::*, registry::Registry};

use crate::world::{World, node, pod, with_priority};

/// A plugin that is controlled by the pod's annotations: `victims` names the pods to evict for the pod, `panics` causes
/// a panic in the middle of a dry run, and `waits` delays the pod on Permit.
#[derive(Default)]
struct Bully;

impl Plugin for Bully {
    const NAME: &'static str = "Bully";
    implemented_points!();
    fn events(&self) -> Option<Vec<Registration<Self>>> {
        Some(vec![Registration::always(EventResource::Pod, Action::DELETE)])
    }
}

impl PreEnqueue for Bully {
    fn pre_enqueue(&self, cx: EnqueueCycle<'_>) -> Verdict {
        if cx.awaits_eviction { Err(Reject::unresolvable("waiting for evictions").into()) } else { Ok(()) }
    }
}

impl PostFilter for Bully {
    fn post_filter(&self, cx: &mut PostFilterCycle<'_>, _: &()) -> PluginResult<PostFiltered> {
        let row = cx.what_if.nodes().find("n").unwrap();
        let there = cx.what_if.nodes().node(row).pods().to_vec();
        if cx.pod.annotations.get("panics").is_some() {
            let mut dry_run = cx.what_if.dry_run(row);
            there.iter().try_for_each(|pod| dry_run.remove_pod(pod))?;
            panic!("in the middle of a dry run")
        }
        let names = cx.pod.annotations.get("victims").map(|names| names.split(','));
        let victim = |name: &str| there.iter().find(|pod| pod.name == name).cloned();
        let victims = names.into_iter().flatten().filter_map(victim).collect();
        Ok(PostFiltered::Nominate { node: "n".into(), victims, violations: 0, reasons: Vec::new() })
    }
}

impl Permit for Bully {
    fn permit(
        &self,
        cx: &Cycle<'_>,
        _: &harbormaster_api::Str,
        _: &mut Waiting<'_>,
    ) -> Result<Permitted, Stop> {
        let waits = cx.pod.annotations.get("waits").is_some();
        Ok(if waits { Permitted::Wait(Duration::from_secs(600)) } else { Permitted::Allow })
    }
}

/// Creates a cluster with one node, `n`, which the given pods fill.
fn full_of(pods: &[&str]) -> World {
    let mut registry = Registry::default();
    harbormaster_plugins::in_tree(&mut registry);
    registry.register::<Bully>();
    let profile = harbormaster_testkit::profile(
        &registry,
        &[
            ("PreEnqueue", &["Bully"]),
            ("QueueSort", &["PrioritySort"]),
            ("PreFilter", &["NodeResourcesFit"]),
            ("Filter", &["NodeResourcesFit"]),
            ("PostFilter", &["Bully"]),
            ("Permit", &["Bully"]),
            ("Bind", &["DefaultBinder"]),
        ],
    );
    let mut world = World::with(EngineConfig::new(vec![profile]));
    world.set_node(node("n", 100 * pods.len() as i64));
    pods.iter().for_each(|name| world.add_bound_pod(pod(name, 100), "n"));
    world
}

fn annotated(mut pod: Pod, key: &str, value: &str) -> Pod {
    pod.annotations = [(key, value)].into_iter().collect();
    pod
}

/// Returns a pod of high priority, for which `victims` are evicted.
fn preemptor(victims: &[&str]) -> Pod {
    with_priority(annotated(pod("p", 100), "victims", &victims.join(",")), 10)
}

fn preempts(world: &mut World, pod: Pod) {
    world.add_pod(pod);
    assert!(matches!(world.attempt().unwrap().outcome, Outcome::Unschedulable(_)));
}

fn begins_to_go(world: &mut World, name: &str) {
    let mut going = pod(name, 100);
    going.deleted = Some(world.now);
    world.add_bound_pod(going, "n");
}

fn names(tasks: &[EvictTask]) -> Vec<&str> {
    tasks.iter().map(|task| task.victim.name.as_str()).collect()
}

/// Waits until any backoff has ended. Returns true if a pod is then tried.
fn is_tried(world: &mut World) -> bool {
    world.wait(Duration::from_secs(20));
    world.attempt().is_some()
}

fn finish_all(world: &mut World, outcome: &EvictOutcome) {
    for task in world.evictions() {
        world.evict_finished(task, outcome.clone());
    }
}

#[test]
fn the_last_victim_is_evicted_only_after_all_the_others() {
    let mut world = full_of(&["x", "y", "z"]);
    preempts(&mut world, preemptor(&["x", "y", "z"]));
    let first = world.evictions();
    assert_eq!(names(&first), ["x", "y"]);
    assert_eq!(first[0].message, "default-scheduler: preempting to accommodate a higher priority pod");
    assert_eq!(world.nominations(), [("p".to_owned(), Some("n".to_owned()))]);
    world.events();
    let [x, y] = first.try_into().unwrap();
    world.evict_finished(y, EvictOutcome::Evicted);
    assert!(world.evictions().is_empty(), "x is still to be evicted");
    world.evict_finished(x, EvictOutcome::Gone);
    assert_eq!(
        world.events(),
        ["Normal Preempted Preempting: Preempted by pod p on node n"],
        "x left without an eviction"
    );
    assert_eq!(names(&world.evictions()), ["z"]);
}

#[test]
fn the_preemptor_is_released_when_the_last_victim_is_seen_leaving() {
    for last_is_gone_at_once in [false, true] {
        let mut world = full_of(&["x", "y"]);
        preempts(&mut world, preemptor(&["x", "y"]));
        begins_to_go(&mut world, "x");
        world.remove_pod("x");
        assert!(!is_tried(&mut world), "y is still to be evicted");
        assert_eq!(world.engine.queue_lengths().gated, 1);
        finish_all(&mut world, &EvictOutcome::Evicted);
        assert!(!is_tried(&mut world), "y is being evicted");
        if !last_is_gone_at_once {
            begins_to_go(&mut world, "y");
            assert!(!is_tried(&mut world), "y still uses the node");
        }
        world.remove_pod("y");
        world.wait(Duration::from_secs(20));
        assert!(matches!(world.attempt().unwrap().outcome, Outcome::Assumed { .. }));
        finish_all(&mut world, &EvictOutcome::Evicted);
        assert_eq!(world.bindings(), [("p".to_owned(), "n".to_owned())]);
    }
}

#[test]
fn the_end_of_the_last_eviction_releases_the_preemptor_before_the_victim_is_seen_leaving() {
    let mut world = full_of(&["x"]);
    preempts(&mut world, preemptor(&["x"]));
    finish_all(&mut world, &EvictOutcome::Evicted);
    assert!(!is_tried(&mut world), "x still uses the node");
    world.remove_pod("x");
    assert!(is_tried(&mut world));
}

#[test]
fn a_failed_eviction_spares_the_last_victim_and_the_preemptor_is_retried_immediately() {
    let mut world = full_of(&["x", "y", "z"]);
    preempts(&mut world, preemptor(&["x", "y", "z"]));
    let [x, y] = world.evictions().try_into().unwrap();
    world.evict_finished(x, EvictOutcome::Failed("the server is away".into()));
    assert!(world.attempt().is_none(), "y is still to be evicted");
    world.evict_finished(y, EvictOutcome::Evicted);
    assert!(world.evictions().is_empty());
    assert!(world.attempt().is_some());
}

#[test]
fn the_preemptor_is_retried_immediately_if_the_last_eviction_fails() {
    let mut world = full_of(&["x"]);
    preempts(&mut world, preemptor(&["x"]));
    finish_all(&mut world, &EvictOutcome::Failed("no".into()));
    assert!(world.attempt().is_some());
    assert_eq!(names(&world.evictions()), ["x"], "the same victim again");
}

#[test]
fn the_preemptor_is_released_if_the_last_victim_is_gone_before_its_turn() {
    let mut world = full_of(&["x", "y"]);
    preempts(&mut world, preemptor(&["x", "y"]));
    world.remove_pod("x");
    world.remove_pod("y");
    assert!(!is_tried(&mut world));
    finish_all(&mut world, &EvictOutcome::Gone);
    assert!(world.evictions().is_empty());
    assert!(matches!(world.attempt().unwrap().outcome, Outcome::Assumed { .. }));
}

#[test]
fn the_preemptor_is_released_if_the_last_victim_is_leaving_before_its_turn() {
    let mut world = full_of(&["x", "y"]);
    preempts(&mut world, preemptor(&["x", "y"]));
    begins_to_go(&mut world, "y");
    finish_all(&mut world, &EvictOutcome::Evicted);
    world.remove_pod("x");
    assert!(is_tried(&mut world), "no other update of y is needed");
}

#[test]
fn terminating_victims_are_left_alone_and_do_not_hold_the_preemptor_back() {
    let mut world = full_of(&["x", "y"]);
    begins_to_go(&mut world, "x");
    preempts(&mut world, preemptor(&["x", "y"]));
    assert_eq!(names(&world.evictions()), ["y"]);

    let mut world = full_of(&["x", "y"]);
    ["x", "y"].iter().for_each(|name| begins_to_go(&mut world, name));
    preempts(&mut world, preemptor(&["x", "y"]));
    assert!(world.evictions().is_empty());
    world.remove_pod("x");
    assert!(is_tried(&mut world), "the preemptor was never held back");
}

#[test]
fn a_victim_that_waits_on_permit_returns_to_the_queue() {
    let mut world = full_of(&["x"]);
    world.remove_pod("x");
    world.add_pod(annotated(pod("x", 100), "waits", ""));
    assert!(matches!(world.attempt().unwrap().outcome, Outcome::Assumed { .. }));
    preempts(&mut world, preemptor(&["x"]));
    assert!(world.evictions().is_empty() && world.bindings().is_empty());
    let events = world.events();
    let preempted = "Normal Preempted Preempting: Preempted by pod p on node n (in kube-scheduler memory).";
    assert!(events.iter().any(|event| event == preempted), "{events:?}");
    assert_eq!(world.conditions()[0], "x SchedulerError: waiting on permit for pod: preempted");
    world.wait(Duration::from_secs(20));
    let placed = world.attempt().unwrap();
    assert!(placed.pod.name == "p" && matches!(placed.outcome, Outcome::Assumed { .. }), "{placed:?}");
    assert_eq!(world.attempt().unwrap().pod.name, "x");
}

#[test]
fn a_victim_whose_binding_is_called_off_returns_to_the_queue() {
    let mut world = full_of(&["x"]);
    world.remove_pod("x");
    world.add_pod(pod("x", 100));
    assert!(matches!(world.attempt().unwrap().outcome, Outcome::Assumed { .. }));
    preempts(&mut world, preemptor(&["x"]));
    let [task] = world.evictions().try_into().unwrap();
    world.evict_finished(task, EvictOutcome::CalledOff);
    world.bind_finished("x", BindOutcome::Failed("preempted by DefaultPreemption".to_owned()));
    let events = world.events();
    let preempted = "Normal Preempted Preempting: Preempted by pod p on node n (in kube-scheduler memory).";
    assert!(events.iter().any(|event| event == preempted), "{events:?}");
    assert_eq!(world.conditions()[1], "x SchedulerError: preempted by DefaultPreemption");
    world.wait(Duration::from_secs(20));
    let placed = world.attempt().unwrap();
    assert!(placed.pod.name == "p" && matches!(placed.outcome, Outcome::Assumed { .. }), "{placed:?}");
    assert_eq!(world.attempt().unwrap().pod.name, "x");
}

#[test]
fn the_preemptor_is_released_if_the_last_victim_waits_on_permit() {
    let mut world = full_of(&["x", "y"]);
    world.remove_pod("y");
    world.add_pod(annotated(pod("y", 100), "waits", ""));
    world.attempt().unwrap();
    preempts(&mut world, preemptor(&["x", "y"]));
    world.remove_pod("x");
    finish_all(&mut world, &EvictOutcome::Evicted);
    assert_eq!(world.attempt().unwrap().pod.name, "p");
}

#[test]
fn a_preemption_clears_the_nominations_of_pods_with_lower_priority_to_the_node() {
    let mut world = full_of(&["x"]);
    let nominated = |name: &str, priority| {
        let mut pod = with_priority(pod(name, 5000), priority);
        pod.status.nominated_node_name = Some("n".into());
        pod
    };
    for (name, priority) in [("lower", 9), ("equal", 10)] {
        world.add_pod(nominated(name, priority));
        world.attempt().unwrap();
    }
    world.nominations();
    preempts(&mut world, with_priority(preemptor(&["x"]), 10));
    assert_eq!(world.nominations(), [("lower".to_owned(), None), ("p".to_owned(), Some("n".to_owned()))]);
}

#[test]
fn no_more_pods_are_evicted_for_a_preemptor_that_is_deleted() {
    let mut world = full_of(&["x", "y"]);
    preempts(&mut world, preemptor(&["x", "y"]));
    world.remove_pod("p");
    world.events();
    finish_all(&mut world, &EvictOutcome::Evicted);
    assert!(world.evictions().is_empty(), "no pod needs y's room");
    assert_eq!(world.events().len(), 1, "the event about x is recorded");
    // The engine has forgotten the round of the deleted preemptor.
    preempts(&mut world, preemptor(&[]));
    world.remove_pod("x");
    assert!(is_tried(&mut world));
}

#[test]
fn a_preemptor_that_preempts_again_is_held_back_only_by_its_newest_round() {
    let mut world = full_of(&["x", "y", "z"]);
    world.set_node(node("tiny", 50));
    world.add_bound_pod(pod("small", 50), "tiny");
    preempts(&mut world, preemptor(&["x"]));
    let earlier = world.evictions();
    // The deletion of x arrives before the outcome of the eviction call, and another event wakes the pod.
    begins_to_go(&mut world, "x");
    world.add_pod(preemptor(&["y", "z"]));
    world.remove_pod("small");
    assert!(is_tried(&mut world));
    let later = world.evictions();
    assert_eq!((names(&earlier), names(&later)), (vec!["x"], vec!["y"]));
    world.events();
    for task in earlier.clone() {
        world.evict_finished(task, EvictOutcome::Evicted);
    }
    assert_eq!(world.events(), ["Normal Preempted Preempting: Preempted by pod p on node n"]);
    world.remove_pod("x");
    assert!(!is_tried(&mut world), "y and z are being evicted");
    for task in earlier {
        world.evict_finished(task, EvictOutcome::Failed("failed twice".into()));
    }
    assert!(!is_tried(&mut world));
    later.into_iter().for_each(|task| world.evict_finished(task, EvictOutcome::Evicted));
    finish_all(&mut world, &EvictOutcome::Evicted);
    world.remove_pod("z");
    assert!(is_tried(&mut world));
}

#[test]
fn a_panic_in_the_middle_of_a_dry_run_leaves_the_node_unchanged() {
    let mut world = full_of(&["x", "y"]);
    world.add_pod(annotated(pod("p", 100), "panics", ""));
    let outcome = world.attempt().unwrap().outcome;
    assert_eq!(outcome, Outcome::Error(
        "running PostFilter plugin \"Bully\": plugin \"Bully\" panicked at PostFilter: in the middle of a dry run".into()
    ));
    let nodes = &world.engine.cache().cluster;
    let there = nodes.node(nodes.find("n").unwrap());
    assert_eq!((there.pods().len(), there.requested().milli_cpu), (2, 200));
    assert!(!world.all_effects().iter().any(|e| matches!(e, Effect::Evict(_))));
}
