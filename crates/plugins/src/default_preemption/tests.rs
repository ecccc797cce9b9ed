mod groups;

use std::sync::atomic::{AtomicBool, Ordering};

use harbormaster_api::{
    Object, PodDisruptionBudget, Timestamp, features::Features, pod::PodCondition, selector::LabelSelector,
};
use harbormaster_framework::{events::ClusterEvent, registry::Registry};
use harbormaster_testkit::{
    NodeBuilder, PodBuilder, Trial, WhatIfTrial, cluster, labels, node, pod, profile, rejection,
};

use super::*;

fn plugin() -> DefaultPreemption {
    limited_to(10, 100)
}

fn limited_to(percentage: i32, absolute: i32) -> DefaultPreemption {
    built_for(Release::V1_36, percentage, absolute)
}

fn built_for(release: Release, percentage: i32, absolute: i32) -> DefaultPreemption {
    let features = Features::of(release);
    let args = DefaultPreemptionArgs {
        min_candidate_nodes_percentage: percentage,
        min_candidate_nodes_absolute: absolute,
    };
    DefaultPreemption::build(args, &BuildCycle { features }).unwrap()
}

/// A world with the cordon, taint, port and resource filters, and with the filter `extra` unless that is empty.
fn world_with(
    extra: &str,
    nodes: impl IntoIterator<Item = NodeBuilder>,
    pods: impl IntoIterator<Item = PodBuilder>,
) -> WhatIfTrial {
    let mut registry = Registry::default();
    crate::in_tree(&mut registry);
    registry.register::<Fickle>().register::<Broken>().register::<Few>();
    let filters = ["NodeUnschedulable", "TaintToleration", "NodePorts", "NodeResourcesFit", extra];
    let filters = if extra.is_empty() { &filters[..4] } else { &filters[..] };
    let has_state = |name: &&str| ["TaintToleration", "NodePorts", "NodeResourcesFit", "Few"].contains(name);
    let states: Vec<&str> = filters.iter().copied().filter(has_state).collect();
    let points: [(&str, &[&str]); 2] = [("PreFilter", &states), ("Filter", filters)];
    WhatIfTrial::new(profile(&registry, &points), cluster(nodes, pods))
}

fn world(
    nodes: impl IntoIterator<Item = NodeBuilder>,
    pods: impl IntoIterator<Item = PodBuilder>,
) -> WhatIfTrial {
    world_with("", nodes, pods)
}

/// Nodes with 4 cores.
fn nodes(names: &[&str]) -> Vec<NodeBuilder> {
    names.iter().map(|name| node(name)).collect()
}

/// Formats the answer as `node: victims`, or as the reasons and the effect on the nomination.
fn describe(answer: PluginResult<PostFiltered>) -> String {
    match answer {
        Ok(PostFiltered::Nominate { node, victims, reasons, .. }) => {
            let names = victims.iter().map(|pod| pod.name.as_str());
            let words: Vec<&str> = names.chain(reasons.iter().map(|reason| &**reason)).collect();
            format!("{node}: {}", words.join(" "))
        }
        Ok(PostFiltered::NoHelp { reasons, nomination }) => {
            format!("{nomination:?} {}", reasons.join("|"))
        }
        Ok(other) => format!("{other:?}"),
        Err(error) => format!("error {error}"),
    }
}

fn ask(world: &mut WhatIfTrial, pod: PodBuilder) -> String {
    describe(world.ask(&plugin(), &pod.info()))
}

fn started_at(second: i64, pod: PodBuilder) -> PodBuilder {
    pod.pod(|pod| pod.status.start_time = Some(Timestamp::from_secs(second)))
}

fn budget(app: &str, disruptions_allowed: i32) -> Object {
    let selector = LabelSelector { match_labels: labels(&[("app", app)]), ..LabelSelector::default() };
    Object::PodDisruptionBudget(PodDisruptionBudget {
        namespace: "default".into(),
        name: app.into(),
        selector: Some(selector),
        disruptions_allowed,
        ..PodDisruptionBudget::default()
    })
}

