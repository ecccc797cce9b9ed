//! Every node has its own address. So does every pod, except that a pod on the host network has its node's address.

use std::collections::BTreeSet;

use super::*;

fn texts(sandbox: &Sandbox, resource: &str, pointer: &str) -> Vec<String> {
    let (objects, _) = sandbox.store().list(resource, "", "", "").unwrap();
    let text = |object: Value| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    objects.iter().map(|object| text(object.value())).collect()
}

#[tokio::test]
async fn pods_get_addresses_in_the_range_of_their_node_and_a_node_added_later_is_ready() {
    let host = "apiVersion: v1\nkind: Pod\nmetadata: {name: host}\nspec: {hostNetwork: true, nodeName: node-1, containers: \
                [{name: c, image: i}]}\n---\n";
    let mut sandbox = sandbox(2, &[workload("Deployment", 12), host.to_owned()].concat()).await;
    let store = sandbox.store().clone();
    store.create("nodes", json!({"metadata": {"name": "late"}})).unwrap();
    eventually(|| !texts(&sandbox, "nodes", "/spec/podCIDR").contains(&String::new())).await;
    let ranges = ["10.244.2.0/24", "10.244.0.0/24", "10.244.1.0/24"];
    assert_eq!(texts(&sandbox, "nodes", "/spec/podCIDR"), ranges);
    let late = store.get("nodes", "", "late").unwrap().value();
    let conditions = late["status"]["conditions"].as_array().unwrap();
    let ready = conditions.iter().find(|condition| condition["type"] == "Ready").unwrap();
    assert_eq!(ready["status"], "True");
    let hosts = texts(&sandbox, "nodes", "/status/addresses/0/address");
    assert_eq!(hosts, ["172.18.0.3", "172.18.0.1", "172.18.0.2"]);

    let (pods, _) = store.list("pods", "", "", "").unwrap();
    let pods: Vec<Value> = pods.iter().map(|pod| pod.value()).collect();
    let mut seen = BTreeSet::new();
    for pod in &pods {
        let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str).unwrap();
        let (ip, on_first) = (text("/status/podIP"), text("/spec/nodeName") == "node-1");
        let range = if on_first { "10.244.0." } else { "10.244.1." };
        assert!(ip.starts_with(range) || (ip, text("/metadata/name")) == ("172.18.0.1", "host"), "{pod}");
        assert_eq!(text("/status/hostIP"), if on_first { "172.18.0.1" } else { "172.18.0.2" });
        assert!(seen.insert(ip.to_owned()), "{ip} occurs twice");
    }
    assert_eq!(seen.len(), 13);

    change(&sandbox, "deployments.apps", "web", &json!({"spec": {"replicas": 20}}));
    assert!(sandbox.settled(LIMIT).await);
    let all = texts(&sandbox, "pods", "/status/podIP");
    assert_eq!((all.len(), all.iter().collect::<BTreeSet<_>>().len()), (21, 21));
}
