//! Extenders in decisions: nodes, scores, evictions and failures.

use std::{
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use harbormaster_api::{Pod, Str, pod::Container};
use harbormaster_core::{
    EngineConfig, EvictOutcome, Input, Outcome,
    recording::{ReplayError, replay},
};
use harbormaster_framework::{
    extender::{Extender, ExtenderClient, Extenders, Filtered, NodeVictims, Remark},
    pod::PodInfo,
};

use crate::world::{World, node, pod, profile_with, with_priority};

type Nodes = Vec<&'static str>;

/// Extenders that answer requests by calling functions, and store the requests.
#[derive(Default)]
struct Fake {
    filter: Option<Filter>,
    prioritize: Option<Prioritize>,
    preempt: Option<Preempt>,
    asked: Mutex<Vec<String>>,
    remarks: Mutex<Vec<String>>,
}

type Filter = fn(usize, &[Str]) -> Result<Filtered, String>;
type Prioritize = fn(usize) -> Result<Vec<(&'static str, i64)>, String>;
type Preempt = fn(usize, &[NodeVictims]) -> Result<Vec<NodeVictims>, String>;

impl fmt::Debug for Fake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fake")
    }
}

impl Fake {
    fn note(&self, what: &str, extender: usize, pod: &PodInfo, about: &[Str]) {
        let about: Vec<&str> = about.iter().map(Str::as_str).collect();
        self.asked.lock().unwrap().push(format!("{what} {extender} {}: {}", pod.name, about.join(" ")));
    }

    fn take_asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }

    fn take_remarks(&self) -> Vec<String> {
        std::mem::take(&mut self.remarks.lock().unwrap())
    }
}

impl ExtenderClient for Fake {
    fn filter(&self, extender: usize, pod: &PodInfo, nodes: &[Str]) -> Result<Filtered, String> {
        self.note("filter", extender, pod, nodes);
        self.filter.unwrap()(extender, nodes)
    }

    fn prioritize(
        &self,
        extenders: &[usize],
        pod: &PodInfo,
        nodes: &[Str],
    ) -> Vec<Result<Vec<(Str, i64)>, String>> {
        let owned = |scores: Vec<(&'static str, i64)>| {
            scores.into_iter().map(|(node, score)| (node.into(), score)).collect()
        };
        let answer = |extender: &usize| {
            self.note("prioritize", *extender, pod, nodes);
            self.prioritize.unwrap()(*extender).map(owned)
        };
        extenders.iter().map(answer).collect()
    }

    fn preempt(
        &self,
        extender: usize,
        pod: &PodInfo,
        plans: &[NodeVictims],
    ) -> Result<Vec<NodeVictims>, String> {
        let nodes: Vec<Str> = plans.iter().map(|plan| plan.node.clone()).collect();
        self.note("preempt", extender, pod, &nodes);
        self.preempt.unwrap()(extender, plans)
    }

    fn remark(&self, extender: usize, _: &PodInfo, remark: Remark<'_>) {
        self.remarks.lock().unwrap().push(format!("{extender} {remark:?}"));
    }
}

fn filters(name: &str) -> Extender {
    Extender { name: name.into(), filters: true, ..Extender::default() }
}

fn prioritizes(name: &str, weight: i64) -> Extender {
    Extender { name: name.into(), prioritizes: true, weight, ..Extender::default() }
}

fn preempts(name: &str) -> Extender {
    Extender { name: name.into(), preempts: true, ..Extender::default() }
}

fn config(extenders: Vec<Extender>, fake: &Arc<Fake>) -> EngineConfig {
    let profile = profile_with(|_| vec![("PostFilter", "DefaultPreemption")]);
    let extenders = Extenders::new(extenders).with_client(fake.clone());
    EngineConfig { extenders, ..EngineConfig::new(vec![profile]) }
}

/// A cluster of the given nodes, each with one CPU.
fn world(extenders: Vec<Extender>, fake: Fake, nodes: &[&str]) -> (World, Arc<Fake>) {
    let fake = Arc::new(fake);
    let mut world = World::with(config(extenders, &fake));
    nodes.iter().for_each(|name| world.set_node(node(name, 1000)));
    (world, fake)
}

fn only(nodes: &[&str], keep: impl Fn(&str) -> bool, asked: &[Str]) -> Filtered {
    let kept = asked.iter().filter(|name| nodes.contains(&name.as_str()) || keep(name)).cloned().collect();
    Filtered { nodes: kept, ..Filtered::default() }
}

