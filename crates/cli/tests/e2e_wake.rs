//! Pending pods are tried again when something happens that can help them, and not otherwise: for every event the test
//! says whom it wakes, and the real kube-scheduler, at work on copies of the pods, must agree.
//!
//! Every pod is held back by one plugin only: the nodes are small, tainted, unlabelled and cordoned, and every pod
//! puts up with all of that but one. Attempts are counted in the logs.
//!
//! One event wakes more pods than it can help, by a rule of kube-scheduler's: a change of taints, uncordoning
//! included, wakes everyone who was rejected by a plugin that listens to new nodes but not to taints.

mod e2e;

use std::{collections::BTreeMap, fs, path::PathBuf, thread::sleep, time::Duration};

use e2e::{
    cluster::{delete_pod, events, eventually, own, wait_until_bound, wait_until_explained},
    objects::{NODES, PODS, config, node, pod},
    process::Harbormaster,
};
use harbormaster_oracle::components::{ApiClient, Component, ControlPlane};
use serde_json::{Value, json};

/// Scheduler names; they are part of the pods' names, too.
const OURS: &str = "ours";
const THEIRS: &str = "theirs";

const CPU: &str = "short-of-cpu";
const TAINT: &str = "tainted-out";
const LABEL: &str = "unmatched";
const CORDON: &str = "cordoned-off";
const GATE: &str = "gated";
const WAITING: [&str; 5] = [CPU, TAINT, LABEL, CORDON, GATE];

/// How long a pod that was woken wrongly would take to be tried, with much to spare.
const QUIET: Duration = Duration::from_millis(600);

struct Scene {
    // Dropped in order.
    harbormaster: Harbormaster,
    original: Component,
    original_log: PathBuf,
    client: ApiClient,
    _cluster: ControlPlane,
}

type Attempts = BTreeMap<&'static str, usize>;

impl Scene {
    fn new() -> Self {
        let mut cluster = own();
        let client = cluster.client().clone();
        for name in ["n1", "n2", "n3", "n4"] {
            client.post(NODES, &unwelcoming(name)).expect("the node is created");
        }
        let path = cluster.write_scheduler_config(&config(OURS).to_string()).expect("it is written");
        let log = cluster.directory().join("harbormaster.log");
        let harbormaster = Harbormaster::start(&[format!("--config={}", path.display())], log);
        let original = cluster
            .start_kube_scheduler(&config(THEIRS).to_string(), &["--v=3".to_owned()])
            .expect("it starts");
        let original_log = original.log_path().to_owned();
        let scene = Self { harbormaster, original, original_log, client, _cluster: cluster };
        for scheduler in [OURS, THEIRS] {
            for pod in waiting_pods(scheduler) {
                scene.client.post(PODS, &pod).expect("the pod is created");
            }
        }
        for scheduler in [OURS, THEIRS] {
            for name in &WAITING[..4] {
                wait_until_explained(&scene.client, &format!("{name}-{scheduler}"));
            }
        }
        // The answers to the first attempts come back as updates; they must wake nobody either.
        sleep(QUIET);
        scene
    }

