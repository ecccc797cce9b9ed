//! A pod whose claim waits for its first consumer: the pod goes through Reserve and PreBind until it is bound,
//! and returns to the queue if binding fails.

use std::{sync::Arc, time::Duration};

use harbormaster_api::{
    Pod, Timestamp,
    pod::{Volume, VolumeSource},
};
use harbormaster_core::{BindOutcome, Effect, EngineConfig, Input, Outcome};
use harbormaster_framework::{prelude::*, registry::Registry};
use harbormaster_plugins::storage::{PersistentVolume, PersistentVolumeClaim, StorageClass};
use harbormaster_testkit::{FakeApi, profile};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::world::{World, node, pod, pre_bind};

const NO_VOLUME: &str = "node(s) didn't find available persistent volumes to bind";

/// A node in the API server, which PreBind reads.
#[derive(Deserialize)]
struct AnyNode {}

impl Resource for AnyNode {
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Node";
    const PLURAL: &'static str = "nodes";
    const SCOPE: ResourceScope = ResourceScope::Cluster;
}

fn claim(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "resourceVersion": "1"},
        "spec": {"storageClassName": "local", "resources": {"requests": {"storage": "1Gi"}}},
    })
}

fn volume() -> Value {
    json!({
        "metadata": {"name": "v", "uid": "uid-v", "resourceVersion": "7"},
        "spec": {"storageClassName": "local", "capacity": {"storage": "1Gi"}},
        "status": {"phase": "Available"},
    })
}

fn with_claim(name: &str, claim: &str) -> Pod {
    let mut pod = pod(name, 1);
    let volume = Volume { name: "data".into(), source: VolumeSource::Claim(claim.into()) };
    Arc::make_mut(&mut pod.spec).volumes.push(volume);
    pod
}

impl World {
    fn comes(&mut self, pod: Pod) -> Outcome {
        self.add_pod(pod);
        self.attempt().unwrap().outcome
    }

    /// Returns the name of the claim in the volume's `claimRef`, or an empty string.
    fn claimed_by(&self) -> String {
        let volumes = self.engine.cache().cluster.watched::<PersistentVolume>();
        let volume = volumes.get("", "v").unwrap();
        volume.claim_ref.as_ref().map(|claimed| claimed.name.to_string()).unwrap_or_default()
    }
}

