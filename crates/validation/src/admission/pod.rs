//! Pods: defaults and admission.

mod whole;

use harbormaster_api::{Quantity, Release, Timestamp, requests::spec_request_list, wire::Decoder};
use serde_json::{Value, json};

use super::{
    Context, Refusal, defaults,
    pod_checks::{PREFERRED, REQUIRED},
    priority, runtime_class,
};
use crate::value::{default, list, list_mut, map, present, remove, text};

/// Sets the defaults of a pod in a release.
pub(super) fn defaults(pod: &mut Value, release: Release, now: Timestamp) {
    let gated = !list(pod, "/spec/schedulingGates").is_empty();
    if map(pod, "spec").is_none() {
        return;
    }
    let Some(spec) = pod.get_mut("spec") else { return };
    defaults::pod_spec(spec);
    default(spec, "enableServiceLinks", true);
    if spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|seconds| seconds < 0) {
        spec["terminationGracePeriodSeconds"] = 1.into();
    }
    if spec.get("hostNetwork") == Some(&Value::Bool(true)) {
        default_host_ports(spec);
    }
    default_requests(spec, release);
    let (quality, conditions) = (quality_of_service(spec), gated.then(|| gated_condition(now)));
    if map(pod, "status").is_some() {
        default(&mut pod["status"], "phase", "Pending");
        default(&mut pod["status"], "qosClass", quality);
        if let Some(condition) = conditions {
            default(&mut pod["status"], "conditions", json!([condition]));
        }
    }
}

fn gated_condition(now: Timestamp) -> Value {
    json!({
        "type": "PodScheduled",
        "status": "False",
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
        "lastProbeTime": null,
        "lastTransitionTime": now.to_rfc3339(),
    })
}

fn default_host_ports(spec: &mut Value) {
    for containers in ["/initContainers", "/containers"] {
        for container in list_mut(spec, containers) {
            for port in list_mut(container, "/ports") {
                if let Some(number) = port.get("containerPort").cloned() {
                    default(port, "hostPort", number);
                }
            }
        }
    }
}

/// Sets the missing requests of a pod's spec, and the missing limits of the pod as a whole, as the API server of a
/// release does for a new pod. A container's limit is the default for its request.
pub fn default_requests(spec: &mut Value, release: Release) {
    for containers in ["/initContainers", "/containers"] {
        list_mut(spec, containers).iter_mut().for_each(default_requests_of_container);
    }
    whole::defaults(spec, release);
}

fn default_requests_of_container(container: &mut Value) {
    let Some(resources) = map(container, "resources") else { return };
    let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else { return };
    let requests = resources.entry("requests").or_insert_with(|| json!({}));
    if let Some(requests) = requests.as_object_mut() {
        for (name, amount) in limits {
            requests.entry(name).or_insert(amount);
        }
    }
}

/// Returns the total requests of a pod's containers. Amounts of CPU are added without rounding; only the sum is
/// rounded.
pub(super) fn requests_of_containers(spec: &Value) -> Vec<(String, Quantity)> {
    let mut bare = json!({"spec": spec});
    for of_pod in ["resources", "overhead"] {
        remove(&mut bare["spec"], of_pod);
    }
    for containers in ["/spec/initContainers", "/spec/containers"] {
        list_mut(&mut bare, containers).iter_mut().for_each(cpu_in_nanos);
    }
    let pod = Decoder::new().pod_value(&bare).unwrap_or_default();
    let amount = |name: &str, amount: i64| match name {
        "cpu" => format!("{}n", amount / 1000).parse().unwrap_or_default(),
        // Written with a binary suffix, as is usual.
        _ if amount % 1024 == 0 => format!("{}Ki", amount / 1024).parse().unwrap_or_default(),
        _ => Quantity::from_units(amount),
    };
    spec_request_list(&pod.spec).into_iter().map(|(name, of)| (name.to_string(), amount(&name, of))).collect()
}

/// Multiplies a container's CPU request by a billion, so that no fraction is rounded.
fn cpu_in_nanos(container: &mut Value) {
    let Some(cpu) = container.pointer_mut("/resources/requests/cpu") else { return };
    if let Some(Ok(quantity)) = cpu.as_str().map(str::parse::<Quantity>) {
        *cpu = quantity.nanos().to_string().into();
    }
}

