//! PreBind: writes the allocation and the reservation of each claim, and waits until the devices are ready.
//!
//! Each patch of a claim names the resource version that was read. After a conflict the claim is read again, so a
//! change by another writer is never lost, and a claim that got its devices elsewhere fails the binding.

use std::{sync::atomic::Ordering, time::Duration};

use harbormaster_api::Timestamp;
use harbormaster_framework::{
    api_call::BindingEvent,
    meter::{DeviceWaitEnd, Measurement},
    prelude::*,
};
use serde_json::{Value, json};

use super::{
    readiness::{self, Readiness},
    reserved::{ChosenExtended, ReservedClaim, ReservedClaims},
};
use crate::devices::{
    Allocation, ResourceClaim,
    claim::{Consumer, FINALIZER},
};

/// Maximum number of attempts to write a claim. After that, a conflict fails the binding (client-go's
/// `DefaultRetry`).
const TRIES: usize = 5;

/// A binding in progress.
pub(super) struct Binding<'a> {
    pub(super) cx: &'a BindCycle,
    pub(super) claims: &'a ReservedClaims,
    /// Maximum time for devices to become ready.
    pub(super) timeout: Duration,
    /// True if binding conditions are supported.
    pub(super) binding_conditions: bool,
}

impl Binding<'_> {
    /// Writes the claims one after another.
    pub(super) async fn write(&self) -> Result<(), String> {
        for claim in self.claims.iter().filter(|claim| !claim.is_reserved.load(Ordering::Acquire)) {
            self.write_one(claim).await?;
            claim.is_reserved.store(true, Ordering::Release);
        }
        match self.claims.to_create() {
            Some(chosen) => self.write_extended(chosen).await,
            None => Ok(()),
        }
    }

    /// Creates the claim for extended resources, writes its devices, and records the claim in the pod's status.
    async fn write_extended(&self, chosen: &ChosenExtended) -> Result<(), String> {
        let pod = &self.cx.pod;
        let json = chosen.claim.to_create(pod);
        let created = self.cx.api.create::<ResourceClaim>(&pod.namespace, json).await;
        self.cx.api.measure(&Measurement::ClaimCreation { succeeded: created.is_ok() });
        let namespace = &pod.namespace;
        let created =
            created.map_err(|why| format!("create claim for extended resources {namespace}/: {why}"))?;
        let allocation = Some(chosen.allocation.clone());
        let created = chosen.created.get_or_init(|| ReservedClaim::new(created, allocation, pod));
        self.write_one(created).await?;
        let status = chosen.status(&created.claim.metadata.name);
        let patch = json!({ "status": { "extendedResourceClaimStatus": status } });
        let patched = self.cx.api.patch_pod_status(pod, patch).await;
        patched.map_err(|why| format!("update pod {} ExtendedResourceClaimStatus: {why}", pod.full_name()))
    }

    async fn write_one(&self, reserved: &ReservedClaim) -> Result<(), String> {
        let mut claim = reserved.claim.clone();
        for last in (0..TRIES).map(|at| at + 1 == TRIES) {
            match self.try_to_write(claim, reserved).await {
                Ok(()) => return Ok(()),
                Err(Failure { is_conflict: true, .. }) if !last => {}
                Err(failure) => return Err(failure.message),
            }
            claim = self.read_again(&reserved.claim).await?;
        }
        Ok(())
    }

    async fn read_again(&self, old: &Custom<ResourceClaim>) -> Result<Custom<ResourceClaim>, String> {
        let (namespace, name) = (&old.metadata.namespace, &old.metadata.name);
        let read = self.cx.api.get::<ResourceClaim>(namespace, name).await;
        let failed = |why: &str| format!("get updated claim {namespace}/{name} after conflict: {why}");
        match read {
            Ok(Some(claim)) if claim.metadata.uid == old.metadata.uid => Ok(claim),
            Ok(Some(_)) => Err(deleted(old)),
            Ok(None) => Err(failed(&format!("resourceclaims.resource.k8s.io {name:?} not found"))),
            Err(why) => Err(failed(&why.to_string())),
        }
    }

    async fn try_to_write(
        &self,
        mut claim: Custom<ResourceClaim>,
        reserved: &ReservedClaim,
    ) -> Result<(), Failure> {
        let mut allocation = reserved.allocation.as_deref();
        if claim.metadata.deletion_timestamp.is_some() {
            return Err(Failure::of(deleted(&claim)));
        }
        let full_name = full_name(&claim);
        if let (Some(chosen), Some(recorded)) = (allocation, &claim.status.allocation) {
            if !reserved.is_shared || !chosen.has_same_devices(recorded) {
                return Err(Failure::of(format!(
                    "claim {full_name} got allocated elsewhere in the meantime"
                )));
            }
            // Another member of the group was faster.
            if claim.status.reserved_for.contains(&reserved.consumer) {
                return Ok(());
            }
            allocation = None;
        }
        if allocation.is_none() && claim.status.allocation.is_none() {
            return Err(Failure::of(format!("claim {full_name} got deallocated elsewhere in the meantime")));
        }
        let Metadata { namespace, name, .. } = claim.metadata.clone();
        if allocation.is_some() && !claim.finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
            let patch = finalizer_patch(&claim);
            let patched = self.cx.api.patch::<ResourceClaim>(&namespace, &name, patch).await;
            let reply =
                patched.map_err(|why| Failure::new(&format!("add finalizer to claim {full_name}"), &why))?;
            // The server refuses the patch if anything else has changed, so the rest of the claim is known.
            claim.metadata.resource_version = reply.resource_version();
        }
        let patch = self.status_patch(&claim, &reserved.consumer, allocation);
        let doing = match allocation {
            Some(_) => format!("add allocation and reservation to claim {full_name}"),
            None => format!("add reservation to claim {full_name}"),
        };
        let patched = self.cx.api.patch_status::<ResourceClaim>(&namespace, &name, patch).await;
        patched.map(drop).map_err(|why| Failure::new(&doing, &why))
    }

    /// Returns the patch that reserves the claim for the consumer, and that records the allocation if there is one. With
    /// binding conditions, it also adds a missing allocation timestamp.
    fn status_patch(
        &self,
        claim: &Custom<ResourceClaim>,
        consumer: &Consumer,
        allocation: Option<&Allocation>,
    ) -> Value {
        let mut reserved_for = claim.status.reserved_for.clone();
        if !reserved_for.iter().any(|known| known.uid == consumer.uid) {
            reserved_for.push(consumer.clone());
        }
        let mut status = json!({ "reservedFor": reserved_for });
        if let Some(allocation) = allocation {
            status["allocation"] = json!(allocation);
        }
        let recorded = allocation.or(claim.status.allocation.as_deref());
        let has_timestamp = recorded.is_some_and(|recorded| recorded.allocation_timestamp.is_some());
        if self.binding_conditions && !has_timestamp {
            status["allocation"]["allocationTimestamp"] = self.cx.api.now().to_rfc3339().into();
        }
        json!({ "metadata": this_version(&claim.metadata), "status": status })
    }

    /// Waits until all devices with binding conditions are ready.
    pub(super) async fn wait(&self) -> Result<(), String> {
        if !self.claims.iter().any(ReservedClaim::has_binding_conditions) {
            return Ok(());
        }
        let Placement { pod, node, .. } = &self.cx.placement;
        self.cx.api.event(BindingEvent {
            pod: pod.clone(),
            reason: "BindingConditionsPending",
            action: "Scheduling",
            note: format!("waiting for binding conditions for device on node {node}"),
        });
        let begun = self.cx.api.now();
        let waited = self.wait_until(begun + self.timeout).await;
        let end = waited.as_ref().map_or_else(|failure| failure.end, |()| DeviceWaitEnd::Ready);
        self.measure(end, self.cx.api.now().since(begun));
        waited.map_err(|failure| failure.message)
    }

    async fn wait_until(&self, deadline: Timestamp) -> Result<(), WaitFailure> {
        for claim in self.claims.iter().filter(|claim| claim.has_binding_conditions()) {
            let left = deadline.since(self.cx.api.now());
            self.wait_for(&claim.claim.metadata, left).await?;
        }
        Ok(())
    }

    fn measure(&self, end: DeviceWaitEnd, waited: Duration) {
        for result in self.claims.iter().flat_map(ReservedClaim::results) {
            let (driver, has_conditions) = (result.driver.clone(), !result.binding_conditions.is_empty());
            self.cx.api.measure(&Measurement::DeviceWait { driver, has_conditions, end, waited });
        }
    }

    async fn wait_for(&self, claim: &Metadata, at_most: Duration) -> Result<(), WaitFailure> {
        let Metadata { namespace, name, .. } = claim;
        let settle = |claim: Option<&Custom<ResourceClaim>>| {
            let Some(claim) = claim else {
                let missing = format!("could not find ResourceClaim \"{namespace}/{name}\"");
                return Some(Err(WaitFailure::new(DeviceWaitEnd::Error, missing)));
            };
            match readiness::readiness(claim) {
                Readiness::Ready => Some(Ok(())),
                Readiness::Failed(why) => Some(Err(WaitFailure::new(DeviceWaitEnd::Failed, why))),
                Readiness::Waiting => readiness::is_timed_out(claim, self.timeout, self.cx.api.now())
                    .then(|| Err(WaitFailure::timed_out(&format!("claim={name}")))),
            }
        };
        match self.cx.api.wait::<ResourceClaim, _>(namespace, name, at_most, settle).await {
            Ok(Some(settled)) => settled,
            Ok(None) => Err(WaitFailure::timed_out("context deadline exceeded")),
            Err(why) => Err(WaitFailure::new(DeviceWaitEnd::Error, why.to_string())),
        }
    }
}

