//! Handles resource claims while pods are placed. The writes of PreBind and of the resource claim controller happen
//! immediately, and all devices are ready.

use std::collections::BTreeMap;

use harbormaster_api::points::ExtensionPoint;
use harbormaster_core::{BindTask, CallTask};
use harbormaster_framework::{
    api_call::Verb,
    pod::PodInfo,
    resource::{Metadata, Resource},
};
use harbormaster_plugins::{
    devices::{Allocation, ResourceClaim, claim::Consumer},
    dynamic_resources::ReservedClaims,
};
use harbormaster_validation::value::{name, namespace, present};
use harbormaster_world::devices::{self, Upkeep};
use serde_json::{Value, json};

use super::SimulatedCluster;
use crate::{
    inventory::Inventory,
    report::{DeviceName, DeviceReport},
};

/// Returns the resource claims of a cluster by namespace and name.
pub(super) fn claims_of(cluster: &Inventory) -> BTreeMap<(String, String), Value> {
    let claims = cluster.custom_of(ResourceClaim::GROUP, ResourceClaim::KIND);
    claims.map(|claim| ((namespace(claim).to_owned(), name(claim).to_owned()), claim.clone())).collect()
}

impl SimulatedCluster<'_> {
    /// Gives the pod's claims the devices that DynamicResources chose, and passes the changes to the engine for later
    /// pods.
    pub(super) fn give_devices(&mut self, task: &BindTask) {
        let pod = task.pod();
        let mut reports = Vec::new();
        for plugin in task.profile.at(ExtensionPoint::Reserve) {
            let placement = task.reservation.of(*plugin);
            let Some(reserved) = placement.reservation::<ReservedClaims>() else { continue };
            for (claim, consumer, allocation) in reserved.chosen() {
                self.allot(claim, consumer, allocation);
                reports.extend(allocation.map(|allocation| report(&claim.name, allocation)));
            }
            if let Some((claim, allocation)) = reserved.extended(pod) {
                let name = self.create_extended(pod, claim, allocation);
                reports.push(report(&name, allocation));
            }
        }
        if let Some(report) = self.reports.get_mut(&pod.uid) {
            report.devices = reports;
        }
    }

    /// Creates the claim for the pod's extended resources. Returns the claim's name, which is derived from the pod's
    /// name; an API server would append a random suffix.
    fn create_extended(&mut self, pod: &PodInfo, mut claim: Value, allocation: &Allocation) -> String {
        let name = format!("{}-extended-resources", pod.name);
        claim["apiVersion"] = format!("{}/{}", ResourceClaim::GROUP, ResourceClaim::VERSION).into();
        claim["kind"] = ResourceClaim::KIND.into();
        claim["metadata"]["name"] = name.as_str().into();
        claim["metadata"]["uid"] = format!("{}-extended-resources", pod.uid).into();
        let consumer = json!({"resource": "pods", "name": pod.name, "uid": pod.uid});
        devices::allot(&mut claim, Some(json!(allocation)), consumer);
        self.claims.insert((pod.namespace.to_string(), name.clone()), claim.clone());
        self.publish_custom::<ResourceClaim>(claim);
        name
    }

    fn allot(&mut self, claim: &Metadata, consumer: &Consumer, allocation: Option<&Allocation>) {
        let key = (claim.namespace.to_string(), claim.name.to_string());
        let Some(claim) = self.claims.get_mut(&key) else { return };
        devices::allot(claim, allocation.map(|allocation| json!(allocation)), json!(consumer));
        let claim = claim.clone();
        self.publish_custom::<ResourceClaim>(claim);
    }

    /// Removes a deleted pod from the consumers of each of its claims, and deletes the claims that were created for the
    /// pod.
    pub(super) fn take_devices(&mut self, pod: &PodInfo) {
        let from = (pod.namespace.to_string(), String::new());
        let of_namespace =
            self.claims.range(from..).take_while(|((namespace, _), _)| pod.namespace == *namespace);
        let plans = of_namespace.map(|(key, claim)| (key.clone(), devices::upkeep_without(claim, &pod.uid)));
        let plans: Vec<_> = plans.filter(|(_, plan)| *plan != Upkeep::default()).collect();
        for (key, Upkeep { status, unprotect, delete }) in plans {
            let Some(claim) = self.claims.get_mut(&key) else { continue };
            if let Some(status) = status {
                claim["status"] = status;
            }
            if unprotect {
                devices::unprotect(claim);
            }
            let claim = claim.clone();
            // A claim that other pods use stays until those pods are gone, too.
            if delete && present(&claim, "/status/allocation").is_none() {
                self.claims.remove(&key);
                self.publish_end::<ResourceClaim>(&claim);
            } else {
                self.publish_custom::<ResourceClaim>(claim);
            }
        }
    }

    /// Takes the devices from claims that nobody uses, removes groups from the consumers of claims, and deletes claims
    /// that are left over, as PostFilter and PodGroupPostFilter request.
    pub(super) fn take_unused_devices(&mut self, task: &CallTask) {
        let of_claims = task.calls.iter().filter(|call| {
            let path = &call.path;
            path.group == ResourceClaim::GROUP && path.plural == ResourceClaim::PLURAL
        });
        for call in of_claims {
            let key = (call.path.namespace.to_string(), call.path.name.to_string());
            if call.verb == Verb::Delete {
                if let Some(claim) = self.claims.remove(&key) {
                    self.publish_end::<ResourceClaim>(&claim);
                }
                continue;
            }
            let Some(claim) = self.claims.get_mut(&key) else { continue };
            if call.body.pointer("/status/allocation") == Some(&Value::Null) {
                claim["status"] = json!({});
            } else if let Some(gone) = call.body.pointer("/status/reservedFor/0/uid")
                && let Some(consumers) =
                    claim.pointer_mut("/status/reservedFor").and_then(Value::as_array_mut)
            {
                consumers.retain(|consumer| consumer["uid"] != *gone);
            } else {
                continue;
            }
            let claim = claim.clone();
            self.publish_custom::<ResourceClaim>(claim);
        }
    }
}

fn report(claim: &str, allocation: &Allocation) -> DeviceReport {
    let results = allocation.devices.results.iter().map(|result| DeviceName {
        driver: result.driver.to_string(),
        pool: result.pool.to_string(),
        device: result.device.to_string(),
    });
    DeviceReport { claim: claim.to_owned(), devices: results.collect() }
}