/// One node, one volume, and claims `c` and `d`.
fn world() -> World {
    let mut registry = Registry::default();
    harbormaster_plugins::in_tree(&mut registry);
    let binding = &["VolumeBinding"][..];
    let mut world = World::with(EngineConfig::new(vec![profile(
        &registry,
        &[
            ("QueueSort", &["PrioritySort"]),
            ("PreFilter", binding),
            ("Filter", binding),
            ("Reserve", binding),
            ("PreBind", binding),
            ("Bind", &["DefaultBinder"]),
        ],
    )]));
    world.set_node(node("n", 4000));
    world.tell::<StorageClass>(&json!({
        "metadata": {"name": "local"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }));
    ["c", "d"].iter().for_each(|name| world.tell::<PersistentVolumeClaim>(&claim(name)));
    world.tell::<PersistentVolume>(&volume());
    world
}

/// Returns an API server with the same objects, in which the controller has already bound the claim.
fn server() -> FakeApi {
    let server = FakeApi::default();
    let mut bound = claim("c");
    bound["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
    bound["spec"]["volumeName"] = "v".into();
    server.set::<PersistentVolumeClaim>(bound);
    server.set::<PersistentVolume>(volume());
    server.set::<AnyNode>(json!({"metadata": {"name": "n"}}));
    server
}

#[test]
fn a_volume_is_reserved_with_the_decision_and_written_before_the_pod_is_bound() {
    let mut world = world();
    assert!(matches!(world.comes(with_claim("one", "c")), Outcome::Assumed { .. }));
    assert_eq!(world.claimed_by(), "c");
    let refused = world.comes(with_claim("two", "d"));
    assert!(refused.message().is_some_and(|message| message.contains(NO_VOLUME)), "{refused:?}");

    let (task, server) = (world.binding(), server());
    pre_bind(&task, &server.api()).unwrap();
    let written = server.object(&ObjectPath::of::<PersistentVolume>("", "v"));
    assert_eq!(written["spec"]["claimRef"]["uid"], "uid-c");

    world.tell::<PersistentVolume>(&written);
    world.tell::<PersistentVolumeClaim>(
        &server.object(&ObjectPath::of::<PersistentVolumeClaim>("default", "c")),
    );
    world.bind_finished("one", BindOutcome::Bound);
    assert_eq!(world.claimed_by(), "c");
    assert!(
        matches!(world.comes(with_claim("three", "c")), Outcome::Assumed { .. }),
        "the claim has its volume"
    );
    assert!(world.binding().pre_bind.is_empty(), "nothing is left to do");
}

#[test]
fn when_a_binding_fails_an_unwritten_volume_is_freed_and_wakes_waiting_pods() {
    let mut world = world();
    world.comes(with_claim("one", "c"));
    world.comes(with_claim("two", "d"));
    assert_eq!(world.engine.queue_lengths().unschedulable, 1);
    let (task, server) = (world.binding(), server());
    let mut newer = volume();
    newer["metadata"]["resourceVersion"] = "8".into();
    server.set::<PersistentVolume>(newer);
    let conflict = pre_bind(&task, &server.api()).unwrap_err();
    assert!(conflict.contains("has been modified"), "{conflict}");

    world.bind_finished("one", BindOutcome::Failed(conflict));
    assert_eq!(world.claimed_by(), "");
    assert_eq!(world.engine.queue_lengths().unschedulable, 0);
    world.wait(Duration::from_secs(20));
    let mut placed = Vec::new();
    while let Some(attempted) = world.attempt() {
        placed.extend(matches!(attempted.outcome, Outcome::Assumed { .. }).then_some(()));
    }
    assert_eq!(placed.len(), 1, "one of the two has the volume");
    assert!(!world.claimed_by().is_empty());
}

#[test]
fn a_volume_that_was_written_stays_with_its_claim_when_the_binding_fails() {
    let mut world = world();
    world.comes(with_claim("one", "c"));
    let (task, server) = (world.binding(), server());
    pre_bind(&task, &server.api()).unwrap();
    world.tell::<PersistentVolume>(&server.object(&ObjectPath::of::<PersistentVolume>("", "v")));
    world.bind_finished("one", BindOutcome::Failed("binding volumes: context deadline exceeded".to_owned()));
    assert_eq!(world.claimed_by(), "c");
    world.wait(Duration::from_secs(20));
    assert!(
        matches!(world.attempt().unwrap().outcome, Outcome::Assumed { .. }),
        "the pod finds the volume reserved for its claim"
    );
    assert_eq!(world.binding().pre_bind.len(), 1);
}

#[test]
fn when_a_pod_is_deleted_its_chosen_volume_is_freed_and_wakes_waiting_pods() {
    let terminating =
        |pod: Pod| Pod { deleted: Some(Timestamp::default()), resource_version: "2".into(), ..pod };
    let bound_by_others = |pod: Pod| Pod { node_name: Some("n".into()), resource_version: "2".into(), ..pod };
    for before in [None, Some(terminating as fn(Pod) -> Pod), Some(bound_by_others)] {
        let mut world = world();
        let one = with_claim("one", "c");
        world.comes(one.clone());
        world.comes(with_claim("two", "d"));
        world.all_effects();
        if let Some(change) = before {
            world.input(Input::Pod(change(one.clone())));
        }
        world.remove_pod("one");
        let called_off = |effect: &Effect| matches!(effect, Effect::CallOff(task) if task.pod == one.uid);
        assert_eq!(world.all_effects().iter().filter(|effect| called_off(effect)).count(), 1);

        world.bind_finished("one", BindOutcome::Failed("pod does not exist any more".to_owned()));
        assert_eq!(world.claimed_by(), "");
        assert_eq!(world.engine.queue_lengths().unschedulable, 0);
    }
}
