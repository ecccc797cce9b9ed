//! Applies proposals to manifests.

use anyhow::{Context, Result};
use harbormaster_api::{Release, pod::Container, selector::Requirement};
use harbormaster_sim::{Change, Inventory, Remedy};
use serde_json::{Value, json};

use super::workloads::{anti_affinity, workload_of};
use crate::generate::is_pending;

const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
const HOSTNAME: &str = "kubernetes.io/hostname";

/// Changes the objects as the remedy proposes; `pod` is the `namespace/name` of the pod that it is for.
pub(super) fn apply(objects: &mut Vec<Value>, pod: &str, remedy: &Remedy, release: Release) -> Result<()> {
    let mut changes: Vec<&Change> = remedy.changes.iter().collect();
    // Later terms are removed first, so that the positions of earlier ones stay valid.
    changes.sort_by_key(|change| std::cmp::Reverse(position(change)));
    for change in changes {
        match change {
            Change::LowerRequest { resource, .. } => lower(objects, pod, resource, remedy, release)?,
            Change::Uncordon { node } => in_service(find(objects, "Node", node)?),
            Change::AddNode { like } => {
                let mut copy = find(objects, "Node", like)?.clone();
                copy["metadata"]["name"] = "added".into();
                let labels = &mut copy["metadata"]["labels"];
                if !labels[HOSTNAME].is_null() {
                    labels[HOSTNAME] = "added".into();
                }
                in_service(&mut copy);
                let parts = parts_of_copy(objects, like);
                objects.push(copy);
                objects.extend(parts);
            }
            Change::MovePod { pod, to, .. } => {
                find(objects, "Pod", pod)?["spec"]["nodeName"] = to.as_str().into();
            }
            Change::MovePods { moves, .. } => {
                for one in moves {
                    find(objects, "Pod", &one.pod)?["spec"]["nodeName"] = one.to.as_str().into();
                }
            }
            Change::StopPod { pod, .. } => objects.retain(|object| !is_called(object, "Pod", pod)),
            Change::StopPods { pods, .. } => {
                objects.retain(|object| !pods.iter().any(|stopped| is_called(object, "Pod", &stopped.pod)));
            }
            Change::DropAntiAffinityOf { workload, topology_key, .. } => {
                without_anti_affinity(objects, workload, topology_key);
            }
            Change::FewerDevices { claim, request, to, .. } => ask_for(objects, pod, (claim, request), *to)?,
            Change::RaiseVolumeLimit { node, driver, to, .. } => {
                set_limit(find(objects, "CSINode", node)?, driver, (*to).into());
            }
            Change::AddVolume { claim, node, .. } => add_volume(objects, pod, claim, node)?,
            Change::GrowStorage { capacity, to, .. } => {
                let capacity = find(objects, "CSIStorageCapacity", capacity)?;
                capacity["capacity"] = to.as_str().into();
                if !capacity["maximumVolumeSize"].is_null() {
                    capacity["maximumVolumeSize"] = to.as_str().into();
                }
            }
            of_pod => change_spec(&mut find(objects, "Pod", pod)?["spec"], of_pod),
        }
    }
    Ok(())
}

/// Removes the required anti-affinity terms with this key from the pods of a workload.
pub(super) fn without_anti_affinity(objects: &mut [Value], workload: &str, key: &str) {
    let pods = objects.iter_mut().filter(|object| object["kind"] == "Pod" && !is_pending(object));
    for pod in pods.filter(|pod| workload_of(pod) == workload) {
        if let Some(terms) = anti_affinity(pod) {
            terms.retain(|term| term["topologyKey"] != *key);
        }
    }
}

fn position(change: &Change) -> usize {
    match change {
        Change::DropPodAffinity { term, .. } | Change::DropPodAntiAffinity { term, .. } => *term,
        _ => 0,
    }
}

