//! Cells that show more than a single field.

use harbormaster_api::Timestamp;
use serde_json::Value;

use super::{length, since};
use crate::{
    selector::as_text,
    time::human_duration,
    value::{entries, has_condition, is_true, list, number, present, shown, text},
};

fn or<'a>(text: &'a str, other: &'a str) -> &'a str {
    if text.is_empty() { other } else { text }
}

/// Returns the parts separated by commas, or `other` if there are none.
fn joined(parts: impl Iterator<Item = impl Into<String>>, other: &str) -> String {
    let parts: Vec<String> = parts.map(Into::into).collect();
    or(&parts.join(","), other).to_owned()
}

// --- workloads ---

pub(super) fn selector(workload: &Value) -> String {
    or(&as_text(&workload["spec"]["selector"]), "<none>").to_owned()
}

pub(super) fn pod_selector(policy: &Value) -> String {
    or(&as_text(&policy["spec"]["podSelector"]), "<none>").to_owned()
}

/// Formats a map from strings to strings.
pub(super) fn pairs(object: &Value, pointer: &str) -> String {
    joined(entries(object, pointer).map(|(key, value)| format!("{key}={}", text(value, ""))), "<none>")
}

pub(super) fn ready_replicas(workload: &Value) -> String {
    format!("{}/{}", number(workload, "/status/readyReplicas"), number(workload, "/spec/replicas"))
}

pub(super) fn controller(revision: &Value) -> String {
    let owners = list(revision, "/metadata/ownerReferences");
    let Some(owner) = owners.iter().find(|owner| is_true(owner, "/controller")) else {
        return "<none>".to_owned();
    };
    let group = text(owner, "/apiVersion").split_once('/').map_or("", |(group, _)| group);
    let dot = if group.is_empty() { "" } else { "." };
    format!("{}{dot}{group}/{}", text(owner, "/kind").to_lowercase(), text(owner, "/name"))
}

// --- pod groups ---

pub(super) fn group_policy(group: &Value) -> String {
    let is_gang = present(group, "/spec/schedulingPolicy/gang").is_some();
    if is_gang { "Gang" } else { "Basic" }.to_owned()
}

pub(super) fn group_status(group: &Value) -> String {
    const PLACED: &str = "PodGroupInitiallyScheduled";
    let find = |name: &str| {
        let mut conditions = list(group, "/status/conditions").iter();
        conditions.find(|condition| text(condition, "/type") == name)
    };
    let word = match (find("DisruptionTarget"), find(PLACED)) {
        (Some(target), _) => text(target, "/reason"),
        _ if has_condition(group, PLACED) => "Scheduled",
        (_, Some(_)) => "Unschedulable",
        (_, None) => "Pending",
    };
    word.to_owned()
}

// --- autoscalers ---

pub(super) fn scaled(scaler: &Value) -> String {
    let target = &scaler["spec"]["scaleTargetRef"];
    format!("{}/{}", text(target, "/kind"), text(target, "/name"))
}

/// Returns the current and target values of the first two metrics, and the number of further metrics.
pub(super) fn scaling_targets(scaler: &Value) -> String {
    let (metrics, measured) = (list(scaler, "/spec/metrics"), list(scaler, "/status/currentMetrics"));
    let shown: Vec<String> = metrics
        .iter()
        .enumerate()
        .take(2)
        .map(|(at, metric)| scaling_target(metric, measured.get(at).unwrap_or(&Value::Null)))
        .collect();
    match metrics.len() {
        0 => "<none>".to_owned(),
        more @ 3.. => format!("{} + {} more...", shown.join(", "), more - shown.len()),
        _ => shown.join(", "),
    }
}

fn scaling_target(metric: &Value, measured: &Value) -> String {
    let (source, of_resource) = match text(metric, "/type") {
        "External" => ("external", false),
        "Pods" => ("pods", false),
        "Object" => ("object", false),
        "ContainerResource" => ("containerResource", true),
        _ => ("resource", true),
    };
    let (target, current) = (&metric[source]["target"], &measured[source]["current"]);
    let amount = |of: &Value, field: &str| of.get(field).filter(|value| !value.is_null()).map(shown);
    let percent = |of: &Value| amount(of, "averageUtilization").map(|percent| format!("{percent}%"));
    let unknown = || "<unknown>".to_owned();
    let average = amount(target, "averageValue");
    if of_resource {
        let name = text(&metric[source], "/name");
        return match average {
            Some(average) => {
                format!("{name}: {}/{average}", amount(current, "averageValue").unwrap_or_else(unknown))
            }
            None => {
                let aim = percent(target).unwrap_or_else(|| "<auto>".to_owned());
                format!("{name}: {}/{aim}", percent(current).unwrap_or_else(unknown))
            }
        };
    }
    match average {
        Some(average) => {
            let suffix = if source == "pods" { "" } else { " (avg)" };
            format!("{}/{average}{suffix}", amount(current, "averageValue").unwrap_or_else(unknown))
        }
        None => {
            let aim = amount(target, "value").unwrap_or_default();
            format!("{}/{aim}", amount(current, "value").unwrap_or_else(unknown))
        }
    }
}

