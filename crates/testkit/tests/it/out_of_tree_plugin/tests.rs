//! Runs the plugin point by point.

use harbormaster_api::{Timestamp, points::ExtensionPoint};
use harbormaster_framework::{
    attempt::{Decision, NominatedRow, Runner, Search, unreserve},
    cycle::{Reservation, WaitingPods},
    events::ClusterEvent,
    guard::Stopped,
    index::IndexKind,
    registry::Registry,
    sweep::PluginIdx,
    window::Rotation,
};
use harbormaster_testkit::{
    FakeApi, PodBuilder, Trial, WhatIfTrial, adding_and_removing_is_neutral, batch_equals_single, cluster,
    index_equals_rebuilt_one, node, pod, profile_with_args, trial::finished,
};
use serde_json::json;

use super::*;

fn wants(name: &str, tickets: i64) -> PodBuilder {
    annotated(pod(name), WANTED, &tickets.to_string())
}

fn annotated(pod: PodBuilder, key: &str, value: &str) -> PodBuilder {
    pod.pod(|p| {
        let old = p.annotations.iter().map(|(k, v)| (k.clone(), v.clone()));
        p.annotations = old.chain([(Str::from(key), Str::from(value))]).collect();
    })
}

fn theatre() -> Cluster {
    cluster(
        [node("none"), node("few").label(LABEL, "2"), node("many").label(LABEL, "9")],
        [wants("there", 5).on("many"), wants("first", 2).on("few")],
    )
}

fn runner() -> Runner {
    let mut registry = Registry::default();
    registry.register::<Tickets>();
    let everywhere: Vec<(&str, &[&str])> = registry
        .points("Tickets")
        .into_iter()
        .flat_map(|points| points.iter())
        .map(|point| (point.name(), ["Tickets"].as_slice()))
        .collect();
    assert_eq!(everywhere.len(), 12, "every point except those of pod groups");
    Runner::new(profile_with_args(&registry, &everywhere, &[("Tickets", json!({"mostPerPod": 6}))]))
}

/// Runs an attempt for the pod, with the given nominated pods.
fn find_with(
    runner: &mut Runner,
    nodes: &mut Cluster,
    pod: &Arc<PodInfo>,
    nominated: &[NominatedRow],
) -> Decision {
    let mut rotation = Rotation::default();
    let found = runner.find(nodes, pod, Search { nominated, ..Search::all(&mut rotation) });
    found.unwrap_or_else(|e| panic!("{e}")).into_decision()
}

#[test]
fn the_queue_holds_back_greedy_pods_and_serves_large_orders_first() {
    let runner = runner();
    let plugin = runner.profile().plugins()[0].clone();
    let enters = |tickets: i64, awaits_eviction: bool| {
        let pod = wants("p", tickets).info();
        plugin
            .pre_enqueue(EnqueueCycle { awaits_eviction, ..EnqueueCycle::new(&pod, &Objects::default()) })
            .is_ok()
    };
    assert!(enters(6, false) && !enters(7, false) && !enters(6, true));
    let (small, large) = (wants("small", 1).info(), wants("large", 5).info());
    let queued = |pod, since| Queued::pod(pod, Timestamp(since));
    assert!(runner.profile().less(queued(&large, 2), queued(&small, 1)).unwrap());
    assert!(runner.profile().less(queued(&small, 1), queued(&small, 2)).unwrap());
}

#[test]
fn only_nodes_with_tickets_left_are_chosen_and_the_message_explains_rejections() {
    let (mut runner, mut nodes) = (runner(), theatre());
    let found = find_with(&mut runner, &mut nodes, &wants("p", 3).info(), &[]);
    let Decision::Node { row, .. } = found else { panic!("{found:?}") };
    assert_eq!(nodes.node(row).name(), "many");
    let found = find_with(&mut runner, &mut nodes, &wants("p", 5).info(), &[]);
    let Decision::Unschedulable(diagnosis) = found else { panic!("{found:?}") };
    assert_eq!(
        diagnosis.message(),
        "0/3 nodes are available: 1 node(s) didn't satisfy plugin(s) [Tickets], 2 Insufficient tickets."
    );
    let found = find_with(&mut runner, &mut nodes, &wants("p", -1).info(), &[]);
    let Decision::Unschedulable(diagnosis) = found else { panic!("{found:?}") };
    assert_eq!(diagnosis.message(), "0/3 nodes are available: pod wants less than no ticket.");
}

