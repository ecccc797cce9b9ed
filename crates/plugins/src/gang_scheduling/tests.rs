use std::sync::Arc;

use harbormaster_framework::group::GroupId;
use harbormaster_testkit::{custom, pod};
use serde_json::Value;

use super::*;

/// The plugin without the feature gate PodGroupPreemptionPolicy.
const PLAIN: GangScheduling = GangScheduling { has_policies: false };

fn group(min_count: Option<u32>) -> Value {
    let policy = match min_count {
        Some(min_count) => json!({ "gang": { "minCount": min_count } }),
        None => json!({ "basic": {} }),
    };
    json!({ "metadata": { "name": "g", "namespace": "default" }, "spec": { "schedulingPolicy": policy, "priority": 7 } })
}

fn object(min_count: Option<u32>) -> Custom<PodGroupObject> {
    custom::<PodGroupObject>(&group(min_count))
}

fn described(min_count: Option<u32>) -> PodGroup {
    let id = GroupId { namespace: "default".into(), name: "g".into() };
    PodGroup { id, uid: "u".into(), generation: 3, spec: PLAIN.describe(&object(min_count)) }
}

fn member(name: &str) -> Arc<PodInfo> {
    pod(name).spec(|spec| spec.pod_group = Some("g".into())).info()
}

#[test]
fn the_object_says_how_many_members_are_needed_and_how_important_they_are() {
    let gang = described(Some(3));
    assert_eq!((gang.policy, gang.priority), (GroupPolicy::Gang { min_count: 3 }, Some(7)));
    assert_eq!(described(None).policy, GroupPolicy::Basic);
    let plain =
        custom::<PodGroupObject>(&json!({"metadata": {"name": "g", "namespace": "default"}, "spec": {}}));
    assert_eq!(plain.spec.priority, Some(0));
    let mut all = group(None);
    all["spec"]["disruptionMode"] = json!({"all": {}});
    assert_eq!(custom::<PodGroupObject>(&all).spec.disruption, Disruption::All);
}

#[test]
fn members_of_a_gang_are_held_back_until_there_are_enough() {
    let (gang, basic, pod) = (described(Some(3)), described(None), member("a"));
    let verdict = |group: &PodGroup, pods| {
        let group = Some(GroupView { group, pods, scheduled: 0 });
        let objects = Objects::default();
        let cx = EnqueueCycle { group, ..EnqueueCycle::new(&pod, &objects) };
        PLAIN.pre_enqueue(cx).map_err(|stop| match stop {
            Stop::Reject(reject) => reject.message(),
            Stop::Error(error) => error.to_string(),
        })
    };
    assert_eq!(verdict(&gang, 2), Err(REASON_TOO_FEW.to_owned()));
    assert_eq!(verdict(&gang, 3), Ok(()));
    assert_eq!(verdict(&basic, 1), Ok(()));
}

#[test]
fn new_members_and_smaller_gangs_wake_a_group() {
    let pod = member("a");
    let after_pod = |new: &PodInfo| {
        let change = Change::Pod { old: None, new: Some(&new.pod) };
        PLAIN.after_pod(&pod, &change).unwrap()
    };
    assert_eq!(after_pod(&member("b")), Hint::Queue);
    assert_eq!(after_pod(&harbormaster_testkit::pod("c").info()), Hint::Skip);
    let after = |old: Option<u32>, new: Option<u32>| {
        let (old, new) = (object(old), object(new));
        let change = Changed { old: Some(&old), new: Some(&new) };
        PLAIN.after_changed_group(&pod, change).unwrap()
    };
    assert_eq!(after(Some(3), Some(2)), Hint::Queue);
    assert_eq!(after(Some(2), Some(3)), Hint::Skip);
    assert_eq!(after(Some(2), None), Hint::Skip);
}

#[test]
fn the_condition_is_patched_into_the_status() {
    let condition = GroupCondition {
        is_scheduled: false,
        reason: "Unschedulable".into(),
        message: "too few".to_owned(),
        observed_generation: 3,
        last_transition: harbormaster_api::Timestamp::default(),
    };
    let call = PLAIN.record(&described(Some(3)), &condition).unwrap();
    assert_eq!(call.path.url(), "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups/g/status");
    let written = &call.body["status"]["conditions"][0];
    assert_eq!(written["type"], "PodGroupInitiallyScheduled");
    assert_eq!((&written["status"], &written["reason"]), (&json!("False"), &json!("Unschedulable")));
}

#[test]
fn a_group_has_a_preemption_policy_only_with_the_feature_gate() {
    let policy = |has_policies, policy: Option<&str>| {
        let mut object = group(Some(2));
        object["spec"]["preemptionPolicy"] = policy.into();
        GangScheduling { has_policies }.describe(&custom::<PodGroupObject>(&object)).never_preempts
    };
    assert_eq!(policy(false, Some("Never")), None);
    let with_gate = [None, Some("PreemptLowerPriority"), Some("Never")].map(|given| policy(true, given));
    assert_eq!(with_gate, [Some(false), Some(false), Some(true)]);
}
