//! Pods with resource claims in the engine. The modules cover pods that fit nowhere, selectors that fail, and bindings.

mod binding;
mod conflicts;
mod groups;
mod post_filter;
mod selectors;

use std::sync::Arc;

use harbormaster_api::{
    Pod, Release,
    features::{Feature, Features},
    pod::PodClaim,
};
use harbormaster_core::{Effect, EngineConfig, Input, Outcome};
use harbormaster_framework::{prelude::*, registry::Registry};
use harbormaster_plugins::devices::{DeviceClass, ResourceClaim, ResourceSlice};
use harbormaster_testkit::profile_for;
use serde_json::{Value, json};

use crate::world::{World, node, pod};

const DRIVER: &str = "gpu.example.com";

/// A world with one node that has one device.
fn world() -> World {
    world_in(Release::V1_36)
}

fn world_in(release: Release) -> World {
    let mut registry = Registry::default();
    harbormaster_plugins::in_tree(&mut registry);
    let devices = &["DynamicResources"][..];
    let both = &["NodeAffinity", "DynamicResources"][..];
    let features = Features::of(release).with(Feature::DRADeviceTaintRules, false);
    let mut world = World::with(EngineConfig::new(vec![profile_for(
        features,
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
        &[("DynamicResources", json!({"filterTimeout": "20ms"}))],
    )]));
    world.set_node(node("n", 4000));
    world.tell::<DeviceClass>(&json!({"metadata": {"name": "gpu"}, "spec": {}}));
    world.tell::<ResourceSlice>(&slice());
    world
}

/// The slice with the only device.
fn slice() -> Value {
    let pool = json!({"name": "n", "generation": 1, "resourceSliceCount": 1});
    let spec = json!({"driver": DRIVER, "nodeName": "n", "pool": pool, "devices": [{"name": "d"}]});
    json!({"metadata": {"name": "s"}, "spec": spec})
}

fn claim(name: &str) -> Value {
    let exactly = json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1});
    json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "resourceVersion": "7"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
    })
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
fn a_pod_waits_for_its_claim_and_gets_devices_that_nobody_else_has() {
    let mut world = world();
    world.add_pod(user("early", &["c"]));
    assert!(world.attempt().is_none(), "the claim does not exist yet");
    world.tell::<ResourceClaim>(&claim("c"));
    world.tell::<ResourceClaim>(&claim("d"));
    let outcome = world.attempt().expect("the claim wakes its pod").outcome;
    assert!(matches!(outcome, Outcome::Assumed { .. }), "{outcome:?}");
    let (message, _) = attempt(&mut world, user("late", &["d"]));
    assert!(message.contains("1 cannot allocate all claims"), "{message}");
}
