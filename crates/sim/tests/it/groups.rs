//! Groups of pods: their members are placed together or not at all.

use harbormaster_api::{
    Release,
    features::{Feature, Features},
};
use harbormaster_setup::{Choices, Setup};
use harbormaster_sim::{Inventory, Report, Why, report::Fate, simulate, why, why_independent};
use serde_json::{Value, json};

fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
        "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "10"}},
    })
}

fn group(name: &str, min_count: usize, priority: i32) -> Value {
    json!({
        "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")},
        "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}, "priority": priority},
    })
}

fn member(name: &str, group: &str, priority: i32) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {
            "schedulerName": "default-scheduler", "schedulingGroup": {"podGroupName": group}, "priority": priority,
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
        },
    })
}

fn run(objects: Vec<Value>) -> Report {
    let features = Features::of(Release::V1_37).with(Feature::GenericWorkload, true);
    let setup = Setup::read(None, &Choices { features, ..Choices::default() }).unwrap();
    simulate(setup.engine, Inventory::from_objects(objects, features.release()).unwrap(), &mut |_, _| {})
}

/// Each pod with its fate and its message.
fn said(report: &Report) -> Vec<(&str, Fate, &str)> {
    let pods = report.pods.iter();
    pods.map(|pod| (pod.pod.as_str(), pod.fate(), pod.message.as_deref().unwrap_or_default())).collect()
}

#[test]
fn members_are_placed_together_and_name_their_group() {
    let report = run(vec![node("n"), group("g", 2, 0), member("a", "g", 0), member("b", "g", 0)]);
    assert_eq!(said(&report), [("default/a", Fate::Placed, ""), ("default/b", Fate::Placed, "")]);
    assert!(report.pods.iter().all(|pod| pod.group.as_deref() == Some("default/g")), "{report:?}");
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["pods"][0]["group"], "default/g");
}

#[test]
fn members_whose_group_does_not_exist_or_is_too_small_say_why_they_wait() {
    let report = run(vec![node("n"), group("g", 2, 0), member("a", "g", 0), member("b", "nowhere", 0)]);
    let too_few = "waiting for minCount pods from a gang to appear in scheduling queue";
    let missing = "waiting for PodGroup default/nowhere, which does not exist";
    assert_eq!(said(&report), [("default/a", Fate::Gated, too_few), ("default/b", Fate::Gated, missing)]);
}

#[test]
fn a_gated_member_holds_the_others_back() {
    let mut gated = member("gated", "g", 0);
    gated["spec"]["schedulingGates"] = json!([{"name": "wait"}]);
    let report = run(vec![node("n"), group("g", 1, 0), member("a", "g", 0), gated]);
    let waits = "waiting for another member of PodGroup default/g";
    let [a, gated] = said(&report)[..] else { panic!("{report:?}") };
    assert_eq!(a, ("default/a", Fate::Gated, waits));
    assert_eq!(gated.1, Fate::Gated);
}

#[test]
fn victims_of_a_group_name_it() {
    let mut low = member("low", "none", 0);
    low["spec"]["nodeName"] = json!("n");
    low["spec"].as_object_mut().unwrap().remove("schedulingGroup");
    let report = run(vec![node("n"), low, group("g", 2, 9), member("a", "g", 9), member("b", "g", 9)]);
    let low = report.pods.iter().find(|pod| pod.pod == "default/low").unwrap();
    assert_eq!(low.preempted_by.as_deref(), Some("default/g"));
    assert_eq!(report.count(Fate::Placed), 2, "{report:?}");
}

/// Asks why the pod `default/{name}` waits. The answer must be the same if the other pods are left out.
fn ask(objects: Vec<Value>, name: &str) -> Why {
    let features = Features::of(Release::V1_37).with(Feature::GenericWorkload, true);
    let engine = Setup::read(None, &Choices { features, ..Choices::default() }).unwrap().engine;
    let cluster = Inventory::from_objects(objects, features.release()).unwrap();
    let name = format!("default/{name}");
    let answer = why(engine.clone(), cluster.clone(), &name, &mut |_, _| {}).unwrap().unwrap();
    let alone = why_independent(&engine, cluster, &name).unwrap().unwrap();
    assert_eq!((&alone.group, &alone.remedies), (&answer.group, &answer.remedies));
    answer
}

/// Each remedy in words, with the number of members that it places.
fn remedies(answer: &Why) -> Vec<(String, usize)> {
    answer.remedies.iter().map(|remedy| (remedy.to_string(), remedy.members.unwrap())).collect()
}

fn expect(answer: &Why, expected: &[(&str, usize)]) {
    let expected: Vec<(String, usize)> = expected.iter().map(|(text, n)| ((*text).to_owned(), *n)).collect();
    assert_eq!(remedies(answer), expected);
}

