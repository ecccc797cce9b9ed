//! The controller against the in-memory API server.

use std::{
    process::{Child, Command},
    thread::sleep,
    time::{Duration, Instant},
};

use harbormaster::serde_json::{Value, json};
use harbormaster_oracle::embedded::Embedded;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const QUOTAS: &str = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/elasticquotas";
const PODS: &str = "/api/v1/namespaces/default/pods";
const PATIENCE: Duration = Duration::from_secs(20);

/// The controller's process, which ends with the test.
struct Controller(Child);

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

#[test]
fn the_status_follows_the_running_pods() {
    let cluster = Embedded::start(|_| Ok(())).unwrap();
    let client = cluster.client();
    let definition: Value = serde_saphyr::from_str(include_str!("../../deploy/crd.yaml")).unwrap();
    client.post(DEFINITIONS, &definition).unwrap();
    eventually("ElasticQuotas are served", || client.get(QUOTAS).ok());
    let mut program = Command::new(env!("CARGO_BIN_EXE_capacity-scheduling-controller"));
    let _controller = Controller(program.arg("--kubeconfig").arg(cluster.kubeconfig()).spawn().unwrap());
    let quota = json!({
        "apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "ElasticQuota",
        "metadata": {"name": "q"}, "spec": {"min": {"cpu": "4"}, "max": {"cpu": "6", "memory": "1Gi"}},
    });
    client.post(QUOTAS, &quota).unwrap();
    let is_used = |expected: Value| {
        eventually(&expected.to_string(), || {
            let object = client.get(&format!("{QUOTAS}/q")).unwrap();
            (object["status"]["used"] == expected).then_some(())
        });
    };
    is_used(json!({"cpu": "0", "memory": "0"}));
    for pod in ["a", "b"] {
        let requests = json!({"requests": {"cpu": "1500m", "memory": "64Mi"}});
        let containers = json!([{"name": "c", "image": "i", "resources": requests}]);
        client.post(PODS, &json!({"metadata": {"name": pod}, "spec": {"containers": containers}})).unwrap();
        client
            .merge_patch(&format!("{PODS}/{pod}/status"), &json!({"status": {"phase": "Running"}}))
            .unwrap();
    }
    is_used(json!({"cpu": "3", "memory": "128Mi"}));
    client.merge_patch(&format!("{PODS}/a/status"), &json!({"status": {"phase": "Succeeded"}})).unwrap();
    is_used(json!({"cpu": "1500m", "memory": "64Mi"}));
}
