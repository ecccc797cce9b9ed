//! Pods: types, defaults and admission.

use std::collections::BTreeSet;

use harbormaster_api::{Quantity, wire::Decoder};
use serde_json::{Map, Value, json};

use super::{Context, default, list, list_mut, map, priority};
use crate::{kinds::text, time::now};

/// Fields of a pod's spec that hold containers.
pub(super) const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Checks the types of the fields that scheduling reads, and writes amounts canonically.
pub(super) fn shape(pod: &mut Value) -> Result<(), String> {
    for containers in CONTAINERS {
        let pointer = format!("/spec/{containers}");
        match pod.pointer(&pointer) {
            None | Some(Value::Null) => {}
            Some(Value::Array(all)) if all.iter().all(Value::is_object) => {}
            Some(_) => return Err(format!("spec.{containers}: expected a list of objects")),
        }
        for container in list_mut(pod, &pointer) {
            canonical_resources(container.get_mut("resources"))?;
        }
    }
    if let Some(spec) = pod.get_mut("spec") {
        canonical_resources(spec.get_mut("resources"))?;
        canonical(spec.get_mut("overhead"))?;
    }
    Decoder::new().pod_value(pod).map(|_| ()).map_err(|e| format!("{}: {}", e.path, e.problem))
}

fn canonical_resources(resources: Option<&mut Value>) -> Result<(), String> {
    let Some(resources) = resources.and_then(Value::as_object_mut) else { return Ok(()) };
    canonical(resources.get_mut("limits"))?;
    canonical(resources.get_mut("requests"))
}

/// Writes the amounts of a resource list as Kubernetes prints them.
pub(super) fn canonical(amounts: Option<&mut Value>) -> Result<(), String> {
    let Some(amounts) = amounts.and_then(Value::as_object_mut) else { return Ok(()) };
    for amount in amounts.values_mut() {
        let given = match &*amount {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            other => return Err(format!("expected a quantity, got {other}")),
        };
        let quantity: Quantity =
            given.parse().map_err(|e: harbormaster_api::quantity::QuantityError| e.problem.to_string())?;
        *amount = quantity.to_string().into();
    }
    Ok(())
}

/// Fills in what a pod does not say.
pub(super) fn defaults(pod: &mut Value) {
    let gated = !list(pod, "/spec/schedulingGates").is_empty();
    if map(pod, "spec").is_none() {
        return;
    }
    let Some(spec) = pod.get_mut("spec") else { return };
    for (name, value) in [
        ("restartPolicy", json!("Always")),
        ("dnsPolicy", json!("ClusterFirst")),
        ("schedulerName", json!("default-scheduler")),
        ("terminationGracePeriodSeconds", json!(30)),
        ("securityContext", json!({})),
        ("enableServiceLinks", json!(true)),
    ] {
        default(spec, name, value);
    }
    default_account(spec);
    let host_network = spec.get("hostNetwork") == Some(&Value::Bool(true));
    for containers in CONTAINERS {
        for container in list_mut(spec, &format!("/{containers}")) {
            default_container(container, host_network);
        }
    }
    for volume in list_mut(spec, "/volumes") {
        if volume.as_object().is_some_and(|volume| volume.len() == 1) {
            default(volume, "emptyDir", json!({}));
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

/// `serviceAccount` is the old name of `serviceAccountName`.
fn default_account(spec: &mut Value) {
    let old = spec.get("serviceAccount").and_then(Value::as_str).filter(|name| !name.is_empty());
    let name = old.unwrap_or("default").to_owned();
    default(spec, "serviceAccountName", name);
    if let Some(name) = spec.get("serviceAccountName").cloned() {
        default(spec, "serviceAccount", name);
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
        "observedGeneration": 1,
    })
}

fn default_container(container: &mut Value, host_network: bool) {
    let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
    let newest = match image.rsplit_once('/').map_or(image, |(_, last)| last) {
        last if last.contains('@') => false,
        last => last.rsplit_once(':').is_none_or(|(_, tag)| tag == "latest"),
    };
    for (name, value) in [
        ("terminationMessagePath", "/dev/termination-log"),
        ("terminationMessagePolicy", "File"),
        ("imagePullPolicy", if newest { "Always" } else { "IfNotPresent" }),
    ] {
        default(container, name, value);
    }
    for port in list_mut(container, "/ports") {
        default(port, "protocol", "TCP");
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
    priority::admit_pod(context, &mut pod["spec"])?;
    if context.options.default_tolerations {
        default_tolerations(&mut pod["spec"]);
    }
    Ok(())
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
