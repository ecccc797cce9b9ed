//! Updates of the status of nodes and bound pods, as kubelets write them.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use harbormaster_api::Timestamp;
use serde_json::{Value, json};

use super::creation::{Creator, pods};
use super::workload::node_name;

/// Interval between two heartbeats of a node.
const HEARTBEAT: usize = 300;

/// Number of images on a node.
const IMAGES: usize = 20;

/// Time of the first heartbeat, in seconds.
const BEGIN: i64 = 1_780_000_000;

impl Creator<'_> {
    /// Updates nodes and init pods in turn, as many times as there are measured pods. Returns the time this took.
    pub(super) fn update_statuses(&self) -> Result<Duration> {
        let begun = Instant::now();
        self.each(self.size.pods, |index| {
            let (path, status) = self.update(index);
            self.client.merge_patch(&path, &json!({"status": status}))?;
            Ok(())
        })
        .context("updating a status")?;
        Ok(begun.elapsed())
    }

    /// Returns the path and the new status of the update with this index.
    fn update(&self, index: usize) -> (String, Value) {
        let (index, is_of_pod) = (index / 2, index.is_multiple_of(2));
        if is_of_pod && self.size.init_pods > 0 {
            let (turn, pod) = (index / self.size.init_pods, index % self.size.init_pods);
            let (namespace, object) = self.workload.init_pod(self.size, pod);
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            return (format!("{}/{name}/status", pods(&namespace)), pod_status(pod, turn));
        }
        let (turn, node) = (index / self.size.nodes, index % self.size.nodes);
        let status = json!({"conditions": node_conditions(turn + 1)});
        (format!("/api/v1/nodes/{}/status", node_name(node)), status)
    }
}

/// Returns a node's status as its kubelet writes it first.
pub(super) fn node_status(index: usize, resources: &Value) -> Value {
    let image = |image: usize| {
        let name = format!("registry.example.com/team-{}/service-{image}", image % 7);
        let digest = format!("{:064x}", image * 0x9e37_79b9);
        json!({"names": [format!("{name}@sha256:{digest}"), format!("{name}:v1.{image}")], "sizeBytes": 50_000_000 + image})
    };
    let id = format!("{index:08x}-1c2d-4e5f-8a9b-0c1d2e3f4a5b");
    json!({
        "capacity": resources, "allocatable": resources,
        "conditions": node_conditions(0),
        "addresses": [
            {"type": "InternalIP", "address": node_ip(index)}, {"type": "Hostname", "address": node_name(index)},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "machineID": id, "systemUUID": id, "bootID": id, "kernelVersion": "6.12.0-example", "osImage": "Example Linux 12",
            "containerRuntimeVersion": "containerd://2.1.4", "kubeletVersion": "v1.36.1", "kubeProxyVersion": "",
            "operatingSystem": "linux", "architecture": "amd64",
        },
        "images": (0..IMAGES).map(image).collect::<Vec<_>>(),
    })
}

/// Returns a node's conditions after `beats` heartbeats.
fn node_conditions(beats: usize) -> Value {
    let (begin, now) = (at(0), at(beats * HEARTBEAT));
    let condition = |(type_, status, reason, message): (&str, &str, &str, &str)| {
        json!({
            "type": type_, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": now, "lastTransitionTime": begin,
        })
    };
    let all = [
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ];
    all.map(condition).into_iter().collect()
}

/// Returns the status of a pod: it starts, and then its container fails and recovers in turn. Only the start changes
/// something that a scheduler reads.
fn pod_status(index: usize, turn: usize) -> Value {
    let (begin, now) = (at(0), at(turn * HEARTBEAT));
    let is_ready = !turn.is_multiple_of(2);
    let condition = |(type_, holds, since): (&str, bool, &str)| {
        let status = if holds { "True" } else { "False" };
        json!({"type": type_, "status": status, "observedGeneration": 1, "lastProbeTime": null, "lastTransitionTime": since})
    };
    let conditions = [
        ("PodReadyToStartContainers", true, &*begin),
        ("Initialized", true, &begin),
        ("Ready", is_ready, &now),
        ("ContainersReady", is_ready, &now),
        ("PodScheduled", true, &begin),
    ];
    let image = "registry.k8s.io/pause:3.10";
    let id = format!("containerd://{index:032x}{turn:032x}");
    let requests = json!({"cpu": "100m", "memory": "500Mi"});
    json!({
        "phase": "Running", "startTime": begin, "observedGeneration": 1,
        "conditions": conditions.map(condition),
        "hostIP": node_ip(index), "hostIPs": [{"ip": node_ip(index)}],
        "podIP": pod_ip(index), "podIPs": [{"ip": pod_ip(index)}],
        "containerStatuses": [{
            "name": "pause", "state": {"running": {"startedAt": now}}, "lastState": {}, "ready": is_ready,
            "started": true, "restartCount": turn, "image": image, "containerID": id,
            "imageID": format!("registry.k8s.io/pause@sha256:{:064x}", 0x9e37_79b9_u32),
            "allocatedResources": requests, "resources": {"requests": requests},
            "user": {"linux": {"uid": 65535, "gid": 65535, "supplementalGroups": [65535]}},
        }],
    })
}

fn at(seconds: usize) -> String {
    Timestamp::from_secs(BEGIN + i64::try_from(seconds).unwrap_or_default()).to_rfc3339()
}

fn node_ip(index: usize) -> String {
    format!("172.16.{}.{}", index / 250 % 250, index % 250 + 1)
}

fn pod_ip(index: usize) -> String {
    format!("10.{}.{}.{}", index / 62_500, index / 250 % 250, index % 250 + 1)
}

#[cfg(test)]
mod tests {
    use harbormaster_api::wire::Decoder;

    use super::*;

    #[test]
    fn a_scheduler_reads_nothing_new_in_heartbeats_and_in_pods_that_run() {
        let pod = |turn| Decoder::new().pod_value(&json!({"status": pod_status(3, turn)})).unwrap();
        assert!(pod(0) == pod(1) && pod(1) == pod(2));
        assert_ne!(pod_status(3, 1), pod_status(3, 2));
        let node = |beats| {
            Decoder::new().node_value(&json!({"status": {"conditions": node_conditions(beats)}})).unwrap()
        };
        assert_eq!(node(0), node(1));
        assert_ne!(node_conditions(0), node_conditions(1));
    }
}
