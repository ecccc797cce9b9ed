//! The controller against the in-memory API server.

use std::{
    process::{Child, Command},
    thread::sleep,
    time::{Duration, Instant},
};

use harbormaster::serde_json::{Value, json};
use harbormaster_oracle::{components::ApiClient, embedded::Embedded};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const GROUPS: &str = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups";
const PODS: &str = "/api/v1/namespaces/default/pods";
const PATIENCE: Duration = Duration::from_secs(20);

/// The controller's process, which ends with the test.
struct Controller(Child);

impl Controller {
    fn start(cluster: &Embedded) -> Self {
        let mut program = Command::new(env!("CARGO_BIN_EXE_coscheduling-controller"));
        Self(program.arg("--kubeconfig").arg(cluster.kubeconfig()).spawn().unwrap())
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn eventually<T>(what: &str, check: impl Fn() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(done) = check() {
            return done;
        }
        assert!(begun.elapsed() < PATIENCE, "{what}");
        sleep(Duration::from_millis(50));
    }
}

/// Returns a cluster that serves PodGroups.
fn cluster() -> Embedded {
    let cluster = Embedded::start(|_| Ok(())).unwrap();
    let definition: Value = serde_saphyr::from_str(include_str!("../../deploy/crd.yaml")).unwrap();
    cluster.client().post(DEFINITIONS, &definition).unwrap();
    eventually("PodGroups are served", || cluster.client().get(GROUPS).ok());
    cluster
}

fn create_group(client: &ApiClient, name: &str, min_member: u32) {
    let group = json!({
        "apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
        "metadata": {"name": name}, "spec": {"minMember": min_member},
    });
    client.post(GROUPS, &group).unwrap();
}

fn create_member(client: &ApiClient, namespace: &str, name: &str, group: &str) {
    let owner = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "1"}]);
    let labels = json!({"scheduling.x-k8s.io/pod-group": group});
    let pod = json!({
        "metadata": {"name": name, "labels": labels, "ownerReferences": owner},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    client.post(&format!("/api/v1/namespaces/{namespace}/pods"), &pod).unwrap();
}

fn set_phase(client: &ApiClient, pod: &str, phase: &str) {
    client.merge_patch(&format!("{PODS}/{pod}/status"), &json!({"status": {"phase": phase}})).unwrap();
}

/// Waits until the group has this phase, and returns its status.
fn wait_for(client: &ApiClient, group: &str, phase: &str) -> Value {
    eventually(&format!("{group} is {phase}"), || {
        let status = client.get(&format!("{GROUPS}/{group}")).unwrap()["status"].clone();
        (status["phase"] == phase).then_some(status)
    })
}

#[test]
fn a_group_goes_through_its_phases() {
    let cluster = cluster();
    let client = cluster.client();
    let _controller = Controller::start(&cluster);
    create_group(client, "g", 2);
    wait_for(client, "g", "Pending");
    create_member(client, "default", "a", "g");
    create_member(client, "default", "b", "g");
    let status = wait_for(client, "g", "Scheduling");
    assert_eq!(status["occupiedBy"], "default/job");
    let begun = status["scheduleStartTime"].clone();
    assert!(begun.is_string(), "{status}");
    for pod in ["a", "b"] {
        set_phase(client, pod, "Running");
    }
    let status = wait_for(client, "g", "Running");
    assert_eq!((&status["running"], &status["scheduleStartTime"]), (&json!(2), &begun));
    for pod in ["a", "b"] {
        set_phase(client, pod, "Succeeded");
    }
    let status = wait_for(client, "g", "Finished");
    assert_eq!((&status["running"], &status["succeeded"]), (&json!(0), &json!(2)));
}

#[test]
fn pods_of_other_namespaces_do_not_count_and_a_later_controller_catches_up() {
    let cluster = cluster();
    let client = cluster.client();
    let namespace = json!({"metadata": {"name": "other"}});
    client.post("/api/v1/namespaces", &namespace).unwrap();
    create_group(client, "g", 1);
    create_member(client, "other", "a", "g");
    let first = Controller::start(&cluster);
    wait_for(client, "g", "Pending");
    drop(first);
    create_member(client, "default", "a", "g");
    set_phase(client, "a", "Running");
    let _second = Controller::start(&cluster);
    assert_eq!(wait_for(client, "g", "Running")["running"], 1);
}