/// A preempted pod that is still terminating. Its disruption condition has the given reason and status.
fn preempted(pod: PodBuilder, reason: &str, status: &str) -> PodBuilder {
    let (reason, status) = (reason.into(), status.into());
    let condition =
        PodCondition { type_: "DisruptionTarget".into(), reason, status, ..PodCondition::default() };
    pod.terminating().pod(|pod| pod.status.conditions.push(condition))
}

// ---- PreEnqueue and events ----

#[test]
fn a_pod_stays_out_of_the_queue_while_pods_are_evicted_for_it() {
    let pod = pod("p").info();
    let asked = |awaits_eviction| {
        Trial::of(plugin())
            .plugin()
            .pre_enqueue(EnqueueCycle { awaits_eviction, ..EnqueueCycle::new(&pod, &Objects::default()) })
            .map_err(rejection)
    };
    assert_eq!(asked(false), Ok(()));
    let text = "waiting for the preemption for this pod to be finished";
    assert_eq!(asked(true), Err(Reject::unresolvable(text)));
}

#[test]
fn the_removal_of_a_pod_is_an_event_but_never_wakes_a_pod() {
    let trial = Trial::of(plugin());
    let gone = pod("q").on("n").build();
    let change = Change::Pod { old: Some(&gone), new: None };
    let hint = |resource, action| trial.hint(ClusterEvent::new(resource, action), &pod("p").info(), &change);
    assert_eq!(hint(EventResource::AssignedPod, Action::DELETE), Some(Hint::Skip));
    assert_eq!(hint(EventResource::AssignedPod, Action::ADD), None);
    assert_eq!(hint(EventResource::Node, Action::ADD), None);
}

#[test]
fn the_pods_message_counts_all_victims_from_1_37() {
    let text = "preemption: found a potential placement for pod on node n, preempting 2 victims";
    for (release, expected) in
        [(Release::V1_36, "n: leaving low".to_owned()), (Release::V1_37, format!("n: low leaving {text}"))]
    {
        let pods = [pod("low").cpu("2").on("n"), pod("leaving").cpu("2").on("n").terminating()];
        let mut world = world(nodes(&["n"]), pods);
        let answer = world.ask(&built_for(release, 10, 100), &pod("p").cpu("4").priority(9).info());
        assert_eq!(describe(answer), expected, "{release}");
    }
}

// ---- eligibility ----

#[test]
fn a_pod_that_never_preempts_keeps_its_nomination_and_tries_no_node() {
    let mut world = world(nodes(&["n"]), [pod("low").cpu("4").on("n")]);
    let never = pod("p").cpu("4").priority(9).spec(|spec| spec.never_preempts = true);
    let text = "Keep preemption: not eligible due to preemptionPolicy=Never.";
    assert_eq!(ask(&mut world, never), text);
    assert!(world.dry_runs().is_empty());
}

#[test]
fn a_pod_waits_for_the_preempted_pods_of_lower_priority_on_its_nominated_node() {
    let wait = "Keep preemption: not eligible due to a terminating pod on the nominated node.";
    let on_n = |pod: PodBuilder| pod.cpu("4").on("n");
    let scheduler = "PreemptionByScheduler";
    for (what, low, expected) in [
        ("is terminating", preempted(on_n(pod("low")), scheduler, "True"), wait),
        ("runs", on_n(pod("low")), "n: low"),
        ("is deleted by another party", on_n(pod("low")).terminating(), "n: low"),
        (
            "is disrupted for another reason",
            preempted(on_n(pod("low")), "EvictionByEvictionAPI", "True"),
            "n: low",
        ),
        ("is not disrupted", preempted(on_n(pod("low")), scheduler, "False"), "n: low"),
        (
            "is marked but not deleted",
            preempted(on_n(pod("low")), scheduler, "True").pod(|p| p.deleted = None),
            "n: low",
        ),
    ] {
        let mut world = world(nodes(&["n"]), [low]);
        let preemptor = pod("p").cpu("4").priority(9).nominated_to("n");
        assert_eq!(ask(&mut world, preemptor), expected, "the pod of lower priority {what}");
    }
}

