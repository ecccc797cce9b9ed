//! The drivers of devices: they report whether devices with binding conditions are ready.
//!
//! The player asks for reports when nothing else happens, so that a report never arrives between the attempts of a
//! step.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::paths::path;
use super::resource_claims::{is_for_extended_resources, stable_name};

/// Drivers of one run.
#[derive(Debug, Default)]
pub(super) struct DeviceDrivers {
    /// Claims whose devices have failed once.
    failed: BTreeSet<String>,
}

impl DeviceDrivers {
    /// Returns the path of the status of a claim that has devices without a report, and the patch that adds reports.
    /// `pod` finds a pod by its UID.
    ///
    /// The devices of some claims fail the first time. Such a claim is the only claim of its pods: kube-scheduler chooses
    /// at random from which of a pod's claims it takes the devices. Claims for extended resources do not fail, because
    /// the error would contain a random name.
    pub(super) fn report<'a>(
        &mut self,
        mut claims: impl Iterator<Item = &'a Value>,
        pod: impl Fn(&str) -> Option<&'a Value>,
    ) -> Option<(String, Value)> {
        claims.find_map(|claim| {
            let results = claim["status"]["allocation"]["devices"]["results"].as_array()?;
            let conditional: Vec<&Value> =
                results.iter().filter(|result| !result["bindingConditions"].is_null()).collect();
            if conditional.is_empty() || claim["status"]["devices"].is_array() {
                return None;
            }
            let fails = may_fail(claim, pod_claims(claim, &pod)) && self.failed.insert(stable_name(claim));
            let reports: Vec<Value> = conditional.into_iter().map(|result| report(result, fails)).collect();
            Some((path(claim) + "/status", json!({"status": {"devices": reports}})))
        })
    }
}

/// Returns true if the devices of the claim may fail. `pod_claims` is the largest number of claims of its pods.
fn may_fail(claim: &Value, pod_claims: usize) -> bool {
    let sum: u32 = stable_name(claim).bytes().map(u32::from).sum();
    sum.is_multiple_of(3) && pod_claims <= 1 && !is_for_extended_resources(claim)
}

/// Returns the largest number of claims of a pod that uses the claim.
fn pod_claims<'a>(claim: &Value, pod: impl Fn(&str) -> Option<&'a Value>) -> usize {
    let consumers = claim["status"]["reservedFor"].as_array().into_iter().flatten();
    let pods = consumers.filter_map(|consumer| pod(consumer["uid"].as_str()?));
    pods.map(|pod| pod["spec"]["resourceClaims"].as_array().map_or(0, Vec::len)).max().unwrap_or(0)
}

/// Returns the entry of `status.devices` for an allocated device.
fn report(result: &Value, fails: bool) -> Value {
    let failures = result["bindingFailureConditions"].as_array().into_iter().flatten().filter(|_| fails);
    let conditions = result["bindingConditions"].as_array().into_iter().flatten().filter(|_| !fails);
    let is_true = |name: &Value| {
        json!({
            "type": name, "status": "True", "reason": "Seen", "message": "seen",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let mut report = json!({
        "driver": result["driver"], "pool": result["pool"], "device": result["device"],
        "conditions": failures.chain(conditions).map(is_true).collect::<Vec<_>>(),
    });
    if !result["shareID"].is_null() {
        report["shareID"] = result["shareID"].clone();
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(name: &str) -> Value {
        let result = json!({
            "driver": "d", "pool": "p", "device": "a", "bindingConditions": ["attached"],
            "bindingFailureConditions": ["failed"],
        });
        let plain = json!({"driver": "d", "pool": "p", "device": "b"});
        json!({
            "kind": "ResourceClaim", "metadata": {"name": name, "namespace": "default"},
            "status": {
                "allocation": {"devices": {"results": [result, plain]}},
                "reservedFor": [{"resource": "pods", "uid": "1"}],
            },
        })
    }

    /// The reported conditions.
    fn reported(drivers: &mut DeviceDrivers, claim: &Value, claims_of_pod: usize) -> Vec<String> {
        let pod = json!({"spec": {"resourceClaims": vec![json!({}); claims_of_pod]}});
        let report = drivers.report([claim].into_iter(), |_| Some(&pod));
        let (path, patch) = report.unwrap();
        assert!(path.ends_with("/status"), "{path}");
        let devices = patch["status"]["devices"].as_array().unwrap().clone();
        let conditions = devices.iter().flat_map(|device| device["conditions"].as_array().unwrap().clone());
        conditions.map(|condition| condition["type"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn devices_of_some_claims_fail_once_if_their_pods_have_no_other_claims() {
        // The sum of the bytes of `c` is a multiple of three.
        for (name, claims_of_pod, expected) in [
            ("c", 1, ["failed", "attached", "attached"]),
            ("c", 2, ["attached", "attached", "attached"]),
            ("d", 1, ["attached", "attached", "attached"]),
        ] {
            let mut drivers = DeviceDrivers::default();
            let claim = claim(name);
            let found: Vec<_> = (0..3).flat_map(|_| reported(&mut drivers, &claim, claims_of_pod)).collect();
            assert_eq!(found, expected, "{name} {claims_of_pod}");
        }
    }

    #[test]
    fn claims_with_a_report_and_claims_without_binding_conditions_need_none() {
        let mut drivers = DeviceDrivers::default();
        let mut known = claim("c");
        known["status"]["devices"] = json!([{"driver": "d", "pool": "p", "device": "a"}]);
        let mut plain = claim("c");
        plain["status"]["allocation"]["devices"]["results"].as_array_mut().unwrap().remove(0);
        let free = json!({"kind": "ResourceClaim", "metadata": {"name": "free"}});
        for claim in [known, plain, free] {
            assert_eq!(drivers.report([&claim].into_iter(), |_| None), None, "{claim}");
        }
    }
}