/// Accepts all nodes.
fn all(asked: &[Str]) -> Filtered {
    Filtered { nodes: asked.to_vec(), ..Filtered::default() }
}

/// Accepts all nodes except those in `out`.
fn all_but(asked: &[Str], out: &[(&str, &str)]) -> Filtered {
    let mut filtered = only(&[], |name| !out.iter().any(|(node, _)| *node == name), asked);
    filtered.failed = out.iter().map(|(node, why)| ((*node).into(), (*why).to_owned())).collect();
    filtered
}

fn message(world: &mut World) -> String {
    match world.attempt().unwrap().outcome {
        Outcome::Unschedulable(why) | Outcome::Error(why) => why,
        other => panic!("{other:?}"),
    }
}

fn bound(world: &mut World) -> String {
    world.attempt().unwrap();
    world.bindings().remove(0).1
}

#[test]
fn each_filter_gets_only_the_nodes_that_the_previous_filter_accepted() {
    let filter: Filter = |extender, asked| {
        Ok(match extender {
            0 => all_but(asked, &[("a", "not a")]),
            _ => all_but(asked, &[("b", "not b")]),
        })
    };
    let (mut world, fake) = world(
        vec![filters("u"), filters("v")],
        Fake { filter: Some(filter), ..Fake::default() },
        &["a", "b", "c"],
    );
    world.set_node(node("small", 10));
    world.add_pod(pod("p", 100));
    assert_eq!(bound(&mut world), "c");
    assert_eq!(fake.take_asked(), ["filter 0 p: a b c", "filter 1 p: b c"]);
}

#[test]
fn reasons_of_extenders_are_counted_with_the_reasons_of_plugins() {
    let filter: Filter = |_, _| {
        Ok(Filtered {
            failed: vec![("a".into(), "no GPU".into()), ("b".into(), "no GPU".into())],
            unresolvable: vec![("b".into(), "broken".into())],
            ..Filtered::default()
        })
    };
    let (mut world, _) =
        world(vec![filters("u")], Fake { filter: Some(filter), ..Fake::default() }, &["a", "b", "c"]);
    world.set_node(node("small", 10));
    world.add_pod(pod("p", 100));
    // The answer did not mention `c`, so the message gives no reason for `c`. Eviction does not help on `c` either.
    assert_eq!(
        message(&mut world),
        "0/4 nodes are available: 1 Insufficient cpu, 1 broken, 1 no GPU. preemption: 0/4 nodes are available: 1 No \
         preemption victims found for incoming pod, 3 Preemption is not helpful for scheduling."
    );
    let entry = world.engine.queue().get(&"p".into()).unwrap();
    assert_eq!(entry.rejectors, ["Extender", "NodeResourcesFit"]);
}

#[test]
fn in_parity_mode_scores_ignore_pods_on_nodes_that_are_returned_as_objects() {
    let filter: Filter = |_, asked| Ok(all(asked));
    for (parity, sees_objects, chosen) in
        [(false, false, "small"), (false, true, "small"), (true, false, "small"), (true, true, "large")]
    {
        let fake = Arc::new(Fake { filter: Some(filter), ..Fake::default() });
        let extender = Extender { sees_objects, ..filters("u") };
        let mut world = World::with(EngineConfig { parity, ..config(vec![extender], &fake) });
        world.set_node(node("large", 4000));
        let placed = harbormaster_api::Pod { node_name: Some("large".into()), ..pod("busy", 3000) };
        world.add_pod(placed);
        world.set_node(node("small", 2000));
        for name in ["p", "q"] {
            world.add_pod(pod(name, 100));
            assert_eq!(bound(&mut world), chosen, "{name}, parity: {parity}, objects: {sees_objects}");
        }
    }
}

#[test]
fn any_event_wakes_a_pod_that_an_extender_rejects() {
    let filter: Filter = |_, asked| Ok(all_but(asked, &[("a", "later")]));
    let (mut world, fake) =
        world(vec![filters("u")], Fake { filter: Some(filter), ..Fake::default() }, &["a"]);
    world.add_pod(pod("p", 100));
    assert!(message(&mut world).starts_with("0/1 nodes are available: 1 later."));
    world.wait(Duration::from_secs(20));
    assert!(world.attempt().is_none(), "nothing has happened");
    let mut annotated = node("a", 1000);
    annotated.annotations = harbormaster_testkit::labels(&[("x", "y")]);
    world.set_node(annotated);
    world.wait(Duration::from_secs(20));
    assert!(world.attempt().is_some());
    assert_eq!(fake.take_asked().len(), 2);
}

