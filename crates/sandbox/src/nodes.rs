//! Nodes made from nothing.

use harbormaster_apiserver::VERSION;
use serde_json::{Value, json};

use crate::fields::{condition, now, set_condition};

const ZONES: [&str; 3] = ["a", "b", "c"];

/// `node-1`, `node-2`, …: four CPUs and 16 GiB each, in zones a, b and c in turn.
pub(crate) fn made(count: usize) -> impl Iterator<Item = Value> {
    (1..=count).map(|number| {
        let name = format!("node-{number}");
        let resources = json!({"cpu": "4", "memory": "16Gi", "ephemeral-storage": "100Gi", "pods": "110"});
        json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "topology.kubernetes.io/region": "sandbox",
                "topology.kubernetes.io/zone": ZONES[(number - 1) % ZONES.len()],
            }},
            "status": {"capacity": resources, "allocatable": resources},
        })
    })
}

/// Whether a node says what a kubelet would say about it.
pub(crate) fn is_complete(node: &Value) -> bool {
    condition(node, "Ready").is_some()
        && node["status"]["addresses"].is_array()
        && node["status"]["nodeInfo"].is_object()
}

/// Adds what a kubelet would say about its node, where the node says nothing.
pub(crate) fn complete(node: &mut Value, number: usize) {
    if !node["status"].is_object() {
        node["status"] = json!({});
    }
    if condition(node, "Ready").is_none() {
        set_condition(node, "Ready", true, "KubeletReady", "kubelet is posting ready status");
        if let Some(ready) = node["status"]["conditions"].as_array_mut().and_then(|all| all.last_mut()) {
            ready["lastHeartbeatTime"] = now().into();
        }
    }
    if !node["status"]["addresses"].is_array() {
        let name = node["metadata"]["name"].clone();
        node["status"]["addresses"] = json!([
            {"type": "InternalIP", "address": address(number)},
            {"type": "Hostname", "address": name},
        ]);
    }
    if !node["status"]["nodeInfo"].is_object() {
        node["status"]["nodeInfo"] = json!({
            "architecture": "amd64", "bootID": "", "containerRuntimeVersion": "sandbox://1", "kernelVersion": "sandbox",
            "kubeProxyVersion": "", "kubeletVersion": VERSION, "machineID": "", "operatingSystem": "linux",
            "osImage": "sandbox", "systemUUID": "",
        });
    }
}

/// The address of the node with that number.
fn address(number: usize) -> String {
    format!("172.{}.{}.{}", 18 + (number >> 16) % 14, number >> 8 & 0xff, number & 0xff)
}
