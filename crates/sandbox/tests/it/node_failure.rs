//! Nodes stop and come back, and pods leave them.

use harbormaster_sandbox::STOPPED;

use super::*;

fn annotate(sandbox: &Sandbox, node: &str, stopped: &Value) {
    let patch = json!({"metadata": {"annotations": {STOPPED: stopped}}});
    sandbox.store().merge("nodes", "", node, false, &patch).unwrap();
}

fn node(sandbox: &Sandbox, name: &str) -> Value {
    sandbox.store().get("nodes", "", name).unwrap().value()
}

fn condition<'a>(object: &'a Value, name: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array().unwrap();
    conditions.iter().find(|condition| condition["type"] == name).unwrap()
}

fn taints(sandbox: &Sandbox, name: &str) -> Vec<String> {
    let node = node(sandbox, name);
    let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    taints
        .iter()
        .map(|taint| format!("{}:{}", taint["key"].as_str().unwrap(), taint["effect"].as_str().unwrap()))
        .collect()
}

fn is_ready(sandbox: &Sandbox, pod: &str) -> bool {
    condition(&read(sandbox, "pods", pod), "Ready")["status"] == "True"
}

/// Returns a sandbox with two nodes and a pod that runs on `node-1`.
async fn with_pod(kind: &str) -> (Sandbox, harbormaster_sandbox::Clock) {
    let options = options(2, "");
    let clock = options.clock.clone();
    let mut sandbox = Sandbox::start(options).await.unwrap();
    let cordon = |on: bool| json!({"spec": {"unschedulable": on}});
    sandbox.store().merge("nodes", "", "node-2", false, &cordon(true)).unwrap();
    let workload = workload(kind, 1);
    let workload: Value = serde_saphyr::from_str(workload.trim_end_matches("---\n")).unwrap();
    sandbox.store().create(&format!("{}s.apps", kind.to_lowercase()), workload).unwrap();
    assert!(sandbox.shows(LIMIT, |board| board.pods().any(|pod| pod.phase == "Running")).await);
    sandbox.store().merge("nodes", "", "node-2", false, &cordon(false)).unwrap();
    eventually(|| taints(&sandbox, "node-2").is_empty()).await;
    (sandbox, clock)
}

fn only_pod(sandbox: &Sandbox) -> String {
    let names: Vec<_> = sandbox.board.pods().map(|pod| pod.name.clone()).collect();
    assert_eq!(names.len(), 1, "{names:?}");
    names[0].trim_start_matches("default/").to_owned()
}

#[tokio::test]
async fn pods_leave_a_stopped_node_after_five_minutes_and_are_removed_when_it_returns() {
    let (mut sandbox, clock) = with_pod("Deployment").await;
    let first = only_pod(&sandbox);
    annotate(&sandbox, "node-1", &json!("true"));
    let unreachable =
        ["node.kubernetes.io/unreachable:NoSchedule", "node.kubernetes.io/unreachable:NoExecute"];
    eventually(|| taints(&sandbox, "node-1") == unreachable).await;
    let stopped = node(&sandbox, "node-1");
    let ready = condition(&stopped, "Ready");
    assert_eq!(
        (&ready["status"], &ready["reason"], &ready["message"]),
        (&json!("Unknown"), &json!("NodeStatusUnknown"), &json!("Kubelet stopped posting node status."))
    );
    eventually(|| !is_ready(&sandbox, &first)).await;
    assert!(sandbox.settled(LIMIT).await);
    assert_eq!(only_pod(&sandbox), first, "its tolerations last for 300 s");

    clock.advance(Duration::from_secs(301));
    let placed = |board: &harbormaster_sandbox::Board| {
        board.count(PodState::Placed) == 1 && board.count(PodState::Ending) == 1
    };
    assert!(sandbox.shows(LIMIT, placed).await, "{:?}", sandbox.board);
    let second = sandbox.board.pods().find(|pod| pod.state == PodState::Placed).unwrap().clone();
    assert_eq!(second.node.as_deref(), Some("node-2"));
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(sandbox.store().get("pods", "default", &first).is_ok(), "nothing confirms that it has ended");

    annotate(&sandbox, "node-1", &Value::Null);
    assert!(sandbox.shows(LIMIT, |board| board.pods().count() == 1).await);
    eventually(|| taints(&sandbox, "node-1").is_empty()).await;
    assert_eq!(condition(&node(&sandbox, "node-1"), "Ready")["status"], "True");
    sandbox.stop().await.unwrap();
}

