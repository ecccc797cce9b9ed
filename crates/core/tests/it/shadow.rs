//! Comparison with another scheduler.

use std::time::Duration;

use harbormaster_api::{Pod, Timestamp, pod::PodCondition};
use harbormaster_core::{
    EngineConfig, Input, Shadow,
    shadow::{Accord, Comparison, Finding, Kind},
};
use harbormaster_testkit::{PodBuilder, node, pod};

use crate::world::profile_with;

/// A shadow of a cluster, with a clock.
struct Scene {
    shadow: Shadow,
    now: Timestamp,
}

impl Scene {
    /// Returns a cluster with two empty nodes, one that is half used, and one that pods must tolerate.
    fn new() -> Self {
        Self::with(false)
    }

    fn with(parity: bool) -> Self {
        let profile = profile_with(|_| vec![("PostFilter", "DefaultPreemption")]);
        let config = EngineConfig { parity, ..EngineConfig::new(vec![profile]) };
        let mut scene = Self { shadow: Shadow::new(&config), now: Timestamp::from_secs(1_000_000_000) };
        for name in ["a", "b", "half"] {
            scene.input(Input::Node(node(name).allocatable("4", "8Gi", 110).build()));
        }
        let tainted = node("tainted").allocatable("4", "8Gi", 110).taint("team", "red", "NoSchedule");
        scene.input(Input::Node(tainted.build()));
        scene.input(Input::Pod(pod("old").cpu("2").memory("4Gi").on("half").build()));
        scene
    }

    fn begun() -> Self {
        let mut scene = Self::new();
        let now = scene.now;
        scene.shadow.begin(&mut || now);
        scene
    }

    fn input(&mut self, input: Input) {
        self.now.0 += 1_000_000;
        let now = self.now;
        self.shadow.handle(input, &mut || now);
    }

    /// The pod appears, and the other scheduler binds it.
    fn binds(&mut self, pod: PodBuilder, node: &str) {
        let pod = pod.build();
        self.input(Input::Pod(pod.clone()));
        self.bound(pod, node);
    }

    fn bound(&mut self, mut pod: Pod, node: &str) {
        pod.node_name = Some(node.into());
        self.input(Input::Pod(pod));
    }

    /// The pod appears, and the other scheduler finds no node for it.
    fn leaves(&mut self, pod: PodBuilder, message: &str) {
        let mut pod = pod.build();
        self.input(Input::Pod(pod.clone()));
        pod.status.conditions = vec![condition("PodScheduled", "False", "Unschedulable", message)];
        self.input(Input::Pod(pod));
    }

    /// The other scheduler finds no node for a pod that has appeared, and nominates it to a node.
    fn nominates(&mut self, mut pod: Pod, node: Option<&str>) {
        pod.status.conditions = vec![condition("PodScheduled", "False", "Unschedulable", "none is free")];
        pod.status.nominated_node_name = node.map(Into::into);
        self.input(Input::Pod(pod));
    }

    /// The other scheduler evicts a pod, which leaves its node at once.
    fn evicts(&mut self, pod: PodBuilder) {
        let mut pod = pod.build();
        pod.status.conditions = vec![condition("DisruptionTarget", "True", "PreemptionByScheduler", "")];
        self.input(Input::Pod(pod.clone()));
        self.input(Input::PodGone(pod.uid));
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        self.shadow.tick(self.now);
    }

    fn results(&mut self) -> Vec<(String, Kind)> {
        let compared = self.shadow.take_comparisons();
        compared.iter().map(|one| (one.pod.clone(), one.kind())).collect()
    }

    /// Returns the only comparison, however long it is in doubt.
    fn only(&mut self) -> Comparison {
        self.pass(Duration::from_secs(10));
        let mut compared = self.shadow.take_comparisons();
        assert_eq!(compared.len(), 1, "{compared:?}");
        compared.remove(0)
    }
}

fn condition(type_: &str, status: &str, reason: &str, message: &str) -> PodCondition {
    PodCondition {
        type_: type_.into(),
        status: status.into(),
        reason: reason.into(),
        message: message.into(),
        ..PodCondition::default()
    }
}

fn small(name: &str) -> PodBuilder {
    pod(name).cpu("1").memory("2Gi")
}

fn large(name: &str) -> PodBuilder {
    pod(name).cpu("5")
}

#[test]
fn a_binding_to_one_of_the_best_nodes_agrees() {
    let kinds = ["a", "b"].map(|node| {
        let mut scene = Scene::begun();
        scene.binds(small("p"), node);
        scene.only().kind()
    });
    assert!(kinds.contains(&Kind::Same) && kinds.contains(&Kind::Equal), "{kinds:?}");
}

