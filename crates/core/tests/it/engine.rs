//! The engine's interface to its host: inputs, effects, and time as a value.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use harbormaster_api::{
    Labels, Str,
    taint::{Taint, TaintEffect},
};
use harbormaster_core::{BindOutcome, EngineConfig, Outcome};
use harbormaster_framework::{prelude::*, registry::Registry};

use crate::world::{self, World, node, pod};

#[test]
fn a_pod_goes_to_the_emptier_node_and_gets_its_event_once_it_is_bound() {
    let mut world = World::new();
    world.set_node(node("a", 1000));
    world.set_node(node("b", 4000));
    world.add_pod(pod("p", 500));
    assert_eq!(
        world.attempt().unwrap().outcome,
        Outcome::Assumed { node: "b".into(), evaluated: 2, feasible: 2 }
    );
    assert_eq!(world.bindings(), [("p".to_owned(), "b".to_owned())]);
    assert!(world.events().is_empty(), "the event waits for the binding");
    world.bind_finished("p", BindOutcome::Bound);
    assert_eq!(world.events(), ["Normal Scheduled Binding: Successfully assigned default/p to b"]);
    assert!(world.attempt().is_none());
}

#[test]
fn a_bound_pod_is_not_tried_again_if_an_older_change_arrives_late() {
    let mut world = World::new();
    world.set_node(node("a", 1000));
    world.add_pod(pod("p", 500));
    world.attempt().unwrap();
    world.bind_finished("p", BindOutcome::Bound);
    // PreBind has written the pod's status, and the watch reports that after the response to the binding.
    world.add_pod(harbormaster_api::Pod { resource_version: "7".into(), ..pod("p", 500) });
    assert!(world.attempt().is_none());
    world.add_bound_pod(pod("p", 500), "a");
    assert!(world.attempt().is_none());
}

#[test]
fn a_pod_that_fits_nowhere_gets_its_condition_once_and_an_event_per_attempt() {
    let mut world = World::new();
    world.set_node(node("a", 1000));
    world.add_pod(pod("p", 5000));
    world.attempt().unwrap();
    let message = "0/1 nodes are available: 1 Insufficient cpu.";
    assert_eq!(world.conditions(), [format!("p Unschedulable: {message}")]);
    assert_eq!(world.events(), [format!("Warning FailedScheduling Scheduling: {message}")]);
    world.record_condition("p", "Unschedulable", message);
    world.set_node(node("b", 5000));
    world.remove_node("b");
    world.wait(Duration::from_secs(2));
    world.attempt().unwrap();
    assert!(world.conditions().is_empty(), "the condition is unchanged");
    assert_eq!(world.events().len(), 1);
}

#[test]
fn without_nodes_a_pod_is_unschedulable_and_is_retried_after_its_backoff() {
    let mut world = World::new();
    world.add_pod(pod("p", 1));
    world.attempt().unwrap();
    assert_eq!(world.conditions(), ["p Unschedulable: no nodes available to schedule pods"]);
    world.set_node(node("a", 1000));
    assert!(world.attempt().is_none(), "the backoff of a failed attempt is never cut short");
    world.wait(Duration::from_secs(3));
    assert!(matches!(world.attempt().unwrap().outcome, Outcome::Assumed { .. }));
}

#[test]
fn only_events_that_may_free_cpu_wake_a_pod_that_lacks_cpu() {
    let mut world = World::new();
    world.set_node(node("a", 1000));
    world.add_bound_pod(pod("running", 900), "a");
    world.add_pod(pod("p", 500));
    world.attempt().unwrap();
    let still_waits = |world: &mut World, why: &str| {
        world.wait(Duration::from_secs(20));
        assert!(world.attempt().is_none(), "the pod must not wake for {why}");
    };
    still_waits(&mut world, "nothing");
    let mut labelled = node("a", 1000);
    labelled.labels = [("x", "y")].into_iter().collect::<Labels>();
    world.set_node(labelled.clone());
    still_waits(&mut world, "labels");
    world.set_node(harbormaster_api::Node { allocatable: node("a", 900).allocatable, ..labelled });
    still_waits(&mut world, "less cpu");
    world.add_bound_pod(pod("another", 1), "a");
    still_waits(&mut world, "another pod");
    world.set_node(node("tiny", 100));
    still_waits(&mut world, "a node that is too small when empty");
    world.add_pod(pod("small", 10));
    assert!(
        matches!(world.attempt().unwrap().outcome, Outcome::Assumed { .. }),
        "other pods are not held up"
    );
    world.remove_pod("running");
    assert!(
        matches!(world.attempt().unwrap().outcome, Outcome::Assumed { .. }),
        "a pod that uses the cpu is deleted"
    );
}

