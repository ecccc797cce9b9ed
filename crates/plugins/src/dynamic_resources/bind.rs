//! PreBind: writes the allocation and the reservation of each claim, and waits until the devices are ready.
//!
//! Each write names the resource version that was read. After a conflict the claim is read again, so a change by
//! another writer is never lost, and a claim that got its devices elsewhere fails the binding.

use std::{sync::atomic::Ordering, time::Duration};

use harbormaster_framework::prelude::*;
use serde_json::{Value, json};

use super::{
    readiness::{self, Readiness},
    reserved::{ReservedClaim, ReservedClaims},
};
use crate::devices::{
    Allocation, ResourceClaim,
    claim::{Consumer, FINALIZER, is_reserved_for},
};

/// Number of times that a claim is written before a conflict fails the binding (client-go's `DefaultRetry`).
const TRIES: usize = 5;

/// A binding in progress.
pub(super) struct Binding<'a> {
    pub(super) cx: &'a BindCycle,
    pub(super) claims: &'a ReservedClaims,
    /// Maximum time that devices have to become ready.
    pub(super) timeout: Duration,
    /// True if devices may have binding conditions.
    pub(super) binding_conditions: bool,
}

impl Binding<'_> {
    /// Writes the claims one after another.
    pub(super) async fn write(&self) -> Result<(), String> {
        for claim in self.claims.iter().filter(|claim| !claim.is_reserved.load(Ordering::Acquire)) {
            self.write_one(claim).await?;
            claim.is_reserved.store(true, Ordering::Release);
        }
        Ok(())
    }

    async fn write_one(&self, reserved: &ReservedClaim) -> Result<(), String> {
        let mut claim = reserved.claim.clone();
        for last in (0..TRIES).map(|at| at + 1 == TRIES) {
            match self.try_to_write(claim, reserved.allocation.as_deref()).await {
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
        allocation: Option<&Allocation>,
    ) -> Result<(), Failure> {
        if claim.metadata.deletion_timestamp.is_some() {
            return Err(Failure::of(deleted(&claim)));
        }
        let full_name = full_name(&claim);
        if allocation.is_some() && claim.status.allocation.is_some() {
            return Err(Failure::of(format!("claim {full_name} got allocated elsewhere in the meantime")));
        }
        if allocation.is_none() && claim.status.allocation.is_none() {
            return Err(Failure::of(format!("claim {full_name} got deallocated elsewhere in the meantime")));
        }
        let Metadata { namespace, name, .. } = claim.metadata.clone();
        if allocation.is_some() && !claim.finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
            let patch = finalizer_patch(&claim);
            let patched = self.cx.api.patch::<ResourceClaim>(&namespace, &name, patch).await;
            claim =
                patched.map_err(|why| Failure::new(&format!("add finalizer to claim {full_name}"), &why))?;
        }
        let patch = self.status_patch(&claim, allocation);
        let doing = match allocation {
            Some(_) => format!("add allocation and reservation to claim {full_name}"),
            None => format!("add reservation to claim {full_name}"),
        };
        let patched = self.cx.api.patch_status::<ResourceClaim>(&namespace, &name, patch).await;
        patched.map(drop).map_err(|why| Failure::new(&doing, &why))
    }

    /// Returns the patch that reserves the claim for the pod and, if there is an allocation, records it.
    fn status_patch(&self, claim: &Custom<ResourceClaim>, allocation: Option<&Allocation>) -> Value {
        let mut reserved_for = claim.status.reserved_for.clone();
        if !is_reserved_for(claim, &self.cx.pod) {
            reserved_for.push(Consumer::pod(&self.cx.pod));
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
        json!({ "metadata": { "resourceVersion": claim.metadata.resource_version }, "status": status })
    }

    /// Waits until all devices with binding conditions are ready.
    pub(super) async fn wait(&self) -> Result<(), String> {
        let deadline = self.cx.api.now() + self.timeout;
        for claim in self.claims.iter().filter(|claim| claim.has_binding_conditions()) {
            let left = deadline.since(self.cx.api.now());
            self.wait_for(&claim.claim.metadata, left).await?;
        }
        Ok(())
    }

    async fn wait_for(&self, claim: &Metadata, at_most: Duration) -> Result<(), String> {
        let Metadata { namespace, name, .. } = claim;
        let settle = |claim: Option<&Custom<ResourceClaim>>| {
            let Some(claim) = claim else {
                return Some(Err(format!("could not find ResourceClaim \"{namespace}/{name}\"")));
            };
            match readiness::readiness(claim) {
                Readiness::Ready => Some(Ok(())),
                Readiness::Failed(why) => Some(Err(why)),
                Readiness::Waiting => readiness::is_timed_out(claim, self.timeout, self.cx.api.now())
                    .then(|| Err(format!("device binding timeout: claim={name}"))),
            }
        };
        match self.cx.api.wait::<ResourceClaim, _>(namespace, name, at_most, settle).await {
            Ok(Some(settled)) => settled,
            Ok(None) => Err("device binding timeout: context deadline exceeded".to_owned()),
            Err(why) => Err(why.to_string()),
        }
    }
}

/// A failed try to write a claim.
struct Failure {
    message: String,
    /// True if the claim changed meanwhile.
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
    json!({ "metadata": { "resourceVersion": claim.metadata.resource_version, "finalizers": finalizers } })
}

fn full_name(claim: &Custom<ResourceClaim>) -> String {
    format!("{}/{}", claim.metadata.namespace, claim.metadata.name)
}

fn deleted(claim: &Custom<ResourceClaim>) -> String {
    format!("claim {} got deleted in the meantime", full_name(claim))
}

/// Returns the request that removes the pod from the consumers of a claim.
pub(super) fn release(claim: &Metadata, pod: &PodInfo) -> ApiCall {
    let path = ObjectPath::of::<ResourceClaim>(&claim.namespace, &claim.name).status();
    let gone = json!({ "$patch": "delete", "uid": pod.uid });
    let patch = json!({ "metadata": { "uid": claim.uid }, "status": { "reservedFor": [gone] } });
    ApiCall::strategic_patch(path, patch)
}

/// Returns the request that takes the devices from a claim.
pub(super) fn deallocate(claim: &Metadata) -> ApiCall {
    let path = ObjectPath::of::<ResourceClaim>(&claim.namespace, &claim.name).status();
    let patch = json!({
        "metadata": { "uid": claim.uid, "resourceVersion": claim.resource_version },
        "status": { "allocation": null, "reservedFor": null, "devices": null },
    });
    ApiCall::patch(path, patch)
}
