//! PostFilter: the claims that lose their devices, and the messages.

use harbormaster_api::{
    Timestamp,
    selector::{NodeSelectorTerm, Operator, Requirement},
};

use super::*;

/// The claim, reserved for the given pods, with devices on a node that does not exist.
fn elsewhere(mut claim: Value, consumers: &[&str]) -> Value {
    let results = json!([{"request": "r", "driver": DRIVER, "pool": "gone", "device": "d"}]);
    let name = json!({"key": "metadata.name", "operator": "In", "values": ["gone"]});
    let selector = json!({"nodeSelectorTerms": [{"matchFields": [name]}]});
    let consumers: Vec<_> = consumers.iter().map(|uid| json!({"resource": "pods", "uid": uid})).collect();
    let allocation = json!({"devices": {"results": results}, "nodeSelector": selector});
    claim["status"] = json!({"allocation": allocation, "reservedFor": consumers});
    claim
}

#[test]
fn a_claim_that_keeps_its_pod_off_every_node_loses_its_devices() {
    let mut world = world();
    world.tell::<ResourceClaim>(&elsewhere(claim("c"), &["p"]));
    let (message, calls) = attempt(&mut world, user("p", &["c"]));
    assert_eq!(
        message,
        "0/1 nodes are available: 1 resourceclaim not available on the node. deallocation of ResourceClaim completed"
    );
    let [call] = calls.as_slice() else { panic!("{calls:?}") };
    assert_eq!(call.path.url(), "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c/status");
    assert_eq!(call.body["metadata"]["resourceVersion"], "7");
    assert_eq!(call.body["status"], json!({"allocation": null, "reservedFor": null, "devices": null}));

    world.tell::<ResourceClaim>(&claim("c"));
    world.wait(std::time::Duration::from_secs(2));
    let outcome = world.attempt().expect("the released claim wakes the pod").outcome;
    assert!(matches!(outcome, Outcome::Assumed { .. }), "{outcome:?}");
}

#[test]
fn a_claim_that_another_pod_uses_keeps_its_devices() {
    for (release, end) in [(Release::V1_36, " still not schedulable"), (Release::V1_37, "")] {
        let mut world = world_in(release);
        world.tell::<ResourceClaim>(&elsewhere(claim("c"), &["other"]));
        let (message, calls) = attempt(&mut world, user("p", &["c"]));
        assert!(message.ends_with(&format!("available on the node.{end}")), "{message}");
        assert!(calls.is_empty());
    }
}

#[test]
fn the_message_shows_where_the_attempt_stopped() {
    let unclaimed = |name: &str, node: &[&str]| {
        let mut pod = pod(name, 1);
        let terms = node.iter().map(|name| Requirement {
            key: "metadata.name".into(),
            operator: Operator::In,
            values: vec![(*name).into()],
        });
        let term = NodeSelectorTerm { match_fields: terms.collect(), ..Default::default() };
        let affinity = &mut Arc::make_mut(&mut pod.spec).node_affinity;
        affinity.get_or_insert_default().required =
            Some(harbormaster_api::selector::NodeSelector { terms: vec![term] });
        pod
    };
    for (release, end) in [(Release::V1_36, " no new claims to deallocate"), (Release::V1_37, "")] {
        let mut world = world_in(release);
        let (message, _) = attempt(&mut world, unclaimed("one", &["elsewhere"]));
        assert!(message.ends_with(&format!("[NodeAffinity].{end}")), "{message}");
        let (message, _) = attempt(&mut world, unclaimed("two", &["a", "b"]));
        assert!(message.ends_with(" not found"), "an earlier plugin ended PreFilter: {message}");
    }
}

#[test]
fn without_slices_a_pod_with_a_claim_is_still_not_schedulable() {
    let mut world = world();
    world.input(Input::CustomGone(ObjectPath::of::<ResourceSlice>("", "s").key()));
    world.tell::<ResourceClaim>(&claim("c"));
    let (message, calls) = attempt(&mut world, user("p", &["c"]));
    assert_eq!(message, "0/1 nodes are available: 1 cannot allocate all claims. still not schedulable");
    assert!(calls.is_empty());
}

#[test]
fn a_claim_that_is_allocated_elsewhere_and_unreserved_is_deallocated() {
    let mut world = world();
    world.tell::<ResourceClaim>(&elsewhere(claim("c"), &[]));
    let (message, calls) = attempt(&mut world, user("p", &["c"]));
    assert!(
        message
            .ends_with("1 resourceclaim not available on the node. deallocation of ResourceClaim completed")
    );
    assert_eq!(calls[0].body["status"]["allocation"], Value::Null);
}

#[test]
fn a_pod_whose_device_class_is_missing_has_no_claims_to_deallocate() {
    let mut world = world();
    let mut classless = claim("c");
    classless["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = "C".into();
    world.tell::<ResourceClaim>(&classless);
    let (message, calls) = attempt(&mut world, user("p", &["c"]));
    assert!(message.contains("request r: device class C does not exist"), "{message}");
    assert!(message.ends_with(". no new claims to deallocate"), "{message}");
    assert!(calls.is_empty());
}

/// A claim whose device was allocated at the given time. The device has one binding condition and one binding failure
/// condition.
fn unready(at: Timestamp) -> Value {
    let mut claim = elsewhere(claim("c"), &["p"]);
    let allocation = &mut claim["status"]["allocation"];
    allocation["nodeSelector"] = Value::Null;
    allocation["allocationTimestamp"] = at.to_rfc3339().into();
    let result = &mut allocation["devices"]["results"][0];
    result["pool"] = "n".into();
    result["bindingConditions"] = json!(["Ready"]);
    result["bindingFailureConditions"] = json!(["Broken"]);
    claim
}

#[test]
fn devices_that_are_not_ready_ten_minutes_after_their_allocation_are_deallocated() {
    for (seconds, is_placed) in [(590, true), (610, false)] {
        let mut world = world();
        let allocated = Timestamp(world.now.0 - seconds * 1_000_000_000);
        world.tell::<ResourceClaim>(&unready(allocated));
        let (message, calls) = attempt(&mut world, user("p", &["c"]));
        assert_eq!(message.is_empty(), is_placed, "{message}");
        assert_eq!(message.ends_with(". deallocation of ResourceClaim completed"), !is_placed, "{message}");
        assert_eq!(calls.is_empty(), is_placed);
    }
}

#[test]
fn devices_with_a_failure_condition_are_deallocated() {
    let mut world = world();
    let mut failed = unready(world.now);
    let condition = json!({"type": "Broken", "status": "True", "reason": "R", "message": "M"});
    failed["status"]["devices"] =
        json!([{"driver": DRIVER, "pool": "n", "device": "d", "conditions": [condition]}]);
    world.tell::<ResourceClaim>(&failed);
    let (message, calls) = attempt(&mut world, user("p", &["c"]));
    assert!(
        message
            .ends_with("1 resourceclaim not available on the node. deallocation of ResourceClaim completed")
    );
    let released = json!({"allocation": null, "reservedFor": null, "devices": null});
    assert_eq!(calls[0].body["status"], released);
}