#[test]
fn only_the_first_disruption_condition_counts() {
    let low = preempted(pod("low").cpu("4").on("n"), "EvictionByEvictionAPI", "True");
    let mut world = world(nodes(&["n"]), [preempted(low, "PreemptionByScheduler", "True")]);
    assert_eq!(ask(&mut world, pod("p").cpu("4").priority(9).nominated_to("n")), "n: low");
}

#[test]
fn a_pod_does_not_wait_for_preempted_pods_of_equal_priority_or_on_other_nodes() {
    let equal = preempted(pod("equal").cpu("1").priority(9).on("n"), "PreemptionByScheduler", "True");
    let elsewhere = preempted(pod("elsewhere").cpu("4").on("m"), "PreemptionByScheduler", "True");
    let mut world = world(nodes(&["n", "m"]), [equal, pod("low").cpu("3").on("n"), elsewhere]);
    assert_eq!(ask(&mut world, pod("p").cpu("3").priority(9).nominated_to("n")), "n: low");
}

#[test]
fn a_pod_does_not_wait_if_its_nominated_node_is_gone_or_evictions_cannot_help_there() {
    let low = preempted(pod("low").cpu("4").on("n"), "PreemptionByScheduler", "True");
    let mut world = world([node("n").unschedulable(), node("m")], [low, pod("other").cpu("4").on("m")]);
    for nominated in ["n", "gone"] {
        let preemptor = pod("p").cpu("4").priority(9).nominated_to(nominated);
        assert_eq!(ask(&mut world, preemptor), "m: other", "{nominated}");
    }
}

#[test]
fn pods_of_a_group_do_not_preempt_one_by_one_under_workload_aware_preemption() {
    let features = Features::default().with(Feature::WorkloadAwarePreemption, true);
    let aware = DefaultPreemption::build(DefaultPreemptionArgs::default(), &BuildCycle { features }).unwrap();
    let mut world = world(nodes(&["n"]), [pod("low").cpu("4").on("n")]);
    let single = pod("p").cpu("4").priority(9);
    let member = single.clone().spec(|spec| spec.pod_group = Some("g".into()));
    let text = "Keep preemption: not eligible due to workload aware preemption enabled";
    assert_eq!(describe(world.ask(&aware, &member.clone().info())), text);
    assert_eq!(describe(world.ask(&aware, &single.info())), "n: low");
    assert_eq!(ask(&mut world, member), "n: low");
}

// ---- candidates ----

#[test]
fn only_nodes_where_evictions_may_help_are_tried() {
    let all = [node("cordoned").unschedulable(), node("small").allocatable("1", "8Gi", 9), node("n")];
    let full = |name: &str| pod(name).cpu("1").on(name);
    let mut world = world(all, [full("cordoned"), full("small"), pod("low").cpu("4").on("n")]);
    assert_eq!(ask(&mut world, pod("p").cpu("2").priority(1)), "n: low");
    assert_eq!(world.dry_runs(), ["n"]);
}

#[test]
fn a_node_without_pods_of_lower_priority_is_not_tried() {
    let mut world =
        world(nodes(&["equal", "n"]), [pod("e").cpu("4").priority(1).on("equal"), pod("l").cpu("4").on("n")]);
    assert_eq!(ask(&mut world, pod("p").cpu("2").priority(1)), "n: l");
    assert_eq!(world.dry_runs(), ["n"]);
}

#[test]
fn the_nomination_is_cleared_if_evictions_help_on_no_node() {
    let mut world = world([node("a").unschedulable(), node("b").unschedulable()], []);
    let text = "Clear preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.";
    assert_eq!(ask(&mut world, pod("p").priority(1).nominated_to("a")), text);
}

