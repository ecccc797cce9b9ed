//! Nodes, pods and configurations as JSON.

use serde_json::{Value, json};

pub const NODES: &str = "/api/v1/nodes";
pub const PODS: &str = "/api/v1/namespaces/default/pods";
pub const PRIORITY_CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";
pub const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

/// Returns a KubeSchedulerConfiguration with the defaults, except that the client uses JSON and has practically no rate
/// limit.
pub fn default_config() -> Value {
    json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"qps": 5000, "burst": 5000, "contentType": "application/json"},
    })
}

/// Returns [`default_config`] with one profile.
pub fn config(scheduler_name: &str) -> Value {
    let mut config = default_config();
    config["profiles"] = json!([{"schedulerName": scheduler_name}]);
    config
}

/// Returns a node with the given labels.
pub fn node(name: &str, labels: Value, cpu: &str, memory: &str, pods: u32) -> Value {
    let resources = json!({"cpu": cpu, "memory": memory, "pods": pods.to_string()});
    json!({
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": resources, "allocatable": resources},
    })
}

/// Returns a pod with one container, with `spec` merged into its spec.
pub fn pod(name: &str, scheduler_name: &str, requests: Value, spec: Value) -> Value {
    let mut pod = json!({
        "metadata": {"name": name},
        "spec": {
            "schedulerName": scheduler_name,
            "containers": [{"name": "c", "image": "x", "resources": {"requests": requests}}],
        },
    });
    if let Value::Object(fields) = spec {
        for (field, value) in fields {
            pod["spec"][field] = value;
        }
    }
    pod
}

/// Returns three priority classes: `middle`, `high`, and `patient`, which is high but never preempts.
pub fn priority_classes() -> [Value; 3] {
    [("middle", 100, "PreemptLowerPriority"), ("high", 1000, "PreemptLowerPriority"), ("patient", 1000, "Never")]
        .map(|(name, value, policy)| {
            json!({"metadata": {"name": name}, "value": value, "preemptionPolicy": policy})
        })
}

/// Returns the node of a pod, if it has one.
pub fn node_of(pod: &Value) -> Option<&str> {
    pod["spec"]["nodeName"].as_str()
}

/// Returns the status, reason and message of the `PodScheduled` condition, if there is one.
pub fn scheduled_condition(pod: &Value) -> Option<[&str; 3]> {
    condition(pod, "PodScheduled")
}

/// Returns the status, reason and message of the `DisruptionTarget` condition, if there is one.
pub fn disruption(pod: &Value) -> Option<[&str; 3]> {
    condition(pod, "DisruptionTarget")
}

/// Returns true if the pod is being deleted.
pub fn is_terminating(pod: &Value) -> bool {
    !pod["metadata"]["deletionTimestamp"].is_null()
}

fn condition<'a>(pod: &'a Value, type_: &str) -> Option<[&'a str; 3]> {
    let conditions = pod["status"]["conditions"].as_array()?;
    let condition = conditions.iter().find(|condition| condition["type"] == type_)?;
    Some(["status", "reason", "message"].map(|field| condition[field].as_str().unwrap_or_default()))
}
