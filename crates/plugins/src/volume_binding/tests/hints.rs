use harbormaster_api::pod::PodCondition;
use harbormaster_framework::events::{ClusterEvent, Hint};
use harbormaster_testkit::{custom, node};

use super::*;

#[derive(Debug, PartialEq)]
enum Woken {
    Yes,
    No,
}
use Woken::{No, Yes};

/// Hint for a pod that names claim `c` and has an ephemeral volume `data` and an inline volume of driver `inline`.
fn after<R: Resource + Clone>(old: Option<&Value>, new: Option<&Value>) -> Woken {
    let pod = user(&["c"]).volume(VolumeSource::InlineCsi("inline".into())).spec(|spec| {
        spec.volumes
            .push(harbormaster_api::pod::Volume { name: "data".into(), source: VolumeSource::Ephemeral });
    });
    let typed = |object: Option<&Value>| object.map(custom::<R>);
    let (old, new) = (typed(old), typed(new));
    match trial().custom_hint(&pod.info(), old.as_ref(), new.as_ref()) {
        Some(Hint::Queue) => Yes,
        Some(Hint::Skip) | None => No,
    }
}

#[test]
fn a_new_class_or_other_allowed_topologies_wake_the_pod() {
    let plain = class("made", "csi", "WaitForFirstConsumer");
    let mut elsewhere = plain.clone();
    elsewhere["allowedTopologies"] = json!([{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}]);
    let mut reworded = plain.clone();
    reworded["metadata"]["labels"] = json!({"a": "b"});
    assert_eq!(after::<StorageClass>(None, Some(&plain)), Yes);
    assert_eq!(after::<StorageClass>(Some(&plain), Some(&elsewhere)), Yes);
    assert_eq!(after::<StorageClass>(Some(&plain), Some(&reworded)), No);
    assert_eq!(after::<StorageClass>(Some(&plain), None), No);
}

#[test]
fn any_new_or_changed_claim_of_the_pod_wakes_it() {
    let named =
        |name: &str, namespace: &str| claim(name, LOCAL, &json!({"metadata": {"namespace": namespace}}));
    for (name, namespace, expected) in
        [("c", "default", Yes), ("p-data", "default", Yes), ("other", "default", No), ("c", "elsewhere", No)]
    {
        let claim = named(name, namespace);
        assert_eq!(after::<PersistentVolumeClaim>(None, Some(&claim)), expected, "{name}");
        assert_eq!(after::<PersistentVolumeClaim>(Some(&claim), Some(&claim)), expected, "{name}");
        assert_eq!(after::<PersistentVolumeClaim>(Some(&claim), None), No, "{name}");
    }
}

#[test]
fn any_new_or_changed_volume_wakes_the_pod() {
    let volume = volume("v", &json!({}));
    assert_eq!(after::<PersistentVolume>(None, Some(&volume)), Yes);
    assert_eq!(after::<PersistentVolume>(Some(&volume), Some(&volume)), Yes);
    assert_eq!(after::<PersistentVolume>(Some(&volume), None), No);
}

#[test]
fn a_new_or_relabeled_node_wakes_the_pod() {
    let hint = |action| {
        let event = ClusterEvent::new(EventResource::Node, action);
        let node = node("n").build();
        trial().hint(event, &user(&["c"]).info(), &Change::Node { old: Some(&node), new: Some(&node) })
    };
    assert_eq!(hint(Action::ADD), Some(Hint::Queue));
    assert_eq!(hint(Action::UPDATE_NODE_LABEL), Some(Hint::Queue));
    assert_eq!(hint(Action::UPDATE_NODE_ALLOCATABLE), None);
}