#[test]
fn tickets_of_nominated_pods_are_treated_as_taken() {
    let (mut runner, mut nodes) = (runner(), theatre());
    let row = nodes.find("many").unwrap();
    let nominated = [NominatedRow { row, pods: vec![wants("nominated", 3).priority(9).info()] }];
    let pod = wants("p", 2).info();
    let found = find_with(&mut runner, &mut nodes, &pod, &nominated);
    assert!(matches!(found, Decision::Unschedulable(_)), "{found:?}");
    let found = find_with(&mut runner, &mut nodes, &pod, &[]);
    assert!(matches!(found, Decision::Node { .. }), "{found:?}");
}

#[test]
fn scores_are_relative_to_the_most_tickets_left() {
    let nodes =
        cluster([node("a").label(LABEL, "4"), node("b").label(LABEL, "8"), node("c").label(LABEL, "6")], []);
    let trial = Trial::of(tickets());
    assert_eq!(trial.scores(&nodes, &wants("p", 1).info()).unwrap(), Some(vec![50, 100, 75]));
    assert_eq!(trial.scores(&nodes, &pod("plain").info()).unwrap(), None);
    let explained = runner().explain(&mut theatre(), &wants("p", 1).info()).unwrap();
    assert_eq!(explained.scores.len(), 1);
    assert_eq!(explained.scores[0].1.plugins, [("Tickets", 4, 100, 100)]);
}

#[test]
fn the_plugin_passes_the_conformance_checks() {
    let trial = Trial::of(tickets());
    let mut nodes = theatre();
    for tickets in 0..6 {
        batch_equals_single(&trial, &nodes, &wants("p", tickets).info());
        adding_and_removing_is_neutral(
            &trial,
            &mut nodes,
            &wants("p", tickets).info(),
            &wants("other", 3).info(),
        );
    }
}

#[test]
fn a_node_is_nominated_if_evicting_less_important_holders_helps_and_only_as_many_as_needed_are_evicted() {
    let answer = |pod: &Arc<PodInfo>| {
        let cheap = wants("cheap", 1).priority(-1).on("many");
        let dear = wants("dear", 2).priority(5).on("many");
        let holders = [wants("there", 3).on("many"), cheap, dear, wants("first", 2).on("few")];
        let cluster = cluster([node("few").label(LABEL, "2"), node("many").label(LABEL, "9")], holders);
        let mut trial = WhatIfTrial::new(runner().profile().clone(), cluster);
        let answer = trial.ask(&tickets(), pod).unwrap();
        let after = trial.cluster().find("many").map(|row| taken(trial.cluster().node(row)));
        assert_eq!(after, Some(6), "all changes are undone");
        match answer {
            PostFiltered::Nominate { node, victims, .. } => {
                Ok((node.to_string(), victims.iter().map(|v| v.name.to_string()).collect::<Vec<_>>()))
            }
            PostFiltered::NoHelp { reasons, .. } | PostFiltered::Unresolvable { reasons, .. } => Err(reasons),
        }
    };
    let many = |victims: &[&str]| Ok(("many".to_owned(), victims.iter().map(|v| (*v).to_owned()).collect()));
    assert_eq!(answer(&wants("p", 4).priority(1).info()), many(&["cheap"]));
    assert_eq!(answer(&wants("p", 6).priority(1).info()), many(&["there"]));
    assert_eq!(answer(&wants("p", 9).priority(9).info()), many(&["dear", "there", "cheap"]));
    for hopeless in [wants("too unimportant", 4).priority(-1), wants("too much for any node", 10).priority(9)]
    {
        assert_eq!(answer(&hopeless.info()), Err(vec!["no ticket holder to make way".into()]));
    }
}