// --- admission and other servers ---

pub(super) fn parameter_kind(policy: &Value) -> String {
    present(policy, "/spec/paramKind").map_or_else(
        || "<unset>".to_owned(),
        |kind| format!("{}/{}", text(kind, "/apiVersion"), text(kind, "/kind")),
    )
}

pub(super) fn parameter(binding: &Value) -> String {
    let Some(parameter) = present(binding, "/spec/paramRef") else { return "<unset>".to_owned() };
    match (text(parameter, "/namespace"), text(parameter, "/name")) {
        (_, "") => "<unset>".to_owned(),
        ("", name) => format!("*/{name}"),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}

pub(super) fn api_service(service: &Value) -> String {
    present(service, "/spec/service").map_or_else(
        || "Local".to_owned(),
        |service| format!("{}/{}", text(service, "/namespace"), text(service, "/name")),
    )
}

pub(super) fn availability(service: &Value) -> String {
    let mut conditions = list(service, "/status/conditions").iter();
    match conditions.find(|condition| text(condition, "/type") == "Available") {
        None => "Unknown".to_owned(),
        Some(condition) => match (text(condition, "/status"), text(condition, "/reason")) {
            (status @ "True", _) | (status, "") => status.to_owned(),
            (status, reason) => format!("{status} ({reason})"),
        },
    }
}

// --- ingresses ---

/// Returns the first three hosts, and the number of further rules.
pub(super) fn hosts(ingress: &Value) -> String {
    let rules = list(ingress, "/spec/rules");
    let hosts = rules.iter().map(|rule| text(rule, "/host")).filter(|host| !host.is_empty());
    let shown = joined(hosts.take(3), "*");
    if rules.len() > 3 { format!("{shown} + {} more...", rules.len() - 3) } else { shown }
}

pub(super) fn ingress_ports(ingress: &Value) -> String {
    if list(ingress, "/spec/tls").is_empty() { "80" } else { "80, 443" }.to_owned()
}

// --- jobs ---

pub(super) fn job_status(job: &Value) -> String {
    let words = ["Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet"];
    let word = match words.into_iter().find(|word| has_condition(job, word)) {
        Some(word @ ("Complete" | "Failed")) => word,
        _ if job.pointer("/metadata/deletionTimestamp").is_some() => "Terminating",
        Some(word) => word,
        None => "Running",
    };
    word.to_owned()
}

pub(super) fn suspended(job: &Value) -> String {
    if is_true(job, "/spec/suspend") { "True" } else { "False" }.to_owned()
}

pub(super) fn completions(job: &Value) -> String {
    let done = number(job, "/status/succeeded");
    let parallelism = number(job, "/spec/parallelism");
    match job.pointer("/spec/completions").and_then(Value::as_i64) {
        Some(wanted) => format!("{done}/{wanted}"),
        None if parallelism > 1 => format!("{done}/1 of {parallelism}"),
        None => format!("{done}/1"),
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

pub(super) fn node_status(node: &Value) -> String {
    let ready = list(node, "/status/conditions").iter().find(|c| text(c, "/type") == "Ready");
    let status = match ready.map(|c| text(c, "/status")) {
        None => "Unknown",
        Some("True") => "Ready",
        Some(_) => "NotReady",
    };
    let suffix = if is_true(node, "/spec/unschedulable") { ",SchedulingDisabled" } else { "" };
    format!("{status}{suffix}")
}

pub(super) fn node_roles(node: &Value) -> String {
    let role = |(key, value): (&String, &Value)| match key.strip_prefix("node-role.kubernetes.io/") {
        None if key == "kubernetes.io/role" => Some(text(value, "").to_owned()),
        role => role.filter(|role| !role.is_empty()).map(str::to_owned),
    };
    let mut roles: Vec<String> = entries(node, "/metadata/labels").filter_map(role).collect();
    roles.sort_unstable();
    joined(roles.into_iter(), "<none>")
}

pub(super) fn kernel(node: &Value) -> String {
    let version = or(text(node, "/status/nodeInfo/kernelVersion"), "<unknown>");
    match text(node, "/status/nodeInfo/architecture") {
        "" => version.to_owned(),
        architecture => format!("{version} ({architecture})"),
    }
}

// --- services ---

pub(super) fn external_ips(service: &Value) -> String {
    let own = list(service, "/spec/externalIPs").iter().filter_map(Value::as_str);
    match text(service, "/spec/type") {
        "ExternalName" => text(service, "/spec/externalName").to_owned(),
        "LoadBalancer" => {
            let ingress = list(service, "/status/loadBalancer/ingress").iter();
            joined(ingress.map(|i| or(text(i, "/ip"), text(i, "/hostname"))).chain(own), "<pending>")
        }
        _ => joined(own, "<none>"),
    }
}

pub(super) fn ports(service: &Value) -> String {
    let shown = |port: &Value| {
        let (number_of, protocol) = (number(port, "/port"), or(text(port, "/protocol"), "TCP"));
        match number(port, "/nodePort") {
            0 => format!("{number_of}/{protocol}"),
            node_port => format!("{number_of}:{node_port}/{protocol}"),
        }
    };
    joined(list(service, "/spec/ports").iter().map(shown), "<none>")
}

/// Returns at most three elements, and the number of further elements.
fn some(all: &[String], none: &str) -> String {
    match all {
        [a, b, c, more @ ..] if !more.is_empty() => format!("{a},{b},{c} + {} more...", more.len()),
        all => or(&all.join(","), none).to_owned(),
    }
}

pub(super) fn endpoints(endpoints: &Value) -> String {
    let mut all = Vec::new();
    for subset in list(endpoints, "/subsets") {
        for address in list(subset, "/addresses") {
            let ip = text(address, "/ip");
            all.extend(list(subset, "/ports").iter().map(|port| format!("{ip}:{}", number(port, "/port"))));
        }
    }
    some(&all, "<none>")
}

pub(super) fn slice_ports(slice: &Value) -> String {
    let ports: Vec<String> = list(slice, "/ports").iter().map(|p| number(p, "/port").to_string()).collect();
    some(&ports, "<unset>")
}

pub(super) fn slice_endpoints(slice: &Value) -> String {
    let addresses = list(slice, "/endpoints").iter().flat_map(|endpoint| list(endpoint, "/addresses"));
    let all: Vec<String> = addresses.filter_map(Value::as_str).map(str::to_owned).collect();
    some(&all, "<unset>")
}

// --- storage ---

pub(super) fn phase(object: &Value) -> String {
    let ending = object.pointer("/metadata/deletionTimestamp").is_some();
    if ending { "Terminating" } else { text(object, "/status/phase") }.to_owned()
}

pub(super) fn access_modes(object: &Value, pointer: &str) -> String {
    const SHORT: [(&str, &str); 4] = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let given = |long: &str| list(object, pointer).iter().any(|mode| mode == long);
    joined(SHORT.into_iter().filter(|(long, _)| given(long)).map(|(_, short)| short), "")
}

pub(super) fn claim(volume: &Value) -> String {
    let claim = present(volume, "/spec/claimRef");
    claim.map_or_else(String::new, |claim| format!("{}/{}", text(claim, "/namespace"), text(claim, "/name")))
}

/// Returns the class of a claim or a volume. The annotation takes precedence over the spec, even if the annotation is
/// empty.
pub(super) fn class_of(object: &Value) -> String {
    let annotation = present(object, "/metadata/annotations/volume.beta.kubernetes.io~1storage-class");
    annotation.and_then(Value::as_str).unwrap_or_else(|| text(object, "/spec/storageClassName")).to_owned()
}

pub(super) fn claimed_capacity(claim: &Value) -> String {
    let has_volume = !text(claim, "/spec/volumeName").is_empty();
    if has_volume { or(text(claim, "/status/capacity/storage"), "0").to_owned() } else { String::new() }
}

pub(super) fn claimed_modes(claim: &Value) -> String {
    let has_volume = !text(claim, "/spec/volumeName").is_empty();
    if has_volume { access_modes(claim, "/status/accessModes") } else { String::new() }
}

pub(super) fn token_audiences(driver: &Value) -> String {
    match present(driver, "/spec/tokenRequests") {
        Some(requests) => joined(list(requests, "").iter().map(|request| text(request, "/audience")), ""),
        None => "<unset>".to_owned(),
    }
}

pub(super) fn lifecycle_modes(driver: &Value) -> String {
    joined(list(driver, "/spec/volumeLifecycleModes").iter().filter_map(Value::as_str), "<none>")
}

pub(super) fn storage_class(class: &Value) -> String {
    let annotation = "/metadata/annotations/storageclass.kubernetes.io~1is-default-class";
    let suffix = if text(class, annotation) == "true" { " (default)" } else { "" };
    format!("{}{suffix}", text(class, "/metadata/name"))
}

pub(super) fn data(map: &Value, _: Timestamp) -> Value {
    let count = |pointer: &str| map.pointer(pointer).map_or(0, length);
    (count("/data") + count("/binaryData")).into()
}

// --- events ---

pub(super) fn first_seen(event: &Value, now: Timestamp) -> Value {
    let at = or(text(event, "/firstTimestamp"), text(event, "/eventTime"));
    since(at, now).unwrap_or("<unknown>".into())
}

pub(super) fn last_seen(event: &Value, now: Timestamp) -> Value {
    let at = or(text(event, "/series/lastObservedTime"), text(event, "/lastTimestamp"));
    since(at, now).unwrap_or_else(|| first_seen(event, now))
}

pub(super) fn involved(event: &Value) -> String {
    let kind = text(event, "/involvedObject/kind").to_lowercase();
    match text(event, "/involvedObject/name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

pub(super) fn event_source(event: &Value) -> String {
    let component = or(text(event, "/source/component"), text(event, "/reportingComponent"));
    let host = or(text(event, "/source/host"), text(event, "/reportingInstance"));
    let comma = if component.is_empty() || host.is_empty() { "" } else { ", " };
    format!("{component}{comma}{host}")
}

pub(super) fn event_count(event: &Value, _: Timestamp) -> Value {
    let count = event.pointer("/series/count").or_else(|| event.get("count"));
    count.and_then(Value::as_i64).unwrap_or(1).max(1).into()
}

// --- others ---

/// Returns used and allowed amounts, either for limits or for everything else.
pub(super) fn quota(quota: &Value, limits: bool) -> String {
    let wanted = entries(quota, "/status/hard").filter(|(name, _)| name.starts_with("limits.") == limits);
    let used = |name: &str| quota.pointer("/status/used")?.get(name)?.as_str();
    let shown =
        |(name, hard): (&String, &Value)| format!("{name}: {}/{}", used(name).unwrap_or("0"), text(hard, ""));
    wanted.map(shown).collect::<Vec<_>>().join(", ")
}

pub(super) fn resource_claim_state(claim: &Value) -> String {
    let deleted = claim.pointer("/metadata/deletionTimestamp").is_some();
    let allocated = present(claim, "/status/allocation").is_some();
    let reserved = allocated && !list(claim, "/status/reservedFor").is_empty();
    let states =
        [("deleted", deleted), ("pending", !allocated), ("allocated", allocated), ("reserved", reserved)];
    joined(states.into_iter().filter(|(_, is_so)| *is_so).map(|(state, _)| state), "")
}

/// Returns the subjects of the given kind.
pub(super) fn subjects(binding: &Value, kind: &str) -> String {
    let of_kind = list(binding, "/subjects").iter().filter(|subject| text(subject, "/kind") == kind);
    let shown = |subject| match text(subject, "/namespace") {
        "" => text(subject, "/name").to_owned(),
        namespace => format!("{namespace}/{}", text(subject, "/name")),
    };
    of_kind.map(shown).collect::<Vec<_>>().join(", ")
}

pub(super) fn role(binding: &Value) -> String {
    format!("{}/{}", text(binding, "/roleRef/kind"), text(binding, "/roleRef/name"))
}

/// Returns the served versions of a definition, in alphabetical order. The version in which objects are stored is marked.
pub(super) fn served_versions(definition: &Value) -> String {
    let served = list(definition, "/spec/versions").iter().filter(|version| version["served"] == true);
    let label = |version: &Value| {
        let mark = if version["storage"] == true { "(storage)" } else { "" };
        format!("{}{mark}", text(version, "/name"))
    };
    let mut labels: Vec<String> = served.map(label).collect();
    labels.sort();
    labels.join(",")
}

/// Returns true if objects of a definition's kind are served.
pub(super) fn is_established(definition: &Value, _: Timestamp) -> Value {
    has_condition(definition, "Established").into()
}
