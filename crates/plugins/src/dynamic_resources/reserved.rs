//! Claims of a pod from Reserve to the end of its binding.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, Ordering},
};

use harbormaster_framework::prelude::*;

use serde_json::{Value, json};

use super::{
    extended::{ExtendedClaim, RequestMapping},
    readiness::{Readiness, readiness},
};
use crate::devices::{
    Allocation, DeviceGates, ResourceClaim,
    claim::{Consumer, DeviceResult, InFlight, is_reserved_for},
};

/// All claims of a pod, as Reserve left them. See [`super::DynamicResources`].
#[derive(Debug, Default)]
pub struct ReservedClaims {
    claims: Vec<ReservedClaim>,
    extended: ReservedExtended,
}

/// Devices for the extended resources of a pod.
#[derive(Debug, Default)]
pub(super) enum ReservedExtended {
    /// No device class provides an extended resource of the pod.
    #[default]
    NotWanted,
    /// The node offers the resources itself.
    OfNode,
    /// The claim that PreBind creates.
    Chosen(Box<ChosenExtended>),
}

/// Claim that PreBind creates for extended resources, with its devices.
#[derive(Debug)]
pub(super) struct ChosenExtended {
    pub(super) claim: Arc<ExtendedClaim>,
    pub(super) allocation: Arc<Allocation>,
    /// The claim as the API server created it.
    pub(super) created: OnceLock<ReservedClaim>,
}

impl ReservedExtended {
    /// Records the claim and its devices on the chosen node, if any.
    pub(super) fn new(claim: Option<Arc<ExtendedClaim>>, allocation: Option<Arc<Allocation>>) -> Self {
        match (claim, allocation) {
            (Some(claim), Some(allocation)) => {
                Self::Chosen(Box::new(ChosenExtended { claim, allocation, created: OnceLock::new() }))
            }
            _ => Self::OfNode,
        }
    }
}

/// One claim.
#[derive(Debug)]
pub(super) struct ReservedClaim {
    /// The claim as the API server had it when the pod was scheduled.
    pub(super) claim: Custom<ResourceClaim>,
    /// Devices chosen for the claim; `None` if the claim had devices already.
    pub(super) allocation: Option<Arc<Allocation>>,
    /// The pod or its group, for which PreBind reserves the claim.
    pub(super) consumer: Consumer,
    /// True once the API server lists the pod or its group as a consumer of the claim.
    pub(super) is_reserved: AtomicBool,
    /// True if Unreserve removes the pod from the consumers of the claim. A group keeps its claims: other members may
    /// need them.
    releases_pod: bool,
    /// True if other members of the pod's group may write the same allocation.
    pub(super) is_shared: bool,
}

impl ReservedClaim {
    /// Creates the entry for a claim that only this pod uses.
    pub(super) fn new(
        claim: Custom<ResourceClaim>,
        allocation: Option<Arc<Allocation>>,
        pod: &PodInfo,
    ) -> Self {
        Self::used_by(Consumer::pod(pod), claim, allocation, pod, false)
    }

    /// Creates the entry for a claim of the pod. With claims `of_groups`, a claim that is reserved for the pod's group is
    /// reserved for the pod, too.
    pub(super) fn used_by(
        consumer: Consumer,
        claim: Custom<ResourceClaim>,
        allocation: Option<Arc<Allocation>>,
        pod: &PodInfo,
        of_groups: bool,
    ) -> Self {
        let is_reserved = is_reserved_for(&claim, pod, of_groups);
        let releases_pod = is_reserved_for(&claim, pod, false) || (!is_reserved && consumer.uid == pod.uid);
        let is_reserved = AtomicBool::new(is_reserved);
        Self { claim, allocation, consumer, is_reserved, releases_pod, is_shared: false }
    }

    /// Returns the entry for a claim that other members of the pod's group may use, if `is_shared`.
    pub(super) fn sharing(self, is_shared: bool) -> Self {
        Self { is_shared, ..self }
    }

    /// Devices of the claim.
    pub(super) fn results(&self) -> impl Iterator<Item = &DeviceResult> {
        let allocation = self.allocation.as_ref().or(self.claim.status.allocation.as_ref());
        allocation.into_iter().flat_map(|allocation| &allocation.devices.results)
    }

