//! Resource claims in every state.

use serde_json::{Value, json};

use super::{NAMED_CLAIMS, claim_name, extended, requests};
use crate::generate::Random;
use crate::generate::namespaces::NAMESPACES;
use crate::generate::world::push;

/// Number of pods for which claims from templates are generated.
const PODS: usize = 40;

/// Names of the entries of `spec.resourceClaims` whose claims come from a template.
pub(super) const ENTRIES: &[&str] = &["own", "extra"];

/// Generates claims created by users, and claims created from templates for pods.
pub(super) fn all(random: &mut Random, slices: &[Value], may_fail: bool) -> Vec<Value> {
    let mut claims = Vec::new();
    for (namespace, _) in &NAMESPACES[..2] {
        for index in 0..NAMED_CLAIMS {
            claims.push(claim(random, slices, namespace, &claim_name(index), may_fail));
        }
    }
    for index in 0..PODS {
        for entry in ENTRIES {
            if random.chance(90) {
                claims.push(of_pod(random, slices, index, entry, may_fail));
            }
        }
        if random.chance(4) {
            let mut claim = of_pod(random, slices, index, "left-over", may_fail);
            extended::leave_over(random, &format!("pod-{index}"), &mut claim);
            claims.push(claim);
        }
    }
    claims
}

fn of_pod(random: &mut Random, slices: &[Value], index: usize, entry: &str, may_fail: bool) -> Value {
    let pod = format!("pod-{index}");
    let mut claim = claim(random, slices, "default", &format!("{pod}-{entry}"), may_fail);
    let uid = if random.chance(96) { format!("default/{pod}") } else { "another-owner".to_owned() };
    let mut owner = json!({"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid});
    owner["controller"] = random.chance(97).into();
    if random.chance(98) {
        claim["metadata"]["ownerReferences"] = json!([owner]);
    }
    claim
}

fn claim(random: &mut Random, slices: &[Value], namespace: &str, name: &str, may_fail: bool) -> Value {
    let mut metadata = json!({
        "namespace": namespace, "name": name, "uid": format!("claim-{namespace}-{name}"), "resourceVersion": "1",
    });
    if random.chance(2) {
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    }
    let spec = requests::spec(random, may_fail);
    let mut status = json!({});
    if random.chance(25)
        && let Some(allocation) = allocation(random, slices, &spec)
    {
        status["allocation"] = allocation;
        if random.chance(40) {
            status["devices"] = reports(random, &status["allocation"]);
        }
    }
    if random.chance(30) {
        for _ in 0..random.range(1, 2) {
            let user = format!("pod-{}", random.below(PODS));
            let consumer = json!({"resource": "pods", "name": user, "uid": format!("default/{user}")});
            push(&mut status["reservedFor"], consumer);
        }
    }
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": metadata, "spec": spec, "status": status,
    })
}

/// Picks devices for the first request of a claim.
pub(super) fn allocation(random: &mut Random, slices: &[Value], spec: &Value) -> Option<Value> {
    let with_devices: Vec<&Value> = (slices.iter())
        .filter(|slice| slice["spec"]["devices"].as_array().is_some_and(|devices| !devices.is_empty()))
        .collect();
    if with_devices.is_empty() {
        return None;
    }
    let slice = &random.pick(&with_devices)["spec"];
    let devices: Vec<&Value> = (slice["devices"].as_array()?.iter())
        .filter(|device| !is_ambiguous(&with_devices, slice, device))
        .collect();
    if devices.is_empty() {
        return None;
    }
    let request = &spec["devices"]["requests"][0];
    let name = match request["firstAvailable"].as_array() {
        Some(options) => {
            let option = random.pick(options)["name"].as_str()?;
            format!("{}/{option}", request["name"].as_str()?)
        }
        None => request["name"].as_str()?.to_owned(),
    };
    let count = random.range(1, 2);
    let results: Vec<Value> = (random.sample(&devices, count).into_iter())
        .map(|device| result(random, slice, device, &name, request))
        .collect();
    let mut allocation = json!({"devices": {"results": results}});
    if let Some(node) = slice["nodeName"].as_str() {
        let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
        allocation["nodeSelector"] = json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
    } else if !slice["nodeSelector"].is_null() {
        allocation["nodeSelector"] = slice["nodeSelector"].clone();
    }
    // The two schedulers evaluate the cluster at different times. The timestamp is long before both times or long after
    // both.
    if random.chance(50) {
        let time = *random.pick(&["1969-01-01T00:00:00Z", "2100-01-01T00:00:00Z"]);
        allocation["allocationTimestamp"] = time.into();
    }
    Some(allocation)
}

/// Returns true if the pool has another device of the same name, and only one of the two can be shared. Harbormaster
/// counts an exclusive device as in use while it has shares; kube-scheduler may not.
fn is_ambiguous(slices: &[&Value], slice: &Value, device: &Value) -> bool {
    let is_shareable = |device: &Value| device["allowMultipleAllocations"] == true;
    let same_pool = |other: &&&Value| {
        let other = &other["spec"];
        other["driver"] == slice["driver"] && other["pool"]["name"] == slice["pool"]["name"]
    };
    let others = slices
        .iter()
        .filter(same_pool)
        .flat_map(|other| other["spec"]["devices"].as_array().into_iter().flatten());
    others
        .filter(|other| other["name"] == device["name"])
        .any(|other| is_shareable(other) != is_shareable(device))
}

fn result(random: &mut Random, slice: &Value, device: &Value, request: &str, asked: &Value) -> Value {
    let mut result = json!({
        "request": request, "driver": slice["driver"], "pool": slice["pool"]["name"], "device": device["name"],
    });
    if asked["exactly"]["adminAccess"] == true {
        result["adminAccess"] = true.into();
    }
    for field in ["bindingConditions", "bindingFailureConditions"] {
        if !device[field].is_null() {
            result[field] = device[field].clone();
        }
    }
    if device["allowMultipleAllocations"] == true {
        result["shareID"] = format!("00000000-0000-4000-8000-{:012}", random.below(1_000_000)).into();
        for name in device["capacity"].as_object().into_iter().flat_map(|all| all.keys()) {
            result["consumedCapacity"][name] = (*random.pick(&["1Gi", "4Gi", "1", "8Gi"])).into();
        }
    }
    result
}

/// Generates `status.devices`: drivers' reports about some of the allocated devices.
fn reports(random: &mut Random, allocation: &Value) -> Value {
    let results = allocation["devices"]["results"].as_array().into_iter().flatten();
    let reports = results.filter_map(|result| {
        let mut report =
            json!({"driver": result["driver"], "pool": result["pool"], "device": result["device"]});
        for name in ["example.com/attached", "example.com/failed"] {
            if random.chance(if name.ends_with("failed") { 20 } else { 70 }) {
                let condition = json!({
                    "type": name, "status": random.pick(&["True", "True", "False"]), "reason": "Seen",
                    "message": "seen", "lastTransitionTime": "2026-01-01T00:00:00Z",
                });
                push(&mut report["conditions"], condition);
            }
        }
        random.chance(85).then_some(report)
    });
    reports.collect()
}