#[test]
fn a_binding_to_a_worse_node_names_the_plugin_that_makes_the_difference() {
    let mut scene = Scene::begun();
    scene.binds(small("p"), "half");
    let Comparison { finding: Finding::Elsewhere { gaps, .. }, theirs, has_raced: false, .. } = scene.only()
    else {
        panic!("the node is not among the best")
    };
    assert_eq!(theirs.as_deref(), Some("half"));
    assert_eq!(gaps[0].plugin, "NodeResourcesFit");
    assert!(gaps.iter().all(|gap| gap.ours > gap.theirs), "{gaps:?}");
}

#[test]
fn a_binding_to_a_node_that_does_not_fit_names_the_plugin_and_the_reason() {
    for (theirs, plugin, reason) in [
        ("tainted", Some("TaintToleration"), "node(s) had untolerated taint(s)"),
        ("missing", None, "the node is unknown"),
    ] {
        let mut scene = Scene::begun();
        scene.binds(small("p"), theirs);
        match scene.only().finding {
            Finding::Rejected { plugin: by, reason: why, .. } => assert_eq!((by, &*why), (plugin, reason)),
            other => panic!("{theirs}: {other:?}"),
        }
    }
}

#[test]
fn a_binding_of_a_pod_that_fits_nowhere_says_why() {
    let mut scene = Scene::begun();
    scene.binds(large("p"), "a");
    let Finding::Waits { message, plugin } = scene.only().finding else { panic!("the pod is too large") };
    assert_eq!(plugin, Some("NodeResourcesFit"));
    assert!(message.starts_with("0/4 nodes are available: "), "{message}");
}

#[test]
fn a_pod_that_is_left_waiting_is_compared_too() {
    let mut scene = Scene::begun();
    scene.leaves(large("p"), "0/4 nodes are available");
    assert_eq!(scene.only().kind(), Kind::BothWait);
    scene.leaves(small("q"), "0/4 nodes are available");
    let placed = scene.only();
    assert_eq!((placed.kind(), placed.theirs), (Kind::Places, None));
}

#[test]
fn pods_that_were_left_waiting_before_the_start_are_compared_at_the_start() {
    let mut scene = Scene::new();
    scene.leaves(large("p"), "0/4 nodes are available");
    assert_eq!(scene.results(), []);
    let now = scene.now;
    scene.shadow.begin(&mut || now);
    assert_eq!(scene.only().kind(), Kind::BothWait);
}

#[test]
fn pods_of_others_and_pods_bound_before_the_start_are_not_compared() {
    let mut scene = Scene::new();
    scene.binds(small("early"), "tainted");
    let now = scene.now;
    scene.shadow.begin(&mut || now);
    scene.binds(small("foreign").spec(|spec| spec.scheduler_name = "other".into()), "tainted");
    scene.input(Input::Pod(small("static").on("tainted").build()));
    scene.pass(Duration::from_secs(10));
    assert_eq!(scene.results(), []);
}

#[test]
fn the_time_until_the_binding_is_measured_for_pods_that_appeared_after_the_start() {
    let mut scene = Scene::new();
    scene.input(Input::Pod(small("early").build()));
    let now = scene.now;
    scene.shadow.begin(&mut || now);
    scene.bound(small("early").build(), "a");
    assert_eq!(scene.only().waited, None);
    scene.input(Input::Pod(small("late").build()));
    scene.pass(Duration::from_secs(3));
    scene.bound(small("late").build(), "b");
    assert_eq!(scene.only().waited, Some(Duration::from_secs(3) + Duration::from_millis(1)));
}

#[test]
fn bindings_that_arrive_in_another_order_than_that_of_the_decisions_race() {
    let mut scene = Scene::begun();
    scene.binds(small("x"), "a");
    scene.pass(Duration::from_secs(10));
    assert_eq!(scene.results().len(), 1);
    // Only when `first` is on `b` is `a` the best node for `second`.
    let (first, second) = (pod("first").cpu("3").memory("6Gi").build(), small("second").build());
    scene.input(Input::Pod(first.clone()));
    scene.input(Input::Pod(second.clone()));
    scene.bound(second, "a");
    assert_eq!(scene.results(), [], "in doubt: b is empty");
    scene.bound(first, "b");
    let mut results = scene.results();
    results.sort();
    assert_eq!(
        results,
        [("default/first".to_owned(), Kind::Same), ("default/second".to_owned(), Kind::Raced)]
    );
}

