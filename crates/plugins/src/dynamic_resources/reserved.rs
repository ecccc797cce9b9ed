//! Claims of a pod that has a node.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use harbormaster_framework::prelude::*;

use super::readiness;
use crate::devices::{Allocation, ResourceClaim, claim::is_reserved_for};

/// All claims of a pod, as Reserve left them. See [`super::DynamicResources`].
#[derive(Debug, Default)]
pub struct ReservedClaims(Vec<ReservedClaim>);

/// One claim.
#[derive(Debug)]
pub(super) struct ReservedClaim {
    /// The claim as the API server had it when the pod was scheduled.
    pub(super) claim: Custom<ResourceClaim>,
    /// Devices chosen for the claim; `None` if the claim had devices already.
    pub(super) allocation: Option<Arc<Allocation>>,
    /// True once the API server lists the pod as a consumer of the claim.
    pub(super) is_reserved: AtomicBool,
}

impl ReservedClaim {
    /// Creates the entry for a claim of the pod.
    pub(super) fn new(
        claim: Custom<ResourceClaim>,
        allocation: Option<Arc<Allocation>>,
        pod: &PodInfo,
    ) -> Self {
        let is_reserved = AtomicBool::new(is_reserved_for(&claim, pod));
        Self { claim, allocation, is_reserved }
    }

    pub(super) fn has_binding_conditions(&self) -> bool {
        match &self.allocation {
            Some(allocation) => {
                allocation.devices.results.iter().any(|result| !result.binding_conditions.is_empty())
            }
            None => readiness::has_binding_conditions(&self.claim),
        }
    }
}

impl ReservedClaims {
    pub(super) fn new(claims: Vec<ReservedClaim>) -> Self {
        Self(claims)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &ReservedClaim> {
        self.0.iter()
    }

    /// Returns the claims, each with the devices that were chosen for it; `None` if it had devices already.
    pub fn chosen(&self) -> impl Iterator<Item = (&Metadata, Option<&Allocation>)> {
        self.0.iter().map(|claim| (&claim.claim.metadata, claim.allocation.as_deref()))
    }

    /// Returns true if the pod has no claims.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Assumes the chosen devices, so that other pods do not get them. An allocation that the API server reports takes
    /// precedence, wherever it came from.
    pub(super) fn assume(&self, assume: &mut Assume) {
        for ReservedClaim { claim, allocation, .. } in &self.0 {
            let Some(allocation) = allocation.clone() else { continue };
            let Metadata { namespace, name, uid, .. } = &claim.metadata;
            let uid = uid.clone();
            assume.custom::<ResourceClaim>(namespace, name, move |claim| {
                let is_open = claim.status.allocation.is_none() && claim.metadata.uid == uid;
                if is_open {
                    claim.status.allocation = Some(allocation.clone());
                    claim.is_in_flight = true;
                }
                is_open
            });
        }
    }

    /// Claims that the API server has reserved for the pod.
    pub(super) fn written(&self) -> impl Iterator<Item = &ReservedClaim> {
        self.0.iter().filter(|claim| claim.is_reserved.load(Ordering::Acquire))
    }
}
