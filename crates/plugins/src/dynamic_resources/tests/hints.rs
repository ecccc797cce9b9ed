use harbormaster_api::pod::PodCondition;
use harbormaster_framework::events::{ClusterEvent, Hint};
use harbormaster_testkit::custom;

use super::*;

/// Returns true if the change wakes a pod with the claim `c` and, unless `is_complete`, a claim that does not exist.
fn wakes(release: Release, is_complete: bool, old: Option<&Value>, new: Option<&Value>) -> bool {
    let mut cluster = two_nodes([claim("c", &[request("r", 1)])]);
    set_custom::<ResourceClaim>(&mut cluster, new.cloned());
    let typed = |object: Option<&Value>| object.map(custom::<ResourceClaim>);
    let (old, new) = (typed(old), typed(new));
    let action = match (&old, &new) {
        (None, _) => Action::ADD,
        (_, None) => Action::DELETE,
        _ => Action::UPDATE,
    };
    let event = ClusterEvent::new(EventResource::of::<ResourceClaim>(), action);
    let pod = if is_complete { user(&["c"]) } else { user(&["c", "missing"]) };
    let change = Change::custom(old.as_ref(), new.as_ref());
    let trial = Trial::of(plugin_of(release));
    trial.hint_with_objects(cluster.objects(), event, &pod.info(), &change) == Some(Hint::Queue)
}

#[test]
fn a_pod_wakes_when_its_claim_is_created_or_allocated_or_devices_are_released() {
    let (own, other) = (claim("c", &[request("r", 1)]), claim("other", &[request("r", 1)]));
    let with_devices = |claim: &Value| allocated(claim.clone(), "n1", &["a"], &[]);
    let mut labeled = own.clone();
    labeled["metadata"]["labels"] = json!({"a": "b"});
    for (what, old, new, expected) in [
        ("own claim created", None, Some(own.clone()), true),
        ("other claim created", None, Some(other.clone()), false),
        ("own claim allocated", Some(own.clone()), Some(with_devices(&own)), true),
        ("other claim allocated", Some(other.clone()), Some(with_devices(&other)), false),
        ("other claim released", Some(with_devices(&other)), Some(other.clone()), true),
        ("own claim labeled", Some(own.clone()), Some(labeled), false),
        ("own claim deleted", Some(own.clone()), None, false),
        ("other claim deleted with its devices", Some(with_devices(&other)), None, true),
    ] {
        for release in [Release::V1_36, Release::V1_37] {
            let wakes = |is_complete| wakes(release, is_complete, old.as_ref(), new.as_ref());
            assert_eq!(wakes(true), expected, "{what} in {release}");
            let is_deletion = what == "other claim deleted with its devices";
            let expected = release == Release::V1_37 && is_deletion;
            assert_eq!(wakes(false), expected, "{what} in {release}: another claim is missing");
        }
    }
}

