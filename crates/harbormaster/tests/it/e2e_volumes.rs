//! Pods get existing and provisioned volumes, with the real volume controller and with the sandbox's. Neither server
//! runs a provisioner; the tests create the volumes.

#![allow(clippy::unwrap_used, reason = "a failing set-up fails the test")]

use std::path::PathBuf;

use harbormaster_oracle::components::ApiClient;
use serde_json::{Value, json};

use crate::e2e::{
    cluster::{PATIENCE, eventually, get_pod, list, name_of, wait_until_bound},
    objects::{NODES, PODS, default_config, node, node_of, pod, scheduled_condition},
    process::Harbormaster,
    server::{Cluster, Server, on_both_servers},
    volumes::{CLAIMS, CLASSES, NOBODY, SELECTED_NODE, VOLUMES, claim, class, users_of, volume},
};

on_both_servers! {
    waiting_claims_get_the_volumes_of_the_chosen_nodes,
    a_volume_is_created_for_the_chosen_node_and_failures_are_retried,
    a_volume_whose_affinity_lists_missing_nodes_is_used_from_the_existing_ones,
}

/// A cluster with two nodes, a storage class whose claims wait for a node, and Harbormaster.
struct Scene {
    /// Dropped before the cluster.
    _harbormaster: Harbormaster,
    cluster: Cluster,
}

impl Scene {
    fn new(server: Server, provisioner: &str) -> Self {
        let cluster = server.own_with_controllers();
        let client = cluster.client();
        for name in ["a", "b"] {
            let labels = json!({"kubernetes.io/hostname": name});
            client.post(NODES, &node(name, labels, "4", "8Gi", 110)).unwrap();
        }
        client.post(CLASSES, &class("waits", provisioner)).unwrap();
        let config = cluster.write_scheduler_config(&default_config().to_string()).unwrap();
        let log: PathBuf = cluster.directory().join("harbormaster.log");
        let harbormaster = Harbormaster::start(&[format!("--config={}", config.display())], log);
        Self { _harbormaster: harbormaster, cluster }
    }

    fn client(&self) -> &ApiClient {
        self.cluster.client()
    }

    /// Creates a volume of 1Gi that can be used from one node, with `spec` merged in.
    fn create_volume(&self, name: &str, node: &str, spec: &Value) {
        self.client().post(VOLUMES, &volume(name, "waits", node, spec)).unwrap();
    }

    /// Creates a pod and the claim that it uses, which has the same name.
    fn create_user(&self, name: &str) {
        self.create_claim(name);
        self.create_pod(name);
    }

    fn create_claim(&self, name: &str) {
        self.client().post(CLAIMS, &claim(name, "waits")).unwrap();
    }

    /// Creates a pod that uses the claim of the same name.
    fn create_pod(&self, name: &str) {
        let spec = json!({"volumes": users_of(&[name])});
        self.client().post(PODS, &pod(name, "default-scheduler", json!({}), spec)).unwrap();
    }

    /// Returns a `claimRef` that names the claim.
    fn claim_ref(&self, name: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": name,
            "uid": self.claim(name)["metadata"]["uid"]})
    }

    fn claim(&self, name: &str) -> Value {
        self.client().get(&format!("{CLAIMS}/{name}")).unwrap()
    }

    /// Waits until the pod is bound, and returns its node.
    fn bound(&self, name: &str) -> String {
        wait_until_bound(self.client(), name)
    }

    /// Waits until the message of the pod's condition contains `words`.
    fn told(&self, name: &str, words: &str) {
        eventually(&format!("{name} has the message {words:?}"), PATIENCE, || {
            let pod = get_pod(self.client(), name)?;
            scheduled_condition(&pod)?[2].contains(words).then_some(())
        });
    }
}

fn waiting_claims_get_the_volumes_of_the_chosen_nodes(server: Server) {
    let scene = Scene::new(server, NOBODY);
    scene.create_volume("large", "a", &json!({"capacity": {"storage": "2Gi"}}));
    scene.create_volume("small", "b", &json!({}));
    ["one", "two", "three"].iter().for_each(|name| scene.create_user(name));

    let waiting = eventually("all pods but one are bound", PATIENCE, || {
        let pods = list(scene.client(), PODS);
        let (bound, waiting): (Vec<_>, Vec<_>) = pods.into_iter().partition(|pod| node_of(pod).is_some());
        (bound.len() == 2).then(|| waiting.iter().map(|pod| name_of(pod).to_owned()).collect::<Vec<_>>())
    });
    let [waiting] = waiting.as_slice() else { panic!("{waiting:?}") };
    for name in ["one", "two", "three"].into_iter().filter(|name| name != waiting) {
        let (claim, on) = (scene.claim(name), scene.bound(name));
        let volume = scene
            .client()
            .get(&format!("{VOLUMES}/{}", claim["spec"]["volumeName"].as_str().unwrap()))
            .unwrap();
        assert_eq!(name_of(&volume), if on == "a" { "large" } else { "small" });
        assert_eq!(volume["spec"]["claimRef"]["uid"], claim["metadata"]["uid"]);
        assert_eq!(volume["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"], "yes");
    }
    scene.told(
        waiting,
        "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind.",
    );
    scene.create_volume("third", "b", &json!({}));
    assert_eq!(scene.bound(waiting), "b");
}

fn a_volume_is_created_for_the_chosen_node_and_failures_are_retried(server: Server) {
    let scene = Scene::new(server, "example.com/by-hand");
    scene.create_user("one");
    let selected = || {
        eventually("a node is selected", PATIENCE, || {
            scene.claim("one")["metadata"]["annotations"][SELECTED_NODE].as_str().map(str::to_owned)
        })
    };
    selected();
    let refused = json!({"metadata": {"annotations": {SELECTED_NODE: null, "example.com/failed": "yes"}}});
    scene.client().merge_patch(&format!("{CLAIMS}/one"), &refused).unwrap();
    scene.told("one", "binding volumes: provisioning failed for PVC \"one\"");

    let on = selected();
    scene.create_volume("made", &on, &json!({"claimRef": scene.claim_ref("one")}));
    assert_eq!(scene.bound("one"), on);
    assert_eq!(scene.claim("one")["spec"]["volumeName"], "made");
}

fn a_volume_whose_affinity_lists_missing_nodes_is_used_from_the_existing_ones(server: Server) {
    let scene = Scene::new(server, "kubernetes.io/no-provisioner");
    for (name, nodes) in [("some", ["gone", "b", "never-was"]), ("none", ["gone", "never-was", "B"])] {
        scene.create_claim(name);
        let here = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": nodes});
        let affinity = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}});
        let spec = json!({"claimRef": scene.claim_ref(name), "nodeAffinity": affinity});
        scene.create_volume(&format!("of-{name}"), "", &spec);
        scene.create_pod(name);
    }
    assert_eq!(scene.bound("some"), "b");
    assert_eq!(scene.claim("some")["spec"]["volumeName"], "of-some");
    scene.told("none", "0/2 nodes are available: 2 node(s) didn't match PersistentVolume's node affinity.");
}
