//! Clusters whose pods name seccomp profiles.

use serde_json::{Value, json};

use crate::generate::{Random, push};

const CALLS: &[&str] =
    &["read", "write", "open", "close", "ioctl", "bpf", "ptrace", "mount", "reboot", "clone"];
const PROFILES: &[&str] = &["a", "b", "c", "d"];

/// Returns arguments and objects.
pub(super) fn cluster(random: &mut Random) -> (Option<Value>, Vec<Value>) {
    let default = *random.pick(&["all-syscalls", "a", "missing"]);
    let args = random
        .chance(60)
        .then(|| json!({"defaultProfileNamespace": "default", "defaultProfileName": default}));
    let mut objects: Vec<Value> = PROFILES.iter().map(|name| profile(random, name)).collect();
    if random.chance(80) {
        objects.push(profile(random, "all-syscalls"));
    }
    let nodes = random.range(1, 25);
    objects.extend((0..nodes).map(|index| {
        let allocatable = json!({"cpu": "8", "memory": "8Gi", "pods": "110"});
        let metadata = json!({"name": format!("node-{index}")});
        let status = json!({"allocatable": allocatable, "capacity": allocatable});
        json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status})
    }));
    for index in 0..random.below(nodes * 3) {
        let mut pod = pod(random, &format!("bound-{index}"));
        pod["spec"]["nodeName"] = format!("node-{}", random.below(nodes)).into();
        pod["status"] = json!({"phase": "Running"});
        objects.push(pod);
    }
    let pending = random.range(5, 30);
    objects.extend((0..pending).map(|index| pod(random, &format!("pod-{index}"))));
    (args, objects)
}

fn profile(random: &mut Random, name: &str) -> Value {
    let mut spec = json!({"defaultAction": "SCMP_ACT_ERRNO"});
    for _ in 0..random.below(3) {
        let action = *random.pick(&["SCMP_ACT_ALLOW", "SCMP_ACT_ALLOW", "SCMP_ACT_LOG", "SCMP_ACT_KILL"]);
        let count = random.range(1, 6);
        push(&mut spec["syscalls"], json!({"action": action, "names": random.sample(CALLS, count)}));
    }
    json!({
        "apiVersion": "security-profiles-operator.x-k8s.io/v1beta1",
        "kind": "SeccompProfile",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    })
}

fn pod(random: &mut Random, name: &str) -> Value {
    let mut path = || {
        let profile = *random.pick(&["a", "a", "b", "c", "d", "missing"]);
        let path = format!("localhost/operator/default/{profile}.json");
        if random.chance(95) { path } else { "odd".to_owned() }
    };
    let (of_pod, of_container, annotation) = (path(), path(), path());
    let local = |path: &str| json!({"seccompProfile": {"type": "Localhost", "localhostProfile": path}});
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "schedulerName": "default-scheduler",
            "containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}],
            "priority": 0,
        },
    });
    if random.chance(50) {
        pod["spec"]["securityContext"] = local(&of_pod);
    } else if random.chance(20) {
        pod["spec"]["securityContext"] = json!({"seccompProfile": {"type": "RuntimeDefault"}});
    }
    if random.chance(40) {
        pod["spec"]["containers"][1]["securityContext"] = local(&of_container);
    }
    // With several annotations, the real plugin reads a random one.
    if random.chance(20) {
        let key = "container.seccomp.security.alpha.kubernetes.io/c";
        pod["metadata"]["annotations"] = json!({key: annotation});
    }
    pod
}
