//! Handles resource claims while pods are placed. The writes of PreBind and of the resource claim controller happen
//! immediately, and all devices are ready.

use std::collections::BTreeMap;

use harbormaster_api::points::ExtensionPoint;
use harbormaster_core::{BindTask, CallTask};
use harbormaster_framework::{
    pod::PodInfo,
    resource::{Metadata, Resource},
};
use harbormaster_plugins::{
    devices::{Allocation, ResourceClaim},
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
            for (claim, allocation) in reserved.chosen() {
                self.allot(pod, claim, allocation);
                reports.extend(allocation.map(|allocation| report(claim, allocation)));
            }
        }
        if let Some(report) = self.reports.get_mut(&pod.uid) {
            report.devices = reports;
        }
    }

    fn allot(&mut self, pod: &PodInfo, claim: &Metadata, allocation: Option<&Allocation>) {
        let key = (claim.namespace.to_string(), claim.name.to_string());
        let Some(claim) = self.claims.get_mut(&key) else { return };
        let consumer = json!({"resource": "pods", "name": pod.name, "uid": pod.uid});
        devices::allot(claim, allocation.map(|allocation| json!(allocation)), consumer);
        let claim = claim.clone();
        self.publish_custom::<ResourceClaim>(claim);
    }

    /// Takes a pod that is gone from the consumers of its claims. Removes the claims that were created for it.
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
            // A claim that other pods use stays until they are gone, too.
            if delete && present(&claim, "/status/allocation").is_none() {
                self.claims.remove(&key);
                self.publish_end::<ResourceClaim>(&claim);
            } else {
                self.publish_custom::<ResourceClaim>(claim);
            }
        }
    }

    /// Takes the devices from claims that nobody uses, as PostFilter asks.
    pub(super) fn take_unused_devices(&mut self, task: &CallTask) {
        let of_claims = task.calls.iter().filter(|call| {
            let path = &call.path;
            path.group == ResourceClaim::GROUP
                && path.plural == ResourceClaim::PLURAL
                && call.body.pointer("/status/allocation") == Some(&Value::Null)
        });
        for call in of_claims {
            let key = (call.path.namespace.to_string(), call.path.name.to_string());
            let Some(claim) = self.claims.get_mut(&key) else { continue };
            claim["status"] = json!({});
            let claim = claim.clone();
            self.publish_custom::<ResourceClaim>(claim);
        }
    }
}

fn report(claim: &Metadata, allocation: &Allocation) -> DeviceReport {
    let results = allocation.devices.results.iter().map(|result| DeviceName {
        driver: result.driver.to_string(),
        pool: result.pool.to_string(),
        device: result.device.to_string(),
    });
    DeviceReport { claim: claim.name.to_string(), devices: results.collect() }
}
