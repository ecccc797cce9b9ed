//! Full clusters whose pods have priority classes that tolerate preemption.

use serde_json::{Value, json};

use crate::generate::Random;

/// Priorities of the classes.
const PRIORITIES: &[i64] = &[0, 50, 100, 100, 200];
const PREFIX: &str = "preemption-toleration.scheduling.x-k8s.io";
/// The time of all decisions.
const NOW: i64 = 1_800_000_000;

/// Returns objects.
pub(super) fn cluster(random: &mut Random) -> Vec<Value> {
    let mut objects: Vec<Value> = (0..PRIORITIES.len()).map(|index| class(random, index)).collect();
    let nodes = random.range(1, 8);
    objects.extend((0..nodes).map(|index| node(random, index)));
    for app in ["x", "y"] {
        if random.chance(40) {
            objects.push(budget(random, app));
        }
    }
    let bound = random.range(nodes, nodes * 5);
    for index in 0..bound {
        let on = format!("node-{}", random.below(nodes));
        objects.push(bound_pod(random, index, &on));
    }
    let pending = random.range(10, 30);
    objects.extend((0..pending).map(|index| pending_pod(random, index)));
    objects
}

fn class(random: &mut Random, index: usize) -> Value {
    let mut annotations = json!({});
    if random.chance(75) {
        let minimum = *random.pick(&["60", "150", "200", "250", "10000", "-1", "many", "99999999999"]);
        annotations[format!("{PREFIX}/minimum-preemptable-priority")] = minimum.into();
    }
    if random.chance(75) {
        let seconds = *random.pick(&["-1", "0", "1", "100", "3600", "1000000", "soon"]);
        annotations[format!("{PREFIX}/toleration-seconds")] = seconds.into();
    }
    json!({
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": format!("class-{index}"), "annotations": annotations},
        "value": PRIORITIES[index],
    })
}

fn node(random: &mut Random, index: usize) -> Value {
    let allocatable = json!({"cpu": random.pick(&["2", "4", "8"]), "memory": "64Gi", "pods": "110"});
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": format!("node-{index}")},
        "status": {"allocatable": allocatable, "capacity": allocatable},
    })
}

fn budget(random: &mut Random, app: &str) -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {
            "disruptionsAllowed": random.below(3), "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1,
        },
    })
}

fn pod(random: &mut Random, name: &str, class: usize) -> Value {
    let request = *random.pick(&["500m", "1", "1500m", "2", "4"]);
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": random.pick(&["x", "y", "z"])}},
        "spec": {
            "schedulerName": "default-scheduler",
            "priorityClassName": format!("class-{class}"),
            "priority": PRIORITIES[class],
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": request}}}],
        },
    })
}

fn bound_pod(random: &mut Random, index: usize, node: &str) -> Value {
    let class = random.below(PRIORITIES.len());
    let mut pod = pod(random, &format!("bound-{index}"), class);
    pod["spec"]["nodeName"] = node.into();
    // Start times differ, because kube-scheduler orders pods without a start time by the clock.
    let minute = |index: usize| format!("2026-01-01T{:02}:{:02}:00Z", index / 60 % 24, index % 60);
    pod["status"] = json!({"phase": "Running", "startTime": minute(index)});
    if random.chance(85) {
        let ago = *random.pick(&[0, 1, 50, 99, 100, 101, 3599, 3600, 3601, 999_999]);
        let at = harbormaster_api::Timestamp::from_secs(NOW - ago).to_rfc3339();
        let status = if random.chance(90) { "True" } else { "False" };
        pod["status"]["conditions"] =
            json!([{"type": "PodScheduled", "status": status, "lastTransitionTime": at}]);
    }
    if random.chance(10) {
        pod["spec"]["priorityClassName"] = Value::Null;
    }
    pod
}

fn pending_pod(random: &mut Random, index: usize) -> Value {
    let mut pod = pod(random, &format!("pod-{index}"), 0);
    pod["spec"]["priorityClassName"] = Value::Null;
    pod["spec"]["priority"] = (*random.pick(&[0, 51, 100, 101, 150, 199, 200, 201, 250, 20_000])).into();
    if random.chance(5) {
        pod["spec"]["preemptionPolicy"] = "Never".into();
    }
    pod
}