    /// How often each pod was tried, by us and by the original.
    fn attempts(&self) -> [Attempts; 2] {
        let original = fs::read_to_string(&self.original_log).expect("the log can be read");
        [(OURS, self.harbormaster.log()), (THEIRS, original)].map(|(scheduler, log)| {
            let tries = |name: &&'static str| {
                let pod = format!("pod=\"default/{name}-{scheduler}\"");
                let is_try = |line: &&str| line.contains("Attempting to schedule pod") && line.contains(&pod);
                (*name, log.lines().filter(is_try).count())
            };
            WAITING.iter().map(tries).collect()
        })
    }

    /// What `change` does wakes `woken` and nobody else.
    fn wakes(&self, what: &str, woken: &[&str], change: impl FnOnce()) {
        self.woken_by(what, woken, change, || {
            // A pod of another kind shows that the change has arrived.
            for scheduler in [OURS, THEIRS] {
                let spec = json!({"tolerations": everything(), "nodeSelector": {"marker": "nowhere"}});
                self.client.post(PODS, &pod("marker", scheduler, json!({}), spec)).expect("it is created");
                wait_until_explained(&self.client, "marker");
                delete_pod(&self.client, "marker");
            }
        });
    }

    /// [`Self::wakes`], and `helped` is then bound to `node`.
    fn helps(&self, helped: &str, node: &str, woken: &[&str], change: impl FnOnce()) {
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
        sleep(QUIET);
        for attempts in &mut expected {
            for (name, count) in attempts.iter_mut() {
                *count += usize::from(woken.contains(name));
            }
        }
        let [ours, theirs] = self.attempts();
        assert_eq!(ours, expected[0], "ours after: {what}");
        assert_eq!(theirs, expected[1], "the original's after: {what}");
    }

    fn patch_node(&self, name: &str, patch: Value) {
        self.client.merge_patch(&format!("{NODES}/{name}"), &patch).expect("the patch is taken");
    }

    fn patch_status(&self, name: &str, status: Value) {
        let path = format!("{NODES}/{name}/status");
        self.client.merge_patch(&path, &json!({"status": status})).expect("the patch is taken");
    }

    fn resize(&self, name: &str, cpu: &str, memory: &str) {
        let resources = json!({"cpu": cpu, "memory": memory, "pods": "20"});
        self.patch_status(name, json!({"capacity": resources, "allocatable": resources}));
    }

    fn patch_pods(&self, name: &str, patch: Value) {
        for scheduler in [OURS, THEIRS] {
            let path = format!("{PODS}/{name}-{scheduler}");
            self.client.merge_patch(&path, &patch).expect("the patch is taken");
        }
    }

    fn end(self) {
        self.harbormaster.ends_well();
        self.original.stop().expect("it ends");
    }
}

fn everything() -> Value {
    json!([{"operator": "Exists"}])
}

/// Small, tainted and cordoned.
fn unwelcoming(name: &str) -> Value {
    let mut node = node(name, json!({}), "2", "4Gi", 20);
    node["spec"] = json!({
        "unschedulable": true,
        "taints": [{"key": "pool", "value": "x", "effect": "NoSchedule"}],
    });
    node
}