/// Failure to wait for devices.
struct WaitFailure {
    end: DeviceWaitEnd,
    message: String,
}

impl WaitFailure {
    fn new(end: DeviceWaitEnd, message: String) -> Self {
        Self { end, message }
    }

    fn timed_out(why: &str) -> Self {
        Self::new(DeviceWaitEnd::TimedOut, format!("device binding timeout: {why}"))
    }
}

/// Failure of an attempt to write a claim.
struct Failure {
    message: String,
    /// True if the claim had changed since it was read.
    is_conflict: bool,
}

impl Failure {
    fn of(message: String) -> Self {
        Self { message, is_conflict: false }
    }

    fn new(doing: &str, why: &ApiFailure) -> Self {
        Self { message: format!("{doing}: {why}"), is_conflict: why.is_conflict() }
    }
}

fn finalizer_patch(claim: &Custom<ResourceClaim>) -> Value {
    let finalizers: Vec<&str> = claim.finalizers.iter().map(|f| f.as_str()).chain([FINALIZER]).collect();
    let mut metadata = this_version(&claim.metadata);
    metadata["finalizers"] = json!(finalizers);
    json!({ "metadata": metadata })
}

/// Returns the metadata that makes the API server refuse a patch if the claim has changed or has been replaced.
fn this_version(claim: &Metadata) -> Value {
    json!({ "uid": claim.uid, "resourceVersion": claim.resource_version })
}

