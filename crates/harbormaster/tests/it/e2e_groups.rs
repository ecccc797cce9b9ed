//! Groups of pods over HTTP. The scenarios are those of Kubernetes' own tests of groups (`test/integration/scheduler/podgroup`
//! and `test/e2e/scheduling` of 1.37.2), as far as they concern neither topologies nor composite groups.

use std::env;

use harbormaster_api::features::Feature;
use serde_json::{Value, json};

use crate::e2e::{
    cluster::{PATIENCE, delete_pod, eventually, wait_until_bound},
    group_scene::{Group, GroupScene, NewPod},
};

/// Number of times the scheduler is killed, unless the environment variable `HARBORMASTER_KILLS` names another number.
const KILLS: usize = 5;

/// A member of `pg` that requests one CPU.
fn member(name: &str) -> NewPod {
    NewPod::new(name, "1").of("pg")
}

fn members(names: &[&str]) -> Vec<NewPod> {
    names.iter().map(|name| member(name)).collect()
}

#[test]
fn a_gang_with_room_is_bound_and_its_condition_says_so() {
    let (scene, scheduler) = GroupScene::started(&[("n", "4")]);
    scene.group(Group::gang("pg", 3));
    scene.pods(members(&["p1", "p2", "p3"]));
    scene.are_bound(&["p1", "p2", "p3"]);
    scene.has_condition("pg", "True", "Scheduled");
    scheduler.ends_well();
}

#[test]
fn a_member_that_joins_a_running_gang_is_bound() {
    let (scene, _scheduler) = GroupScene::started(&[("n", "4")]);
    scene.group(Group::gang("pg", 3));
    scene.pods(members(&["p1", "p2", "p3"]));
    scene.are_bound(&["p1", "p2", "p3"]);
    scene.pods([member("p4")]);
    scene.are_bound(&["p4"]);
}

#[test]
fn a_gang_waits_for_its_quorum() {
    let (scene, _scheduler) = GroupScene::started(&[("n", "4")]);
    scene.group(Group::gang("pg", 3));
    scene.pods(members(&["p1", "p2"]));
    scene.are_left_alone(&["p1", "p2"]);
    scene.pods([member("p3")]);
    scene.are_bound(&["p1", "p2", "p3"]);
}

#[test]
fn a_gang_waits_for_its_group_and_then_for_room() {
    let (scene, _scheduler) = GroupScene::started(&[("n", "4")]);
    scene.bound_pods(&["blocker"], |pod| pod.container("resources", json!({"requests": {"cpu": "2"}})));
    scene.pods(members(&["p1", "p2", "p3"]));
    scene.are_left_alone(&["p1", "p2", "p3"]);
    scene.group(Group::gang("pg", 3));
    scene.are_unschedulable(&["p1", "p2", "p3"]);
    scene.has_condition("pg", "False", "Unschedulable");
    scene.delete_pod("blocker");
    scene.are_bound(&["p1", "p2", "p3"]);
    scene.has_condition("pg", "True", "Scheduled");
}

#[test]
fn a_member_beyond_the_minimum_waits_alone_for_room() {
    let (scene, _scheduler) = GroupScene::started(&[("n", "4")]);
    scene.bound_pods(&["blocker"], |pod| pod);
    let all = ["p1", "p2", "p3", "p4"];
    scene.pods(members(&all));
    scene.group(Group::gang("pg", 3));
    let left = eventually("one member is left", PATIENCE, || {
        let left: Vec<&str> = all.into_iter().filter(|name| scene.node_of(name).is_none()).collect();
        if let [left] = left.as_slice() { Some(*left) } else { None }
    });
    scene.are_unschedulable(&[left]);
    scene.delete_pod("blocker");
    scene.are_bound(&all);
}

