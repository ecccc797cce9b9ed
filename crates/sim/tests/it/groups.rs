//! Groups of pods: their members are placed together or not at all.

use harbormaster_api::{
    Release,
    features::{Feature, Features},
};
use harbormaster_setup::{Choices, Setup};
use harbormaster_sim::{Inventory, Report, report::Fate, simulate};
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
