//! Requests and limits of a pod as a whole (KEP-2837): their defaults.
//!
//! If the pod has any of them, limits for hugepages follow from those of its containers. Requests follow from those of
//! the containers and from the limits of the pod; in Kubernetes 1.36, only if the pod has limits. From 1.37 on, limits
//! follow from those of the containers, too.

use harbormaster_api::{
    Quantity, Release,
    resources::{CPU, MEMORY, is_pod_level},
};
use serde_json::{Map, Value};

use super::requests_of_containers;
use crate::value::{list, list_mut, map, present};

/// Sets missing requests and limits. Those of the containers must be set already.
pub(super) fn defaults(spec: &mut Value, release: Release) {
    let amounts =
        |part: &str| spec.pointer(&format!("/resources/{part}")).and_then(Value::as_object).cloned();
    let (mut requests, mut limits) =
        (amounts("requests").unwrap_or_default(), amounts("limits").unwrap_or_default());
    if requests.is_empty() && limits.is_empty() {
        return;
    }
    let of_containers = limits_of_containers(spec);
    // Hugepages cannot be overcommitted, so their requests follow from their limits.
    for (name, limit) in &of_containers {
        if is_pod_level(name) && !can_be_overcommitted(name) && !requests.contains_key(name) {
            limits.entry(name).or_insert_with(|| limit.to_string().into());
        }
    }
    let is_newer = release >= Release::V1_37;
    if is_newer || !limits.is_empty() {
        for (name, asked) in requests_of_containers(spec) {
            if can_be_overcommitted(&name) {
                requests.entry(name).or_insert_with(|| asked.to_string().into());
            }
        }
    }
    for (name, limit) in limits.iter().filter(|(name, _)| is_pod_level(name)) {
        requests.entry(name).or_insert_with(|| limit.clone());
    }
    if is_newer {
        default_limits(spec, &requests, &mut limits, &of_containers);
    }
    for (part, amounts) in [("requests", requests), ("limits", limits)] {
        if !amounts.is_empty()
            && let Some(resources) = map(spec, "resources")
        {
            resources.insert(part.to_owned(), amounts.into());
        }
    }
}

/// Sets the limit of each requested resource that every container limits: to the total of these limits, or to the
/// request if that is larger.
fn default_limits(
    spec: &Value,
    requests: &Map<String, Value>,
    limits: &mut Map<String, Value>,
    of_containers: &[(String, Quantity)],
) {
    let containers = || list(spec, "/containers").iter().chain(list(spec, "/initContainers"));
    for (name, total) in of_containers {
        let is_limited = |container: &Value| {
            let limits = container.pointer("/resources/limits");
            limits.and_then(|limits| limits.get(name)).is_some()
        };
        let Some(request) = requests.get(name).filter(|_| is_pod_level(name)) else { continue };
        if limits.contains_key(name) || !containers().all(is_limited) {
            continue;
        }
        let is_larger = request.as_str().and_then(|text| text.parse::<Quantity>().ok()) > Some(*total);
        limits.insert(name.clone(), if is_larger { request.clone() } else { total.to_string().into() });
    }
}

/// Returns the total limits of a pod's containers, which add up like requests.
fn limits_of_containers(spec: &Value) -> Vec<(String, Quantity)> {
    let mut spec = spec.clone();
    for containers in ["/initContainers", "/containers"] {
        for container in list_mut(&mut spec, containers) {
            let limits = present(container, "/resources/limits").cloned();
            if let Some(resources) = map(container, "resources") {
                resources.insert("requests".to_owned(), limits.unwrap_or_default());
            }
        }
    }
    requests_of_containers(&spec)
}

fn can_be_overcommitted(name: &str) -> bool {
    name == CPU || name == MEMORY
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The pod's requests and limits in 1.36 and 1.37 that follow from its own and from those of its containers.
    fn after(whole: &Value, containers: &[Value]) -> [Value; 2] {
        [Release::V1_36, Release::V1_37].map(|release| {
            let container = |resources: &Value| json!({"name": "c", "resources": resources});
            let containers: Vec<Value> = containers.iter().map(container).collect();
            let mut spec = json!({"containers": containers, "resources": whole});
            defaults(&mut spec, release);
            spec["resources"].clone()
        })
    }

    #[test]
    fn requests_and_limits_follow_from_those_of_the_containers() {
        let asks = |cpu: &str| json!({"requests": {"cpu": cpu}});
        let limited = |cpu: &str| json!({"requests": {"cpu": cpu}, "limits": {"cpu": cpu}});
        let huge =
            json!({"requests": {"cpu": "1", "hugepages-2Mi": "4Mi"}, "limits": {"hugepages-2Mi": "4Mi"}});
        for (what, whole, containers, [older, newer]) in [
            ("a pod without any has none", json!({}), vec![asks("1")], [json!({}), json!({})]),
            (
                "without limits, requests are added up from 1.37 on",
                json!({"requests": {"memory": "1Gi"}}),
                vec![asks("1"), asks("500m")],
                [
                    json!({"requests": {"memory": "1Gi"}}),
                    json!({"requests": {"memory": "1Gi", "cpu": "1500m"}}),
                ],
            ),
            (
                "a limit is the default for a request that no container has",
                json!({"limits": {"memory": "1Gi"}}),
                vec![asks("1")],
                [(); 2].map(
                    |()| json!({"requests": {"memory": "1Gi", "cpu": "1"}, "limits": {"memory": "1Gi"}}),
                ),
            ),
            (
                "limits are added up from 1.37 on if every container has one",
                json!({"requests": {"memory": "1Gi"}}),
                vec![limited("1"), limited("2")],
                [
                    json!({"requests": {"memory": "1Gi"}}),
                    json!({"requests": {"memory": "1Gi", "cpu": "3"}, "limits": {"cpu": "3"}}),
                ],
            ),
            (
                "a limit is at least the request",
                json!({"requests": {"cpu": "5"}}),
                vec![limited("1")],
                [
                    json!({"requests": {"cpu": "5"}}),
                    json!({"requests": {"cpu": "5"}, "limits": {"cpu": "5"}}),
                ],
            ),
            (
                "one container without a limit is enough for none",
                json!({"requests": {"cpu": "5"}}),
                vec![limited("1"), asks("1")],
                [(); 2].map(|()| json!({"requests": {"cpu": "5"}})),
            ),
            (
                "hugepages are limited first, and their limit is enough for requests",
                json!({"requests": {"memory": "1Gi"}}),
                vec![huge],
                [(); 2].map(|()| {
                    json!({
                        "requests": {"memory": "1Gi", "cpu": "1", "hugepages-2Mi": "4Mi"},
                        "limits": {"hugepages-2Mi": "4Mi"},
                    })
                }),
            ),
        ] {
            assert_eq!(after(&whole, &containers), [older, newer], "{what}");
        }
    }
}
