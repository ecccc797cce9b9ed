//! Binding conditions (KEP-5007): whether allocated devices are ready for their pod.

use std::time::Duration;

use harbormaster_api::{Str, Timestamp};
use harbormaster_framework::resource::Custom;

use crate::devices::{
    ResourceClaim,
    claim::{AllocatedDevice, DeviceResult},
};

const TRUE: &str = "True";

/// State of the devices of an allocated claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Readiness {
    /// All binding conditions are true. Also the state of a claim without binding conditions.
    Ready,
    /// Some condition is not true yet.
    Waiting,
    /// A device has failed. Contains the error.
    Failed(String),
}

/// Returns the state of a claim's devices. A claim without an allocation is waiting.
pub(super) fn readiness(claim: &Custom<ResourceClaim>) -> Readiness {
    let Some(allocation) = &claim.status.allocation else { return Readiness::Waiting };
    for result in allocation.devices.results.iter().filter(|result| !result.binding_conditions.is_empty()) {
        let Some(device) = report(claim, result) else { return Readiness::Waiting };
        let failed = result.binding_failure_conditions.iter().find_map(|name| condition(device, name));
        if let Some(failed) = failed {
            let (name, reason, message) = (&claim.metadata.name, &failed.reason, &failed.message);
            return Readiness::Failed(format!(
                "device binding failed: claim={name}, reason={reason}, message={message:?}"
            ));
        }
        if result.binding_conditions.iter().any(|name| condition(device, name).is_none()) {
            return Readiness::Waiting;
        }
    }
    Readiness::Ready
}

/// Returns true if the claim's devices have binding conditions and were allocated more than `timeout` ago.
pub(super) fn is_timed_out(claim: &Custom<ResourceClaim>, timeout: Duration, now: Timestamp) -> bool {
    let Some(allocation) = &claim.status.allocation else { return false };
    let Some(allocated) = allocation.allocation_timestamp else { return false };
    has_binding_conditions(claim) && allocated + timeout < now
}

/// Returns true if some device of the claim has binding conditions.
fn has_binding_conditions(claim: &Custom<ResourceClaim>) -> bool {
    let allocation = claim.status.allocation.iter();
    let mut results = allocation.flat_map(|allocation| &allocation.devices.results);
    results.any(|result| !result.binding_conditions.is_empty())
}

/// Returns the driver's report about an allocated device.
fn report<'a>(claim: &'a ResourceClaim, result: &DeviceResult) -> Option<&'a AllocatedDevice> {
    let id = (&result.driver, &result.pool, &result.device);
    claim.status.devices.iter().find(|device| (&device.driver, &device.pool, &device.device) == id)
}

/// Returns the condition if it is true.
fn condition<'a>(
    device: &'a AllocatedDevice,
    name: &Str,
) -> Option<&'a crate::devices::claim::DeviceCondition> {
    device.conditions.iter().find(|condition| condition.type_ == *name).filter(|it| it.status == TRUE)
}
