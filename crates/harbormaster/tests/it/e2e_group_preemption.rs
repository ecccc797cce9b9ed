//! Groups that preempt and are preempted, over HTTP. The scenarios are those of Kubernetes' own tests
//! (`test/integration/scheduler/preemption/podgroup`, `test/integration/scheduler/podgroup` and
//! `test/e2e/scheduling/workload_aware_preemption.go` of 1.37.2), as far as they concern neither topologies nor composite
//! groups. Left out are those that need plugins of their own (that Reserve takes part in the search for victims, that
//! members do not reach PostFilter, and the order of PodGroupPostFilter plugins).

use harbormaster_api::features::Feature;
use serde_json::json;

use crate::e2e::{
    cluster::{PATIENCE, eventually, get_pod},
    group_scene::{GROUPS, Group, GroupScene, NewPod},
    objects::{PRIORITY_CLASSES, is_terminating},
    process::Harbormaster,
};

/// Nodes with one CPU each.
const FOUR: [(&str, &str); 4] = [("n1", "1"), ("n2", "1"), ("n3", "1"), ("n4", "1")];

/// The group that preempts: it has priority 100.
fn gang(min_count: usize) -> Group {
    Group::gang("pg", min_count).priority(100)
}

fn basic() -> Group {
    Group::basic("pg").priority(100)
}

/// A member of the group that preempts.
fn member(name: &str, cpu: &str) -> NewPod {
    NewPod::new(name, cpu).of("pg").priority(100)
}

/// Members that request one CPU each.
fn members(names: &[&str]) -> Vec<NewPod> {
    names.iter().map(|name| member(name, "1")).collect()
}

/// Starts a scheduler and the node `n`, with room for three pods.
fn one_node() -> (GroupScene, Harbormaster) {
    GroupScene::started(&[("n", "3")])
}

/// Starts a scheduler and the nodes `n1` and `n2` with two CPUs each.
fn two_nodes() -> (GroupScene, Harbormaster) {
    GroupScene::started(&[("n1", "2"), ("n2", "2")])
}

/// Creates pods on their own that request one CPU each, and waits until they are bound.
fn fill(scene: &GroupScene, names: &[&str], priority: i32) {
    scene.bound_pods(names, |pod| pod.priority(priority));
}

fn placed(name: &str, cpu: &str, node: &str, priority: i32) -> NewPod {
    NewPod::new(name, cpu).on(node).priority(priority)
}

/// A whole group takes the place of three pods of lower priority.
fn takes_all(group: Group) {
    let (scene, _scheduler) = one_node();
    fill(&scene, &["low1", "low2", "low3"], 10);
    scene.group(group);
    scene.pods(members(&["h1", "h2", "h3"]));
    scene.are_preempted(&["low1", "low2", "low3"]);
    scene.are_bound(&["h1", "h2", "h3"]);
}

#[test]
fn a_gang_preempts_all_pods_of_lower_priority_if_it_needs_their_room() {
    takes_all(gang(3));
}

#[test]
fn a_basic_group_preempts_all_pods_of_lower_priority_if_it_needs_their_room() {
    takes_all(basic());
}

#[test]
fn a_gang_preempts_where_its_members_prefer_to_run() {
    let (scene, _scheduler) = two_nodes();
    scene.pods([placed("low1", "2", "n1", 10), placed("low2", "1", "n2", 10)]);
    scene.group(gang(3));
    scene.pods(members(&["h1", "h2", "h3"]).into_iter().map(|pod| pod.rather_on("n1")));
    scene.are_preempted(&["low1"]);
    scene.are_bound(&["h1", "h2", "h3"]);
    scene.are_spared(&["low2"]);
}

#[test]
fn a_basic_group_preempts_where_its_members_prefer_to_run() {
    let (scene, _scheduler) = two_nodes();
    scene.pods([placed("low1", "1", "n1", 10), placed("low2", "1", "n2", 5)]);
    scene.group(basic());
    scene.pods(members(&["h1", "h2", "h3"]).into_iter().map(|pod| pod.rather_on("n1")));
    scene.are_preempted(&["low1"]);
    scene.are_bound(&["h1", "h2", "h3"]);
    scene.are_spared(&["low2"]);
}

#[test]
fn pods_that_a_budget_protects_are_spared() {
    let (scene, _scheduler) = one_node();
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let selector = json!({"matchLabels": {"app": "foo"}});
    let spec = json!({"minAvailable": 2, "selector": selector});
    scene.create(budgets, &json!({"metadata": {"name": "foo"}, "spec": spec}));
    scene.bound_pods(&["low1", "low2"], |pod| pod.label("app", "foo").priority(10));
    fill(&scene, &["low3"], 10);
    scene.group(gang(2));
    scene.pods([member("h1", "500m"), member("h2", "500m")]);
    scene.are_preempted(&["low3"]);
    scene.are_bound(&["h1", "h2"]);
    scene.are_spared(&["low1", "low2"]);
}

