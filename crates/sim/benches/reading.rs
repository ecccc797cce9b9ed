//! Speed of reading manifests: dumps in JSON and YAML become an inventory, with all rules of the API server applied.
//!
//! `cargo bench -p harbormaster-sim --bench reading [-- FILE...]`
//!
//! Without files, reads four generated dumps: nodes and slim pods, and nodes and pods with all that a cluster adds to
//! them, each as JSON and as YAML.

#![allow(clippy::unwrap_used, reason = "a failing set-up ends the benchmark")]

use std::time::{Duration, Instant};

use harbormaster_manifests::Source;
use harbormaster_sim::{Inventory, Reading};
use serde_json::{Value, json};

/// The program's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Number of times that each dump is read.
const ROUNDS: usize = 5;

/// Number of pods of each ReplicaSet.
const REPLICAS: usize = 64;

const TIME: &str = "2026-01-01T00:00:00Z";

fn node(i: usize) -> Value {
    let (name, address) = (format!("node-{i:05}"), format!("10.{}.{}.{}", i >> 16, i >> 8 & 255, i & 255));
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "uid": format!("n-{i}"), "resourceVersion": i.to_string(), "creationTimestamp": TIME, "labels": {
            "kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
            "topology.kubernetes.io/zone": format!("zone-{}", i % 3), "node.kubernetes.io/instance-type": "m5.xlarge",
        }},
        "spec": {"podCIDR": format!("10.{}.{}.0/24", i / 250 % 250, i % 250), "providerID": format!("aws:///zone-{}/i-{i:017x}", i % 3)},
        "status": {
            "capacity": {"cpu": "4", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"},
            "allocatable": {"cpu": "3920m", "memory": "31Gi", "pods": "110", "ephemeral-storage": "95Gi"},
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": TIME, "lastTransitionTime": TIME,
                "reason": "KubeletReady", "message": "kubelet is posting ready status"}],
            "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
        },
    })
}

fn slim_pod(i: usize, nodes: usize) -> Value {
    let set = i / REPLICAS;
    let (app, hash) = (format!("app-{set}"), format!("{:08x}", set * 7919 % 999_983));
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("{app}-{hash}-{i:06}"), "namespace": format!("ns-{}", set % 50), "uid": format!("{i:08x}-0000-4000-8000-{i:012x}"),
            "resourceVersion": (100_000 + i).to_string(), "creationTimestamp": TIME,
            "labels": {"app": app, "pod-template-hash": hash},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{app}-{hash}"), "uid": format!("rs-{set}"),
                "controller": true, "blockOwnerDeletion": true}],
        },
        "spec": {
            "nodeName": format!("node-{:05}", i % nodes), "serviceAccountName": "default", "schedulerName": "default-scheduler",
            "restartPolicy": "Always", "priority": 0,
            "containers": [{"name": "main", "image": format!("registry.example.com/team/{app}:v1.{}", set % 10), "resources": {
                "requests": {"cpu": format!("{}m", 100 + set % 8 * 50), "memory": "256Mi"}, "limits": {"memory": "512Mi"},
            }}],
        },
        "status": {"phase": "Running"},
    })
}

