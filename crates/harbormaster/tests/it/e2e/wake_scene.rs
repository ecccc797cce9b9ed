//! Two copies of the waiting pods, one for Harbormaster and one for the real kube-scheduler. The tests count and
//! compare the attempts of both schedulers.

use std::{collections::BTreeMap, fs, path::PathBuf, thread::sleep, time::Duration};

use harbormaster_oracle::components::{ApiClient, Component};
use serde_json::{Value, json};

use super::{
    cluster::{
        PATIENCE, create_priority_classes, delete_pod, eventually, wait_until_bound, wait_until_explained,
    },
    objects::{NODES, PODS, config, pod},
    process::Harbormaster,
    server::{Cluster, Server},
};

/// Scheduler names. They are part of the pods' names too.
pub const OURS: &str = "ours";
pub const THEIRS: &str = "theirs";

/// Name of a pod with scheduling gates, which neither scheduler tries until the gates are removed.
pub const GATE: &str = "gated";

/// Time in which a wrongly woken pod would be tried, with a large margin.
pub const QUIET: Duration = Duration::from_millis(400);

/// Nodes, placed pods and waiting pods under two schedulers.
pub struct WakeScene {
    // Fields are dropped in this order.
    harbormaster: Harbormaster,
    original: Component,
    original_log: PathBuf,
    /// The waiting pods, without their schedulers' names.
    names: Vec<&'static str>,
    pub client: ApiClient,
    _cluster: Cluster,
}

pub type Attempts = BTreeMap<&'static str, usize>;

impl WakeScene {
    /// Creates nodes, pods placed on them, other objects, and one copy of the waiting pods for each scheduler. Waits
    /// until both schedulers have tried their pods.
    pub fn new(
        server: Server,
        nodes: &[Value],
        placed: &[Value],
        others: &[(&str, Value)],
        names: &[&'static str],
        waiting: impl Fn(&str) -> Vec<Value>,
    ) -> Self {
        let cluster = server.own();
        let client = cluster.client().clone();
        create_priority_classes(&client);
        client
            .post("/api/v1/namespaces", &json!({"metadata": {"name": "other"}}))
            .expect("the namespace is created");
        for node in nodes {
            client.post(NODES, node).expect("the node is created");
        }
        for pod in placed {
            client.post(PODS, pod).expect("the pod is created");
        }
        for (path, object) in others {
            client.post(path, object).expect("the object is created");
        }
        let path =
            cluster.write_scheduler_config(&config(OURS).to_string()).expect("the configuration is written");
        let log = cluster.directory().join("harbormaster.log");
        let harbormaster = Harbormaster::start(&[format!("--config={}", path.display())], log);
        let original = cluster
            .start_kube_scheduler(&config(THEIRS).to_string(), &["--v=3".to_owned()])
            .expect("kube-scheduler starts");
        let original_log = original.log_path().to_owned();
        let names = names.to_vec();
        let scene = Self { harbormaster, original, original_log, names, client, _cluster: cluster };
        for scheduler in [OURS, THEIRS] {
            for pod in waiting(scheduler) {
                scene.client.post(PODS, &pod).expect("the pod is created");
            }
        }
        for scheduler in [OURS, THEIRS] {
            for name in scene.names.iter().filter(|name| **name != GATE) {
                wait_until_explained(&scene.client, &format!("{name}-{scheduler}"));
            }
        }
        // The status updates that follow the first attempts arrive as events, which must not wake any pod either.
        sleep(QUIET);
        scene
    }

    /// Returns the number of attempts per pod, by Harbormaster and by kube-scheduler.
    pub fn attempts(&self) -> [Attempts; 2] {
        let original = fs::read_to_string(&self.original_log).expect("the log can be read");
        [(OURS, self.harbormaster.log()), (THEIRS, original)].map(|(scheduler, log)| {
            let tries = |name: &&'static str| {
                let pod = format!("pod=\"default/{name}-{scheduler}\"");
                let is_try = |line: &&str| line.contains("Attempting to schedule pod") && line.contains(&pod);
                (*name, log.lines().filter(is_try).count())
            };
            self.names.iter().map(tries).collect()
        })
    }

    /// Asserts that `change` wakes the pods `woken` and no others.
    pub fn wakes(&self, what: &str, woken: &[&str], change: impl FnOnce()) {
        self.woken_by(what, woken, change, || {
            // An attempt for an unrelated pod shows that the change has arrived.
            for scheduler in [OURS, THEIRS] {
                let spec =
                    json!({"tolerations": [{"operator": "Exists"}], "nodeSelector": {"marker": "nowhere"}});
                self.client
                    .post(PODS, &pod("marker", scheduler, json!({}), spec))
                    .expect("the pod is created");
                wait_until_explained(&self.client, "marker");
                delete_pod(&self.client, "marker");
            }
        });
    }

    /// Asserts the same as [`Self::wakes`], and that `helped` is then bound to `node`.
    pub fn helps(&self, helped: &str, node: &str, woken: &[&str], change: impl FnOnce()) {
        self.woken_by(helped, woken, change, || {
            for scheduler in [OURS, THEIRS] {
                assert_eq!(wait_until_bound(&self.client, &format!("{helped}-{scheduler}")), node);
            }
        });
    }

    fn woken_by(&self, what: &str, woken: &[&str], change: impl FnOnce(), arrived: impl FnOnce()) {
        let mut expected = self.attempts();
        change();
        arrived();
        for attempts in &mut expected {
            for (name, count) in attempts.iter_mut() {
                *count += usize::from(woken.contains(name));
            }
        }
        eventually(&format!("{woken:?} are woken by {what}"), PATIENCE, || {
            let now = self.attempts();
            let is_there = |(now, expected): (&Attempts, &Attempts)| {
                expected.iter().all(|(name, count)| now[name] >= *count)
            };
            now.iter().zip(&expected).all(is_there).then_some(())
        });
        sleep(QUIET);
        assert_eq!(self.attempts(), expected, "attempts by Harbormaster and by kube-scheduler after: {what}");
    }

    pub fn patch_node(&self, name: &str, patch: Value) {
        self.client.merge_patch(&format!("{NODES}/{name}"), &patch).expect("the patch is accepted");
    }

    pub fn patch_status(&self, name: &str, status: Value) {
        let path = format!("{NODES}/{name}/status");
        self.client.merge_patch(&path, &json!({"status": status})).expect("the patch is accepted");
    }

    pub fn resize(&self, name: &str, cpu: &str, memory: &str) {
        let resources = json!({"cpu": cpu, "memory": memory, "pods": "20"});
        self.patch_status(name, json!({"capacity": resources, "allocatable": resources}));
    }

    pub fn patch_pods(&self, name: &str, patch: Value) {
        for scheduler in [OURS, THEIRS] {
            let path = format!("{PODS}/{name}-{scheduler}");
            self.client.merge_patch(&path, &patch).expect("the patch is accepted");
        }
    }

    pub fn end(self) {
        self.harbormaster.ends_well();
        self.original.stop().expect("kube-scheduler ends");
    }
}

/// Returns a pod with labels, placed on a node.
pub fn placed(name: &str, node: &str, labels: Value, spec: Value) -> Value {
    let mut pod = pod(name, "nobody", json!({}), spec);
    pod["metadata"]["labels"] = labels;
    pod["spec"]["nodeName"] = json!(node);
    pod
}