/// Returns `status.qosClass`, which determines the order in which the kubelet evicts pods.
fn quality_of_service(spec: &Value) -> &'static str {
    let (mut any, mut all_limited) = (false, true);
    let whole = present(spec, "/resources").map(|_| std::slice::from_ref(spec));
    let containers = list(spec, "/containers").iter().chain(list(spec, "/initContainers"));
    let containers: Vec<&Value> = whole.map_or_else(|| containers.collect(), |whole| whole.iter().collect());
    for container in containers {
        let amount = |part: &str, name: &str| {
            let text = container.get("resources")?.get(part)?.get(name)?.as_str()?;
            text.parse::<Quantity>().ok().filter(|quantity| !quantity.is_zero())
        };
        for name in ["cpu", "memory"] {
            let (request, limit) = (amount("requests", name), amount("limits", name));
            any |= request.is_some() || limit.is_some();
            all_limited &= limit.is_some() && request.is_none_or(|request| Some(request) == limit);
        }
    }
    match (any, all_limited) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

/// Adds the fields that kube-apiserver sets in a new pod: the label keys of selectors, the service account, the
/// priority, time-limited tolerations for unavailable nodes, and the overhead, node selector and tolerations of the
/// runtime class.
pub(super) fn admit(context: &Context<'_>, pod: &mut Value) -> Result<(), Refusal> {
    if !pod.get("spec").is_some_and(Value::is_object) {
        return Ok(());
    }
    let labels = pod["metadata"]["labels"].clone();
    let spec = &mut pod["spec"];
    add_label_keys(spec, &labels);
    for field in ["serviceAccountName", "serviceAccount"] {
        default(spec, field, "default");
    }
    priority::admit_pod(context, spec)?;
    if context.default_tolerations {
        default_tolerations(&mut pod["spec"]);
    }
    runtime_class::admit_pod(context, &mut pod["spec"])
}

/// Merges `matchLabelKeys` and `mismatchLabelKeys` into their label selectors.
fn add_label_keys(spec: &mut Value, labels: &Value) {
    for kind in ["podAffinity", "podAntiAffinity"] {
        for term in list_mut(spec, &format!("/affinity/{kind}/{REQUIRED}")) {
            add_keys_of_term(term, labels);
        }
        for preferred in list_mut(spec, &format!("/affinity/{kind}/{PREFERRED}")) {
            add_keys_of_term(&mut preferred["podAffinityTerm"], labels);
        }
    }
    for constraint in list_mut(spec, "/topologySpreadConstraints") {
        add_keys_of_term(constraint, labels);
    }
}

fn add_keys_of_term(term: &mut Value, labels: &Value) {
    let mut added = Vec::new();
    for (keys, operator) in [("/matchLabelKeys", "In"), ("/mismatchLabelKeys", "NotIn")] {
        for key in list(term, keys).iter().filter_map(Value::as_str) {
            added.extend(
                labels.get(key).map(|value| json!({"key": key, "operator": operator, "values": [value]})),
            );
        }
    }
    if let Some(selector) = term.get_mut("labelSelector").filter(|s| s.is_object() && !added.is_empty()) {
        default(selector, "matchExpressions", json!([]));
        if let Some(expressions) = selector["matchExpressions"].as_array_mut() {
            expressions.append(&mut added);
        }
    }
}

/// Restores values that admission plugins set in the old pod and that the changed pod lacks.
pub(super) fn admit_update(context: &Context<'_>, old: &Value, pod: &mut Value) {
    let (Some(before), Some(spec)) = (old.get("spec"), pod.get_mut("spec").filter(|spec| spec.is_object()))
    else {
        return;
    };
    for field in ["priority", "preemptionPolicy"] {
        if let Some(value) = before.get(field) {
            default(spec, field, value.clone());
        }
    }
    if context.default_tolerations {
        default_tolerations(spec);
    }
}

fn default_tolerations(spec: &mut Value) {
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = list(spec, "/tolerations").iter().any(|toleration| {
            let (given, effect) = (text(toleration, "/key"), text(toleration, "/effect"));
            (given == key || given.is_empty()) && matches!(effect, "NoExecute" | "")
        });
        if tolerated {
            continue;
        }
        default(spec, "tolerations", json!([]));
        if let Some(tolerations) = spec.get_mut("tolerations").and_then(Value::as_array_mut) {
            let toleration =
                json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
            tolerations.push(toleration);
        }
    }
}