/// Creates members of two gangs in this order. Asserts that the gang `first` is bound whole and the other waits whole.
fn compete(first: &str, other: &str, order: &[&str]) {
    let (scene, _scheduler) = GroupScene::started(&[("n", "4")]);
    scene.group(Group::gang("pg", 3));
    scene.group(Group::gang("other", 3));
    let of_group = |name: &&str| {
        let group = if name.starts_with("other") { "other" } else { "pg" };
        NewPod::new(name, "1").of(group)
    };
    scene.pods(order.iter().map(of_group));
    let of = |group: &str| order.iter().copied().filter(|name| name.starts_with(group)).collect::<Vec<_>>();
    scene.are_bound(&of(first));
    scene.are_unschedulable(&of(other));
}

#[test]
fn of_two_gangs_that_compete_the_first_one_is_bound() {
    compete("p", "other", &["p1", "other1", "p2", "other2", "p3", "other3"]);
}

#[test]
fn of_two_gangs_that_compete_the_other_one_is_bound_if_it_comes_first() {
    compete("other", "p", &["other3", "p3", "other2", "p2", "other1", "p1"]);
}

#[test]
fn a_pod_on_its_own_does_not_starve_beside_a_gang() {
    let (scene, _scheduler) = GroupScene::started(&[("n", "4")]);
    scene.group(Group::gang("pg", 3));
    scene.pods([NewPod::new("blocker", "2")]);
    scene.pods(members(&["p1", "p2", "p3"]));
    scene.are_bound(&["blocker"]);
    scene.are_unschedulable(&["p1", "p2", "p3"]);
}

#[test]
fn members_of_a_basic_group_are_bound_as_they_come() {
    let (scene, _scheduler) = GroupScene::started(&[("n", "4")]);
    scene.group(Group::basic("pg"));
    scene.pods([member("p1")]);
    scene.are_bound(&["p1"]);
    scene.pods(members(&["p2", "p3"]));
    scene.are_bound(&["p2", "p3"]);
}

#[test]
fn a_basic_group_waits_for_its_group_and_a_part_of_it_for_room() {
    let (scene, _scheduler) = GroupScene::started(&[("n", "4")]);
    scene.bound_pods(&["blocker"], |pod| pod.container("resources", json!({"requests": {"cpu": "2"}})));
    let all = ["p1", "p2", "p3"];
    scene.pods(members(&all));
    scene.are_left_alone(&all);
    scene.group(Group::basic("pg"));
    let left = eventually("one member is left", PATIENCE, || {
        let left: Vec<&str> = all.into_iter().filter(|name| scene.node_of(name).is_none()).collect();
        if let [left] = left.as_slice() { Some(*left) } else { None }
    });
    scene.are_unschedulable(&[left]);
    scene.delete_pod("blocker");
    scene.are_bound(&all);
}

#[test]
fn a_smaller_minimum_lets_a_gang_without_a_quorum_start() {
    let (scene, _scheduler) = GroupScene::started(&[("n", "4")]);
    scene.group(Group::gang("pg", 5));
    scene.pods(members(&["p1", "p2", "p3", "p4"]));
    scene.are_left_alone(&["p1", "p2", "p3", "p4"]);
    scene.set_min_count("pg", 4);
    scene.are_bound(&["p1", "p2", "p3", "p4"]);
}

#[test]
fn a_smaller_minimum_lets_a_gang_without_room_start() {
    let (scene, _scheduler) = GroupScene::started(&[("n", "4")]);
    scene.group(Group::gang("pg", 5));
    scene.pods(members(&["p1", "p2", "p3", "p4", "p5"]));
    scene.are_unschedulable(&["p1", "p2", "p3", "p4", "p5"]);
    scene.set_min_count("pg", 4);
    scene.are_bound(&["p1", "p2", "p3", "p4"]);
    scene.are_unschedulable(&["p5"]);
}