#[test]
fn a_gang_preempts_pods_of_several_nodes() {
    let (scene, _scheduler) = two_nodes();
    scene.pods(
        [("low1", "n1"), ("low2", "n1"), ("low3", "n2"), ("low4", "n2")]
            .map(|(name, node)| placed(name, "1", node, 10)),
    );
    scene.group(gang(4));
    scene.pods(members(&["h1", "h2", "h3", "h4"]));
    scene.are_preempted(&["low1", "low2", "low3", "low4"]);
    scene.are_bound(&["h1", "h2", "h3", "h4"]);
}

#[test]
fn a_gang_that_would_not_fit_even_then_preempts_nothing() {
    let (scene, _scheduler) = one_node();
    fill(&scene, &["high"], 500);
    fill(&scene, &["low1", "low2"], 10);
    scene.group(gang(3));
    scene.pods(members(&["h1", "h2", "h3"]));
    scene.are_unschedulable(&["h1", "h2", "h3"]);
    scene.are_spared(&["high", "low1", "low2"]);
}

#[test]
fn the_least_important_pods_are_preempted() {
    let (scene, _scheduler) = one_node();
    fill(&scene, &["middle"], 50);
    fill(&scene, &["low1", "low2"], 10);
    scene.group(gang(2));
    scene.pods(members(&["h1", "h2"]));
    scene.are_preempted(&["low1", "low2"]);
    scene.are_bound(&["h1", "h2"]);
    scene.are_spared(&["middle"]);
}

/// Creates three pods of a group of priority 10 that is disrupted as a whole, and lets a preemptor need the room of one.
fn preempts_whole(victims: Group, preemptor: NewPod, kind: &str) {
    let (scene, _scheduler) = one_node();
    scene.group(victims.priority(10).whole());
    scene.bound_pods(&["low1", "low2", "low3"], |pod| pod.of("victims").priority(10));
    scene.group(gang(1));
    scene.pods([preemptor]);
    scene.are_preempted_by(kind, &["low1", "low2", "low3"]);
    scene.are_bound(&["h1"]);
}

#[test]
fn a_whole_gang_is_preempted_even_if_the_room_of_one_pod_would_do() {
    preempts_whole(Group::gang("victims", 3), member("h1", "1"), "podgroup");
}

#[test]
fn a_basic_group_that_is_disrupted_as_a_whole_is_preempted_as_a_whole() {
    preempts_whole(Group::basic("victims"), member("h1", "1"), "podgroup");
}

#[test]
fn a_pod_on_its_own_preempts_a_whole_gang() {
    preempts_whole(Group::gang("victims", 3), NewPod::new("h1", "1").priority(100), "pod");
}

/// Two members of a group that is disrupted member by member fill the node; a preemptor needs the room of one.
fn preempts_in_part(preemptor: NewPod, kind: &str) {
    let (scene, _scheduler) = GroupScene::started(&[("n", "2")]);
    scene.group(Group::gang("victims", 2).priority(10));
    scene.bound_pods(&["v1", "v2"], |pod| pod.of("victims").priority(10));
    scene.group(gang(1));
    scene.pods([preemptor]);
    scene.are_bound(&["h1"]);
    let gone = |name: &&str| get_pod(scene.client(), name).is_none();
    let (gone, left): (Vec<&str>, Vec<&str>) = ["v1", "v2"].into_iter().partition(gone);
    assert_eq!(gone.len(), 1);
    scene.are_preempted_by(kind, &gone);
    scene.are_spared(&left);
}

#[test]
fn a_group_preempts_a_single_member_of_a_group_that_allows_it() {
    preempts_in_part(member("h1", "1"), "podgroup");
}

#[test]
fn a_pod_on_its_own_preempts_a_single_member_of_a_group_that_allows_it() {
    preempts_in_part(NewPod::new("h1", "1").priority(100), "pod");
}

/// Of three members, two find room by preemption, and no pod of higher priority is preempted for the third.
fn takes_what_it_can(group: Group) {
    let (scene, _scheduler) = GroupScene::started(&FOUR);
    scene.pods(
        [("v1", "n1", 10), ("v2", "n2", 10), ("v3", "n3", 200), ("v4", "n4", 200)]
            .map(|(name, node, priority)| placed(name, "1", node, priority)),
    );
    scene.group(group);
    scene.pods(members(&["a", "b", "c"]));
    scene.are_preempted(&["v1", "v2"]);
    scene.are_bound(&["a", "b"]);
    scene.are_unschedulable(&["c"]);
    scene.are_spared(&["v3", "v4"]);
}

