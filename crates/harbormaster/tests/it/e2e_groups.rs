//! Gangs over HTTP: against an API server of Kubernetes 1.37 that serves pod groups.

use std::fs;

use harbormaster_api::{
    Release,
    features::{Feature, Features},
};
use harbormaster_oracle::embedded::{Embedded, Options};
use serde_json::{Value, json};

use crate::e2e::{
    cluster::{PATIENCE, delete_pod, eventually, wait_until_bound},
    objects::{NODES, PODS, default_config, node, pod},
    process::Harbormaster,
};

const GROUPS: &str = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups";
const SCHEDULER: &str = "default-scheduler";

struct Scene {
    cluster: Embedded,
    directory: tempfile::TempDir,
}

impl Scene {
    /// Starts an API server that serves pod groups and has a node with room for four members.
    fn new() -> Self {
        let features = Features::of(Release::V1_37).with(Feature::GenericWorkload, true);
        let options = Options { minor_version: 37, features, ..Options::default() };
        let cluster = Embedded::start_with(options, |_| Ok(())).expect("the API server starts");
        let scene = Self { cluster, directory: tempfile::tempdir().expect("a temporary directory") };
        scene.create(NODES, &node("n", json!({}), "4", "4Gi", 10));
        scene
    }

    fn create(&self, path: &str, object: &Value) {
        self.cluster.client().post(path, object).expect("the object is created");
    }

    fn start(&self) -> Harbormaster {
        let file = self.directory.path().join("c.json");
        let mut config = default_config();
        config["clientConnection"]["kubeconfig"] = self.cluster.kubeconfig().to_string_lossy().into();
        fs::write(&file, config.to_string()).expect("the file is written");
        let args = [
            format!("--config={}", file.display()),
            "--feature-gates=GenericWorkload=true".to_owned(),
            "--leader-elect=false".to_owned(),
            "--secure-port=0".to_owned(),
        ];
        Harbormaster::start(&args, self.directory.path().join("log"))
    }

    fn create_gang(&self, name: &str, members: usize) {
        let spec = json!({"schedulingPolicy": {"gang": {"minCount": members}}});
        self.create(GROUPS, &json!({"metadata": {"name": name}, "spec": spec}));
        for at in 0..members {
            let spec = json!({"schedulingGroup": {"podGroupName": name}});
            self.create(PODS, &pod(&format!("{name}-{at}"), SCHEDULER, json!({"cpu": "1"}), spec));
        }
    }

    /// Waits for the condition of a group. Returns its status and reason.
    fn condition(&self, name: &str) -> [String; 2] {
        eventually(&format!("a condition of {name}"), PATIENCE, || {
            let group = self.cluster.client().get(&format!("{GROUPS}/{name}")).ok()?;
            let condition = group["status"]["conditions"].get(0)?.clone();
            assert_eq!(condition["type"], "PodGroupInitiallyScheduled");
            Some(["status", "reason"].map(|field| condition[field].as_str().unwrap_or_default().to_owned()))
        })
    }

    fn node_of(&self, pod: &str) -> Value {
        let pod = self.cluster.client().get(&format!("{PODS}/{pod}")).expect("the pod exists");
        pod["spec"]["nodeName"].clone()
    }
}

#[test]
fn a_gang_is_bound_whole_and_another_one_waits_whole_until_there_is_room() {
    let scene = Scene::new();
    let scheduler = scene.start();
    scene.create_gang("first", 3);
    for at in 0..3 {
        assert_eq!(wait_until_bound(scene.cluster.client(), &format!("first-{at}")), "n");
    }
    assert_eq!(scene.condition("first"), ["True", "Scheduled"]);
    scene.create_gang("second", 2);
    assert_eq!(scene.condition("second"), ["False", "Unschedulable"]);
    assert!((0..2).all(|at| scene.node_of(&format!("second-{at}")).is_null()));
    scene.create(NODES, &node("m", json!({}), "1", "4Gi", 10));
    let mut nodes: Vec<String> =
        (0..2).map(|at| wait_until_bound(scene.cluster.client(), &format!("second-{at}"))).collect();
    nodes.sort();
    assert_eq!(nodes, ["m", "n"]);
    eventually("the condition of the second gang", PATIENCE, || {
        (scene.condition("second") == ["True", "Scheduled"]).then_some(())
    });
    scheduler.ends_well();
}

#[test]
fn a_gang_whose_scheduler_is_killed_is_whole_after_a_restart() {
    let scene = Scene::new();
    for round in 0..5 {
        let scheduler = scene.start();
        let name = format!("gang{round}");
        scene.create_gang(&name, 3);
        eventually("the first binding", PATIENCE, || {
            (!scene.node_of(&format!("{name}-0")).is_null()).then_some(())
        });
        // Dropping it kills it.
        drop(scheduler);
        let _scheduler = scene.start();
        for at in 0..3 {
            assert_eq!(wait_until_bound(scene.cluster.client(), &format!("{name}-{at}")), "n");
        }
        (0..3).for_each(|at| delete_pod(scene.cluster.client(), &format!("{name}-{at}")));
    }
}