#[test]
fn a_larger_minimum_causes_no_attempt() {
    let (scene, _scheduler) = GroupScene::started(&[("n", "4")]);
    scene.group(Group::gang("pg", 5));
    scene.pods(members(&["p1", "p2", "p3", "p4"]));
    scene.are_left_alone(&["p1", "p2", "p3", "p4"]);
    scene.set_min_count("pg", 6);
    scene.are_left_alone(&["p1", "p2", "p3", "p4"]);
}

/// Members of which the first repels other pods with the label `app`, which both have.
fn repelling_members() -> [NewPod; 2] {
    let term = json!({
        "labelSelector": {"matchLabels": {"app": "foo"}}, "topologyKey": "kubernetes.io/hostname",
    });
    let affinity = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    let repelling = member("repelling").label("app", "foo").only_on("n1").spec("affinity", affinity);
    [repelling, member("plain").label("app", "foo")]
}

#[test]
fn a_member_keeps_away_from_an_earlier_member_that_repels_it() {
    let (scene, _scheduler) = GroupScene::started(&[("n1", "2"), ("n2", "2")]);
    scene.group(Group::gang("pg", 2));
    scene.pods(repelling_members());
    assert_eq!(wait_until_bound(scene.client(), "repelling"), "n1");
    assert_eq!(wait_until_bound(scene.client(), "plain"), "n2");
}

#[test]
fn members_that_repel_each_other_wait_if_there_is_only_one_node() {
    let (scene, _scheduler) = GroupScene::started(&[("n1", "2")]);
    scene.group(Group::gang("pg", 2));
    scene.pods(repelling_members());
    scene.are_unschedulable(&["repelling", "plain"]);
    scene.has_condition("pg", "False", "Unschedulable");
}

/// Creates a gang of two members that use these claims, each of which only one pod may use.
fn exclusive_volumes(claims: [&str; 2]) -> GroupScene {
    let scene = GroupScene::new();
    scene.node("n", "2");
    for name in ["c1", "c2"] {
        let modes = json!(["ReadWriteOncePod"]);
        let claim_ref = json!({"namespace": "default", "name": name});
        scene.create("/api/v1/persistentvolumes", &json!({"metadata": {"name": format!("v-{name}")}, "spec": {
            "capacity": {"storage": "1Mi"}, "accessModes": modes, "hostPath": {"path": "/mnt"}, "claimRef": claim_ref,
        }}));
        let annotations = json!({"pv.kubernetes.io/bind-completed": "true"});
        let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
        scene.create(claims, &json!({"metadata": {"name": name, "annotations": annotations}, "spec": {
            "accessModes": modes, "volumeName": format!("v-{name}"), "resources": {"requests": {"storage": "1Mi"}},
        }}));
    }
    scene.group(Group::gang("pg", 2));
    let with = |name: &str, claim: &str| {
        let volume = json!({"name": "v", "persistentVolumeClaim": {"claimName": claim}});
        member(name).spec("volumes", json!([volume]))
    };
    scene.pods([with("p1", claims[0]), with("p2", claims[1])]);
    scene
}

#[test]
fn members_that_share_an_exclusive_volume_wait() {
    let scene = exclusive_volumes(["c1", "c1"]);
    let _scheduler = scene.start();
    scene.are_unschedulable(&["p1", "p2"]);
    scene.has_condition("pg", "False", "Unschedulable");
}

#[test]
fn members_with_exclusive_volumes_of_their_own_are_bound() {
    let scene = exclusive_volumes(["c1", "c2"]);
    let _scheduler = scene.start();
    scene.are_bound(&["p1", "p2"]);
}

const RESOURCES: &str = "/apis/resource.k8s.io/v1";