#[test]
fn a_gang_with_more_members_than_its_minimum_takes_the_room_that_it_can_get() {
    takes_what_it_can(gang(1));
}

#[test]
fn a_basic_group_takes_the_room_that_it_can_get() {
    takes_what_it_can(basic());
}

/// A group of lower priority on two of three nodes has to go, as has a pod on the third.
fn spares_no_group(group: Group) {
    let (scene, _scheduler) = GroupScene::started(&FOUR[..3]);
    scene.group(Group::gang("victims", 1).priority(50).whole());
    scene.pods([
        placed("v1", "1", "n1", 50).of("victims"),
        placed("v2", "1", "n2", 50).of("victims"),
        placed("v3", "1", "n3", 10),
    ]);
    scene.group(group);
    scene.pods(members(&["a", "b", "c"]));
    scene.are_preempted(&["v1", "v2", "v3"]);
    scene.are_bound(&["a", "b", "c"]);
}

#[test]
fn a_gang_preempts_groups_and_pods_together() {
    spares_no_group(gang(3));
}

#[test]
fn a_basic_group_preempts_groups_and_pods_together() {
    spares_no_group(basic());
}

/// The room of a group of lower priority is enough for two of three members; another group is more important.
fn takes_the_room_of_a_group(group: Group) {
    let (scene, _scheduler) = GroupScene::started(&FOUR);
    scene.group(Group::gang("victims", 2).priority(50).whole());
    scene.group(Group::gang("precious", 2).priority(200).whole());
    scene.pods([("v1", "n1"), ("v2", "n2")].map(|(name, node)| placed(name, "1", node, 50).of("victims")));
    scene.pods([("v3", "n3"), ("v4", "n4")].map(|(name, node)| placed(name, "1", node, 200).of("precious")));
    scene.group(group.whole());
    scene.pods(members(&["a", "b", "c"]));
    scene.are_preempted(&["v1", "v2"]);
    scene.are_bound(&["a", "b"]);
    scene.are_unschedulable(&["c"]);
    scene.are_spared(&["v3", "v4"]);
}

#[test]
fn a_gang_takes_the_room_of_a_group_even_if_not_all_its_members_fit() {
    takes_the_room_of_a_group(gang(1));
}

#[test]
fn a_basic_group_takes_the_room_of_a_group_even_if_not_all_its_members_fit() {
    takes_the_room_of_a_group(basic());
}

#[test]
fn with_the_feature_gate_the_group_says_whether_it_preempts() {
    for (never, policy) in [(true, Some("Never")), (false, Some("PreemptLowerPriority")), (false, None)] {
        let scene = GroupScene::with(&[Feature::PodGroupPreemptionPolicy]);
        scene.node("n", "3");
        let _scheduler = scene.start();
        fill(&scene, &["low1", "low2", "low3"], 10);
        let class = if never { "patient" } else { "p100" };
        if never {
            let class = json!({"metadata": {"name": class}, "value": 100, "preemptionPolicy": "Never"});
            scene.create(PRIORITY_CLASSES, &class);
        }
        let mut spec = json!({"schedulingPolicy": {"gang": {"minCount": 3}}, "priorityClassName": class});
        if let Some(policy) = policy {
            spec["preemptionPolicy"] = policy.into();
        }
        scene.create(GROUPS, &json!({"metadata": {"name": "pg"}, "spec": spec}));
        let members = ["h1", "h2", "h3"];
        let member = |name: &&str| NewPod::new(name, "1").of("pg").spec("priorityClassName", class.into());
        scene.pods(members.iter().map(member));
        if never {
            scene.are_unschedulable(&members);
            scene.are_spared(&["low1", "low2", "low3"]);
        } else {
            scene.are_preempted(&["low1", "low2", "low3"]);
            scene.are_bound(&members);
        }
    }
}

#[test]
fn members_that_never_preempt_evict_nothing() {
    let (scene, _scheduler) = one_node();
    let class = json!({"metadata": {"name": "patient"}, "value": 100, "preemptionPolicy": "Never"});
    scene.create(PRIORITY_CLASSES, &class);
    fill(&scene, &["low1", "low2", "low3"], 10);
    scene.group(gang(3));
    let patient = |pod: NewPod| pod.spec("priorityClassName", "patient".into());
    scene.pods(members(&["h1", "h2", "h3"]).into_iter().map(patient));
    scene.are_unschedulable(&["h1", "h2", "h3"]);
    scene.are_spared(&["low1", "low2", "low3"]);
}

