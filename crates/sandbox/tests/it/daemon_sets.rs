//! DaemonSets have a pod on every node that their template allows, however the nodes and the template change.

use super::*;

const SETS: &str = "daemonsets.apps";

fn node(name: &str, labels: &Value, taints: &Value) -> Value {
    let resources = json!({"cpu": "4", "memory": "16Gi", "pods": "110"});
    json!({"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints},
        "status": {"capacity": resources, "allocatable": resources}})
}

fn taint(key: &str, effect: &str) -> Value {
    json!([{"key": key, "effect": effect}])
}

/// Returns the nodes of the pods that are placed and not being deleted.
fn nodes_of(sandbox: &Sandbox) -> Vec<String> {
    let placed = sandbox.board.pods().filter(|pod| pod.state == PodState::Placed);
    let mut nodes: Vec<String> = placed.filter_map(|pod| pod.node.clone()).collect();
    nodes.sort();
    nodes
}

fn numbers(sandbox: &Sandbox) -> [i64; 6] {
    let status = read(sandbox, SETS, "web")["status"].clone();
    [
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "updatedNumberScheduled",
        "numberReady",
        "numberAvailable",
        "numberMisscheduled",
    ]
    .map(|field| status[field].as_i64().unwrap_or(0))
}

fn set(change: &Value) -> Value {
    let text = workload("DaemonSet", 0);
    let mut set: Value = serde_saphyr::from_str(text.trim_end_matches("---\n")).unwrap();
    set["spec"].as_object_mut().unwrap().remove("replicas");
    for (field, value) in change.as_object().unwrap() {
        set["spec"][field] = value.clone();
    }
    set
}

fn merge_node(sandbox: &Sandbox, name: &str, patch: &Value) {
    sandbox.store().merge("nodes", "", name, false, patch).unwrap();
}

#[tokio::test]
async fn a_daemon_set_follows_nodes_that_are_added_removed_and_changed() {
    let mut sandbox = sandbox(2, "").await;
    let store = sandbox.store().clone();
    store.create("nodes", node("full", &json!({}), &taint("dedicated", "NoSchedule"))).unwrap();
    merge_node(&sandbox, "node-2", &json!({"spec": {"unschedulable": true}}));
    store.create(SETS, set(&json!({}))).unwrap();
    assert!(sandbox.settled(LIMIT).await);
    assert_eq!(
        nodes_of(&sandbox),
        ["node-1", "node-2"],
        "a cordoned node has a pod, a tainted node has none"
    );
    assert_eq!(numbers(&sandbox), [2, 2, 2, 2, 2, 0]);

    store.create("nodes", node("late", &json!({}), &json!([]))).unwrap();
    assert!(sandbox.settled(LIMIT).await);
    assert_eq!(nodes_of(&sandbox), ["late", "node-1", "node-2"]);

    merge_node(&sandbox, "late", &json!({"spec": {"taints": taint("a", "NoSchedule")}}));
    merge_node(&sandbox, "node-1", &json!({"spec": {"taints": taint("a", "NoExecute")}}));
    assert!(sandbox.settled(LIMIT).await);
    assert_eq!(nodes_of(&sandbox), ["late", "node-2"], "NoSchedule keeps existing pods");
    assert_eq!(numbers(&sandbox), [1, 1, 1, 1, 1, 1]);

    let selector = json!({"spec": {"template": {"spec": {"nodeSelector": {"disk": "ssd"}}}}});
    change(&sandbox, SETS, "web", &selector);
    assert!(sandbox.settled(LIMIT).await);
    assert_eq!(nodes_of(&sandbox), [""; 0]);
    merge_node(&sandbox, "node-2", &json!({"metadata": {"labels": {"disk": "ssd"}}}));
    assert!(sandbox.settled(LIMIT).await);
    assert_eq!(nodes_of(&sandbox), ["node-2"]);

    store.delete("nodes", "", "node-2", None).unwrap();
    assert!(sandbox.settled(LIMIT).await);
    assert_eq!((sandbox.board.pods().count(), numbers(&sandbox)), (0, [0; 6]));
}

#[tokio::test]
async fn the_pods_of_a_daemon_set_are_placed_by_the_scheduler_and_deleted_with_the_set() {
    let mut sandbox = sandbox(1, &pod("big", "3500m")).await;
    let mut greedy = set(&json!({}));
    greedy["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("1");
    sandbox.store().create(SETS, greedy).unwrap();
    assert!(sandbox.settled(LIMIT).await);
    assert_eq!(count(&sandbox, PodState::Unschedulable), 1, "the pod exists, but there is no room for it");
    assert_eq!(numbers(&sandbox), [1, 1, 1, 0, 0, 0]);
    sandbox.store().delete("pods", "default", "big", None).unwrap();
    assert!(sandbox.settled(LIMIT).await);
    assert_eq!(nodes_of(&sandbox), ["node-1"]);
    sandbox.store().delete(SETS, "default", "web", None).unwrap();
    assert!(sandbox.settled(LIMIT).await);
    assert_eq!(sandbox.board.pods().count(), 0);
}

#[tokio::test]
async fn a_new_template_replaces_all_pods_except_with_the_strategy_on_delete() {
    let image = |image: &str| json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}});
    for (strategy, moved) in [("RollingUpdate", 3), ("OnDelete", 1)] {
        let mut sandbox = sandbox(3, "").await;
        sandbox.store().create(SETS, set(&json!({"updateStrategy": {"type": strategy}}))).unwrap();
        assert!(sandbox.settled(LIMIT).await);
        let before: Vec<String> = sandbox.board.pods().map(|pod| pod.name.clone()).collect();
        assert_eq!(before.len(), 3);
        change(&sandbox, SETS, "web", &image("other"));
        if strategy == "OnDelete" {
            eventually(|| numbers(&sandbox) == [3, 3, 0, 3, 3, 0]).await;
            let name = before[0].trim_start_matches("default/");
            sandbox.store().delete("pods", "default", name, None).unwrap();
        }
        assert!(sandbox.settled(LIMIT).await);
        assert_eq!(numbers(&sandbox), [3, 3, moved, 3, 3, 0], "{strategy}");
        let kept = before.iter().filter(|name| sandbox.board.pod(name).is_some()).count();
        assert_eq!(kept, 3 - usize::try_from(moved).unwrap(), "{strategy}");
    }
}
