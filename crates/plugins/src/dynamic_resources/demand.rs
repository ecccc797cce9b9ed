//! The claims of a pod in one attempt: which have devices, and which need them.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use harbormaster_api::{Timestamp, selector::ParsedNodeSelector};
use harbormaster_framework::prelude::*;

use super::{
    DynamicResources, bind, claims,
    extended::{ExtendedClaim, ExtendedResources},
    readiness::{self, Readiness},
};
use crate::devices::{
    DeviceClass, DeviceGates, ResourceClaim,
    claim::{Consumer, DeviceDemand, DeviceRequest, InFlight},
    rank,
};

/// The claims of a pod.
#[derive(Debug, Default)]
pub(super) struct Demand {
    claims: Vec<Wanted>,
    /// Present if device classes provide some of the pod's extended resources.
    extended: Option<ExtendedResources>,
    /// Claims that were unavailable on some node, as indexes into `claims`.
    unavailable: Mutex<BTreeSet<usize>>,
}

/// One claim.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) claim: Custom<ResourceClaim>,
    /// The pod or its group, for which PreBind reserves the claim.
    pub(super) consumer: Consumer,
    /// True if the devices were chosen for an earlier member of the pod's group, in the same cycle. The API server has
    /// not recorded them yet.
    pub(super) is_pending: bool,
    /// Nodes that can reach the devices of the claim; `None` for every node, or if the claim has no devices.
    within_reach: Option<ParsedNodeSelector>,
    /// True if the claim can be used only on nodes with the feature [`OPTIONAL_OPERATIONS`].
    skips_operations: bool,
}

/// Declared feature of nodes whose kubelet can leave out operations on devices.
const OPTIONAL_OPERATIONS: &str = "DRAOptionalNodeOperations";

impl Wanted {
    pub(super) fn has_devices(&self) -> bool {
        self.claim.status.allocation.is_some()
    }
}

impl Demand {
    /// Reads the claims of a pod. Returns `None` if the pod has no claims and needs none for extended resources.
    pub(super) fn of(plugin: &DynamicResources, cx: &Cycle<'_>) -> Result<Option<Self>, Stop> {
        let claims = match cx.pod.spec.resource_claims.is_empty() {
            true => Vec::new(),
            false => Self::claims_of(plugin, cx)?,
        };
        let extended = ExtendedResources::of(plugin, cx)?;
        let is_needed = !claims.is_empty() || extended.is_some();
        Ok(is_needed.then(|| Self { claims, extended, unavailable: Mutex::default() }))
    }

    fn claims_of(plugin: &DynamicResources, cx: &Cycle<'_>) -> Result<Vec<Wanted>, Stop> {
        let (all, classes, _, _, groups) = plugin.watched(cx.objects);
        let found = claims::of(cx.pod, all, plugin.of_groups).map_err(Reject::unresolvable)?;
        let wanted = found.into_iter().map(|(entry, claim)| {
            let consumer = plugin.consumer(cx.pod, entry, groups).map_err(Reject::unresolvable)?;
            Wanted::of(claim, consumer, plugin.gates, classes, cx.group_cycle)
        });
        wanted.collect()
    }

    /// All claims, in the order of the pod's spec.
    pub(super) fn claims(&self) -> &[Wanted] {
        &self.claims
    }

    /// Extended resources of the pod, if device classes provide some of them.
    pub(super) fn extended(&self) -> Option<&ExtendedResources> {
        self.extended.as_ref()
    }

    /// Returns true if the pod needs the same devices on every node, and all its claims need devices.
    pub(super) fn is_same_on_all_nodes(&self) -> bool {
        let are_new = !self.claims.iter().any(Wanted::has_devices);
        self.extended.is_none() && !self.claims.is_empty() && are_new
    }

    /// Returns the claim for the pod's extended resources on a node, if they need devices there.
    pub(super) fn extended_on(
        &self,
        pod: &PodInfo,
        node: NodeRef<'_>,
    ) -> Result<Option<Arc<ExtendedClaim>>, Reject> {
        self.extended.as_ref().map_or(Ok(None), |extended| extended.on(pod, node))
    }

    /// Returns true if some claim needs devices, or some node may need devices for extended resources.
    pub(super) fn needs_devices(&self) -> bool {
        self.extended.is_some() || self.claims.iter().any(|claim| !claim.has_devices())
    }