#[test]
fn a_gang_preempts_only_where_there_is_no_room() {
    let (scene, _scheduler) = two_nodes();
    scene.pods([placed("low", "2", "n1", 10)]);
    scene.group(gang(2));
    scene.pods([member("h1", "2"), member("h2", "2")]);
    scene.are_preempted(&["low"]);
    scene.are_bound(&["h1", "h2"]);
}

#[test]
fn of_two_pods_on_a_node_the_more_important_one_is_spared() {
    let (scene, _scheduler) = two_nodes();
    scene.pods([placed("low", "1", "n1", 5), placed("middle", "1", "n1", 10)]);
    scene.group(gang(2));
    scene.pods([member("h1", "1").only_on("n1"), member("h2", "1").only_on("n2")]);
    scene.are_preempted(&["low"]);
    scene.are_bound(&["h1", "h2"]);
    scene.are_spared(&["middle"]);
}

/// Repels pods with the label `app` from the node.
fn repelling(pod: NewPod) -> NewPod {
    let selector = json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]});
    let term = json!({"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"});
    pod.spec(
        "affinity",
        json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}),
    )
}

#[test]
fn requests_of_whole_pods_count_in_preemption() {
    let (scene, _scheduler) = two_nodes();
    let needs_two = |pod: NewPod| {
        pod.container("resources", json!({})).spec("resources", json!({"requests": {"cpu": "2"}}))
    };
    scene.pods([needs_two(placed("low", "0", "n1", 10)).label("app", "low")]);
    scene.group(gang(2));
    scene.pods([needs_two(repelling(member("h1", "0"))), needs_two(repelling(member("h2", "0")))]);
    scene.are_preempted(&["low"]);
    scene.are_bound(&["h1", "h2"]);
}

#[test]
fn a_pod_that_members_repel_is_preempted_even_if_there_is_room() {
    let (scene, _scheduler) = two_nodes();
    scene.pods([placed("low", "250m", "n1", 10).label("app", "low")]);
    scene.group(gang(2));
    scene.pods([repelling(member("h1", "1500m")), repelling(member("h2", "1500m"))]);
    scene.are_preempted(&["low"]);
    scene.are_bound(&["h1", "h2"]);
}

#[test]
fn a_pod_whose_port_a_member_needs_is_preempted_even_if_there_is_room() {
    let (scene, _scheduler) = two_nodes();
    let with_port = |pod: NewPod| pod.container("ports", json!([{"containerPort": 8080, "hostPort": 8080}]));
    scene.pods([with_port(placed("low", "250m", "n1", 10))]);
    scene.group(gang(2));
    scene.pods([with_port(member("h1", "1500m")), with_port(member("h2", "1500m"))]);
    scene.are_preempted(&["low"]);
    scene.are_bound(&["h1", "h2"]);
}

/// Members on `n1` that are spread over nodes together with other pods with the label `app`.
fn spread_members() -> [NewPod; 2] {
    let constraint = json!({
        "maxSkew": 2, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "foo"}}, "minDomains": 10,
    });
    ["h1", "h2"].map(|name| {
        let pod = member(name, "1").label("app", "foo").only_on("n1");
        pod.spec("topologySpreadConstraints", json!([constraint]))
    })
}

#[test]
fn a_pod_that_would_make_the_spread_uneven_is_preempted() {
    let (scene, _scheduler) = GroupScene::started(&[("n1", "16"), ("n2", "16")]);
    scene.pods([placed("low", "1", "n1", 10).label("app", "foo")]);
    scene.group(gang(2));
    scene.pods(spread_members());
    scene.are_preempted(&["low"]);
    scene.are_bound(&["h1", "h2"]);
}

#[test]
fn a_pod_on_another_node_that_does_not_disturb_the_spread_is_spared() {
    let (scene, _scheduler) = GroupScene::started(&[("n1", "16"), ("n2", "16")]);
    scene.pods([
        placed("low", "1", "n1", 10).label("app", "foo"),
        placed("lower", "1", "n2", 5).label("app", "foo"),
    ]);
    scene.group(gang(2));
    scene.pods(spread_members());
    scene.are_preempted(&["low"]);
    scene.are_bound(&["h1", "h2"]);
    scene.are_spared(&["lower"]);
}

