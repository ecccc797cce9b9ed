//! The provisioner creates volumes that the real volume controller binds.

#![allow(clippy::unwrap_used, reason = "a failing setup fails the test")]

use std::thread::sleep;
use std::time::{Duration, Instant};

use harbormaster_oracle::components::{ApiClient, ControlPlane, ControlPlaneOptions};
use harbormaster_oracle::provisioner::{Behaviour, Driver, Outcome, Provisioner};
use serde_json::{Value, json};

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const ZONE: &str = "topology.kubernetes.io/zone";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(90);
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "timed out waiting until {what}");
        sleep(Duration::from_millis(20));
    }
}

fn create_claim(client: &ApiClient, name: &str, class: &str) {
    let claim = json!({"metadata": {"name": name}, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": class,
        "resources": {"requests": {"storage": "1Gi"}},
    }});
    client.post(CLAIMS, &claim).unwrap();
}

fn claim(client: &ApiClient, name: &str) -> Value {
    client.get(&format!("{CLAIMS}/{name}")).unwrap()
}

fn select(client: &ApiClient, name: &str, node: &str) {
    let patch = json!({"metadata": {"annotations": {SELECTED_NODE: node}}});
    client.merge_patch(&format!("{CLAIMS}/{name}"), &patch).unwrap();
}

/// Zones of the volume that a claim is bound to.
fn zones(client: &ApiClient, name: &str) -> Value {
    let volume = eventually(&format!("{name} is bound"), || {
        let claim = claim(client, name);
        let is_bound = claim["status"]["phase"] == "Bound";
        is_bound.then(|| claim["spec"]["volumeName"].as_str().unwrap_or_default().to_owned())
    });
    let volume = client.get(&format!("/api/v1/persistentvolumes/{volume}")).unwrap();
    let expression =
        &volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"][0];
    assert_eq!(expression["key"], ZONE);
    expression["values"].clone()
}

#[test]
fn volumes_have_the_requested_topology_and_provisioning_fails_as_configured() {
    let options = ControlPlaneOptions { controller_manager: true, ..ControlPlaneOptions::default() };
    let cluster = ControlPlane::start(&options).unwrap();
    let client = cluster.client();
    for (node, zone) in [("a", "left"), ("b", "right")] {
        let node = json!({"metadata": {"name": node, "labels": {ZONE: zone}}});
        client.post("/api/v1/nodes", &node).unwrap();
    }
    let only_right = json!([{"matchLabelExpressions": [{"key": ZONE, "values": ["right"]}]}]);
    for (name, mode) in [("waits", "WaitForFirstConsumer"), ("at-once", "Immediate"), ("never", "Immediate")]
    {
        let class = json!({"metadata": {"name": name}, "provisioner": "csi.example.com",
            "volumeBindingMode": mode, "allowedTopologies": only_right});
        client.post("/apis/storage.k8s.io/v1/storageclasses", &class).unwrap();
    }
    let driver = Driver::new("csi.example.com", [ZONE])
        .for_class("never", Behaviour::default().with(Outcome::Never))
        .for_claim("default/late", Behaviour::default().with(Outcome::FailTimes(2)))
        .for_claim("default/moved", Behaviour::default().with(Outcome::RemoveSelectedNode(1)));
    let provisioner = Provisioner::start(client, vec![driver]);

    for name in ["plain", "late", "moved"] {
        create_claim(client, name, "waits");
    }
    for (name, class) in [("at-once", "at-once"), ("never", "never")] {
        create_claim(client, name, class);
    }
    assert_eq!(zones(client, "at-once"), json!(["right"]));
    assert_eq!(claim(client, "plain")["spec"]["volumeName"], Value::Null);

    for name in ["plain", "late", "moved"] {
        select(client, name, "a");
    }
    assert_eq!(zones(client, "plain"), json!(["left"]));
    assert_eq!(zones(client, "late"), json!(["left"]));
    eventually("the selected node is removed", || {
        claim(client, "moved")["metadata"]["annotations"][SELECTED_NODE].is_null().then_some(())
    });
    select(client, "moved", "b");
    assert_eq!(zones(client, "moved"), json!(["right"]));
    assert_eq!(claim(client, "never")["spec"]["volumeName"], Value::Null);

    drop(provisioner);
    create_claim(client, "after", "waits");
    select(client, "after", "a");
    sleep(Duration::from_millis(500));
    assert_eq!(claim(client, "after")["spec"]["volumeName"], Value::Null);
}