#[test]
fn a_failing_extender_fails_the_pod_unless_it_is_ignorable() {
    let filter: Filter = |_, _| Err("Post \"http://u/filter\": EOF".to_owned());
    let fake = || Fake { filter: Some(filter), ..Fake::default() };
    let (mut strict, _) = world(vec![filters("u")], fake(), &["a"]);
    strict.add_pod(pod("p", 100));
    assert_eq!(message(&mut strict), "Post \"http://u/filter\": EOF");
    assert_eq!(strict.conditions(), ["p SchedulerError: Post \"http://u/filter\": EOF"]);

    let (mut lenient, fake) = world(vec![Extender { ignorable: true, ..filters("u") }], fake(), &["a"]);
    lenient.add_pod(pod("p", 100));
    assert_eq!(bound(&mut lenient), "a");
    assert_eq!(fake.take_remarks(), ["0 Skipped(\"Post \\\"http://u/filter\\\": EOF\")"]);
}

#[test]
fn ignorable_extenders_are_asked_last() {
    let filter: Filter = |_, asked| Ok(all(asked));
    let lenient = Extender { ignorable: true, ..filters("lenient") };
    let extenders = Extenders::new([lenient, filters("strict")]);
    let names: Vec<&str> = extenders.all().iter().map(|extender| extender.name.as_str()).collect();
    assert_eq!(names, ["strict", "lenient"]);
    let (mut world, fake) =
        world(extenders.all().to_vec(), Fake { filter: Some(filter), ..Fake::default() }, &["a"]);
    world.add_pod(pod("p", 100));
    bound(&mut world);
    assert_eq!(fake.take_asked(), ["filter 0 p: a", "filter 1 p: a"]);
}

#[test]
fn an_extender_that_adds_nodes_fails_the_pod() {
    let filter: Filter =
        |_, _| Ok(Filtered { nodes: vec!["a".into(), "small".into()], ..Filtered::default() });
    let (mut world, _) =
        world(vec![filters("http://u")], Fake { filter: Some(filter), ..Fake::default() }, &["a", "b"]);
    world.set_node(node("small", 10));
    world.add_pod(pod("p", 100));
    assert_eq!(
        message(&mut world),
        "extender \"http://u\" claims a filtered node \"small\" which is not found in the input node list"
    );
}

#[test]
fn reasons_for_nodes_that_the_extender_was_not_asked_about_are_ignored() {
    let filter: Filter =
        |_, asked| Ok(all_but(asked, &[("a", "full"), ("small", "mine"), ("nowhere", "mine")]));
    let (mut world, fake) =
        world(vec![filters("u")], Fake { filter: Some(filter), ..Fake::default() }, &["a"]);
    world.set_node(node("small", 10));
    world.add_pod(pod("p", 100));
    let said = message(&mut world);
    assert!(said.starts_with("0/2 nodes are available: 1 Insufficient cpu, 1 full. "), "{said}");
    assert_eq!(fake.take_remarks(), ["0 UnknownNode(\"nowhere\")"]);
}

#[test]
fn a_node_named_twice_counts_once() {
    let filter: Filter = |_, _| Ok(Filtered { nodes: vec!["b".into(), "b".into()], ..Filtered::default() });
    let (mut world, _) =
        world(vec![filters("u")], Fake { filter: Some(filter), ..Fake::default() }, &["a", "b"]);
    world.add_pod(pod("p", 100));
    let Outcome::Assumed { feasible, .. } = world.attempt().unwrap().outcome else { panic!("not placed") };
    assert_eq!(feasible, 1);
}

#[test]
fn scores_of_extenders_are_added_to_the_scores_of_plugins() {
    // A plugin's 100 points equal an extender's 10 points.
    let prioritize: Prioritize = |extender| Ok(if extender == 0 { vec![("b", 10)] } else { vec![("c", 4)] });
    for (weight, best) in [(2, "b"), (3, "c")] {
        let (mut world, fake) = world(
            vec![prioritizes("u", 1), prioritizes("v", weight)],
            Fake { prioritize: Some(prioritize), ..Fake::default() },
            &["a", "b", "c"],
        );
        world.add_pod(pod("p", 100));
        assert_eq!(bound(&mut world), best, "{weight}");
        assert_eq!(fake.take_asked(), ["prioritize 0 p: a b c", "prioritize 1 p: a b c"]);
    }
}