#[test]
fn nodes_are_counted_by_the_reason_why_evictions_do_not_help() {
    let all = [
        node("cordoned").unschedulable(),
        node("equal"),
        node("higher"),
        node("mixed"),
        node("port"),
        node("small").allocatable("1", "8Gi", 9),
    ];
    let pods = [
        pod("e").cpu("4").priority(5).on("equal"),
        pod("h").cpu("4").priority(6).on("higher"),
        pod("m1").cpu("3").priority(6).on("mixed"),
        pod("m2").cpu("1").on("mixed"),
        pod("o1").host_port(80).cpu("3").priority(6).on("port"),
        pod("o2").cpu("1").on("port"),
    ];
    let mut world = world(all, pods);
    let text = "Clear preemption: 0/6 nodes are available: 1 Insufficient cpu, 1 node(s) didn't have free ports for \
         the requested pod ports, 2 No preemption victims found for incoming pod, 2 Preemption is not helpful for \
         scheduling.";
    assert_eq!(ask(&mut world, pod("p").cpu("2").host_port(80).priority(5)), text);
    let mut tried = world.dry_runs().to_vec();
    tried.sort();
    assert_eq!(tried, ["mixed", "port"]);
}

#[test]
fn the_search_stops_when_enough_candidates_are_found() {
    let names = ["n0", "n1", "n2", "n3", "n4"];
    let mut world = world(nodes(&names), names.map(|name| pod(&format!("on-{name}")).cpu("4").on(name)));
    let preemptor = pod("p").cpu("4").priority(1).info();
    for (percentage, absolute, looked_at) in [(40, 1, 2), (0, 3, 3), (10, 99, 5), (20, 0, 1)] {
        assert_eq!(describe(world.ask(&limited_to(percentage, absolute), &preemptor)), "n0: on-n0");
        assert_eq!(world.dry_runs(), &names[..looked_at], "{percentage}% or {absolute}");
    }
}

/// `count` nodes, each filled by one pod. The function `priority` returns the priority of each pod.
fn full(count: usize, priority: impl Fn(usize) -> i32) -> WhatIfTrial {
    let names: Vec<String> = (0..count).map(|at| format!("n{at}")).collect();
    let there = names.iter().enumerate();
    let there = there.map(|(at, name)| pod(&format!("on-{name}")).cpu("4").priority(priority(at)).on(name));
    world(names.iter().map(|name| node(name)), there)
}

#[test]
fn the_most_promising_node_is_tried_first_wherever_it_is() {
    let mut world = full(300, |at| if at == 250 { 1 } else { 2 });
    assert_eq!(ask(&mut world, pod("p").cpu("4").priority(9)), "n250: on-n250");
    assert_eq!(world.dry_runs(), ["n250"]);
}

#[test]
fn in_parity_mode_the_search_stops_as_early_as_kube_schedulers() {
    let mut world = full(300, |at| if at == 250 { 1 } else { 2 }).in_parity();
    assert_eq!(ask(&mut world, pod("p").cpu("4").priority(9)), "n0: on-n0");
    assert_eq!(world.dry_runs().len(), 100);
    world.set_offset(200);
    assert_eq!(ask(&mut world, pod("p").cpu("4").priority(9)), "n250: on-n250");
}

#[test]
fn a_node_is_not_tried_if_its_pods_started_too_early_to_be_better() {
    let names = ["n0", "n1", "n2"];
    let victims = |name: &&str, first| {
        let two = [("a", first), ("b", 90)]
            .map(|(nth, second)| started_at(second, pod(&format!("{nth}-{name}")).cpu("2")).on(name));
        two.to_vec()
    };
    let there = names.iter().zip([10, 30, 20]).flat_map(|(name, first)| victims(name, first));
    let mut world = world(nodes(&names), there.collect::<Vec<_>>());
    assert_eq!(ask(&mut world, pod("p").cpu("4").priority(1)), "n1: a-n1 b-n1");
    assert_eq!(world.dry_runs(), ["n1"]);
}

