//! Services have endpoints for their pods, and load balancers have an address.

use harbormaster_sandbox::READY_AFTER;

use super::*;

const SERVICE: &str = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {type: LoadBalancer, selector: {app: web}, \
                       ports: [{port: 80, targetPort: 8080}]}\n---\n";

/// Returns the numbers of endpoints that are ready and that are not ready.
fn endpoints(sandbox: &Sandbox) -> (usize, usize) {
    let (slices, _) = sandbox
        .store()
        .list("endpointslices.discovery.k8s.io", "default", "kubernetes.io/service-name=web", "")
        .unwrap();
    let slices: Vec<Value> = slices.iter().map(|slice| slice.value()).collect();
    let all = slices.iter().flat_map(|slice| slice["endpoints"].as_array().cloned().unwrap_or_default());
    let (ready, unready): (Vec<Value>, Vec<Value>) =
        all.partition(|endpoint| endpoint["conditions"]["ready"] == true);
    (ready.len(), unready.len())
}

#[tokio::test]
async fn a_service_has_endpoints_for_its_pods_and_a_load_balancer_has_an_address() {
    let manifests = [workload("Deployment", 3), SERVICE.to_owned(), pod("other", "1")].concat();
    let mut sandbox = sandbox(2, &manifests).await;
    eventually(|| endpoints(&sandbox) == (3, 0)).await;
    let old = read(&sandbox, "endpoints", "web")["subsets"][0].clone();
    assert_eq!((old["addresses"].as_array().unwrap().len(), &old["ports"][0]["port"]), (3, &json!(8080)));
    let service = read(&sandbox, "services", "web");
    assert_eq!(service["status"]["loadBalancer"]["ingress"][0]["ip"], "198.18.0.1");

    let (pods, _) = sandbox.store().list("pods", "default", "app=web", "").unwrap();
    change(&sandbox, "pods", pods[0].name(), &json!({"metadata": {"annotations": {READY_AFTER: "never"}}}));
    eventually(|| endpoints(&sandbox) == (2, 1)).await;
    change(&sandbox, "deployments.apps", "web", &json!({"spec": {"replicas": 0}}));
    assert!(sandbox.settled(LIMIT).await);
    eventually(|| endpoints(&sandbox) == (0, 0)).await;
    sandbox.store().delete("services", "default", "web", None).unwrap();
    eventually(|| sandbox.store().get("endpoints", "default", "web").is_err()).await;
    sandbox.stop().await.unwrap();
}