    /// Claims that need devices; the claim for extended resources comes last.
    pub(super) fn to_allocate<'a>(
        &'a self,
        extended: Option<&'a ExtendedClaim>,
    ) -> Vec<&'a Custom<ResourceClaim>> {
        let own = self.claims.iter().filter(|claim| !claim.has_devices()).map(|claim| &claim.claim);
        own.chain(extended.map(|extended| &extended.claim)).collect()
    }

    /// Returns the allocated claims that cannot be used on the node, as indexes into [`Self::claims`].
    pub(super) fn unusable_on(&self, node: NodeRef<'_>, patience: &Patience) -> Vec<usize> {
        let claims = self.claims.iter().enumerate();
        let unusable = claims.filter(|(_, claim)| claim.has_devices() && !claim.is_usable(node, patience));
        unusable.map(|(at, _)| at).collect()
    }

    /// Remembers claims that are unavailable on a node, for PostFilter.
    pub(super) fn remember(&self, unavailable: Vec<usize>) {
        self.unavailable().extend(unavailable);
    }

    /// Returns the sum of the ranks of the alternatives that were allocated for claims that have devices.
    pub(super) fn rank_of_allocated(&self) -> i64 {
        let allocated = self.claims.iter().filter_map(|claim| {
            let allocation = claim.claim.status.allocation.as_ref()?;
            Some(rank(&claim.claim.spec, &allocation.devices.results))
        });
        allocated.sum()
    }

    /// Returns a claim that was unavailable on some node, and that nobody uses but the consumer with this UID.
    pub(super) fn to_deallocate(&self, consumer: &str) -> Option<&Wanted> {
        let unavailable = self.unavailable();
        let mut claims = unavailable.iter().map(|at| &self.claims[*at]);
        claims.find(|wanted| match wanted.claim.status.reserved_for.as_slice() {
            [] => true,
            [only] => only.uid == consumer,
            _ => false,
        })
    }

    /// Returns the requests that free a claim of the pod, and their description; `None` if there is no such claim.
    pub(super) fn free(&self, pod: &PodInfo) -> Option<(Vec<ApiCall>, &'static str)> {
        if let Some(wanted) = self.to_deallocate(&pod.uid) {
            // A pending claim has no devices in the API server.
            let call = (!wanted.is_pending).then(|| bind::deallocate(&wanted.claim.metadata));
            return Some((call.into_iter().collect(), "deallocation of ResourceClaim completed"));
        }
        let left_over = self.extended().and_then(ExtendedResources::left_over)?;
        Some((bind::delete(&left_over.metadata).into(), "deletion of ResourceClaim completed"))
    }

    fn unavailable(&self) -> MutexGuard<'_, BTreeSet<usize>> {
        self.unavailable.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Time that devices with binding conditions may take to become ready.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// Maximum time since the allocation; `None` if binding conditions are not supported.
    pub(super) timeout: Option<Duration>,
    pub(super) now: Timestamp,
}

impl Wanted {
    fn of(
        claim: &Custom<ResourceClaim>,
        consumer: Consumer,
        gates: DeviceGates,
        classes: Watched<'_, DeviceClass>,
        group_cycle: Option<u64>,
    ) -> Result<Self, Stop> {
        let Metadata { namespace, name, .. } = &claim.metadata;
        let is_of_this_cycle = |chosen: InFlight| group_cycle.is_some() && chosen.group_cycle == group_cycle;
        let allocation = match &claim.status.allocation {
            Some(_) if claim.in_flight.is_some_and(|chosen| !is_of_this_cycle(chosen)) => {
                let reason =
                    format!("resource claim {namespace}/{name} is in the process of being allocated");
                return Err(Reject::unresolvable(reason).into());
            }
            allocation => allocation,
        };
        let within_reach = match allocation {
            Some(allocation) => allocation.node_selector.as_ref().map(ParsedNodeSelector::new),
            None => {
                let mut requests = claim.spec.devices.requests.iter();
                requests.try_for_each(|request| check_request(claim, request, gates, classes))?;
                None
            }
        };
        if let Some(error) = within_reach.as_ref().and_then(ParsedNodeSelector::error) {
            return Err(error.into());
        }
        let mut results = allocation.iter().flat_map(|allocation| &allocation.devices.results);
        let skips_operations = gates.rules.knows_unsupported_fields
            && results.any(|result| !result.skip_node_operations.is_empty());
        let is_pending = claim.in_flight.is_some();
        Ok(Self { claim: claim.clone(), consumer, is_pending, within_reach, skips_operations })
    }

    /// Returns the claim as the API server has it, without devices that are only assumed.
    pub(super) fn as_recorded(&self) -> Custom<ResourceClaim> {
        let mut claim = self.claim.clone();
        if self.is_pending {
            claim.status.allocation = None;
            claim.in_flight = None;
        }
        claim
    }

    fn is_usable(&self, node: NodeRef<'_>, patience: &Patience) -> bool {
        let is_within_reach = self
            .within_reach
            .as_ref()
            .is_none_or(|nodes| node.object().is_some_and(|it| nodes.matches(&it.labels, node.name())));
        let supports_claim = !self.skips_operations
            || node.declared_features().iter().any(|feature| *feature == OPTIONAL_OPERATIONS);
        is_within_reach
            && supports_claim
            && patience.timeout.filter(|_| !self.is_pending).is_none_or(|timeout| match readiness::readiness(
                &self.claim,
            ) {
                Readiness::Ready => true,
                Readiness::Waiting => !readiness::is_timed_out(&self.claim, timeout, patience.now),
                Readiness::Failed(_) => false,
            })
    }
}

/// Checks that the scheduler can handle a request and that its device classes exist.
fn check_request(
    claim: &Custom<ResourceClaim>,
    request: &DeviceRequest,
    gates: DeviceGates,
    classes: Watched<'_, DeviceClass>,
) -> Result<(), Stop> {
    let Metadata { namespace, name: claim, .. } = &claim.metadata;
    let name = &request.name;
    let refuse =
        |why: &str| Err(unresolvable(format!("resource claim {namespace}/{claim}, request {name}: {why}")));
    match (&request.exactly, request.first_available.as_slice()) {
        (Some(exactly), _) => check_class(name, exactly, classes),
        (None, []) => refuse("unknown request type"),
        (None, _) if !gates.prioritized_list => {
            refuse("has subrequests, but the DRAPrioritizedList feature is disabled")
        }
        (None, alternatives) => alternatives
            .iter()
            .try_for_each(|demand| check_class(&format!("{name}/{}", demand.name), demand, classes)),
    }
}

fn check_class(request: &str, demand: &DeviceDemand, classes: Watched<'_, DeviceClass>) -> Result<(), Stop> {
    let class = &demand.device_class_name;
    if class.is_empty() {
        return Err(format!("request {request}: unsupported request type").into());
    }
    match classes.get("", class) {
        Some(_) => Ok(()),
        None => Err(unresolvable(format!("request {request}: device class {class} does not exist"))),
    }
}

fn unresolvable(reason: String) -> Stop {
    Reject::unresolvable(reason).into()
}