#[test]
fn bindings_that_overtake_many_others_race_if_they_follow_the_order_of_the_queue() {
    let mut scene = Scene::begun();
    let pods: Vec<Pod> =
        (0..40).map(|at| pod(&format!("p{at:02}")).cpu("40m").memory("80Mi").build()).collect();
    pods.iter().for_each(|pod| scene.input(Input::Pod(pod.clone())));
    // The nodes `a` and `b` are filled in turn, and the bindings arrive in reverse order, those to `a` first.
    for at in (1..40).step_by(2).chain((0..40).step_by(2)).rev().collect::<Vec<_>>() {
        scene.bound(pods[at].clone(), if at % 2 == 0 { "a" } else { "b" });
    }
    scene.pass(Duration::from_secs(10));
    let results = scene.results();
    assert_eq!(results.len(), 40);
    let agree = |kind: &Kind| matches!(kind, Kind::Same | Kind::Equal | Kind::Raced);
    assert!(results.iter().all(|(_, kind)| agree(kind)), "{results:?}");
}

#[test]
fn a_decision_made_before_a_pod_left_or_came_races() {
    for arrives in
        [Input::PodGone("uid-old".into()), Input::Pod(pod("new").cpu("4").memory("8Gi").on("a").build())]
    {
        let mut scene = Scene::begun();
        scene.input(Input::Pod(pod("cap-a").cpu("1").memory("2Gi").on("a").build()));
        scene.input(Input::Pod(pod("cap-b").cpu("3").memory("6Gi").on("b").build()));
        let waiting = small("p").build();
        scene.input(Input::Pod(waiting.clone()));
        let leaves = matches!(arrives, Input::PodGone(_));
        scene.input(arrives);
        // Before, `a` was the best node; now, `half` is better, or `a` is full.
        scene.bound(waiting, "a");
        assert_eq!(scene.results(), [("default/p".to_owned(), Kind::Raced)], "leaves: {leaves}");
    }
}

#[test]
fn a_pod_that_the_other_scheduler_places_soon_after_raced() {
    let mut scene = Scene::begun();
    scene.leaves(small("p"), "0/4 nodes are available");
    assert_eq!(scene.results(), []);
    scene.bound(small("p").build(), "a");
    let kinds: Vec<Kind> = scene.results().into_iter().map(|(_, kind)| kind).collect();
    assert_eq!(kinds[0], Kind::Raced);
    assert!(matches!(kinds[1], Kind::Same | Kind::Equal), "{kinds:?}");
}

#[test]
fn changes_that_cannot_have_influenced_a_decision_explain_no_difference() {
    let mut scene = Scene::begun();
    // `b` became the best node for `p` before `p` appeared.
    scene.input(Input::Pod(pod("on-a").cpu("2").memory("4Gi").on("a").build()));
    scene.binds(small("p"), "a");
    // `a` became as good as `b` only afterwards.
    scene.binds(pod("on-b").cpu("3").memory("6Gi"), "b");
    scene.pass(Duration::from_secs(10));
    let mut results = scene.results();
    results.sort();
    assert_eq!(results, [("default/on-b".to_owned(), Kind::Same), ("default/p".to_owned(), Kind::Elsewhere)]);
}

#[test]
fn the_search_for_races_leaves_the_cluster_as_it_is() {
    let mut scene = Scene::begun();
    let pods: Vec<Pod> = (0..20).map(|at| pod(&format!("p{at}")).cpu("10m").build()).collect();
    pods.iter().for_each(|pod| scene.input(Input::Pod(pod.clone())));
    scene.binds(small("wrong"), "half");
    for (at, pod) in pods.into_iter().enumerate() {
        scene.bound(pod, if at % 2 == 0 { "a" } else { "b" });
    }
    scene.input(Input::PodGone("uid-p3".into()));
    scene.pass(Duration::from_secs(10));
    let results = scene.results();
    assert!(results.contains(&("default/wrong".to_owned(), Kind::Elsewhere)), "{results:?}");
    // 1 of 4 CPUs is left on `half`, and 3.9 on each of the others.
    scene.leaves(pod("too-large").cpu("3950m"), "0/4 nodes are available");
    assert_eq!(scene.only().kind(), Kind::BothWait);
    scene.binds(pod("fits").cpu("3850m"), "half");
    assert!(matches!(scene.only().finding, Finding::Rejected { plugin: Some("NodeResourcesFit"), .. }));
}

