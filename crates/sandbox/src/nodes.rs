//! Generated nodes, and the objects that are created with them.

use serde_json::{Value, json};

use crate::fields::{condition, now, set_condition, text};

const ZONES: [&str; 3] = ["a", "b", "c"];

/// Returns the nodes `node-1`, `node-2`, … with four CPUs and 16 GiB each, in zones a, b and c in turn.
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

/// Name of the storage class that is created with generated nodes.
pub(crate) const STANDARD: &str = "standard";
/// Annotation of the default class, which applies to claims that name no class.
pub(crate) const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

/// Returns the default class. It provisions volumes where their pods are placed.
pub(crate) fn standard_class() -> Value {
    json!({
        "metadata": {"name": STANDARD, "annotations": {DEFAULT_CLASS: "true"}},
        "provisioner": "sandbox.harbormaster.dev/volumes",
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
    })
}

/// Conditions that a healthy kubelet reports: type, status, reason and message.
const CONDITIONS: [(&str, bool, &str, &str); 4] = [
    ("MemoryPressure", false, "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", false, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", false, "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", true, "KubeletReady", "kubelet is posting ready status"),
];

/// Returns true if a node has the status that a kubelet would set.
pub(crate) fn is_complete(node: &Value) -> bool {
    condition(node, "Ready").is_some()
        && node["status"]["addresses"].is_array()
        && node["status"]["nodeInfo"].is_object()
}

/// Replaces conditions whose status is Unknown by those of a healthy kubelet.
pub(crate) fn revive(node: &mut Value) {
    say_conditions(node, |condition| text(condition, "/status") == "Unknown");
}

/// Writes the conditions of a healthy node in place of conditions for which `is_replaced` returns true, and of missing
/// conditions.
fn say_conditions(node: &mut Value, is_replaced: impl Fn(&Value) -> bool) {
    for (name, holds, reason, message) in CONDITIONS {
        if condition(node, name).is_some_and(|old| !is_replaced(old)) {
            continue;
        }
        set_condition(node, name, holds, reason, message);
        let all = node["status"]["conditions"].as_array_mut().into_iter().flatten();
        for said in all.filter(|condition| text(condition, "/type") == name) {
            said["lastHeartbeatTime"] = now().into();
        }
    }
}

/// Adds the status fields that a kubelet of the given version would write, where the node does not specify them.
pub(crate) fn complete(node: &mut Value, number: usize, version: &str) {
    if !node["status"].is_object() {
        node["status"] = json!({});
    }
    if condition(node, "Ready").is_none() {
        say_conditions(node, |_| false);
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
            "kubeProxyVersion": "", "kubeletVersion": version, "machineID": "", "operatingSystem": "linux",
            "osImage": "sandbox", "systemUUID": "",
        });
    }
}

/// Returns the address of the node with the given number.
fn address(number: usize) -> String {
    format!("172.{}.{}.{}", 18 + (number >> 16) % 14, number >> 8 & 0xff, number & 0xff)
}