    pub(super) fn has_binding_conditions(&self) -> bool {
        self.results().any(|result| !result.binding_conditions.is_empty())
    }
}

impl ReservedClaims {
    pub(super) fn new(claims: Vec<ReservedClaim>, extended: ReservedExtended) -> Self {
        Self { claims, extended }
    }

    /// All claims that exist, in the order of the pod's spec. The claim for extended resources comes last.
    pub(super) fn iter(&self) -> impl Iterator<Item = &ReservedClaim> {
        self.claims.iter().chain(self.created())
    }

    /// Claim to create for extended resources.
    pub(super) fn to_create(&self) -> Option<&ChosenExtended> {
        match &self.extended {
            ReservedExtended::Chosen(chosen) => Some(chosen),
            ReservedExtended::NotWanted | ReservedExtended::OfNode => None,
        }
    }

    /// The created claim for extended resources.
    pub(super) fn created(&self) -> Option<&ReservedClaim> {
        self.to_create()?.created.get()
    }

    /// Returns the claim to create for extended resources, as JSON, and its devices.
    pub fn extended(&self, pod: &PodInfo) -> Option<(Value, &Allocation)> {
        let chosen = self.to_create()?;
        Some((chosen.claim.to_create(pod), &chosen.allocation))
    }

    /// Returns `status.extendedResourceClaimStatus` of the pod, given the name of the claim.
    pub fn extended_status(&self, claim: &str) -> Option<Value> {
        self.to_create().map(|chosen| chosen.status(claim))
    }

    /// Returns the claims, each with its consumer and the devices that were chosen for it; `None` if it had devices
    /// already.
    pub fn chosen(&self) -> impl Iterator<Item = (&Metadata, &Consumer, Option<&Allocation>)> {
        let claims = self.claims.iter();
        claims.map(|claim| (&claim.claim.metadata, &claim.consumer, claim.allocation.as_deref()))
    }

    /// Returns true if the pod has no claims, and no extended resources that device classes provide.
    pub(super) fn is_empty(&self) -> bool {
        self.claims.is_empty() && matches!(self.extended, ReservedExtended::NotWanted)
    }

    /// Assumes the chosen devices, so that other pods do not get them. An allocation that the API server reports takes
    /// precedence, wherever it came from. If several members of a group assume the same devices, these stay assumed until
    /// the last of the members gives up its node.
    pub(super) fn assume(&self, cx: &Cycle<'_>, gates: DeviceGates, assume: &mut Assume) {
        let (pod, in_flight) = (cx.pod, InFlight { group_cycle: cx.group_cycle });
        let keeps_until_ready = gates.binding_conditions && gates.rules.keeps_devices_until_ready;
        if let Some(chosen) = self.to_create() {
            chosen.claim.assume(pod, &chosen.allocation, assume);
        }
        for ReservedClaim { claim, allocation, .. } in &self.claims {
            let Some(allocation) = allocation.clone() else { continue };
            let Metadata { namespace, name, uid, .. } = &claim.metadata;
            let uid = uid.clone();
            assume.custom::<ResourceClaim>(namespace, name, move |claim| {
                if claim.metadata.uid != uid {
                    return false;
                }
                if claim.in_flight.is_some() {
                    return true;
                }
                if claim.status.allocation.is_some() {
                    return keeps_until_ready && readiness(claim) == Readiness::Waiting;
                }
                claim.status.allocation = Some(allocation.clone());
                claim.in_flight = Some(in_flight);
                true
            });
        }
    }

    /// Claims of the pod's spec that the API server has reserved for the pod, rather than for its group.
    pub(super) fn reserved_for_pod(&self) -> impl Iterator<Item = &ReservedClaim> {
        self.claims.iter().filter(|claim| claim.releases_pod && claim.is_reserved.load(Ordering::Acquire))
    }
}

impl ChosenExtended {
    /// Returns `status.extendedResourceClaimStatus` of the pod, given the name of the claim.
    pub(super) fn status(&self, claim: &str) -> Value {
        let mappings: Vec<_> = self.claim.mappings.iter().map(RequestMapping::to_json).collect();
        json!({ "requestMappings": mappings, "resourceClaimName": claim })
    }
}