#[test]
fn a_gang_that_is_too_large_says_how_many_members_fit_and_what_would_place_it() {
    let members = ["a", "b", "c", "d", "e"].map(|name| member(name, "g", 0));
    let objects = [node("n"), node("m"), group("g", 5, 0)].into_iter().chain(members).collect();
    let answer = ask(objects, "a");
    let state = answer.group.as_ref().unwrap();
    assert_eq!((state.group.as_str(), state.min_count), ("default/g", 5));
    assert_eq!((state.members, state.placed, state.fits), (5, 0, 4));
    let stuck = state.stuck.as_ref().unwrap();
    assert_eq!((stuck.pod.as_str(), stuck.message.contains("2 Insufficient cpu")), ("default/e", true));
    let explained = answer.explanation.as_ref().unwrap();
    assert_eq!((explained.pod.as_str(), explained.fits.len()), ("default/e", 0));
    expect(
        &answer,
        &[
            ("lower minCount of PodGroup default/g from 5 to 4", 4),
            ("request cpu 0.666 instead of 1 in all members", 5),
            ("add a node like n", 5),
        ],
    );
}

#[test]
fn a_gang_without_enough_members_gets_them() {
    let objects = || vec![node("n"), member("a", "g", 0)];
    let answer = ask([objects(), vec![group("g", 2, 0)]].concat(), "a");
    expect(
        &answer,
        &[
            ("create the missing member of PodGroup default/g", 2),
            ("lower minCount of PodGroup default/g from 2 to 1", 1),
        ],
    );
    // The missing members find no room without a further change.
    let answer = ask([objects(), vec![group("g", 4, 0)]].concat(), "a");
    let create = "create the 3 missing members of PodGroup default/g";
    expect(
        &answer,
        &[
            ("lower minCount of PodGroup default/g from 4 to 1", 1),
            (&format!("{create}, and request cpu 0.5 instead of 1 in all members"), 4),
            (&format!("{create}, and add a node like n"), 4),
        ],
    );
}

#[test]
fn members_that_run_count_and_all_members_change_alike() {
    let mut runs = member("runs", "g", 0);
    runs["spec"]["nodeName"] = json!("n");
    let mut picky = [member("a", "g", 0), member("b", "g", 0)];
    for pod in &mut picky {
        pod["spec"]["nodeSelector"] = json!({"disk": "ssd"});
    }
    let [a, b] = picky;
    let answer = ask(vec![node("n"), node("m"), group("g", 3, 0), runs, a, b], "b");
    let state = answer.group.as_ref().unwrap();
    assert_eq!((state.members, state.placed, state.fits), (3, 1, 0));
    assert_eq!(state.stuck.as_ref().unwrap().pod, "default/b");
    expect(&answer, &[("drop the node selector disk=ssd in all members", 2)]);
}

#[test]
fn a_gang_that_another_pod_gates_needs_no_change() {
    let mut gated = member("gated", "g", 0);
    gated["spec"]["schedulingGates"] = json!([{"name": "wait"}]);
    let answer = ask(vec![node("n"), group("g", 2, 0), member("a", "g", 0), gated], "a");
    expect(&answer, &[]);
    assert_eq!(answer.group.as_ref().unwrap().fits, 2);
    assert_eq!(answer.explanation.as_ref().unwrap().fits.len(), 1);
}

#[test]
fn a_change_that_is_proposed_places_the_gang_in_a_simulation() {
    let cluster = |cpu: &str, min_count: usize, nodes: usize| {
        let nodes = (0..nodes).map(|number| node(&format!("n{number}")));
        let members = (0..7).map(|number| {
            let mut pod = member(&format!("p{number}"), "g", 0);
            pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!(cpu);
            pod
        });
        nodes.chain([group("g", min_count, 0)]).chain(members).collect::<Vec<Value>>()
    };
    let placed = |objects| run(objects).count(Fate::Placed);
    let answer = ask(cluster("1100m", 7, 3), "p0");
    expect(
        &answer,
        &[
            ("request cpu 0.666 instead of 1.1 in all members", 7),
            ("lower minCount of PodGroup default/g from 7 to 3", 3),
            ("add 4 nodes like n0", 7),
        ],
    );
    assert_eq!([placed(cluster("666m", 7, 3)), placed(cluster("667m", 7, 3))], [7, 0]);
    assert_eq!([placed(cluster("1100m", 3, 3)), placed(cluster("1100m", 4, 3))], [3, 0]);
    assert_eq!([placed(cluster("1100m", 7, 7)), placed(cluster("1100m", 7, 6))], [7, 0]);
}