/// Starts an API server with two nodes that have one device each, a claim for one device, and a gang of two pods that
/// share the claim. `of_group` is true if the claim is also the group's.
fn shared_device(of_group: bool) -> GroupScene {
    let scene = GroupScene::with(&[Feature::DRAWorkloadResourceClaims]);
    let create = |path: &str, object| scene.create(&format!("{RESOURCES}/{path}"), &object);
    create("deviceclasses", json!({"metadata": {"name": "gpu"}, "spec": {}}));
    for node in ["n1", "n2"] {
        scene.node(node, "4");
        let pool = json!({"name": node, "generation": 1, "resourceSliceCount": 1});
        let devices = json!([{"name": "gpu-0"}]);
        create(
            "resourceslices",
            json!({
                "metadata": {"name": node},
                "spec": {"driver": "gpu.example.com", "nodeName": node, "pool": pool, "devices": devices},
            }),
        );
    }
    let request = json!({"name": "gpu", "exactly": {"deviceClassName": "gpu"}});
    create(
        "namespaces/default/resourceclaims",
        json!({"metadata": {"name": "gpu"}, "spec": {"devices": {"requests": [request]}}}),
    );
    let claims = json!([{"name": "gpu", "resourceClaimName": "gpu"}]);
    let group = Group::gang("pg", 2);
    scene.group(if of_group { group.claims(claims.clone()) } else { group });
    scene.pods(["p1", "p2"].map(|name| member(name).spec("resourceClaims", claims.clone())));
    scene
}

/// Returns the consumers of the claim, each with its resource and name.
fn consumers(scene: &GroupScene) -> Vec<[String; 2]> {
    let claim = scene.client().get(&format!("{RESOURCES}/namespaces/default/resourceclaims/gpu"));
    let claim = claim.expect("the claim exists");
    let consumers = claim["status"]["reservedFor"].as_array().cloned().unwrap_or_default();
    let text = |consumer: &Value, field: &str| consumer[field].as_str().unwrap_or_default().to_owned();
    let mut consumers: Vec<_> =
        consumers.iter().map(|consumer| ["resource", "name"].map(|field| text(consumer, field))).collect();
    consumers.sort();
    consumers
}

#[test]
fn a_claim_of_a_gang_is_reserved_for_the_gang_and_holds_late_members_to_its_node() {
    let scene = shared_device(true);
    let _scheduler = scene.start();
    scene.are_bound(&["p1", "p2"]);
    assert_eq!(consumers(&scene), [["podgroups", "pg"]]);
    let claims = json!([{"name": "gpu", "resourceClaimName": "gpu"}]);
    scene.pods([member("late").spec("resourceClaims", claims)]);
    scene.are_bound(&["late"]);
    assert_eq!(scene.node_of("late"), scene.node_of("p1"));
    assert_eq!(consumers(&scene), [["podgroups", "pg"]]);
}

#[test]
fn a_claim_that_only_the_members_of_a_gang_list_is_reserved_for_each_of_them() {
    let scene = shared_device(false);
    let _scheduler = scene.start();
    scene.are_bound(&["p1", "p2"]);
    assert_eq!(consumers(&scene), [["pods", "p1"], ["pods", "p2"]]);
}

#[test]
fn a_gang_whose_scheduler_is_killed_is_whole_after_a_restart() {
    let kills =
        env::var("HARBORMASTER_KILLS").map_or(KILLS, |kills| kills.parse().expect("a number of kills"));
    let scene = GroupScene::new();
    scene.node("n", "4");
    for round in 0..kills {
        let scheduler = scene.start_without_proxy();
        let names: Vec<String> = (0..3).map(|at| format!("gang{round}-{at}")).collect();
        let group = format!("gang{round}");
        scene.group(Group::gang(&group, 3));
        scene.pods(names.iter().map(|name| NewPod::new(name, "1").of(&group)));
        eventually("the first binding", PATIENCE, || scene.node_of(&names[0]));
        // Dropping it kills it.
        drop(scheduler);
        let _scheduler = scene.start_without_proxy();
        for name in &names {
            assert_eq!(wait_until_bound(scene.client(), name), "n");
        }
        names.iter().for_each(|name| delete_pod(scene.client(), name));
    }
}
