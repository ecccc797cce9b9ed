//! Fields that make a pod unique for the plugins that read them. A scheduler must not accumulate cached answers for
//! unique pods.

use serde_json::{Value, json};

/// Number of host ports that pods use in turn. At any time there are fewer pods than ports, so no two of these pods
/// share a port.
const HOST_PORTS: u64 = 60_000;

/// Gives a pod unique preferences for nodes and for pods, and a unique topology key, image and host port.
pub(super) fn make_unique(number: u64, pod: &mut Value) {
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
    fn no_two_pods_have_the_same_preferences_or_image_or_ports() {
        let parts = |number: u64| {
            let mut pod = super::super::pod(number);
            make_unique(number, &mut pod);
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
    fn making_a_pod_unique_keeps_its_anti_affinity() {
        let mut pod = super::super::pod(0);
        make_unique(0, &mut pod);
        assert!(pod["spec"]["affinity"]["podAntiAffinity"].is_object());
    }
}