#[test]
fn a_node_wakes_the_pod_when_its_migrated_plugins_change() {
    let served = |plugins: &str| {
        json!({"metadata": {"name": "n", "resourceVersion": plugins,
        "annotations": {"storage.alpha.kubernetes.io/migrated-plugins": plugins}}, "spec": {"drivers": []}})
    };
    let (none, some) = (served(""), served("kubernetes.io/aws-ebs"));
    assert_eq!(after::<CsiNode>(None, Some(&none)), Yes);
    assert_eq!(after::<CsiNode>(Some(&none), Some(&some)), Yes);
    assert_eq!(after::<CsiNode>(Some(&some), Some(&some)), No);
}

#[test]
fn a_driver_that_stops_reporting_capacity_wakes_pods_with_its_inline_volumes() {
    let driver =
        |name: &str, tells: Value| json!({"metadata": {"name": name}, "spec": {"storageCapacity": tells}});
    for (name, before, now, expected) in [
        ("inline", json!(true), json!(false), Yes),
        ("inline", json!(true), json!(null), Yes),
        ("inline", json!(false), json!(true), No),
        ("inline", json!(true), json!(true), No),
        ("other", json!(true), json!(false), No),
    ] {
        let (before, now) = (driver(name, before), driver(name, now));
        assert_eq!(after::<CsiDriver>(Some(&before), Some(&now)), expected, "{name} {before} {now}");
        assert_eq!(after::<CsiDriver>(None, Some(&now)), No, "a new driver");
    }
}

#[test]
fn new_or_increased_capacity_wakes_the_pod() {
    let capacity = |capacity: Value, largest: Value| {
        json!({"metadata": {"name": "k", "namespace": "csi"},
        "storageClassName": "made", "capacity": capacity, "maximumVolumeSize": largest})
    };
    let unknown = || capacity(json!(null), json!(null));
    for (before, now, expected) in [
        (None, unknown(), Yes),
        (Some(unknown()), capacity(json!("1Gi"), json!(null)), Yes),
        (Some(capacity(json!("1Gi"), json!(null))), capacity(json!("2Gi"), json!(null)), Yes),
        (Some(capacity(json!("1Gi"), json!(null))), capacity(json!("1Gi"), json!("2Gi")), Yes),
        (Some(capacity(json!("1Gi"), json!("1Mi"))), capacity(json!("2Gi"), json!("1Mi")), No),
        (Some(capacity(json!("2Gi"), json!(null))), capacity(json!("1Gi"), json!(null)), No),
        (Some(capacity(json!("1Gi"), json!(null))), unknown(), No),
    ] {
        assert_eq!(after::<CsiStorageCapacity>(before.as_ref(), Some(&now)), expected, "{before:?} {now}");
    }
}

#[test]
fn a_pod_with_claims_wakes_others_when_it_gives_up_its_node_before_binding() {
    let event = ClusterEvent::new(EventResource::AssignedPod, Action::DELETE);
    for (what, gone, scheduled, expected) in [
        ("reserved", user(&["d"]).on("n"), None, Hint::Queue),
        ("reserved after an earlier failure", user(&["d"]).on("n"), Some("False"), Hint::Queue),
        ("bound", user(&["d"]).on("n"), Some("True"), Hint::Skip),
        ("without claims", pod("plain").on("n"), None, Hint::Skip),
        ("without a node", user(&["d"]), None, Hint::Skip),
    ] {
        let mut gone = gone.build();
        gone.status.conditions.extend(scheduled.map(|status| PodCondition {
            type_: "PodScheduled".into(),
            status: status.into(),
            ..Default::default()
        }));
        let change = Change::Pod { old: Some(&gone), new: None };
        assert_eq!(trial().hint(event, &user(&["c"]).info(), &change), Some(expected), "{what}");
    }
}

#[test]
fn a_driver_that_stops_reporting_capacity_does_not_wake_pods_with_only_claims() {
    let driver = |tells: bool| {
        custom::<CsiDriver>(&json!({"metadata": {"name": "csi"}, "spec": {"storageCapacity": tells}}))
    };
    let hint = trial().custom_hint(&user(&["c"]).info(), Some(&driver(true)), Some(&driver(false)));
    assert_eq!(hint, Some(Hint::Skip), "as upstream, although the pod may now fit");
}