#[test]
fn a_rule_that_alters_the_taints_of_some_device_wakes_pods() {
    let at_time = |selector: &Value, effect: &str, time: &str| {
        let taint = json!({"key": "k", "effect": effect, "timeAdded": time});
        let spec = json!({"deviceSelector": selector, "taint": taint});
        custom::<DeviceTaintRule>(&json!({"metadata": {"name": "r"}, "spec": spec}))
    };
    let rule = |selector: Value, effect: &str| at_time(&selector, effect, "2026-01-01T00:00:00Z");
    let everywhere = || rule(json!({}), "NoSchedule");
    let of_pool = |pool: &str| rule(json!({"driver": DRIVER, "pool": pool}), "NoSchedule");
    let of_device = |device: &str| rule(json!({"pool": "n1", "device": device}), "NoSchedule");
    let of_nothing = || rule(json!(null), "NoSchedule");
    let mut labeled = everywhere();
    labeled.metadata.labels = [("a", "b")].into_iter().collect();
    for (what, old, new, wakes) in [
        ("new", None, Some(everywhere()), true),
        ("new, without effect", None, Some(rule(json!({}), "None")), true),
        ("new, without devices", None, Some(of_nothing()), false),
        ("new, for an unknown pool", None, Some(of_pool("n3")), false),
        ("new, for another driver", None, Some(rule(json!({"driver": "other.com"}), "NoSchedule")), false),
        ("new, for a device of another pool", None, Some(of_device("c")), false),
        ("deleted", Some(everywhere()), None, true),
        ("deleted, without effect", Some(rule(json!({}), "None")), None, true),
        ("deleted, without devices", Some(of_nothing()), None, false),
        ("unchanged", Some(everywhere()), Some(everywhere()), false),
        ("labeled", Some(everywhere()), Some(labeled), false),
        ("for fewer devices", Some(everywhere()), Some(of_pool("n1")), true),
        ("for other devices", Some(of_device("a")), Some(of_device("b")), true),
        ("for other unknown devices", Some(of_device("c")), Some(of_device("d")), false),
        (
            "with other fields for the same devices",
            Some(of_pool("n2")),
            Some(rule(json!({"pool": "n2"}), "NoSchedule")),
            false,
        ),
        ("with another effect", Some(rule(json!({}), "None")), Some(everywhere()), true),
        (
            "with another time",
            Some(everywhere()),
            Some(at_time(&json!({}), "NoSchedule", "2026-01-02T00:00:00Z")),
            true,
        ),
    ] {
        let action = match (&old, &new) {
            (None, _) => Action::ADD,
            (_, None) => Action::DELETE,
            _ => Action::UPDATE,
        };
        let event = ClusterEvent::new(EventResource::of::<DeviceTaintRule>(), action);
        let change = Change::custom(old.as_ref(), new.as_ref());
        let (cluster, pod) = (two_nodes([claim("c", &[request("r", 1)])]), user(&["c"]).info());
        let hint = |release| {
            Trial::of(plugin_of(release)).hint_with_objects(cluster.objects(), event, &pod, &change)
        };
        let expected = if wakes { Hint::Queue } else { Hint::Skip };
        assert_eq!([hint(Release::V1_36), hint(Release::V1_37)], [None, Some(expected)], "{what}");
    }
}

#[test]
fn deleting_the_claim_for_extended_resources_wakes_its_pod() {
    let event = ClusterEvent::new(EventResource::of::<ResourceClaim>(), Action::DELETE);
    for (uid, expected) in [("p", Hint::Queue), ("another pod", Hint::Skip)] {
        let old = custom::<ResourceClaim>(&extended::made_for(uid));
        let change = Change::custom(Some(&old), None);
        assert_eq!(
            trial().hint_with_objects(two_nodes([]).objects(), event, &user(&[]).info(), &change),
            Some(expected)
        );
    }
}

#[test]
fn a_pod_that_needs_devices_and_loses_its_node_before_binding_wakes_other_pods() {
    let event = ClusterEvent::new(EventResource::AssignedPod, Action::DELETE);
    let cluster = two_nodes([claim("c", &[request("r", 1)])]);
    for (what, gone, waiting, expected) in [
        ("with a claim", user(&["d"]).on("n1"), user(&["c"]), Hint::Queue),
        (
            "with extended resources",
            pod("q").request("example.com/gpu", "1").on("n1"),
            user(&["c"]),
            Hint::Queue,
        ),
        ("bound", user(&["d"]).on("n1"), user(&["c"]), Hint::Skip),
        ("without claims", pod("q").on("n1"), user(&["c"]), Hint::Skip),
        ("without a node", user(&["d"]), user(&["c"]), Hint::Skip),
        ("a claim is missing", user(&["d"]).on("n1"), user(&["c", "missing"]), Hint::Skip),
    ] {
        let mut gone = gone.build();
        gone.status.conditions.extend((what == "bound").then(|| PodCondition {
            type_: "PodScheduled".into(),
            status: "True".into(),
            ..PodCondition::default()
        }));
        let change = Change::Pod { old: Some(&gone), new: None };
        let hint = trial().hint_with_objects(cluster.objects(), event, &waiting.info(), &change);
        assert_eq!(hint, Some(expected), "{what}");
    }
}