#[test]
fn the_index_equals_a_rebuilt_one_after_random_changes() {
    for seed in 0..20 {
        index_equals_rebuilt_one::<BoxOffice>(
            seed,
            |dice, name| node(name).label(LABEL, &dice.below(4).to_string()),
            |dice, name| wants(name, dice.below(4) as i64),
        );
    }
}

fn tickets() -> Tickets {
    Tickets { most_per_pod: None, reserved: Mutex::default(), printed: Mutex::default() }
}

#[test]
fn every_implemented_point_is_found() {
    let plugin = Trial::of(tickets()).plugin().clone();
    let missing = ExtensionPoint::ALL.into_iter().filter(|point| !plugin.points().contains(*point));
    let of_groups = [
        ExtensionPoint::PodGroupPostFilter,
        ExtensionPoint::PlacementGenerate,
        ExtensionPoint::PlacementScore,
    ];
    assert_eq!(missing.collect::<Vec<_>>(), of_groups);
    assert!(plugin.index().is_some());
}

#[derive(Default)]
struct Room {
    waiting: Vec<(Arc<PodInfo>, Str)>,
    allowed: Vec<String>,
    activated: Vec<String>,
}

impl WaitingPods for Room {
    fn list(&self) -> Vec<(Arc<PodInfo>, Str)> {
        self.waiting.clone()
    }
    fn allow(&mut self, uid: &str, plugin: &'static str) {
        self.allowed.push(format!("{uid} {plugin}"));
    }
    fn reject(&mut self, uid: &str, plugin: &'static str, message: String) {
        panic!("{plugin} rejects {uid}: {message}");
    }
    fn activate(&mut self, namespace: &str, name: &str) {
        self.activated.push(format!("{namespace}/{name}"));
    }
}

#[test]
fn pods_of_a_pair_wait_for_each_other() {
    let (runner, nodes) = (runner(), theatre());
    let plugin = &runner.profile().plugins()[0];
    let mut room = Room::default();
    let permit =
        |pod: &Arc<PodInfo>, room: &mut Room| plugin.permit(&Cycle::new(&nodes, pod), &"many".into(), room);
    let (one, two) =
        (annotated(wants("one", 1), PAIR, "x").info(), annotated(wants("two", 1), PAIR, "x").info());
    assert_eq!(permit(&wants("alone", 1).info(), &mut room).unwrap(), Permitted::Allow);
    assert_eq!(permit(&one, &mut room).unwrap(), Permitted::Wait(Duration::from_secs(30)));
    assert_eq!(room.activated, ["default/x"]);
    room.waiting.push((one, "many".into()));
    assert_eq!(permit(&two, &mut room).unwrap(), Permitted::Allow);
    assert_eq!(room.allowed, ["uid-one Tickets"]);
    let nameless = annotated(wants("nameless", 1), PAIR, "").info();
    assert!(matches!(permit(&nameless, &mut room), Err(Stopped::Reject(..))));
}

