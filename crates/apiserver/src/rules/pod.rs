//! Pods: defaults and admission.

use std::collections::BTreeSet;

use harbormaster_api::Quantity;
use serde_json::{Map, Value, json};

use super::{Context, default, defaults, list, list_mut, map, priority};
use crate::{kinds::text, time::now};

/// Fills in what a pod does not say.
pub(super) fn defaults(pod: &mut Value) {
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
    let host_network = spec.get("hostNetwork") == Some(&Value::Bool(true));
    for containers in ["initContainers", "containers"] {
        for container in list_mut(spec, &format!("/{containers}")) {
            default_container(container, host_network);
        }
    }
    let (quality, conditions) = (quality_of_service(spec), gated.then(gated_condition));
    if map(pod, "status").is_some() {
        default(&mut pod["status"], "phase", "Pending");
        default(&mut pod["status"], "qosClass", quality);
        if let Some(condition) = conditions {
            default(&mut pod["status"], "conditions", json!([condition]));
        }
    }
}

fn gated_condition() -> Value {
    json!({
        "type": "PodScheduled",
        "status": "False",
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
        "lastProbeTime": null,
        "lastTransitionTime": now().to_rfc3339(),
    })
}

/// A limit is a request, unless there is one.
fn default_container(container: &mut Value, host_network: bool) {
    for port in list_mut(container, "/ports") {
        if host_network && let Some(number) = port.get("containerPort").cloned() {
            default(port, "hostPort", number);
        }
    }
    let Some(resources) = map(container, "resources") else { return };
    let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else { return };
    let requests = resources.entry("requests").or_insert_with(|| json!({}));
    if let Some(requests) = requests.as_object_mut() {
        for (name, amount) in limits {
            requests.entry(name).or_insert(amount);
        }
    }
}

/// `status.qosClass`: what the kubelet would evict last.
fn quality_of_service(spec: &Value) -> &'static str {
    let (mut any, mut all_limited) = (false, true);
    let containers = list(spec, "/containers").iter().chain(list(spec, "/initContainers"));
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

/// What admission plugins add: the priority, and tolerations for nodes that are away for a short time.
pub(super) fn admit(context: &Context<'_>, pod: &mut Value) -> Result<(), String> {
    if !pod.get("spec").is_some_and(Value::is_object) {
        return Ok(());
    }
    let spec = &mut pod["spec"];
    for field in ["serviceAccountName", "serviceAccount"] {
        default(spec, field, "default");
    }
    priority::admit_pod(context, spec)?;
    if context.options.default_tolerations {
        default_tolerations(&mut pod["spec"]);
    }
    Ok(())
}

/// What admission plugins gave a pod stays, and is given again to one that has lost it.
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
    if context.options.default_tolerations {
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

/// Names under which a spec's resources of a part (`limits`, `requests`) are given.
pub(super) fn resource_names(spec: &Map<String, Value>, part: &str) -> BTreeSet<String> {
    let amounts = spec.get(part).and_then(Value::as_object);
    amounts.into_iter().flatten().map(|(name, _)| name.clone()).collect()
}
