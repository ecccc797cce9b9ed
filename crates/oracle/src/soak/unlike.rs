//! Fields that make a pod unlike all others to plugins that look at nodes: a scheduler must not keep answers for them.

use serde_json::{Value, json};

/// The host ports that pods take in turn: more than pods are there at a time.
const HOST_PORTS: u64 = 60_000;

/// Gives the pod of that number a preference for nodes and one for pods, a topology key, an image and a host port of its own.
pub(super) fn make_unlike(number: u64, pod: &mut Value) {
    let own = pod["metadata"]["name"].clone();
    let label = json!({"key": "example.com/data", "operator": "In", "values": [own]});
    pod["spec"]["affinity"]["nodeAffinity"] = json!({
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "preference": {"matchExpressions": [label]}},
        ],
    });
    let near = |topology_key: Value| {
        let term = json!({"labelSelector": {"matchLabels": {"own": own}}, "topologyKey": topology_key});
        json!({"weight": 1, "podAffinityTerm": term})
    };
    pod["spec"]["affinity"]["podAffinity"] = json!({
        "preferredDuringSchedulingIgnoredDuringExecution": [
            near(json!("kubernetes.io/hostname")),
            near(json!(format!("example.com/key-{number}"))),
        ],
    });
    let container = &mut pod["spec"]["containers"][0];
    container["image"] = json!(format!("registry.example/app-{number}:v1"));
    let port = 1 + number % HOST_PORTS;
    container["ports"] = json!([{"containerPort": port, "hostPort": port}]);
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_pods_share_anything_that_plugins_look_at() {
        let parts = |number: u64| {
            let mut pod = super::super::pod(number);
            make_unlike(number, &mut pod);
            let affinity = &pod["spec"]["affinity"];
            let container = &pod["spec"]["containers"][0];
            ["nodeAffinity", "podAffinity"]
                .map(|kind| affinity[kind].to_string())
                .into_iter()
                .chain(["image", "ports"].map(|field| container[field].to_string()))
                .collect::<Vec<_>>()
        };
        let all: HashSet<String> = (0..1000).flat_map(parts).collect();
        assert_eq!(all.len(), 4 * 1000);
    }

    #[test]
    fn a_pod_that_keeps_apart_goes_on_doing_so() {
        let mut pod = super::super::pod(0);
        make_unlike(0, &mut pod);
        assert!(pod["spec"]["affinity"]["podAntiAffinity"].is_object());
    }
}