#[test]
fn if_a_bound_is_too_optimistic_other_nodes_are_tried_up_to_a_limit() {
    // The obstacle is a port that the least important pods do not use.
    let crowd = |count: usize| {
        let names: Vec<String> = (0..count).map(|at| format!("n{at}")).collect();
        let there = names.iter().flat_map(|name| {
            [
                pod(&format!("tiny-{name}")).on(name),
                pod(&format!("on-{name}")).host_port(80).priority(5).on(name),
            ]
        });
        let there: Vec<_> = there.collect();
        world(names.iter().map(|name| node(name)), there)
    };
    for (nodes, tried) in [(300, 300), (1100, 1000)] {
        let mut world = crowd(nodes);
        assert_eq!(ask(&mut world, pod("p").host_port(80).priority(9)), "n0: on-n0");
        assert_eq!(world.dry_runs().len(), tried, "of {nodes}");
    }
}

#[test]
fn the_bound_on_the_cost_considers_scalar_resources_and_the_number_of_pods() {
    let gpu = |name: &str, amount: &str| pod(name).request("example.com/gpu", amount);
    let with_gpus = |name: &str| node(name).offers("example.com/gpu", "4");
    let there = [
        pod("tiny").on("n0"),
        gpu("a", "4").priority(5).on("n0"),
        pod("other").priority(2).on("n1"),
        gpu("b", "4").priority(4).on("n1"),
    ];
    let mut first = world([with_gpus("n0"), with_gpus("n1")], there);
    assert_eq!(ask(&mut first, gpu("p", "1").priority(9)), "n1: b");
    assert_eq!(first.dry_runs(), ["n1"]);
    let small = |name: &str| node(name).allocatable("4", "8Gi", 2);
    let there = [1, 2].map(|at| pod(&format!("a{at}")).priority(at).on("n0"));
    let there = there.into_iter().chain([3, 0].map(|at| pod(&format!("b{at}")).priority(at).on("n1")));
    let mut second = world([small("n0"), small("n1")], there.collect::<Vec<_>>());
    assert_eq!(ask(&mut second, pod("p").priority(9)), "n1: b0");
    assert_eq!(second.dry_runs(), ["n1"]);
}

#[test]
fn nodes_that_do_not_become_candidates_do_not_count_toward_the_quota() {
    let names = ["n0", "n1", "n2", "n3"];
    let mut pods = vec![pod("high").cpu("4").priority(9).on("n0"), pod("tiny").on("n0")];
    pods.extend(names[1..].iter().map(|name| pod(&format!("on-{name}")).cpu("4").on(name)));
    let mut world = world(nodes(&names), pods);
    assert_eq!(describe(world.ask(&limited_to(0, 2), &pod("p").cpu("4").priority(1).info())), "n1: on-n1");
    assert_eq!(world.dry_runs(), ["n0", "n1", "n2"]);
}

#[test]
fn the_search_starts_at_the_offset_among_the_evictable_nodes_and_wraps_around() {
    let names = ["n0", "n1", "n2", "n3"];
    let mut all = vec![node("cordoned").unschedulable()];
    all.extend(nodes(&names));
    let mut world = world(all, names.map(|name| pod(&format!("on-{name}")).cpu("4").on(name)));
    let preemptor = pod("p").cpu("4").priority(1).info();
    for (offset, looked_at) in
        [(0, ["n0", "n1", "n2"]), (3, ["n3", "n0", "n1"]), (4, ["n0", "n1", "n2"]), (5, ["n1", "n2", "n3"])]
    {
        world.set_offset(offset);
        let first = looked_at[0];
        assert_eq!(describe(world.ask(&limited_to(0, 3), &preemptor)), format!("{first}: on-{first}"));
        assert_eq!(world.dry_runs(), looked_at);
    }
}