#[tokio::test]
async fn a_stateful_set_waits_until_its_pod_on_a_stopped_node_is_deleted_by_force() {
    let (mut sandbox, clock) = with_pod("StatefulSet").await;
    annotate(&sandbox, "node-1", &json!("true"));
    eventually(|| taints(&sandbox, "node-1").len() == 2).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    clock.advance(Duration::from_secs(301));
    assert!(sandbox.shows(LIMIT, |board| board.count(PodState::Ending) == 1).await);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(only_pod(&sandbox), "web-0");
    sandbox.store().delete("pods", "default", "web-0", Some(0)).unwrap();
    let moved = |board: &harbormaster_sandbox::Board| {
        board.pod("default/web-0").is_some_and(|pod| pod.node.as_deref() == Some("node-2"))
    };
    assert!(sandbox.shows(LIMIT, moved).await, "{:?}", sandbox.board);
    sandbox.stop().await.unwrap();
}

#[tokio::test]
async fn a_node_that_returns_in_time_keeps_its_pods_which_become_ready_again() {
    let (sandbox, _) = with_pod("Deployment").await;
    let pod = only_pod(&sandbox);
    annotate(&sandbox, "node-1", &json!("true"));
    eventually(|| !is_ready(&sandbox, &pod)).await;
    let spec = json!({"nodeName": "node-1", "containers": [{"name": "c", "image": "i"}]});
    sandbox.store().create("pods", json!({"metadata": {"name": "late"}, "spec": spec})).unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(read(&sandbox, "pods", "late")["status"]["phase"], "Pending", "no kubelet starts it");
    annotate(&sandbox, "node-1", &json!("false"));
    eventually(|| is_ready(&sandbox, &pod)).await;
    eventually(|| read(&sandbox, "pods", "late")["status"]["phase"] == "Running").await;
    eventually(|| taints(&sandbox, "node-1").is_empty()).await;
    sandbox.stop().await.unwrap();
}

#[tokio::test]
async fn a_node_that_reports_not_ready_or_pressure_is_tainted() {
    let (sandbox, _) = with_pod("Deployment").await;
    let pod = only_pod(&sandbox);
    let say = |name: &str, status: &str| {
        let change = |node: &mut Value| {
            let conditions = node["status"]["conditions"].as_array_mut().unwrap();
            conditions.iter_mut().find(|c| c["type"] == name).unwrap()["status"] = status.into();
        };
        sandbox.store().update_status("nodes", "", "node-1", change).unwrap();
    };
    say("Ready", "False");
    let not_ready = ["node.kubernetes.io/not-ready:NoSchedule", "node.kubernetes.io/not-ready:NoExecute"];
    eventually(|| taints(&sandbox, "node-1") == not_ready).await;
    eventually(|| !is_ready(&sandbox, &pod)).await;
    say("Ready", "True");
    say("DiskPressure", "True");
    eventually(|| taints(&sandbox, "node-1") == ["node.kubernetes.io/disk-pressure:NoSchedule"]).await;
    eventually(|| is_ready(&sandbox, &pod)).await;
    sandbox.stop().await.unwrap();
}

#[tokio::test]
async fn every_node_has_a_lease() {
    let sandbox = sandbox(2, "").await;
    let leases = || sandbox.store().list("leases.coordination.k8s.io", "kube-node-lease", "", "").unwrap().0;
    eventually(|| leases().len() == 2).await;
    assert_eq!(leases()[0].value()["spec"]["holderIdentity"], "node-1");
    sandbox.store().delete("nodes", "", "node-1", None).unwrap();
    eventually(|| leases().len() == 1).await;
    sandbox.stop().await.unwrap();
}
