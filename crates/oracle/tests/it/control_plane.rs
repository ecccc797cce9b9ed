//! The real components start, serve, schedule and stop.

use std::thread::sleep;
use std::time::{Duration, Instant};

use harbormaster_oracle::components::{ApiClient, ControlPlane, ControlPlaneOptions, Error, RealBinary};
use serde_json::{Value, json};

use crate::releases::MAIN;

const PODS: &str = "/api/v1/namespaces/default/pods";

/// Reads the object until `done` accepts it, for at most 30 s.
fn wait_for(client: &ApiClient, path: &str, done: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let object = client.get(path).expect("the API server answers");
        if done(&object) {
            return object;
        }
        assert!(Instant::now() < deadline, "{path} did not change as expected: {object}");
        sleep(Duration::from_millis(50));
    }
}

fn is_alive(pid: u32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}

#[test]
fn a_pod_is_bound_by_the_real_scheduler_on_the_real_api_server() {
    let cluster = ControlPlane::start(&ControlPlaneOptions::default()).unwrap();
    let client = cluster.client().clone();
    assert_eq!(client.get_text("/readyz").unwrap(), "ok");
    let version = client.get("/version").unwrap();
    assert_eq!(version["gitVersion"], RealBinary::ensure(MAIN).unwrap().version());

    let node = json!({
        "metadata": {"name": "node-1"},
        "status": {
            "capacity": {"cpu": "2", "memory": "4Gi", "pods": "10"},
            "allocatable": {"cpu": "2", "memory": "4Gi", "pods": "10"},
        },
    });
    let created = client.post("/api/v1/nodes", &node).unwrap();
    assert_eq!(created["spec"]["taints"], Value::Null);
    let pod = |name: &str, cpu: &str| {
        json!({
            "metadata": {"name": name},
            "spec": {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}]},
        })
    };
    client.post(PODS, &pod("fits", "1")).unwrap();
    client.post(PODS, &pod("too-big", "3")).unwrap();

    let config =
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nparallelism: 1\n";
    let scheduler = cluster.start_kube_scheduler(config, &[]).unwrap();
    let bound = wait_for(&client, &format!("{PODS}/fits"), |pod| pod["spec"]["nodeName"].is_string());
    assert_eq!(bound["spec"]["nodeName"], "node-1");
    let pending = wait_for(&client, &format!("{PODS}/too-big"), |pod| {
        pod["status"]["conditions"][0]["message"].is_string()
    });
    let message = pending["status"]["conditions"][0]["message"].as_str().unwrap();
    assert!(message.starts_with("0/1 nodes are available: 1 Insufficient cpu."), "{message}");

    let pid = scheduler.pid();
    assert!(is_alive(pid));
    assert!(!scheduler.log_tail().is_empty());
    // The scheduler was not killed: without leader election, it exits with status 1, whereas a process killed by a
    // signal has no exit status.
    assert_eq!(scheduler.stop().unwrap().code(), Some(1));
    assert!(!is_alive(pid));
    let pids = [cluster.apiserver().pid(), cluster.etcd().pid()];
    let directory = cluster.directory().to_owned();
    drop(cluster);
    assert!(pids.iter().all(|pid| !is_alive(*pid)));
    assert!(!directory.exists());
}

#[test]
fn the_controller_manager_creates_the_pods_of_a_replica_set() {
    let options = ControlPlaneOptions { controller_manager: true, ..ControlPlaneOptions::default() };
    let cluster = ControlPlane::start(&options).unwrap();
    let set = json!({
        "metadata": {"name": "set"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "a"}},
            "template": {
                "metadata": {"labels": {"app": "a"}},
                "spec": {"containers": [{"name": "c", "image": "x"}]},
            },
        },
    });
    cluster.client().post("/apis/apps/v1/namespaces/default/replicasets", &set).unwrap();
    let is_complete = |list: &Value| list["items"].as_array().is_some_and(|items| items.len() == 2);
    wait_for(cluster.client(), PODS, is_complete);
    assert!(cluster.controller_manager().is_some_and(|component| is_alive(component.pid())));
}

#[test]
fn starting_a_component_that_exits_immediately_returns_an_error_with_its_log() {
    let options = ControlPlaneOptions {
        apiserver_flags: vec!["--no-such-flag=1".to_owned()],
        ..ControlPlaneOptions::default()
    };
    // The time limit does not include building the program.
    RealBinary::ensure(MAIN).unwrap();
    let start = Instant::now();
    let error = ControlPlane::start(&options).unwrap_err();
    assert!(start.elapsed() < Duration::from_secs(300));
    let Error::NotReady { component, log, .. } = &error else { panic!("{error}") };
    assert_eq!(component, "kube-apiserver");
    assert!(log.contains("unknown flag: --no-such-flag"), "{error}");
}

#[test]
fn the_error_for_a_rejected_request_contains_the_response_status_and_body() {
    let cluster = ControlPlane::start(&ControlPlaneOptions::default()).unwrap();
    let error = cluster.client().get("/api/v1/nodes/none").unwrap_err();
    let Error::Refused { status, body, .. } = &error else { panic!("{error}") };
    assert_eq!(*status, 404);
    assert!(body.contains(r#"nodes \"none\" not found"#), "{body}");
}
