//! Pod groups are served only with their feature gate, and outlive their deletion until their pods have finished.

use super::*;

const GROUPS: &str = "podgroups.scheduling.k8s.io";
const MANIFEST: &str = "
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: workers}
spec: {schedulingPolicy: {gang: {minCount: 2}}}
---
";

/// Starts a sandbox of release 1.37 without a scheduler.
async fn start(pod_groups: bool) -> Sandbox {
    let features = Features::of(Release::V1_37).with(Feature::GenericWorkload, pod_groups);
    let options = Options { features, scheduler: AttachedScheduler::None, ..options(1, MANIFEST) };
    Sandbox::start(options).await.unwrap()
}

fn member(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "nodeName": "node-1", "restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
        "schedulingGroup": {"podGroupName": "workers"}, "containers": [{"name": "c", "image": "i"}]}})
}

#[tokio::test]
async fn a_deleted_group_remains_until_no_unfinished_pod_names_it() {
    let sandbox = start(true).await;
    let store = sandbox.store();
    for name in ["a", "b"] {
        store.create("pods", member(name)).unwrap();
    }
    store.delete(GROUPS, "default", "workers", None).unwrap();
    let group = read(&sandbox, GROUPS, "workers");
    assert_eq!(group["metadata"]["finalizers"], json!(["scheduling.k8s.io/podgroup-protection"]));

    store.delete("pods", "default", "a", Some(0)).unwrap();
    eventually(|| store.get("pods", "default", "a").is_err()).await;
    change(&sandbox, GROUPS, "workers", &json!({"metadata": {"labels": {"seen": "yes"}}}));
    assert!(store.get(GROUPS, "default", "workers").is_ok(), "b is unfinished");
    store.merge("pods", "default", "b", true, &json!({"status": {"phase": "Failed"}})).unwrap();
    eventually(|| store.get(GROUPS, "default", "workers").is_err()).await;
    sandbox.stop().await.unwrap();
}

#[tokio::test]
async fn without_the_gate_groups_are_ignored_and_pods_belong_to_none() {
    let sandbox = start(false).await;
    assert!(sandbox.notices().iter().any(|notice| notice.contains("PodGroup")), "{:?}", sandbox.notices());
    assert!(!sandbox.store().serves(GROUPS));
    sandbox.store().create("pods", member("a")).unwrap();
    assert_eq!(read(&sandbox, "pods", "a")["spec"].get("schedulingGroup"), None);
    sandbox.stop().await.unwrap();
}