fn full_name(claim: &Custom<ResourceClaim>) -> String {
    format!("{}/{}", claim.metadata.namespace, claim.metadata.name)
}

fn deleted(claim: &Custom<ResourceClaim>) -> String {
    format!("claim {} got deleted in the meantime", full_name(claim))
}

/// Returns the request that removes the consumer with this UID from the consumers of a claim.
pub(super) fn release(claim: &Metadata, consumer: &str) -> ApiCall {
    let path = ObjectPath::of::<ResourceClaim>(&claim.namespace, &claim.name).status();
    let gone = json!({ "$patch": "delete", "uid": consumer });
    let patch = json!({ "metadata": { "uid": claim.uid }, "status": { "reservedFor": [gone] } });
    ApiCall::strategic_patch(path, patch)
}

/// Returns the requests that remove a claim's finalizer and delete the claim.
pub(super) fn delete(claim: &Metadata) -> [ApiCall; 2] {
    let path = ObjectPath::of::<ResourceClaim>(&claim.namespace, &claim.name);
    let patch = json!({
        "metadata": { "uid": claim.uid, "$deleteFromPrimitiveList/finalizers": [FINALIZER] },
    });
    [ApiCall::strategic_patch(path.clone(), patch), ApiCall::delete(path)]
}

/// Returns the request that takes the devices from a claim.
pub(super) fn deallocate(claim: &Metadata) -> ApiCall {
    let path = ObjectPath::of::<ResourceClaim>(&claim.namespace, &claim.name).status();
    let patch = json!({
        "metadata": this_version(claim),
        "status": { "allocation": null, "reservedFor": null, "devices": null },
    });
    ApiCall::patch(path, patch)
}