#[test]
fn a_pod_rejected_for_a_taint_wakes_when_the_taint_is_removed() {
    let mut world = World::new();
    let taint = Taint { key: "k".into(), value: "v".into(), effect: TaintEffect::NoSchedule };
    let mut tainted = node("a", 1000);
    tainted.taints = vec![taint].into();
    world.set_node(tainted);
    world.add_pod(pod("p", 10));
    world.attempt().unwrap();
    assert_eq!(
        world.conditions(),
        ["p Unschedulable: 0/1 nodes are available: 1 node(s) had untolerated taint(s)."]
    );
    world.set_node(node("a", 2000));
    assert!(matches!(world.attempt().unwrap().outcome, Outcome::Assumed { .. }));
}

#[test]
fn a_gated_pod_is_tried_when_its_last_gate_is_removed() {
    let mut world = World::new();
    world.set_node(node("a", 1000));
    let mut gated = pod("p", 10);
    gated.scheduling_gates = vec!["x".into(), "y".into()];
    world.add_pod(gated.clone());
    assert!(world.attempt().is_none());
    assert_eq!(world.engine.queue_lengths().gated, 1);
    gated.scheduling_gates.pop();
    world.add_pod(gated.clone());
    assert!(world.attempt().is_none(), "one gate is left");
    gated.scheduling_gates.clear();
    world.add_pod(gated);
    assert!(matches!(world.attempt().unwrap().outcome, Outcome::Assumed { .. }));
}

#[test]
fn a_failed_binding_frees_the_resources_and_the_pod_is_retried_after_its_backoff() {
    let mut world = World::new();
    world.set_node(node("a", 1000));
    world.add_pod(pod("p", 800));
    world.attempt().unwrap();
    assert_eq!(world.engine.cache().pod_counts(), (1, 1));
    world.bind_finished("p", BindOutcome::Failed("running Bind plugin \"DefaultBinder\": it broke".into()));
    assert_eq!(world.engine.cache().pod_counts(), (0, 0));
    assert_eq!(world.conditions(), ["p SchedulerError: running Bind plugin \"DefaultBinder\": it broke"]);
    assert!(world.attempt().is_none(), "the pod backs off");
    assert_eq!(world.engine.queue_lengths().backoff, 1);
    world.wait(Duration::from_secs(3));
    assert!(matches!(world.attempt().unwrap().outcome, Outcome::Assumed { .. }));
}

#[test]
fn a_pod_deleted_while_it_is_being_bound_leaves_nothing_behind() {
    let mut world = World::new();
    world.set_node(node("a", 1000));
    world.add_pod(pod("p", 800));
    world.attempt().unwrap();
    world.remove_pod("p");
    assert_eq!(world.engine.cache().pod_counts(), (0, 0));
    world.bind_finished("p", BindOutcome::Failed("pods \"p\" not found".into()));
    assert!(world.conditions().is_empty() && world.attempt().is_none());
    assert_eq!(world.engine.bindings_in_progress(), 0);
}

#[test]
fn a_pod_bound_to_another_node_counts_on_that_node() {
    let mut world = World::new();
    world.set_node(node("a", 1000));
    world.set_node(node("b", 900));
    world.add_pod(pod("p", 800));
    world.attempt().unwrap();
    world.add_bound_pod(pod("p", 800), "b");
    let used = |world: &World, name: &str| {
        let nodes = &world.engine.cache().cluster;
        nodes.node(nodes.find(name).unwrap()).requested().milli_cpu
    };
    assert_eq!((used(&world, "a"), used(&world, "b")), (0, 800));
}

#[test]
fn a_terminating_pod_is_not_scheduled() {
    let mut world = World::new();
    world.set_node(node("a", 1000));
    let mut going = pod("p", 10);
    going.deleted = Some(world.now);
    world.add_pod(going);
    assert_eq!(world.attempt().unwrap().outcome, Outcome::Skipped);
    assert_eq!(
        world.events(),
        ["Warning FailedScheduling Scheduling: skip schedule deleting pod: default/p"]
    );
}

#[test]
fn pods_of_other_schedulers_are_left_alone_but_count_on_their_nodes() {
    let mut world = World::new();
    world.set_node(node("a", 1000));
    let foreign = world::with_scheduler(pod("theirs", 900), "other");
    world.add_pod(foreign.clone());
    assert!(world.attempt().is_none());
    world.add_bound_pod(foreign, "a");
    world.add_pod(pod("ours", 500));
    assert!(matches!(world.attempt().unwrap().outcome, Outcome::Unschedulable(_)));
}

#[test]
fn pods_are_tried_in_order_of_priority_and_then_of_arrival() {
    let mut world = World::new();
    world.set_node(node("a", 10_000));
    for (name, priority) in [("low", 0), ("first", 5), ("second", 5), ("high", 9)] {
        world.add_pod(world::with_priority(pod(name, 1), priority));
    }
    let order: Vec<String> = std::iter::from_fn(|| world.attempt()).map(|a| a.pod.name.to_string()).collect();
    assert_eq!(order, ["high", "first", "second", "low"]);
}

