//! Cells that are more than a field.

use harbormaster_api::Timestamp;
use serde_json::Value;

use super::{length, since};
use crate::{kinds::text, time::human_duration};

fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn number(value: &Value, pointer: &str) -> i64 {
    value.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

fn or<'a>(text: &'a str, other: &'a str) -> &'a str {
    if text.is_empty() { other } else { text }
}

/// Parts with commas between them, or the other text if there are none.
fn joined<'a>(parts: impl Iterator<Item = &'a str>, other: &str) -> Value {
    or(&parts.collect::<Vec<_>>().join(","), other).into()
}

/// `a=b,c=d`.
fn pairs(map: Option<&Value>) -> Vec<String> {
    let map = map.and_then(Value::as_object).into_iter().flatten();
    map.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect()
}

// --- pods in templates ---

fn of_containers(workload: &Value, field: &str) -> Value {
    let direct = list(workload, "/spec/template/spec/containers");
    let nested = list(workload, "/spec/jobTemplate/spec/template/spec/containers");
    joined(direct.iter().chain(nested).map(|container| text(container, field)), "")
}

pub(super) fn containers(workload: &Value, _: Timestamp) -> Value {
    of_containers(workload, "/name")
}

pub(super) fn images(workload: &Value, _: Timestamp) -> Value {
    of_containers(workload, "/image")
}

