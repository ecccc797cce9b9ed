//! Pods with resource claims in the engine: what happens if no node fits.

use std::sync::Arc;

use harbormaster_api::{
    Pod,
    pod::PodClaim,
    selector::{NodeSelectorTerm, Operator, Requirement},
};
use harbormaster_core::{Effect, EngineConfig, Input, Outcome};
use harbormaster_framework::{
    prelude::*,
    registry::Registry,
    resource::{RawObject, ResourceName},
};
use harbormaster_plugins::devices::{DeviceClass, ResourceClaim, ResourceSlice};
use harbormaster_testkit::profile;
use serde_json::{Value, json};

use crate::world::{World, node, pod};

const DRIVER: &str = "gpu.example.com";

fn set<R: Resource>(world: &mut World, object: &Value) {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().into();
    let resource = ResourceName::of::<R>().to_string().into();
    let key = CustomKey { resource, namespace: text("namespace"), name: text("name") };
    world.input(Input::Custom(RawObject { key, json: object.to_string().into() }));
}

/// A world with one node that has one device.
fn world() -> World {
    let mut registry = Registry::default();
    harbormaster_plugins::in_tree(&mut registry);
    let devices = &["DynamicResources"][..];
    let both = &["NodeAffinity", "DynamicResources"][..];
    let mut world = World::with(EngineConfig::new(vec![profile(
        &registry,
        &[
            ("PreEnqueue", devices),
            ("QueueSort", &["PrioritySort"]),
            ("PreFilter", both),
            ("Filter", both),
            ("PostFilter", devices),
            ("Reserve", devices),
            ("PreBind", devices),
            ("Bind", &["DefaultBinder"]),
        ],
    )]));
    world.set_node(node("n", 4000));
    set::<DeviceClass>(&mut world, &json!({"metadata": {"name": "gpu"}, "spec": {}}));
    let pool = json!({"name": "n", "generation": 1, "resourceSliceCount": 1});
    let spec = json!({"driver": DRIVER, "nodeName": "n", "pool": pool, "devices": [{"name": "d"}]});
    set::<ResourceSlice>(&mut world, &json!({"metadata": {"name": "s"}, "spec": spec}));
    world
}

fn claim(name: &str) -> Value {
    let exactly = json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1});
    json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "resourceVersion": "7"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
    })
}

/// The claim with devices on a node that does not exist, reserved for the given pods.
fn elsewhere(mut claim: Value, consumers: &[&str]) -> Value {
    let results = json!([{"request": "r", "driver": DRIVER, "pool": "gone", "device": "d"}]);
    let name = json!({"key": "metadata.name", "operator": "In", "values": ["gone"]});
    let selector = json!({"nodeSelectorTerms": [{"matchFields": [name]}]});
    let consumers: Vec<_> = consumers.iter().map(|uid| json!({"resource": "pods", "uid": uid})).collect();
    let allocation = json!({"devices": {"results": results}, "nodeSelector": selector});
    claim["status"] = json!({"allocation": allocation, "reservedFor": consumers});
    claim
}

fn user(name: &str, claims: &[&str]) -> Pod {
    let mut pod = pod(name, 1);
    let entry = |name: &&str| PodClaim { name: (*name).into(), claim: Some((*name).into()), template: None };
    Arc::make_mut(&mut pod.spec).resource_claims = claims.iter().map(entry).collect();
    pod
}

/// Tries to schedule the pod. Returns the message, and the requests that plugins made.
fn attempt(world: &mut World, pod: Pod) -> (String, Vec<ApiCall>) {
    world.add_pod(pod);
    let outcome = world.attempt().unwrap().outcome;
    let calls = world.all_effects().into_iter().filter_map(|effect| match effect {
        Effect::Call(task) => Some(task.calls),
        _ => None,
    });
    (outcome.message().unwrap_or_default().to_owned(), calls.flatten().collect())
}

#[test]
fn a_claim_that_keeps_its_pod_off_every_node_loses_its_devices() {
    let mut world = world();
    set::<ResourceClaim>(&mut world, &elsewhere(claim("c"), &["p"]));
    let (message, calls) = attempt(&mut world, user("p", &["c"]));
    assert_eq!(
        message,
        "0/1 nodes are available: 1 resourceclaim not available on the node. deallocation of ResourceClaim completed"
    );
    let [call] = calls.as_slice() else { panic!("{calls:?}") };
    assert_eq!(call.path.url(), "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c/status");
    assert_eq!(call.body["metadata"]["resourceVersion"], "7");
    assert_eq!(call.body["status"], json!({"allocation": null, "reservedFor": null, "devices": null}));

    set::<ResourceClaim>(&mut world, &claim("c"));
    world.wait(std::time::Duration::from_secs(2));
    let outcome = world.attempt().expect("the released claim wakes the pod").outcome;
    assert!(matches!(outcome, Outcome::Assumed { .. }), "{outcome:?}");
}

#[test]
fn a_claim_that_others_use_keeps_its_devices() {
    let mut world = world();
    set::<ResourceClaim>(&mut world, &elsewhere(claim("c"), &["other"]));
    let (message, calls) = attempt(&mut world, user("p", &["c"]));
    assert!(message.ends_with(". still not schedulable"), "{message}");
    assert!(calls.is_empty());
}

#[test]
fn the_reason_tells_how_far_the_pod_came() {
    let mut world = world();
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
    let (message, _) = attempt(&mut world, unclaimed("one", &["elsewhere"]));
    assert!(message.ends_with(". no new claims to deallocate"), "{message}");
    let (message, _) = attempt(&mut world, unclaimed("two", &["a", "b"]));
    assert!(message.ends_with(" not found"), "an earlier plugin ended PreFilter: {message}");
}

#[test]
fn a_pod_waits_for_its_claim_and_gets_devices_that_nobody_else_has() {
    let mut world = world();
    world.add_pod(user("early", &["c"]));
    assert!(world.attempt().is_none(), "the claim does not exist yet");
    set::<ResourceClaim>(&mut world, &claim("c"));
    set::<ResourceClaim>(&mut world, &claim("d"));
    let outcome = world.attempt().expect("the claim wakes its pod").outcome;
    assert!(matches!(outcome, Outcome::Assumed { .. }), "{outcome:?}");
    let (message, _) = attempt(&mut world, user("late", &["d"]));
    assert!(message.contains("1 cannot allocate all claims"), "{message}");
}
