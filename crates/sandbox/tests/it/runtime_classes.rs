//! Pods get overhead and node selectors from their runtime class.

use super::*;

const CLASS: &str = "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: kata}\nhandler: kata\noverhead: {podFixed: {cpu: 250m, \
                     memory: 120Mi}}\nscheduling:\n  nodeSelector: {topology.kubernetes.io/zone: b}\n  tolerations: \
                     [{key: kata, operator: Exists}]\n---\n";

#[tokio::test]
async fn a_pod_gets_the_overhead_and_the_nodes_of_its_runtime_class() {
    let with_class = pod("web", "1").replace("spec:\n", "spec:\n  runtimeClassName: kata\n");
    let sandbox = sandbox(3, &format!("{with_class}{CLASS}")).await;
    let spec = read(&sandbox, "pods", "web")["spec"].clone();
    assert_eq!(spec["overhead"], json!({"cpu": "250m", "memory": "120Mi"}));
    assert_eq!(spec["nodeSelector"], json!({"topology.kubernetes.io/zone": "b"}));
    assert_eq!(spec["tolerations"][2], json!({"key": "kata", "operator": "Exists"}));
    assert_eq!(spec["nodeName"], "node-2");
}

#[tokio::test]
async fn a_pod_with_a_missing_runtime_class_is_refused_unless_it_is_from_a_dump() {
    let of_nobody = pod("web", "1").replace("spec:\n", "spec:\n  runtimeClassName: kata\n");
    let error = Sandbox::start(options(1, &of_nobody)).await.unwrap_err().to_string();
    assert!(
        error.contains("spec.runtimeClassName: pod rejected: RuntimeClass \"kata\" not found"),
        "{error}"
    );
    let dumped = of_nobody
        .replace("name: web,", "name: web, uid: u,")
        .replace("kata\n", "kata\n  overhead: {cpu: 250m}\n");
    let sandbox = sandbox(1, &dumped).await;
    assert_eq!(read(&sandbox, "pods", "web")["spec"]["overhead"], json!({"cpu": "250m"}));
}