#[test]
fn differences_in_doubt_count_at_the_end() {
    let mut scene = Scene::begun();
    scene.binds(small("p"), "tainted");
    assert!(scene.shadow.next_wakeup().is_some());
    scene.shadow.end();
    assert_eq!(scene.results(), [("default/p".to_owned(), Kind::Rejected)]);
    assert_eq!(scene.shadow.next_wakeup(), None);
}

#[test]
fn in_parity_another_node_with_the_same_score_may_be_a_race() {
    let kinds = ["a", "b"].map(|node| {
        let mut scene = Scene::with(true);
        let now = scene.now;
        scene.shadow.begin(&mut || now);
        scene.binds(small("p"), node);
        assert_eq!(scene.shadow.next_wakeup().is_some(), node == "b", "{node}");
        scene.only().kind()
    });
    assert_eq!(kinds, [Kind::Same, Kind::Equal]);
    let mut scene = Scene::with(true);
    let now = scene.now;
    scene.shadow.begin(&mut || now);
    let pods = ["first", "second"].map(|name| small(name).build());
    pods.iter().for_each(|pod| scene.input(Input::Pod(pod.clone())));
    let [first, second] = pods;
    scene.bound(second, "b");
    scene.bound(first, "a");
    scene.pass(Duration::from_secs(10));
    let mut results = scene.results();
    results.sort();
    let expected = [("default/first", Kind::Same), ("default/second", Kind::Raced)];
    assert_eq!(results, expected.map(|(pod, kind)| (pod.to_owned(), kind)));
}

#[test]
fn evictions_are_compared_in_whatever_order_they_arrive() {
    let low = || pod("low").priority(-10).cpu("3").on("a");
    let high = || pod("high").priority(5).cpu("3").on("b");
    for (theirs, victims, cpu, expected) in [
        (Some("a"), vec![low()], "3", Some(Accord::Equal)),
        (Some("b"), vec![high()], "3", Some(Accord::OtherNode)),
        (Some("a"), vec![low(), pod("more").priority(-20).on("a")], "3", Some(Accord::OtherVictims)),
        (Some("a"), vec![], "3", Some(Accord::OtherVictims)),
        (None, vec![], "3", Some(Accord::OnlyOurs)),
        (Some("a"), vec![low()], "5", Some(Accord::OnlyTheirs)),
        (None, vec![], "5", None),
    ] {
        for nominated_first in [true, false] {
            let mut scene = Scene::begun();
            scene.input(Input::Pod(pod("more").priority(-20).on("a").build()));
            scene.input(Input::Pod(low().build()));
            scene.input(Input::Pod(high().build()));
            let urgent = pod("urgent").priority(100).cpu(cpu).build();
            scene.input(Input::Pod(urgent.clone()));
            if nominated_first {
                scene.nominates(urgent.clone(), theirs);
            }
            victims.iter().for_each(|victim| scene.evicts(victim.clone()));
            if !nominated_first {
                scene.nominates(urgent, theirs);
            }
            assert_eq!(scene.shadow.take_preemptions(), [], "victims may still arrive");
            scene.pass(Duration::from_secs(10));
            let found = scene.shadow.take_preemptions();
            let accords: Vec<Accord> = found.iter().map(|one| one.accord()).collect();
            assert_eq!(accords, Vec::from_iter(expected), "{found:?}, nominated first: {nominated_first}");
            // The pods of the cluster are as they were.
            assert_eq!(scene.results(), [("default/urgent".to_owned(), Kind::BothWait)], "{found:?}");
        }
    }
}

#[test]
fn the_comparison_of_evictions_ends_when_the_pod_gets_its_node() {
    let mut scene = Scene::begun();
    for node in ["b", "half"] {
        scene.input(Input::Pod(pod(&format!("full-{node}")).priority(200).cpu("2").on(node).build()));
    }
    let low = || pod("low").priority(-10).cpu("3").on("a");
    scene.input(Input::Pod(low().build()));
    let urgent = pod("urgent").priority(100).cpu("3").build();
    scene.input(Input::Pod(urgent.clone()));
    scene.nominates(urgent.clone(), Some("a"));
    scene.evicts(low());
    scene.bound(urgent, "a");
    let found = scene.shadow.take_preemptions();
    assert_eq!(found.iter().map(|one| one.accord()).collect::<Vec<_>>(), [Accord::Equal], "{found:?}");
    let plan = found[0].ours.as_ref().expect("a plan");
    assert_eq!((plan.node.as_str(), &*plan.victims), ("a", &["default/low".to_owned()][..]));
    let kinds: Vec<Kind> = scene.results().into_iter().map(|(_, kind)| kind).collect();
    assert_eq!(kinds, [Kind::BothWait, Kind::Same]);
}