#[test]
fn without_score_plugins_one_feasible_node_is_enough_unless_an_extender_scores() {
    let mut registry = harbormaster_framework::registry::Registry::default();
    harbormaster_plugins::in_tree(&mut registry);
    let points: [(&str, &[&str]); 3] =
        [("QueueSort", &["PrioritySort"]), ("Filter", &["NodeName"]), ("Bind", &["DefaultBinder"])];
    let profile = harbormaster_testkit::profile(&registry, &points);
    let prioritize: Prioritize = |_| Ok(vec![("c", 1)]);
    for (extenders, looked_at, expected) in [(vec![], 1, "a"), (vec![prioritizes("u", 1)], 3, "c")] {
        let fake = Arc::new(Fake { prioritize: Some(prioritize), ..Fake::default() });
        let extenders = Extenders::new(extenders).with_client(fake);
        let mut world = World::with(EngineConfig { extenders, ..EngineConfig::new(vec![profile.clone()]) });
        ["a", "b", "c"].iter().for_each(|name| world.set_node(node(name, 1000)));
        world.add_pod(pod("p", 100));
        let Outcome::Assumed { node, feasible, .. } = world.attempt().unwrap().outcome else {
            panic!("not placed")
        };
        assert_eq!((node.as_str(), feasible), (expected, looked_at));
    }
}

#[test]
fn unknown_nodes_and_scores_out_of_range_cause_remarks() {
    let prioritize: Prioritize = |_| Ok(vec![("a", 1), ("b", i64::MAX / 10), ("c", -5), ("nowhere", 9)]);
    let (mut world, fake) = world(
        vec![prioritizes("u", 1)],
        Fake { prioritize: Some(prioritize), ..Fake::default() },
        &["a", "b", "c"],
    );
    world.add_pod(pod("p", 100));
    world.attempt().unwrap();
    let remarks = fake.take_remarks();
    assert_eq!(
        remarks,
        ["0 UnknownNode(\"nowhere\")".to_owned(), format!("0 OutOfRange({})", i64::MAX / 10)]
    );
}

#[test]
fn an_extender_that_fails_to_score_is_ignored() {
    let prioritize: Prioritize = |_| Err("gone".to_owned());
    let (mut world, fake) = world(
        vec![prioritizes("u", 1)],
        Fake { prioritize: Some(prioritize), ..Fake::default() },
        &["a", "b"],
    );
    world.add_pod(pod("p", 100));
    bound(&mut world);
    assert_eq!(fake.take_remarks(), ["0 NoScores(\"gone\")"]);
}

#[test]
fn no_extender_is_asked_to_score_the_only_node() {
    let prioritize: Prioritize = |_| Ok(Vec::new());
    let (mut world, fake) =
        world(vec![prioritizes("u", 1)], Fake { prioritize: Some(prioritize), ..Fake::default() }, &["a"]);
    world.add_pod(pod("p", 100));
    assert_eq!(bound(&mut world), "a");
    assert!(fake.take_asked().is_empty());
}

fn asks_for(mut pod: Pod, change: impl FnOnce(&mut harbormaster_api::PodSpec)) -> Pod {
    change(Arc::make_mut(&mut pod.spec));
    pod
}

#[test]
fn an_extender_is_asked_only_about_pods_that_request_a_managed_resource() {
    const GPU: &str = "example.com/gpu";
    let filter: Filter = |_, asked| Ok(all(asked));
    let extender = Extender { managed_resources: vec![GPU.into()], ..filters("u") };
    let (mut world, fake) = world(vec![extender], Fake { filter: Some(filter), ..Fake::default() }, &["a"]);
    let mut large = node("a", 10_000);
    large.allocatable.scalars = vec![(GPU.into(), 10)].into_iter().collect();
    world.set_node(large);
    let asking = |container: &mut Container| container.requests.push((GPU.into(), 1));
    let pods = [
        pod("none", 1),
        asks_for(pod("requests", 1), |spec| asking(&mut spec.containers[0])),
        asks_for(pod("limits", 1), |spec| spec.containers[0].limits.push((GPU.into(), 1))),
        asks_for(pod("init", 1), |spec| {
            let mut container = Container::default();
            asking(&mut container);
            spec.init_containers.push(container);
        }),
    ];
    for pod in pods {
        let name = pod.name.to_string();
        world.add_pod(pod);
        bound(&mut world);
        let expected = if name == "none" { Vec::new() } else { vec![format!("filter 0 {name}: a")] };
        assert_eq!(fake.take_asked(), expected);
    }
}