fn waiting_pods(scheduler: &str) -> [Value; 5] {
    let cordon = json!([{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]);
    let taint = json!([{"key": "pool", "operator": "Exists"}]);
    let gates = json!([{"name": "example.com/gate"}]);
    let selector = json!({"disk": "ssd"});
    [
        (CPU, "8", json!({"tolerations": everything()})),
        (TAINT, "10m", json!({"tolerations": cordon})),
        (LABEL, "10m", json!({"tolerations": everything(), "nodeSelector": selector})),
        (CORDON, "10m", json!({"tolerations": taint})),
        (GATE, "10m", json!({"tolerations": everything(), "schedulingGates": gates})),
    ]
    .map(|(name, cpu, spec)| pod(&format!("{name}-{scheduler}"), scheduler, json!({"cpu": cpu}), spec))
}

#[test]
fn an_event_wakes_the_pods_that_it_can_help_and_no_others() {
    let scene = Scene::new();
    for attempts in scene.attempts() {
        let first = WAITING.map(|name| attempts[name]);
        assert_eq!(first, [1, 1, 1, 1, 0], "each was tried once, the gated one never");
    }

    scene.wakes("more memory", &[], || scene.resize("n1", "2", "64Gi"));
    scene.wakes("more CPU, but not enough", &[], || scene.resize("n1", "4", "64Gi"));
    scene.wakes("another label", &[], || {
        scene.patch_node("n1", json!({"metadata": {"labels": {"disk": "hdd"}}}));
    });
    scene.wakes("another taint", &[CPU, LABEL], || {
        let taints = json!([
            {"key": "pool", "value": "x", "effect": "NoSchedule"},
            {"key": "other", "effect": "NoSchedule"},
        ]);
        scene.patch_node("n1", json!({"spec": {"taints": taints}}));
    });
    scene.wakes("an annotation", &[], || {
        scene.patch_node("n1", json!({"metadata": {"annotations": {"a": "b"}}}));
    });
    scene.wakes("a condition", &[], || {
        scene.patch_status("n1", json!({"conditions": [{"type": "Ready", "status": "True"}]}));
    });
    scene.wakes("a node like the others", &[], || {
        scene.client.post(NODES, &unwelcoming("n5")).expect("the node is created");
    });
    scene.wakes("a node less", &[], || {
        scene.client.delete(&format!("{NODES}/n5")).expect("the node is deleted");
    });
    scene.wakes("a label of a waiting pod", &[], || {
        scene.patch_pods(LABEL, json!({"metadata": {"labels": {"a": "b"}}}));
    });

    scene.helps(CORDON, "n3", &[CORDON, CPU, LABEL], || {
        scene.patch_node("n3", json!({"spec": {"unschedulable": null}}));
    });
    scene.helps(LABEL, "n1", &[LABEL], || {
        scene.patch_node("n1", json!({"metadata": {"labels": {"disk": "ssd"}}}));
    });
    scene.helps(TAINT, "n2", &[TAINT, CPU], || scene.patch_node("n2", json!({"spec": {"taints": []}})));
    scene.helps(CPU, "n4", &[CPU], || scene.resize("n4", "16", "4Gi"));
    let [before, _] = scene.attempts();
    scene.patch_pods(GATE, json!({"spec": {"schedulingGates": null}}));
    wait_until_bound(&scene.client, &format!("{GATE}-{OURS}"));
    let [after, _] = scene.attempts();
    assert_eq!(after[GATE], 1);
    assert!(WAITING[..4].iter().all(|name| after[name] == before[name]), "{after:?}");

    // One event of failure for each that failed once, and no series.
    for name in [TAINT, CORDON] {
        let failed = events(&scene.client, &format!("{name}-{OURS}"), "FailedScheduling");
        assert!(failed.len() == 1 && failed[0]["series"].is_null(), "{failed:?}");
    }
    assert!(events(&scene.client, &format!("{GATE}-{OURS}"), "FailedScheduling").is_empty());
    for name in WAITING {
        eventually("the event of the binding", QUIET * 10, || {
            events(&scene.client, &format!("{name}-{OURS}"), "Scheduled").pop()
        });
    }
    scene.end();
}

#[test]
fn room_that_is_given_back_wakes_those_who_lack_room_and_no_others() {
    let scene = Scene::new();
    let fill = |name: &str, requests: Value| {
        let spec = json!({"nodeName": "n1", "tolerations": everything()});
        scene.client.post(PODS, &pod(name, OURS, requests, spec)).expect("the pod is created");
    };
    scene.wakes("pods that others have placed", &[], || {
        fill("holder", json!({"cpu": "2"}));
        fill("other", json!({"memory": "1Gi"}));
    });
    scene.wakes("a node that would be large enough if it were empty", &[CPU], || {
        scene.resize("n1", "9", "4Gi");
    });
    scene.wakes("a pod that leaves its node", &[CPU], || delete_pod(&scene.client, "other"));
    scene.end();
}

#[test]
fn new_nodes_and_tolerations_wake_those_who_get_a_place_by_them() {
    let scene = Scene::new();
    scene.wakes("tolerations of its own, helpful or not", &[TAINT], || {
        let more = json!([
            {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"},
            {"key": "elsewhere", "operator": "Exists"},
        ]);
        scene.patch_pods(TAINT, json!({"spec": {"tolerations": more}}));
    });
    scene.helps(LABEL, "labelled", &[LABEL], || {
        let mut node = unwelcoming("labelled");
        node["metadata"]["labels"] = json!({"disk": "ssd"});
        scene.client.post(NODES, &node).expect("the node is created");
    });
    scene.helps(CPU, "large", &[CPU], || {
        let mut node = unwelcoming("large");
        node["status"]["allocatable"]["cpu"] = json!("20");
        scene.client.post(NODES, &node).expect("the node is created");
    });
    scene.helps(TAINT, "untainted", &[TAINT], || {
        let mut node = unwelcoming("untainted");
        node["spec"]["taints"] = json!([]);
        scene.client.post(NODES, &node).expect("the node is created");
    });
    scene.end();
}