#[test]
fn a_pod_that_no_event_wakes_is_tried_again_after_five_minutes() {
    let mut world = World::new();
    world.set_node(node("a", 100));
    world.add_pod(pod("p", 500));
    world.attempt().unwrap();
    world.wait(Duration::from_secs(4 * 60));
    assert!(world.attempt().is_none());
    world.wait(Duration::from_secs(2 * 60));
    assert!(world.attempt().is_some());
}

#[test]
fn resources_for_a_nominated_pod_are_not_given_to_pods_of_lower_priority() {
    let mut world = World::new();
    world.set_node(node("a", 1000));
    let mut chosen = world::with_priority(pod("chosen", 800), 10);
    chosen.scheduling_gates = vec!["hold".into()];
    chosen.status.nominated_node_name = Some("a".into());
    world.add_pod(chosen.clone());
    world.add_pod(pod("lesser", 500));
    assert_eq!(
        world.attempt().unwrap().outcome,
        Outcome::Unschedulable("0/1 nodes are available: 1 Insufficient cpu.".into())
    );
    world.add_pod(world::with_priority(pod("greater", 500), 20));
    assert!(matches!(world.attempt().unwrap().outcome, Outcome::Assumed { .. }));
}

/// Panics for a pod named "bad".
#[derive(Default)]
struct Nervous;

impl Plugin for Nervous {
    const NAME: &'static str = "Nervous";
    implemented_points!();
}

impl Filter for Nervous {
    fn filter(&self, cx: &Cycle<'_>, _: &(), _: NodeRef<'_>) -> Verdict {
        assert!(cx.pod.name != "bad", "saw a bad pod");
        Ok(())
    }
}

#[test]
fn a_panicking_plugin_fails_its_pod_but_no_other_pod() {
    let mut registry = Registry::default();
    harbormaster_plugins::in_tree(&mut registry);
    registry.register::<Nervous>();
    let profile = harbormaster_testkit::profile(
        &registry,
        &[("QueueSort", &["PrioritySort"]), ("Filter", &["Nervous"]), ("Bind", &["DefaultBinder"])],
    );
    let mut world = World::with(EngineConfig::new(vec![profile]));
    world.set_node(node("a", 1000));
    for name in ["bad", "good"] {
        world.add_pod(pod(name, 1));
        world.attempt().unwrap();
    }
    assert_eq!(
        world.conditions(),
        [
            "bad SchedulerError: running \"Nervous\" filter plugin: plugin \"Nervous\" panicked at Filter: saw a bad pod"
        ]
    );
    assert_eq!(world.bindings(), [("good".to_owned(), "a".to_owned())]);
    world.wait(Duration::from_secs(3));
    assert_eq!(world.attempt().unwrap().pod.name, "bad", "the pod is tried again");
}

/// Counts its pre-flights, and delays pods with the label `waits`.
#[derive(Default)]
struct Counting;

static PRE_FLIGHTS: AtomicUsize = AtomicUsize::new(0);

impl Plugin for Counting {
    const NAME: &'static str = "Counting";
    implemented_points!();
}

impl Permit for Counting {
    fn permit(&self, cx: &Cycle<'_>, _: &Str, waiting: &mut Waiting<'_>) -> Result<Permitted, Stop> {
        if cx.pod.labels.get("waits").is_some() {
            return Ok(Permitted::Wait(Duration::from_secs(60)));
        }
        waiting.list().iter().for_each(|(pod, _)| waiting.allow(&pod.uid));
        Ok(Permitted::Allow)
    }
}

impl PreBind for Counting {
    fn pre_flight(&self, _: &Placement) -> PluginResult<PreFlight> {
        PRE_FLIGHTS.fetch_add(1, Ordering::Relaxed);
        Ok(PreFlight::Work { parallel: false })
    }
    async fn pre_bind(&self, _: &BindCycle) -> Verdict {
        Ok(())
    }
}

#[test]
fn a_pre_flight_runs_once_when_the_binding_begins_and_the_binding_is_in_flight_from_then_on() {
    let profile = world::profile_with(|registry| {
        registry.register::<Counting>();
        vec![("Permit", "Counting"), ("PreBind", "Counting")]
    });
    let mut world = World::with(EngineConfig::new(vec![profile]));
    world.set_node(node("a", 1000));
    let mut patient = pod("patient", 1);
    patient.labels = [("waits", "")].into_iter().collect::<Labels>();
    world.add_pod(patient);
    world.attempt().unwrap();
    assert_eq!((PRE_FLIGHTS.load(Ordering::Relaxed), world.engine.work_in_flight()), (0, 0), "the pod waits");
    world.add_pod(pod("p", 1));
    world.attempt().unwrap();
    assert_eq!((PRE_FLIGHTS.load(Ordering::Relaxed), world.engine.work_in_flight()), (2, 2));
    let announced = |pod: &str| (pod.to_owned(), Some("a".to_owned()));
    assert_eq!(world.nominations(), [announced("patient"), announced("p")]);
    for name in ["patient", "p"] {
        world.bind_finished(name, BindOutcome::Bound);
    }
    assert_eq!(world.engine.work_in_flight(), 0);
}