#[test]
fn a_nominated_node_must_pass_the_extenders_too() {
    let filter: Filter = |_, asked| Ok(all_but(asked, &[("b", "not b")]));
    let (mut world, fake) =
        world(vec![filters("u")], Fake { filter: Some(filter), ..Fake::default() }, &["a", "b"]);
    for (nominated, asked) in [("a", vec!["filter 0 p: a"]), ("b", vec!["filter 0 q: b", "filter 0 q: a b"])]
    {
        let mut nominee = pod(if nominated == "a" { "p" } else { "q" }, 1);
        nominee.status.nominated_node_name = Some(nominated.into());
        world.add_pod(nominee);
        assert_eq!(bound(&mut world), "a");
        assert_eq!(fake.take_asked(), asked);
    }
}

// --- preemption ---

/// Creates a pod of priority 5 and two full nodes: `a` with two possible victims of priority 1, and `b` with one
/// possible victim of priority 2.
fn crowded(extenders: Vec<Extender>, preempt: Preempt) -> (World, Arc<Fake>) {
    let (mut world, fake) = world(extenders, Fake { preempt: Some(preempt), ..Fake::default() }, &["a", "b"]);
    world.add_bound_pod(with_priority(pod("v", 500), 1), "a");
    world.add_bound_pod(with_priority(pod("w", 500), 1), "a");
    world.add_bound_pod(with_priority(pod("x", 900), 2), "b");
    world.add_bound_pod(with_priority(pod("boss", 100), 9), "b");
    world.add_pod(with_priority(pod("p", 800), 5));
    (world, fake)
}

fn victims(node: &str, uids: &[&str]) -> NodeVictims {
    NodeVictims { node: node.into(), victims: uids.iter().map(|uid| (*uid).into()).collect(), violations: 0 }
}

fn evicted(world: &mut World) -> Nodes {
    world.attempt().unwrap();
    let mut gone = Vec::new();
    // The last victim is evicted after all the others.
    loop {
        let tasks = world.evictions();
        if tasks.is_empty() {
            break;
        }
        for task in tasks {
            gone.push(task.victim.name.to_string());
            world.input(Input::PodGone(task.victim.uid.clone()));
            world.evict_finished(task, EvictOutcome::Evicted);
        }
    }
    let known = ["v", "w", "x", "boss"];
    known.into_iter().filter(|name| gone.iter().any(|gone| gone == name)).collect()
}

#[test]
fn an_extender_chooses_among_evictions() {
    let (mut world, _) = crowded(Vec::new(), |_, _| unreachable!());
    assert_eq!(evicted(&mut world), ["v", "w"], "without extenders, the less important pods are evicted");

    let (mut world, fake) = crowded(vec![preempts("u")], |_, _| Ok(vec![victims("b", &["x"])]));
    assert_eq!(evicted(&mut world), ["x"]);
    assert_eq!(fake.take_asked(), ["preempt 0 p: a b"]);
    assert_eq!(world.nominations(), [("p".to_owned(), Some("b".to_owned()))]);

    // An answer with fewer victims is accepted.
    let (mut world, _) = crowded(vec![preempts("u")], |_, _| Ok(vec![victims("a", &["w", "w"])]));
    assert_eq!(evicted(&mut world), ["w"]);
}

#[test]
fn an_extender_may_reject_all_evictions() {
    let (mut world, _) = crowded(vec![preempts("u"), preempts("v")], |_, _| Ok(Vec::new()));
    let said = message(&mut world);
    assert!(said.ends_with(". preemption: no candidate node for preemption"), "{said}");
}