fn full_pod(i: usize, nodes: usize) -> Value {
    let mut pod = slim_pod(i, nodes);
    let access = format!("kube-api-access-{i:05x}");
    let merge = |into: &mut Value, from: Value| {
        let (Value::Object(into), Value::Object(from)) = (into, from) else { return };
        into.extend(from);
    };
    merge(
        &mut pod["spec"]["containers"][0],
        json!({
            "imagePullPolicy": "IfNotPresent", "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            "ports": [{"containerPort": 8080, "protocol": "TCP"}],
            "env": [{"name": "NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}, {"name": "LEVEL", "value": "info"}],
            "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10, "timeoutSeconds": 1,
                "successThreshold": 1, "failureThreshold": 3},
            "volumeMounts": [{"mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "name": access, "readOnly": true}],
        }),
    );
    let unavailable = |what: &str| json!({"effect": "NoExecute", "key": format!("node.kubernetes.io/{what}"), "operator": "Exists", "tolerationSeconds": 300});
    merge(
        &mut pod["spec"],
        json!({
            "dnsPolicy": "ClusterFirst", "enableServiceLinks": true, "preemptionPolicy": "PreemptLowerPriority", "securityContext": {},
            "serviceAccount": "default", "terminationGracePeriodSeconds": 30,
            "tolerations": [unavailable("not-ready"), unavailable("unreachable")],
            "volumes": [{"name": access, "projected": {"defaultMode": 420, "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}},
                {"downwardAPI": {"items": [{"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}, "path": "namespace"}]}},
            ]}}],
        }),
    );
    let (time, address) =
        (format!("2026-01-01T00:00:{:02}Z", i % 60), format!("10.1.{}.{}", i >> 8 & 255, i & 255));
    let conditions = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];
    let conditions = conditions
        .map(|of| json!({"type": of, "status": "True", "lastProbeTime": null, "lastTransitionTime": time}));
    pod["status"] = json!({
        "phase": "Running", "qosClass": "Burstable", "hostIP": "10.0.0.1", "podIP": address, "podIPs": [{"ip": address}], "startTime": time,
        "conditions": conditions,
        "containerStatuses": [{"name": "main", "image": pod["spec"]["containers"][0]["image"], "imageID": format!("sha256:{:064x}", i / REPLICAS),
            "containerID": format!("containerd://{i:064x}"), "ready": true, "started": true, "restartCount": 0, "lastState": {},
            "state": {"running": {"startedAt": time}}}],
    });
    pod
}

fn dump(nodes: usize, pods: usize, pod: fn(usize, usize) -> Value) -> Value {
    let items: Vec<Value> = (0..nodes).map(node).chain((0..pods).map(|i| pod(i, nodes))).collect();
    json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": items})
}

/// Returns the CPU time that the process has used.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace();
    // Fields 14 and 15 count hundredths of seconds.
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

fn main() {
    let files: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let read = |file: &String| (file.clone(), std::fs::read_to_string(file).unwrap());
    let mut dumps: Vec<(String, String)> = files.iter().map(read).collect();
    if dumps.is_empty() {
        for (what, nodes, pods, pod) in [
            ("slim pods", 5000, 32_000, slim_pod as fn(usize, usize) -> Value),
            ("full pods", 1000, 10_000, full_pod),
        ] {
            let dump = dump(nodes, pods, pod);
            dumps.push((format!("{what}, JSON"), dump.to_string()));
            dumps.push((format!("{what}, indented JSON"), format!("{dump:#}")));
            dumps.push((format!("{what}, YAML"), harbormaster_yaml::write(&dump)));
        }
    }
    println!(
        "{:<28}{:>9}{:>9}{:>9}{:>9}{:>15}",
        "best of the rounds", "objects", "MB", "s", "MB/s", "MB/s of CPU"
    );
    for (name, text) in dumps {
        let megabytes = text.len() as f64 / 1e6;
        let source = [Source { name: name.clone(), text }];
        let (mut best, mut least) = (Duration::MAX, f64::MAX);
        let mut count = 0;
        for _ in 0..ROUNDS {
            let (start, cpu) = (Instant::now(), cpu_seconds());
            let inventory = Inventory::from_sources(&source, Reading::default()).unwrap();
            best = best.min(start.elapsed());
            least = least.min(cpu_seconds() - cpu);
            count = inventory.nodes.len() + inventory.bound.len() + inventory.pending.len();
        }
        let seconds = best.as_secs_f64();
        let (rate, cpu_rate) = (megabytes / seconds, megabytes / least);
        println!("{name:<28}{count:>9}{megabytes:>9.1}{seconds:>9.2}{rate:>9.1}{cpu_rate:>15.1}");
    }
}