fn change_spec(spec: &mut Value, change: &Change) {
    match change {
        Change::Tolerate { taint } => {
            let toleration = json!({
                "key": taint.key.as_str(),
                "operator": "Equal",
                "value": taint.value.as_str(),
                "effect": taint.effect.as_str(),
            });
            push(spec, "tolerations", toleration);
        }
        Change::DropNodeSelector { key, .. } => {
            if let Some(selector) = spec["nodeSelector"].as_object_mut() {
                selector.remove(key.as_str());
            }
        }
        Change::DropNodeAffinity { term, requirement } => drop_requirement(spec, *term, requirement),
        Change::WidenSkew { constraint, to, .. } => {
            spec["topologySpreadConstraints"][*constraint]["maxSkew"] = (*to).into();
        }
        Change::SoftenSpread { constraint, .. } => {
            let constraint = &mut spec["topologySpreadConstraints"][*constraint];
            constraint["whenUnsatisfiable"] = "ScheduleAnyway".into();
            if let Some(constraint) = constraint.as_object_mut() {
                constraint.remove("minDomains");
            }
        }
        Change::DropPodAffinity { term, .. } => drop_term(&mut spec["affinity"]["podAffinity"], *term),
        Change::DropPodAntiAffinity { term, .. } => {
            drop_term(&mut spec["affinity"]["podAntiAffinity"], *term);
        }
        Change::DropHostPort { port, protocol } => drop_port(spec, *port, protocol),
        Change::DropVolume { volume } => {
            if let Some(volumes) = spec["volumes"].as_array_mut() {
                volumes.retain(|known| known["name"] != *volume.as_str());
            }
        }
        Change::DropResourceClaim { claim } => {
            if let Some(claims) = spec["resourceClaims"].as_array_mut() {
                claims.retain(|known| known["name"] != *claim.as_str());
            }
        }
        Change::RaisePriority { to, .. } => {
            spec["priority"] = (*to).into();
            spec["preemptionPolicy"] = "PreemptLowerPriority".into();
        }
        _ => {}
    }
}

fn drop_term(affinity: &mut Value, term: usize) {
    if let Some(terms) = affinity["requiredDuringSchedulingIgnoredDuringExecution"].as_array_mut() {
        terms.remove(term);
    }
}

fn drop_requirement(spec: &mut Value, term: usize, requirement: &Requirement) {
    let affinity = &mut spec["affinity"]["nodeAffinity"];
    let term = &mut affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"][term];
    let is_dropped = |expression: &Value| {
        let values = expression["values"].as_array().cloned().unwrap_or_default();
        expression["key"] == *requirement.key
            && expression["operator"] == *requirement.operator.as_str()
            && values
                .iter()
                .map(Value::as_str)
                .eq(requirement.values.iter().map(|value| Some(value.as_str())))
    };
    let mut left = 0;
    for list in ["matchExpressions", "matchFields"] {
        if let Some(list) = term[list].as_array_mut() {
            list.retain(|expression| !is_dropped(expression));
            left += list.len();
        }
    }
    if left == 0
        && let Some(affinity) = affinity.as_object_mut()
    {
        affinity.remove("requiredDuringSchedulingIgnoredDuringExecution");
    }
}

/// Removes the whole port: with `hostNetwork`, the API server gives every port a host port.
fn drop_port(spec: &mut Value, port: i32, protocol: &str) {
    let uses_host = spec["hostNetwork"] == true;
    for list in ["containers", "initContainers"] {
        for container in spec[list].as_array_mut().into_iter().flatten() {
            if let Some(ports) = container["ports"].as_array_mut() {
                ports.retain(|known| {
                    let host = known["hostPort"].as_i64().filter(|port| *port != 0);
                    let number = host.or(known["containerPort"].as_i64().filter(|_| uses_host));
                    number != Some(port.into()) || known["protocol"].as_str().unwrap_or("TCP") != protocol
                });
            }
        }
    }
}

/// Writes the amounts that the containers of the changed pod request.
fn lower(objects: &mut [Value], pod: &str, resource: &str, remedy: &Remedy, release: Release) -> Result<()> {
    let value = find(objects, "Pod", pod)?;
    let decoded = Inventory::from_objects(vec![value.clone()], release)?;
    let decoded = decoded.pending.first().context("the pod is pending")?;
    let spec = remedy.changed(decoded).spec;
    let amount = |list: &[(harbormaster_api::Str, i64)]| {
        list.iter().find(|(name, _)| name.as_str() == resource).map(|(_, amount)| *amount)
    };
    let quantity = |amount: i64| if resource == "cpu" { format!("{amount}m") } else { amount.to_string() };
    let write = |values: &mut Value, containers: &[Container]| {
        for (value, container) in values.as_array_mut().into_iter().flatten().zip(containers) {
            if let Some(amount) = amount(&container.requests) {
                value["resources"]["requests"][resource] = quantity(amount).into();
            }
        }
    };
    write(&mut value["spec"]["containers"], &spec.containers);
    write(&mut value["spec"]["initContainers"], &spec.init_containers);
    if let Some(amount) = amount(&spec.pod_level_requests) {
        value["spec"]["resources"]["requests"][resource] = quantity(amount).into();
    }
    Ok(())
}

fn in_service(node: &mut Value) {
    node["spec"]["unschedulable"] = false.into();
    if let Some(taints) = node["spec"]["taints"].as_array_mut() {
        taints.retain(|taint| taint["key"] != UNSCHEDULABLE);
    }
}