#[test]
fn the_search_continues_until_a_candidate_violates_no_budget() {
    let names = ["n0", "n1", "n2", "n3"];
    let guarded = |name: &&str| pod(&format!("on-{name}")).label("app", "x").cpu("4").on(name);
    let mut pods: Vec<_> = names[..2].iter().map(guarded).collect();
    pods.extend(names[2..].iter().map(|name| pod(&format!("on-{name}")).cpu("4").on(name)));
    let mut world = world(nodes(&names), pods);
    world.cluster().set_object(budget("x", 0));
    assert_eq!(describe(world.ask(&limited_to(0, 1), &pod("p").cpu("4").priority(1).info())), "n2: on-n2");
    assert_eq!(world.dry_runs(), ["n0", "n1", "n2"]);
}

#[test]
fn if_no_candidate_is_wanted_none_is_kept() {
    let mut world = world(nodes(&["n"]), [pod("low").cpu("4").on("n")]);
    let text = "Clear preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.";
    assert_eq!(describe(world.ask(&limited_to(10, 0), &pod("p").cpu("4").priority(1).info())), text);
}

// ---- victims on one node ----

#[test]
fn pods_of_equal_and_higher_priority_are_never_victims() {
    let pods = [
        pod("high").cpu("1").priority(7).on("n"),
        pod("equal").cpu("1").priority(5).on("n"),
        pod("low").cpu("2").priority(4).on("n"),
    ];
    let mut first = world(nodes(&["n"]), pods.clone());
    assert_eq!(ask(&mut first, pod("p").cpu("2").priority(5)), "n: low");
    let mut second = world(nodes(&["n"]), pods);
    let text = "Clear preemption: 0/1 nodes are available: 1 Insufficient cpu.";
    assert_eq!(ask(&mut second, pod("p").cpu("3").priority(5)), text);
}

#[test]
fn a_less_important_pod_stays_if_it_is_not_in_the_way() {
    let pods = [pod("small").cpu("100m").on("n"), pod("medium").cpu("3900m").priority(3).on("n")];
    let mut world = world(nodes(&["n"]), pods);
    assert_eq!(ask(&mut world, pod("p").cpu("3").priority(5)), "n: medium");
}

#[test]
fn the_most_important_pods_are_spared_first() {
    let pods = ["a", "b", "c", "d"].iter().enumerate();
    let pods = pods.map(|(i, name)| pod(name).cpu("1").priority([2, 4, 1, 3][i]).on("n"));
    let mut world = world(nodes(&["n"]), pods.collect::<Vec<_>>());
    assert_eq!(ask(&mut world, pod("p").cpu("2").priority(5)), "n: a c");
}

#[test]
fn among_pods_of_equal_priority_those_that_have_run_longest_are_spared() {
    let pods = ["a", "b", "c", "d"].iter().zip([3, 1, 4, 2]);
    let pods = pods.map(|(name, second)| started_at(second, pod(name).cpu("1").on("n")));
    let mut world = world(nodes(&["n"]), pods.collect::<Vec<_>>());
    assert_eq!(ask(&mut world, pod("p").cpu("2").priority(5)), "n: a c");
}

#[test]
fn pods_that_have_not_started_are_evicted_first_in_the_order_in_which_they_joined() {
    let pods =
        [pod("x").cpu("1").on("n"), started_at(9, pod("s").cpu("2").on("n")), pod("y").cpu("1").on("n")];
    let mut world = world(nodes(&["n"]), pods);
    assert_eq!(ask(&mut world, pod("p").cpu("1").priority(5)), "n: x");
}

#[test]
fn terminating_pods_are_victims_like_any_other() {
    let pods = [pod("going").cpu("3").terminating().on("n"), pod("high").cpu("1").priority(9).on("n")];
    let mut world = world(nodes(&["n"]), pods);
    assert_eq!(ask(&mut world, pod("p").cpu("3").priority(5)), "n: going");
}

