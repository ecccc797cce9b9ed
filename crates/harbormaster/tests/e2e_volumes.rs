//! Pods get their volumes: those that are there, and those that are made for them, with the real volume controller and with
//! the sandbox's. Nobody makes volumes on either server: the tests do.

#![allow(clippy::unwrap_used, reason = "a failing set-up fails the test")]

mod e2e;

use std::path::PathBuf;

use e2e::{
    cluster::{PATIENCE, eventually, get_pod, list, name_of},
    objects::{NODES, PODS, default_config, node, node_of, pod, scheduled_condition},
    process::Harbormaster,
    server::{Cluster, Server, on_both_servers},
};
use harbormaster_oracle::components::ApiClient;
use serde_json::{Value, json};

on_both_servers! {
    claims_that_wait_get_the_volumes_of_the_nodes_that_are_chosen,
    a_volume_is_made_for_the_chosen_node_and_a_failure_to_make_it_is_tried_again,
}

const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// A cluster of two nodes with a class whose claims wait, and Harbormaster.
struct Scene {
    /// Ends before the cluster does.
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
        let class = json!({"metadata": {"name": "waits"}, "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer"});
        client.post(CLASSES, &class).unwrap();
        let config = cluster.write_scheduler_config(&default_config().to_string()).unwrap();
        let log: PathBuf = cluster.directory().join("harbormaster.log");
        let harbormaster = Harbormaster::start(&[format!("--config={}", config.display())], log);
        Self { _harbormaster: harbormaster, cluster }
    }

    fn client(&self) -> &ApiClient {
        self.cluster.client()
    }

    /// A volume of 1Gi that can be used from one node; `spec` is merged in.
    fn create_volume(&self, name: &str, node: &str, spec: &Value) {
        let here = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": [node]});
        let mut volume = json!({"metadata": {"name": name}, "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "waits",
            "local": {"path": "/disk"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        }});
        for (field, value) in spec.as_object().into_iter().flatten() {
            volume["spec"][field] = value.clone();
        }
        self.client().post(VOLUMES, &volume).unwrap();
    }

    /// A pod, and the claim of the same name that it uses.
    fn create_user(&self, name: &str) {
        let claim = json!({"metadata": {"name": name}, "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "waits",
            "resources": {"requests": {"storage": "1Gi"}},
        }});
        self.client().post(CLAIMS, &claim).unwrap();
        let volume = json!({"name": "data", "persistentVolumeClaim": {"claimName": name}});
        self.client()
            .post(PODS, &pod(name, "default-scheduler", json!({}), json!({"volumes": [volume]})))
            .unwrap();
    }

    fn claim(&self, name: &str) -> Value {
        self.client().get(&format!("{CLAIMS}/{name}")).unwrap()
    }

    /// The node of a pod, once it has one.
    fn bound(&self, name: &str) -> String {
        eventually(&format!("{name} is bound"), PATIENCE, || {
            node_of(&get_pod(self.client(), name)?).map(str::to_owned)
        })
    }

    /// Waits until the pod's condition has these words.
    fn told(&self, name: &str, words: &str) {
        eventually(&format!("{name} is told {words:?}"), PATIENCE, || {
            let pod = get_pod(self.client(), name)?;
            scheduled_condition(&pod)?[2].contains(words).then_some(())
        });
    }
}

fn claims_that_wait_get_the_volumes_of_the_nodes_that_are_chosen(server: Server) {
    let scene = Scene::new(server, "kubernetes.io/no-provisioner");
    scene.create_volume("large", "a", &json!({"capacity": {"storage": "2Gi"}}));
    scene.create_volume("small", "b", &json!({}));
    ["one", "two", "three"].iter().for_each(|name| scene.create_user(name));

    let waiting = eventually("all but one are bound", PATIENCE, || {
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

fn a_volume_is_made_for_the_chosen_node_and_a_failure_to_make_it_is_tried_again(server: Server) {
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
    let claim = scene.claim("one");
    let claim_ref = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": "one",
        "uid": claim["metadata"]["uid"]});
    scene.create_volume("made", &on, &json!({"claimRef": claim_ref}));
    assert_eq!(scene.bound("one"), on);
    assert_eq!(scene.claim("one")["spec"]["volumeName"], "made");
}