fn push(object: &mut Value, list: &str, value: Value) {
    match object[list].as_array_mut() {
        Some(list) => list.push(value),
        None => object[list] = json!([value]),
    }
}

/// Returns what a copy of a node has beside it: its CSINode, and the slices of its devices in pools of their own.
fn parts_of_copy(objects: &[Value], like: &str) -> Vec<Value> {
    let copy = |object: &Value| {
        let mut copy = object.clone();
        match object["kind"].as_str() {
            Some("CSINode") if object["metadata"]["name"] == like => {
                copy["metadata"]["name"] = "added".into();
            }
            Some("ResourceSlice") if object["spec"]["nodeName"] == like => {
                copy["spec"]["nodeName"] = "added".into();
                for path in ["/metadata/name", "/spec/pool/name"] {
                    let name = copy.pointer_mut(path)?;
                    *name = format!("{}-added", name.as_str()?).into();
                }
            }
            _ => return None,
        }
        Some(copy)
    };
    objects.iter().filter_map(copy).collect()
}

/// Lets a request of a claim of the pod ask for another number of devices.
pub(super) fn ask_for(
    objects: &mut [Value],
    pod: &str,
    (entry, request): (&str, &str),
    count: i64,
) -> Result<()> {
    let claim = name_of_claim(find(objects, "Pod", pod)?, entry).context("the pod has the claim")?;
    let claim = find(objects, "ResourceClaim", &claim)?;
    let requests = claim["spec"]["devices"]["requests"].as_array_mut().into_iter().flatten();
    for known in requests.filter(|known| known["name"] == request) {
        known["exactly"]["count"] = count.into();
    }
    Ok(())
}

/// Returns the `namespace/name` of the claim for an entry of a pod.
pub(super) fn name_of_claim(pod: &Value, entry: &str) -> Option<String> {
    let named = |list: &Value| list.as_array()?.iter().find(|known| known["name"] == entry).cloned();
    let name = |found: Option<Value>| found?["resourceClaimName"].as_str().map(str::to_owned);
    let claim = name(named(&pod["spec"]["resourceClaims"]))
        .or_else(|| name(named(&pod["status"]["resourceClaimStatuses"])))?;
    let namespace = pod["metadata"]["namespace"].as_str().unwrap_or("default");
    Some(format!("{namespace}/{claim}"))
}

/// Sets the maximum number of volumes of a driver in a CSINode.
pub(super) fn set_limit(node: &mut Value, driver: &str, limit: i64) {
    let drivers = node["spec"]["drivers"].as_array_mut().into_iter().flatten();
    for known in drivers.filter(|known| known["name"] == driver) {
        known["allocatable"]["count"] = limit.into();
    }
}

/// Adds a volume for a claim of the pod's namespace that only one node can reach.
pub(super) fn add_volume(objects: &mut Vec<Value>, pod: &str, claim: &str, node: &str) -> Result<()> {
    let (namespace, _) = pod.split_once('/').unwrap_or(("default", ""));
    let claim = find(objects, "PersistentVolumeClaim", &format!("{namespace}/{claim}"))?.clone();
    let host = find(objects, "Node", node)?["metadata"]["labels"][HOSTNAME].clone();
    let class = match claim["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"].as_str() {
        Some(class) => json!(class),
        None => claim["spec"]["storageClassName"].clone(),
    };
    let is_host = json!({"key": HOSTNAME, "operator": "In", "values": [host]});
    objects.push(json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {
            "name": format!("new-{}", claim["metadata"]["name"].as_str().unwrap_or_default()),
            "labels": claim["spec"]["selector"]["matchLabels"],
        },
        "spec": {
            "capacity": claim["spec"]["resources"]["requests"],
            "accessModes": claim["spec"]["accessModes"],
            "volumeMode": claim["spec"]["volumeMode"],
            "storageClassName": class,
            "local": {"path": "/disk"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [is_host]}]}},
        },
        "status": {"phase": "Available"},
    }));
    Ok(())
}

fn find<'a>(objects: &'a mut [Value], kind: &str, name: &str) -> Result<&'a mut Value> {
    objects
        .iter_mut()
        .find(|object| is_called(object, kind, name))
        .with_context(|| format!("no {kind} {name}"))
}

/// Returns true for the node with this name, or the pod with this `namespace/name`.
pub(super) fn is_called(object: &Value, kind: &str, name: &str) -> bool {
    let own = object["metadata"]["name"].as_str().unwrap_or_default();
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
    object["kind"] == kind && (own == name || format!("{namespace}/{own}") == name)
}