#[test]
fn pods_whose_eviction_violates_a_budget_are_spared_before_more_important_pods() {
    let guarded = pod("guarded").label("app", "x").cpu("2").on("n");
    let mut world = world(nodes(&["n"]), [guarded, pod("free").cpu("2").priority(3).on("n")]);
    assert_eq!(ask(&mut world, pod("p").cpu("2").priority(5)), "n: guarded");
    world.cluster().set_object(budget("x", 0));
    assert_eq!(ask(&mut world, pod("p").cpu("2").priority(5)), "n: free");
    world.cluster().set_object(budget("x", 1));
    assert_eq!(ask(&mut world, pod("p").cpu("2").priority(5)), "n: guarded");
}

#[test]
fn only_budgets_violated_by_actual_victims_count_against_a_node() {
    // On n1 two pods would violate the budget, but one of them is spared; on n2 both must be evicted.
    let guarded = |name: &str, cpu: &str, node: &str| pod(name).label("app", "x").cpu(cpu).on(node);
    let pods =
        [guarded("a", "2", "n2"), guarded("b", "2", "n2"), guarded("c", "3", "n1"), guarded("d", "1", "n1")];
    let mut world = world(nodes(&["n2", "n1"]), pods);
    world.cluster().set_object(budget("x", 0));
    assert_eq!(ask(&mut world, pod("p").cpu("3").priority(5)), "n1: c");
}

#[test]
fn victims_are_sorted_by_importance_whether_or_not_they_violate_a_budget() {
    let guarded = pod("guarded").label("app", "x").cpu("2").on("n");
    let mut world = world(nodes(&["n"]), [guarded, pod("free").cpu("2").priority(3).on("n")]);
    world.cluster().set_object(budget("x", 0));
    assert_eq!(ask(&mut world, pod("p").cpu("4").priority(5)), "n: free guarded");
}

#[test]
fn nominated_pods_of_equal_or_higher_priority_count_on_the_node() {
    let pods = ["a", "b"].map(|name| pod(name).cpu("2").on("n"));
    let nominated = |priority| pod("other").cpu("2").priority(priority).nominated_to("n").info();
    let preemptor = || pod("p").cpu("2").priority(5);
    let mut alone = world(nodes(&["n"]), pods.clone()).nominate(nominated(4));
    assert_eq!(ask(&mut alone, preemptor()), "n: a");
    for priority in [5, 6] {
        let mut crowded = world(nodes(&["n"]), pods.clone()).nominate(nominated(priority));
        assert_eq!(ask(&mut crowded, preemptor()), "n: b a", "{priority}");
    }
}

#[test]
fn the_pods_own_nomination_does_not_count_against_it() {
    let mut world = world(nodes(&["n"]), [pod("a").cpu("2").on("n"), pod("b").cpu("2").on("n")]);
    let preemptor = pod("p").cpu("2").priority(5).nominated_to("n");
    world = world.nominate(preemptor.clone().info());
    assert_eq!(ask(&mut world, preemptor), "n: a");
}

#[test]
fn plugins_are_notified_of_pods_that_leave_and_return() {
    // The filter allows three pods in the whole cluster. Its `add_pod` and `remove_pod` keep the number up to date.
    let pods =
        [pod("a").on("n"), pod("b").priority(1).on("n"), pod("c").priority(2).on("n"), pod("d").on("m")];
    let mut world = world_with("Few", nodes(&["n", "m"]), pods);
    assert_eq!(ask(&mut world, pod("p").priority(5)), "n: b a");
    let counted = |world: &mut WhatIfTrial| {
        let nodes = world.cluster().nodes();
        nodes.nodes().map(|node| node.pods().len()).collect::<Vec<_>>()
    };
    assert_eq!(counted(&mut world), [3, 1]);
}

// ---- filters for these tests ----

/// Rejects the pod the first time and never again.
struct Fickle(AtomicBool);

/// Fails on a node with the `broken` label once all pods have been removed from it.
#[derive(Default)]
struct Broken;