#[test]
fn a_reservation_can_be_given_back_and_made_again_before_the_pod_is_bound() {
    let (mut runner, mut nodes) = (runner(), theatre());
    let pod = wants("p", 3).info();
    let mut rotation = Rotation::default();
    let attempt = runner.find(&mut nodes, &pod, Search::all(&mut rotation)).unwrap();
    let Decision::Node { row, .. } = *attempt.decision() else { panic!("{attempt:?}") };
    let node = nodes.node(row).name().clone();
    let mut reservation = Reservation::new(pod.clone(), node.clone());
    assert!(attempt.reserve(&mut nodes, row, &mut reservation).is_ok());
    let given_back = unreserve(runner.profile(), &mut nodes, &reservation);
    assert!(given_back.errors.is_empty() && given_back.calls.is_empty());
    assert!(attempt.reserve(&mut nodes, row, &mut reservation).is_ok());
    let server = FakeApi::default();
    let cx = BindCycle { placement: reservation.of(PluginIdx(0)), api: server.api() };
    let plugin = &runner.profile().plugins()[0];
    assert_eq!(plugin.pre_flight(&cx).unwrap(), PreFlight::Work { parallel: true });
    let plain = Placement::new(harbormaster_testkit::pod("plain").info(), node);
    assert_eq!(plugin.pre_flight(&plain).unwrap(), PreFlight::NothingToDo);
    finished(plugin.pre_bind(&cx)).unwrap();
    assert_eq!(finished(plugin.bind(&cx)).unwrap(), Bound::Done);
    finished(plugin.post_bind(&cx)).unwrap();
    assert_eq!(server.bound(), ["default/p many"]);
    let plain = BindCycle { placement: plain, ..cx };
    assert_eq!(finished(plugin.bind(&plain)).unwrap(), Bound::NotMine);
}

#[test]
fn unreserve_gives_back_exactly_what_was_reserved() {
    let (plugin, mut nodes) = (tickets(), theatre());
    nodes.add_index(IndexKind::of::<BoxOffice>());
    let pod = wants("p", 3).info();
    let cx = Cycle::new(&nodes, &pod);
    let PreFiltered::Continue { state, only: Some(only) } = plugin.pre_filter(&cx).unwrap() else {
        panic!("skipped")
    };
    assert_eq!((state.wanted, only.len()), (3, 2));
    let many = nodes.node(nodes.find("many").unwrap());
    let placement = Placement::new(pod.clone(), many.name().clone());
    plugin.reserve(&cx, &state, many, &mut Assume::by(Tickets::NAME)).unwrap();
    assert_eq!(plugin.reserved.lock().unwrap().get("uid-p"), Some(&3));
    plugin.unreserve(&placement, &mut Vec::new());
    assert!(plugin.reserved.lock().unwrap().is_empty());
    let cordoned = cluster([node("n").label(LABEL, "9").unschedulable()], []);
    let there = cordoned.node(cordoned.order()[0]);
    assert!(plugin.reserve(&Cycle::new(&cordoned, &pod), &state, there, &mut Assume::by("")).is_err());
}

#[test]
fn the_plugin_has_its_own_events_and_signature() {
    let trial = Trial::of(tickets());
    let waiting = wants("p", 3).info();
    let event = ClusterEvent::new(EventResource::AssignedPod, Action::DELETE);
    for (gone, expected) in [(wants("holder", 1).on("n"), Hint::Queue), (pod("plain").on("n"), Hint::Skip)] {
        let gone = gone.build();
        assert_eq!(trial.hint(event, &waiting, &Change::Pod { old: Some(&gone), new: None }), Some(expected));
    }
    let added = ClusterEvent::new(EventResource::Node, Action::ADD);
    assert_eq!(trial.hint(added, &waiting, &Change::Other), Some(Hint::Queue));
    let sign = |pod: &PodInfo| trial.plugin().sign(pod).unwrap();
    assert_eq!(sign(&waiting), sign(&wants("q", 3).info()));
    assert_ne!(sign(&waiting), sign(&wants("q", 4).info()));
}

#[test]
fn invalid_arguments_are_rejected_with_the_plugins_own_message() {
    let mut registry = Registry::default();
    registry.register::<Tickets>();
    let build = |args: serde_json::Value| registry.build("Tickets", Some(&args), &BuildCycle::default());
    assert!(build(json!({"mostPerPod": 3})).is_ok_and(|p| p.points().contains(ExtensionPoint::Permit)));
    let Err(error) = build(json!({"mostPerPod": 0})) else { panic!("accepted") };
    assert_eq!(error.to_string(), "initializing plugin \"Tickets\": mostPerPod must be at least 1");
    assert!(build(json!({"mostPerPods": 3})).is_err(), "a typing error");
}