/// There is room for one of two new members of a running group. The first one is bound before the second one preempts.
fn binds_before_it_preempts(group: impl Fn() -> Group) {
    let (scene, _scheduler) = GroupScene::started(&[("n", "4")]);
    scene.group(group());
    scene.bound_pods(&["p1", "p2"], |pod| pod.of("pg").priority(100));
    fill(&scene, &["low"], 10);
    scene.delete_group("pg");
    scene.pods(members(&["h1", "h2"]));
    scene.are_left_alone(&["h1", "h2"]);
    scene.group(group());
    scene.are_preempted(&["low"]);
    scene.are_bound(&["h1", "h2"]);
    let order = scene.proxy.records(|request| request.is_bind_of("h1") || request.is_delete_of("low"));
    assert!(order[0].request.is_bind_of("h1"), "the eviction comes first");
}

#[test]
fn a_member_of_a_gang_is_bound_before_the_next_one_preempts() {
    binds_before_it_preempts(|| gang(2));
}

#[test]
fn a_member_of_a_basic_group_is_bound_before_the_next_one_preempts() {
    binds_before_it_preempts(basic);
}

#[test]
fn the_condition_of_a_group_tells_that_it_preempts() {
    let (scene, _scheduler) = GroupScene::started(&[("n", "1")]);
    scene.bound_pods(&["low"], |pod| pod.priority(10).spec("terminationGracePeriodSeconds", 30.into()));
    scene.group(gang(1));
    scene.pods(members(&["h1"]));
    eventually("the pod is being deleted", PATIENCE, || {
        get_pod(scene.client(), "low").is_some_and(|pod| is_terminating(&pod)).then_some(())
    });
    let message = scene.has_condition("pg", "False", "Unschedulable");
    for part in [
        "minCount (1) cannot be satisfied",
        "pod group preemption: found a placement for podgroup, preempting 1 victims",
    ] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn nominated_members_keep_their_nodes_if_a_better_one_becomes_free() {
    let (scene, _scheduler) = GroupScene::started(&[("n1", "1"), ("n2", "1"), ("n3", "1")]);
    let slow = |pod: NewPod| pod.spec("terminationGracePeriodSeconds", 600.into());
    scene.pods([placed("high", "1", "n1", 100)]);
    scene.pods([slow(placed("low2", "1", "n2", 10)), slow(placed("low3", "1", "n3", 10))]);
    scene.group(Group::gang("g", 2).priority(50));
    let names = ["h1", "h2"];
    scene.pods(names.map(|name| NewPod::new(name, "1").of("g").priority(50).rather_on("n1")));
    let nominations = || {
        let nomination =
            |name| get_pod(scene.client(), name)?["status"]["nominatedNodeName"].as_str().map(str::to_owned);
        names.into_iter().map(nomination).collect::<Option<Vec<String>>>()
    };
    let before = eventually("both members are nominated", PATIENCE, nominations);
    assert!(before.iter().all(|node| node != "n1"), "{before:?}");
    scene.delete_pod("high");
    scene.remain_pending(&names);
    assert_eq!(nominations(), Some(before));
}

#[test]
fn a_gang_preempts_four_pods_for_three_members_and_a_fourth() {
    let (scene, _scheduler) = GroupScene::started(&[("n", "4")]);
    fill(&scene, &["low1", "low2", "low3", "low4"], 10);
    scene.group(gang(3));
    scene.pods(members(&["p1", "p2", "p3", "p4"]));
    scene.are_bound(&["p1", "p2", "p3", "p4"]);
    scene.has_condition("pg", "True", "Scheduled");
    scene.are_preempted(&["low1", "low2", "low3", "low4"]);
}

#[test]
fn a_basic_group_preempts_one_large_pod() {
    let (scene, _scheduler) = GroupScene::started(&[("n", "4")]);
    scene.bound_pods(&["low"], |pod| {
        pod.priority(10).container("resources", json!({"requests": {"cpu": "2"}}))
    });
    scene.group(basic());
    scene.pods(members(&["p1", "p2", "p3", "p4"]));
    scene.are_bound(&["p1", "p2", "p3", "p4"]);
    scene.are_preempted(&["low"]);
}

#[test]
fn a_gang_of_middle_priority_preempts_only_the_least_important_pods() {
    let (scene, _scheduler) = GroupScene::started(&[("n", "4")]);
    fill(&scene, &["lower1", "lower2"], 5);
    fill(&scene, &["low1", "low2"], 10);
    scene.group(Group::gang("middle", 2).priority(50));
    scene.pods(["m1", "m2"].map(|name| NewPod::new(name, "1").of("middle").priority(50)));
    scene.are_bound(&["m1", "m2"]);
    scene.are_preempted(&["lower1", "lower2"]);
    scene.are_spared(&["low1", "low2"]);
}