/// Allows three pods in the cluster.
#[derive(Default)]
struct Few;

macro_rules! test_plugin {
    ($plugin:ident) => {
        impl Plugin for $plugin {
            const NAME: &'static str = stringify!($plugin);
            implemented_points!();
        }
    };
}

test_plugin!(Fickle);
test_plugin!(Broken);
test_plugin!(Few);

impl Default for Fickle {
    fn default() -> Self {
        Self(AtomicBool::new(true))
    }
}

impl Filter for Fickle {
    fn filter(&self, _: &Cycle<'_>, (): &(), _: NodeRef<'_>) -> Verdict {
        let first = self.0.swap(false, Ordering::Relaxed);
        if first { Err(Reject::evictable("not today").into()) } else { Ok(()) }
    }
}

impl Filter for Broken {
    fn filter(&self, _: &Cycle<'_>, (): &(), node: NodeRef<'_>) -> Verdict {
        let broken = node.labels().is_some_and(|labels| labels.get("broken").is_some());
        if broken && node.pods().is_empty() { Err("broken".into()) } else { Ok(()) }
    }
}

impl PreFilter<WholeCluster, Option<usize>> for Few {
    fn pre_filter(&self, cx: &Cycle<'_>) -> Result<PreFiltered<Option<usize>>, Stop> {
        Ok(PreFiltered::state(Some(cx.nodes.nodes().map(|node| node.pods().len()).sum())))
    }

    fn add_pod(
        &self,
        _: &Cycle<'_>,
        pods: &mut Option<usize>,
        _: &PodInfo,
        _: NodeRef<'_>,
    ) -> PluginResult<()> {
        *pods = pods.map(|pods| pods + 1);
        Ok(())
    }

    fn remove_pod(
        &self,
        _: &Cycle<'_>,
        pods: &mut Option<usize>,
        _: &PodInfo,
        _: NodeRef<'_>,
    ) -> PluginResult<()> {
        *pods = pods.map(|pods| pods - 1);
        Ok(())
    }
}

impl Filter<WholeCluster, Option<usize>> for Few {
    fn filter(&self, _: &Cycle<'_>, pods: &Option<usize>, _: NodeRef<'_>) -> Verdict {
        let full = pods.is_some_and(|pods| pods >= 3);
        if full { Err(Reject::evictable("the cluster is full").into()) } else { Ok(()) }
    }
}

#[derive(Default)]
struct Refuses;
test_plugin!(Refuses);
impl PreFilter for Refuses {
    fn pre_filter(&self, _: &Cycle<'_>) -> Result<PreFiltered<()>, Stop> {
        Err(Reject::unresolvable("never").into())
    }
}

#[derive(Default)]
struct Narrows;
test_plugin!(Narrows);
impl PreFilter for Narrows {
    fn pre_filter(&self, cx: &Cycle<'_>) -> Result<PreFiltered<()>, Stop> {
        let only = [cx.nodes.find("a").unwrap()].into_iter().collect();
        Ok(PreFiltered::Continue { state: (), only: Some(only) })
    }
}

#[test]
fn nodes_that_pre_filter_excluded_are_not_candidates() {
    for name in ["Refuses", "Narrows"] {
        let mut registry = Registry::default();
        crate::in_tree(&mut registry);
        registry.register::<Refuses>().register::<Narrows>();
        let pre: [&str; 2] = [name, "NodeResourcesFit"];
        let points: [(&str, &[&str]); 2] = [("PreFilter", &pre), ("Filter", &["NodeResourcesFit"])];
        let bound = [pod("high").cpu("4").priority(9).on("a"), pod("low").cpu("4").on("b")];
        let mut trial = WhatIfTrial::new(profile(&registry, &points), cluster(nodes(&["a", "b"]), bound));
        let answer = ask(&mut trial, pod("p").cpu("4").priority(5));
        assert!(answer.contains("Preemption is not helpful for scheduling"), "{name}: {answer}");
    }
}