#[test]
fn invalid_evictions_are_refused() {
    const ASKED: &str = "extender: u claims to preempt ";
    let wrong: [(Preempt, &str); 6] = [
        (|_, _| Err("u is down".into()), "u is down"),
        (|_, _| Ok(vec![victims("a", &[])]), "expected at least one victim pod on node \"a\""),
        (
            |_, _| Ok(vec![victims("a", &["x"])]),
            "extender: u claims to preempt pod (UID: &{x}) on node: a, but the pod is not found on that node",
        ),
        (|_, _| Ok(vec![victims("nowhere", &["x"])]), "nodeinfo not found for node name \"nowhere\""),
        (
            |_, _| Ok(vec![victims("b", &["x", "boss"])]),
            "extender: u claims to preempt pod default/boss on node: b, which is no less important",
        ),
        (
            |_, _| Ok(vec![victims("small", &["y"])]),
            "extender: u claims to preempt on node: small, which it was not asked about",
        ),
    ];
    for (preempt, expected) in wrong {
        let (mut world, _) = crowded(vec![preempts("u")], preempt);
        world.set_node(node("small", 10));
        let said = message(&mut world);
        assert!(said.ends_with(&format!(" preemption: {expected}")), "{said}");
        assert!(world.evictions().is_empty());
        // If the extender is ignorable, its invalid answers are ignored, except that a node without victims is dropped.
        let lenient = Extender { ignorable: true, ..preempts("u") };
        let (mut world, fake) = crowded(vec![lenient], preempt);
        world.set_node(node("small", 10));
        let expected_victims: &[&str] = if expected.contains("at least one") { &[] } else { &["v", "w"] };
        assert_eq!(evicted(&mut world), expected_victims, "{expected}");
        let remarks = fake.take_remarks();
        assert!(
            remarks.len() == 1 && (remarks[0].contains("Skipped") || remarks[0].contains("NoVictims")),
            "{remarks:?}"
        );
    }
    assert!(wrong[2].1.starts_with(ASKED));
}

#[test]
fn answers_of_extenders_are_recorded_and_replayed() {
    let fake = Fake {
        filter: Some(|_, asked| Ok(all_but(asked, &[("a", "not a")]))),
        prioritize: Some(|_| Ok(vec![("c", 7)])),
        preempt: Some(|_, plans| Ok(plans[..1].to_vec())),
        ..Fake::default()
    };
    let extenders = vec![filters("f"), prioritizes("p", 5), preempts("e")];
    let (mut world, fake) = world(extenders.clone(), fake, &["a", "b", "c"]);
    for at in 0..6 {
        world.add_pod(with_priority(pod(&format!("p{at}"), 400), at));
    }
    while world.attempt().is_some() {}
    world.add_pod(with_priority(pod("urgent", 900), 99));
    world.attempt().unwrap();
    let questions = fake.take_asked();
    for verb in ["filter", "prioritize", "preempt"] {
        assert!(questions.iter().any(|asked| asked.starts_with(verb)), "{verb}: {questions:?}");
    }
    let recording = String::from_utf8(world.engine.finish().unwrap()).unwrap();
    let played = replay(config(extenders.clone(), &fake), recording.as_bytes()).unwrap();
    assert!(played.attempts >= 6, "{played:?}");
    assert!(fake.take_asked().is_empty(), "no extender is asked during a replay");

    let changed = recording.replacen("[\"c\",7]", "[\"b\",7]", 1);
    let error = replay(config(extenders, &fake), changed.as_bytes()).unwrap_err();
    assert!(matches!(error, ReplayError::Differs { .. }), "{error}");
    let error = replay(config(vec![filters("f")], &fake), recording.as_bytes()).unwrap_err();
    assert!(matches!(error, ReplayError::Differs { line: 1, .. }), "{error}");
}

#[test]
fn backoff_starts_when_an_extender_has_failed_and_not_when_it_was_called() {
    let filter: Filter = |_, _| Err("context deadline exceeded".to_owned());
    let asked = Fake { filter: Some(filter), ..Fake::default() };
    let (mut world, fake) = world(vec![filters("slow")], asked, &["n"]);
    world.add_pod(pod("p", 100));
    let attempted = world.attempt_for(Duration::from_secs(5)).unwrap();
    assert!(matches!(attempted.outcome, Outcome::Error(_)), "{attempted:?}");
    let ended = world.now;
    // A pod that has arrived in the meantime is tried first.
    world.add_pod(pod("q", 100));
    let tried = |world: &mut World| world.attempt().map(|attempted| attempted.pod.name.to_string());
    assert_eq!(tried(&mut world).as_deref(), Some("q"));
    assert_eq!(tried(&mut world), None);
    let entry = world.engine.queue().get(&"p".into()).unwrap();
    assert!(entry.backoff_until > Some(ended), "{entry:?} ended at {ended:?}");
    world.wait(Duration::from_secs(3));
    assert_eq!(tried(&mut world).as_deref(), Some("p"));

    let recording = world.engine.finish().unwrap();
    replay(config(vec![filters("slow")], &fake), recording.as_slice()).unwrap();
}