/// A label selector, or the map that a ReplicationController has.
pub(super) fn selector(workload: &Value, now: Timestamp) -> Value {
    let Some(selector) = workload.pointer("/spec/selector") else { return "<none>".into() };
    if selector.get("matchLabels").is_none() && selector.get("matchExpressions").is_none() {
        return map_selector(workload, now);
    }
    let mut parts = pairs(selector.get("matchLabels"));
    for expression in list(selector, "/matchExpressions") {
        let mut values: Vec<&str> = list(expression, "/values").iter().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let (key, values) = (text(expression, "/key"), values.join(","));
        parts.push(match text(expression, "/operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    joined(parts.iter().map(String::as_str), "<none>")
}

pub(super) fn map_selector(object: &Value, _: Timestamp) -> Value {
    joined(pairs(object.pointer("/spec/selector")).iter().map(String::as_str), "<none>")
}

pub(super) fn node_selector(set: &Value, _: Timestamp) -> Value {
    joined(pairs(set.pointer("/spec/template/spec/nodeSelector")).iter().map(String::as_str), "<none>")
}

pub(super) fn ready_replicas(workload: &Value, _: Timestamp) -> Value {
    format!("{}/{}", number(workload, "/status/readyReplicas"), number(workload, "/spec/replicas")).into()
}

pub(super) fn controller(revision: &Value, _: Timestamp) -> Value {
    let owners = list(revision, "/metadata/ownerReferences");
    let Some(owner) = owners.iter().find(|o| o.get("controller") == Some(&Value::Bool(true))) else {
        return "<none>".into();
    };
    let group = text(owner, "/apiVersion").split_once('/').map_or("", |(group, _)| group);
    let kind = text(owner, "/kind").to_lowercase();
    let name = text(owner, "/name");
    if group.is_empty() { format!("{kind}/{name}").into() } else { format!("{kind}.{group}/{name}").into() }
}

// --- jobs ---

pub(super) fn job_status(job: &Value, _: Timestamp) -> Value {
    let has = |kind: &str| {
        let conditions = list(job, "/status/conditions");
        conditions.iter().any(|c| text(c, "/type") == kind && text(c, "/status") == "True")
    };
    let words = ["Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet"];
    let word = match words.into_iter().find(|word| has(word)) {
        Some(word @ ("Complete" | "Failed")) => word,
        _ if job.pointer("/metadata/deletionTimestamp").is_some() => "Terminating",
        Some(word) => word,
        None => "Running",
    };
    word.into()
}

pub(super) fn suspended(job: &Value, _: Timestamp) -> Value {
    match job.pointer("/spec/suspend").and_then(Value::as_bool) {
        Some(true) => "True".into(),
        _ => "False".into(),
    }
}

pub(super) fn completions(job: &Value, _: Timestamp) -> Value {
    let done = number(job, "/status/succeeded");
    let parallelism = number(job, "/spec/parallelism");
    match job.pointer("/spec/completions").and_then(Value::as_i64) {
        Some(wanted) => format!("{done}/{wanted}").into(),
        None if parallelism > 1 => format!("{done}/1 of {parallelism}").into(),
        None => format!("{done}/1").into(),
    }
}

pub(super) fn job_duration(job: &Value, now: Timestamp) -> Value {
    let at = |pointer: &str| Timestamp::parse(text(job, pointer)).ok();
    match (at("/status/startTime"), at("/status/completionTime")) {
        (None, _) => "".into(),
        (Some(start), end) => human_duration(end.unwrap_or(now).since(start)).into(),
    }
}

// --- nodes ---

pub(super) fn node_status(node: &Value, _: Timestamp) -> Value {
    let ready = list(node, "/status/conditions").iter().find(|c| text(c, "/type") == "Ready");
    let mut status = match ready.map(|c| text(c, "/status")) {
        None => "Unknown".to_owned(),
        Some("True") => "Ready".to_owned(),
        Some(_) => "NotReady".to_owned(),
    };
    if node.pointer("/spec/unschedulable") == Some(&Value::Bool(true)) {
        status.push_str(",SchedulingDisabled");
    }
    status.into()
}

pub(super) fn node_roles(node: &Value, _: Timestamp) -> Value {
    let labels = node.pointer("/metadata/labels").and_then(Value::as_object);
    let mut roles: Vec<&str> = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => (!role.is_empty()).then_some(role),
            None => (key == "kubernetes.io/role").then(|| value.as_str()).flatten(),
        })
        .collect();
    roles.sort_unstable();
    joined(roles.into_iter(), "<none>")
}

fn address(node: &Value, kind: &str) -> Value {
    let addresses = list(node, "/status/addresses");
    let found = addresses.iter().find(|address| text(address, "/type") == kind);
    found.map_or("<none>", |address| text(address, "/address")).into()
}

pub(super) fn internal_ip(node: &Value, _: Timestamp) -> Value {
    address(node, "InternalIP")
}

pub(super) fn external_ip(node: &Value, _: Timestamp) -> Value {
    address(node, "ExternalIP")
}

pub(super) fn kernel(node: &Value, _: Timestamp) -> Value {
    let version = or(text(node, "/status/nodeInfo/kernelVersion"), "<unknown>");
    match text(node, "/status/nodeInfo/architecture") {
        "" => version.into(),
        architecture => format!("{version} ({architecture})").into(),
    }
}

// --- services ---

pub(super) fn external_ips(service: &Value, _: Timestamp) -> Value {
    let own = list(service, "/spec/externalIPs").iter().filter_map(Value::as_str);
    match text(service, "/spec/type") {
        "ExternalName" => text(service, "/spec/externalName").into(),
        "LoadBalancer" => {
            let ingress = list(service, "/status/loadBalancer/ingress").iter();
            joined(ingress.map(|i| or(text(i, "/ip"), text(i, "/hostname"))).chain(own), "<pending>")
        }
        _ => joined(own, "<none>"),
    }
}

pub(super) fn ports(service: &Value, _: Timestamp) -> Value {
    let ports: Vec<String> = list(service, "/spec/ports")
        .iter()
        .map(|port| {
            let protocol = or(text(port, "/protocol"), "TCP");
            match number(port, "/nodePort") {
                0 => format!("{}/{protocol}", number(port, "/port")),
                node_port => format!("{}:{node_port}/{protocol}", number(port, "/port")),
            }
        })
        .collect();
    joined(ports.iter().map(String::as_str), "<none>")
}

/// At most three, then how many more.
fn some(all: &[String]) -> Value {
    match all {
        [] => "<none>".into(),
        [a, b, c, more @ ..] if !more.is_empty() => format!("{a},{b},{c} + {} more...", more.len()).into(),
        all => all.join(",").into(),
    }
}

pub(super) fn endpoints(endpoints: &Value, _: Timestamp) -> Value {
    let mut all = Vec::new();
    for subset in list(endpoints, "/subsets") {
        for address in list(subset, "/addresses") {
            let ip = text(address, "/ip");
            all.extend(list(subset, "/ports").iter().map(|port| format!("{ip}:{}", number(port, "/port"))));
        }
    }
    some(&all)
}

pub(super) fn slice_ports(slice: &Value, _: Timestamp) -> Value {
    let ports: Vec<String> = list(slice, "/ports").iter().map(|p| number(p, "/port").to_string()).collect();
    if ports.is_empty() { "<unset>".into() } else { some(&ports) }
}

pub(super) fn slice_endpoints(slice: &Value, _: Timestamp) -> Value {
    let addresses = list(slice, "/endpoints").iter().flat_map(|endpoint| list(endpoint, "/addresses"));
    let all: Vec<String> = addresses.filter_map(Value::as_str).map(str::to_owned).collect();
    if all.is_empty() { "<unset>".into() } else { some(&all) }
}

// --- storage ---

pub(super) fn phase(object: &Value, _: Timestamp) -> Value {
    let ending = object.pointer("/metadata/deletionTimestamp").is_some();
    if ending { "Terminating" } else { text(object, "/status/phase") }.into()
}

fn modes(modes: &[Value]) -> Value {
    const SHORT: [(&str, &str); 4] = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let given = |long: &str| modes.iter().any(|mode| mode == long);
    joined(SHORT.into_iter().filter(|(long, _)| given(long)).map(|(_, short)| short), "")
}

pub(super) fn volume_modes(volume: &Value, _: Timestamp) -> Value {
    modes(list(volume, "/spec/accessModes"))
}

pub(super) fn claim_modes(claim: &Value, _: Timestamp) -> Value {
    modes(list(claim, "/status/accessModes"))
}

pub(super) fn claim(volume: &Value, _: Timestamp) -> Value {
    match volume.pointer("/spec/claimRef") {
        Some(claim) if claim.is_object() => {
            format!("{}/{}", text(claim, "/namespace"), text(claim, "/name")).into()
        }
        _ => "".into(),
    }
}

pub(super) fn storage_class(class: &Value, _: Timestamp) -> Value {
    let annotation = "/metadata/annotations/storageclass.kubernetes.io~1is-default-class";
    let suffix = if text(class, annotation) == "true" { " (default)" } else { "" };
    format!("{}{suffix}", text(class, "/metadata/name")).into()
}

pub(super) fn data(map: &Value, _: Timestamp) -> Value {
    let count = |pointer: &str| map.pointer(pointer).map_or(0, length);
    (count("/data") + count("/binaryData")).into()
}

// --- events ---

pub(super) fn first_seen(event: &Value, now: Timestamp) -> Value {
    let at = or(text(event, "/firstTimestamp"), text(event, "/eventTime"));
    since(Some(&at.into()), now).unwrap_or("<unknown>".into())
}

pub(super) fn last_seen(event: &Value, now: Timestamp) -> Value {
    let at = or(text(event, "/series/lastObservedTime"), text(event, "/lastTimestamp"));
    since(Some(&at.into()), now).unwrap_or_else(|| first_seen(event, now))
}

pub(super) fn involved(event: &Value, _: Timestamp) -> Value {
    let kind = text(event, "/involvedObject/kind").to_lowercase();
    match text(event, "/involvedObject/name") {
        "" => kind.into(),
        name => format!("{kind}/{name}").into(),
    }
}

pub(super) fn event_source(event: &Value, _: Timestamp) -> Value {
    let component = or(text(event, "/source/component"), text(event, "/reportingComponent"));
    let host = or(text(event, "/source/host"), text(event, "/reportingInstance"));
    joined([component, host].into_iter().filter(|part| !part.is_empty()), "")
        .as_str()
        .map(|both| both.replace(',', ", "))
        .into()
}

pub(super) fn event_message(event: &Value, _: Timestamp) -> Value {
    text(event, "/message").trim().into()
}

pub(super) fn event_count(event: &Value, _: Timestamp) -> Value {
    let count = event.pointer("/series/count").or_else(|| event.get("count"));
    count.and_then(Value::as_i64).unwrap_or(1).max(1).into()
}

// --- others ---

fn quota(quota: &Value, limits: bool) -> Value {
    let hard = quota.pointer("/status/hard").and_then(Value::as_object);
    let wanted = hard.into_iter().flatten().filter(|(name, _)| name.starts_with("limits.") == limits);
    let used = |name: &str| quota.pointer("/status/used")?.get(name)?.as_str();
    let parts: Vec<String> = wanted
        .map(|(name, hard)| {
            format!("{name}: {}/{}", used(name).unwrap_or("0"), hard.as_str().unwrap_or_default())
        })
        .collect();
    parts.join(", ").into()
}

pub(super) fn quota_requests(object: &Value, _: Timestamp) -> Value {
    quota(object, false)
}

pub(super) fn quota_limits(object: &Value, _: Timestamp) -> Value {
    quota(object, true)
}

pub(super) fn resource_claim_state(claim: &Value, _: Timestamp) -> Value {
    let mut states = Vec::new();
    if claim.pointer("/metadata/deletionTimestamp").is_some() {
        states.push("deleted");
    }
    match claim.pointer("/status/allocation").filter(|allocation| !allocation.is_null()) {
        None => states.push("pending"),
        Some(_) => {
            states.push("allocated");
            if !list(claim, "/status/reservedFor").is_empty() {
                states.push("reserved");
            }
        }
    }
    joined(states.into_iter(), "")
}

/// The subjects of a kind.
fn subjects(binding: &Value, kind: &str) -> Value {
    let of_kind = list(binding, "/subjects").iter().filter(|subject| text(subject, "/kind") == kind);
    let names: Vec<String> = of_kind
        .map(|subject| match text(subject, "/namespace") {
            "" => text(subject, "/name").to_owned(),
            namespace => format!("{namespace}/{}", text(subject, "/name")),
        })
        .collect();
    names.join(", ").into()
}

pub(super) fn users(binding: &Value, _: Timestamp) -> Value {
    subjects(binding, "User")
}

pub(super) fn groups(binding: &Value, _: Timestamp) -> Value {
    subjects(binding, "Group")
}

pub(super) fn accounts(binding: &Value, _: Timestamp) -> Value {
    subjects(binding, "ServiceAccount")
}

pub(super) fn role(binding: &Value, _: Timestamp) -> Value {
    format!("{}/{}", text(binding, "/roleRef/kind"), text(binding, "/roleRef/name")).into()
}
