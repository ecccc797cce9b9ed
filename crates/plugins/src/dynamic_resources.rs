//! DynamicResources: allocates devices for the resource claims of pods (KEP-4381).
//!
//! # What it does
//! Extension points: PreEnqueue, PreFilter, Filter, PostFilter, Score, Reserve, PreBind. A claim asks for
//! devices of certain classes, and drivers offer devices in resource slices. A claim that has devices restricts its pod
//! to the nodes that can reach them. For a claim without devices, Filter looks for a free set of devices on each node.
//! Reserve assumes the devices of the chosen node, so that no other pod gets them. PreBind writes the allocation and
//! reserves the claim for the pod, then waits until the devices are ready if they have binding conditions. PostFilter
//! takes the devices from a claim that keeps its pod away from every node, if nobody else uses the claim.
//!
//! # Rejects when
//! On all nodes: a claim does not exist, is being deleted or belongs to another pod; another pod is about to allocate
//! the claim; a device class does not exist. On a single node: `cannot allocate all claims`, or `resourceclaim not
//! available on the node`. Evicting pods does not help.
//!
//! # Scores by
//! The rank of the alternatives that were allocated for requests with `firstAvailable`: 8 for the first alternative, 7
//! for the second, and so on.
//!
//! # Requeued by
//! A claim that loses its devices; new and changed claims of the pod; claims that were generated for the pod; new or
//! changed classes and slices; a new node, or a node whose labels or allocatable resources change.
//!
//! # Differs from kube-scheduler
//! - `filterTimeout` limits the number of devices that are examined for one node, not the time, so that the same inputs
//!   always give the same decision.
//! - Share IDs are derived from the claim, so a replayed decision gives the same IDs.
//! - A pod with both allocated and unallocated claims is scored by the allocations of the right claims, as in
//!   Kubernetes 1.37. Version 1.36 compares allocations with the wrong claims, or fails.
//! - PostFilter takes the devices from the first such claim instead of a random one, and reports it before the API
//!   server has answered.
//! - After a changed claim, a pod whose other claims are incomplete is examined by PreEnqueue instead of the hint.
//!
//! Reading order: `claims` (the pod), `demand` (one attempt), `readiness` (binding conditions), `reserved` and `bind`
//! (the result), `hints`. The devices themselves are in [`crate::devices`].

mod bind;
mod claims;
mod demand;
mod hints;
mod readiness;
mod reserved;

use std::{sync::Arc, time::Duration};

use harbormaster_api::args::{DynamicResourcesArgs, GoDuration};
use harbormaster_framework::prelude::*;

use crate::devices::{
    AllocationError, DeviceClass, DeviceGates, DeviceQuery, Devices, ResourceClaim, ResourceSlice,
};
use bind::Binding;
use demand::{Demand, Patience};
use reserved::ReservedClaim;
pub use reserved::ReservedClaims;

/// Allocates devices for claims. See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct DynamicResources {
    gates: DeviceGates,
    filter_timeout: Duration,
    binding_timeout: Duration,
}

/// The claims of a pod in one attempt. See [`DynamicResources`].
#[derive(Clone, Debug, Default)]
pub struct PodDevices(Option<Arc<Demand>>);

impl Plugin for DynamicResources {
    const NAME: &'static str = "DynamicResources";
    implemented_points!();

    fn events(&self) -> Option<Vec<Registration<Self>>> {
        Some(hints::events())
    }

    fn sign(&self, pod: &PodInfo) -> Result<Vec<SignFragment>, Unsignable> {
        if pod.spec.resource_claims.is_empty() { Ok(Vec::new()) } else { Err(Unsignable) }
    }
}

impl Watches for DynamicResources {
    type Resources = (ResourceClaim, DeviceClass, ResourceSlice);
}

impl Indexed for DynamicResources {
    type Index = Devices;
}

impl Build for DynamicResources {
    type Args = DynamicResourcesArgs;

    fn build(args: Self::Args, cx: &BuildCycle) -> Result<Self, PluginError> {
        let timeout = args.filter_timeout.map(GoDuration::to_std).unwrap_or_default();
        Ok(Self {
            gates: DeviceGates::of(|feature| cx.features.enabled(feature)),
            filter_timeout: timeout,
            binding_timeout: args.binding_timeout.map_or(BINDING_TIMEOUT, GoDuration::to_std),
        })
    }
}

/// Number of devices that are examined in a millisecond of `filterTimeout`. kube-scheduler examines about as many on
/// current hardware; Harbormaster needs less time.
const STEPS_PER_MILLISECOND: u64 = 1000;

/// Default of `bindingTimeout`.
const BINDING_TIMEOUT: Duration = Duration::from_secs(600);

impl DynamicResources {
    fn patience(&self, cx: &Cycle<'_>) -> Patience {
        Patience { timeout: self.gates.binding_conditions.then_some(self.binding_timeout), now: cx.now }
    }

    /// Returns the number of devices that may be examined for one node.
    fn max_steps(&self) -> u64 {
        let is_limited = self.gates.filter_timeout && !self.filter_timeout.is_zero();
        let millis = u64::try_from(self.filter_timeout.as_millis()).unwrap_or(u64::MAX);
        if is_limited { millis.saturating_mul(STEPS_PER_MILLISECOND).max(1) } else { u64::MAX }
    }

    /// Returns the query for devices for the claims.
    fn query<'a>(&self, cx: &Cycle<'a>, claims: &'a [&'a Custom<ResourceClaim>]) -> DeviceQuery<'a> {
        let (_, classes, _) = self.watched(cx.objects);
        DeviceQuery { claims, classes, gates: self.gates, max_steps: self.max_steps() }
    }
}

impl PreEnqueue for DynamicResources {
    fn pre_enqueue(&self, cx: EnqueueCycle<'_>) -> Verdict {
        let (all, _, _) = self.watched(cx.objects);
        claims::of(cx.pod, all).map(drop).map_err(|reason| Reject::unresolvable(reason).into())
    }
}

impl PreFilter<WholeCluster, PodDevices> for DynamicResources {
    fn pre_filter(&self, cx: &Cycle<'_>) -> Result<PreFiltered<PodDevices>, Stop> {
        Ok(match Demand::of(self, cx)? {
            Some(demand) => PreFiltered::state(PodDevices(Some(Arc::new(demand)))),
            None => PreFiltered::Skip,
        })
    }
}

impl Filter<WholeCluster, PodDevices> for DynamicResources {
    /// Claims count as unavailable only on nodes where devices for all other claims are free.
    fn filter(&self, cx: &Cycle<'_>, PodDevices(demand): &PodDevices, node: NodeRef<'_>) -> Verdict {
        let Some(demand) = demand else { return Ok(()) };
        let unusable = demand.unusable_on(node, &self.patience(cx));
        let claims = demand.to_allocate();
        if !claims.is_empty() {
            let fits = self.index(cx)?.fits(&self.query(cx, &claims), node);
            fits.map_err(|error| stop(error, node))?;
        }
        if unusable.is_empty() {
            return Ok(());
        }
        demand.remember(unusable);
        Err(Reject::unresolvable("resourceclaim not available on the node").into())
    }
}

/// Returns the reason for a node on which no devices can be allocated.
fn stop(error: AllocationError, node: NodeRef<'_>) -> Stop {
    match error {
        AllocationError::NoSolution | AllocationError::InvalidPools => {
            Reject::unresolvable(error.to_string()).into()
        }
        AllocationError::TimedOut => {
            format!("node {}: timed out trying to allocate devices", node.name()).into()
        }
        AllocationError::Fatal(why) => why.into(),
    }
}

impl PostFilter<PodDevices> for DynamicResources {
    fn post_filter(
        &self,
        cx: &mut PostFilterCycle<'_>,
        PodDevices(demand): &PodDevices,
    ) -> PluginResult<PostFiltered> {
        if !cx.pre_filtered {
            // The state that PreFilter would have written is missing.
            return Err("not found".into());
        }
        let claim = demand.as_ref().map(|demand| demand.to_deallocate(cx.pod));
        let reason = match claim {
            None => "no new claims to deallocate",
            Some(None) => "still not schedulable",
            Some(Some(claim)) => {
                cx.calls.push(bind::deallocate(&claim.metadata));
                "deallocation of ResourceClaim completed"
            }
        };
        Ok(PostFiltered::NoHelp { reasons: vec![reason.into()], nomination: Nomination::Keep })
    }
}

impl Score for DynamicResources {
    const NORMALIZE: Normalize = Normalize::Proportional { reverse: false };

    fn scores_pod(&self, cx: &Cycle<'_>) -> bool {
        !cx.pod.spec.resource_claims.is_empty()
    }

    fn score(&self, cx: &Cycle<'_>, (): &(), node: NodeRef<'_>) -> PluginResult<i64> {
        match self.demand(cx)? {
            Some(demand) => self.rank(cx, &demand, node),
            None => Ok(0),
        }
    }

    fn score_batch(&self, cx: &Cycle<'_>, (): &(), scores: &mut Scores<'_>) -> PluginResult<()> {
        let demand = self.demand(cx)?;
        for (row, score) in scores.iter_mut() {
            *score = match &demand {
                Some(demand) => self.rank(cx, demand, cx.nodes.node(row))?,
                None => 0,
            };
        }
        Ok(())
    }
}

impl DynamicResources {
    /// Returns the claims of the pod if some of them need devices.
    fn demand(&self, cx: &Cycle<'_>) -> PluginResult<Option<Demand>> {
        if cx.pod.spec.resource_claims.is_empty() {
            return Ok(None);
        }
        match Demand::of(self, cx) {
            Ok(demand) => Ok(demand.filter(|demand| !demand.to_allocate().is_empty())),
            Err(Stop::Reject(_)) => Ok(None),
            Err(Stop::Error(error)) => Err(error),
        }
    }

    /// Returns the sum of the ranks of all allocated alternatives if the pod runs on the node.
    fn rank(&self, cx: &Cycle<'_>, demand: &Demand, node: NodeRef<'_>) -> PluginResult<i64> {
        let claims = demand.to_allocate();
        match self.index(cx)?.fits(&self.query(cx, &claims), node) {
            Ok(rank) => Ok(rank + demand.rank_of_allocated()),
            Err(AllocationError::Fatal(why)) => Err(why.into()),
            Err(_) => Ok(0),
        }
    }
}

impl Reserve<PodDevices> for DynamicResources {
    type Reserved = ReservedClaims;

    fn reserve(
        &self,
        cx: &Cycle<'_>,
        PodDevices(demand): &PodDevices,
        node: NodeRef<'_>,
        assume: &mut Assume,
    ) -> Result<ReservedClaims, Stop> {
        let Some(demand) = demand else { return Ok(ReservedClaims::default()) };
        let claims = demand.to_allocate();
        let allocations = match claims.is_empty() {
            true => Vec::new(),
            false => {
                let allocated = self.index(cx)?.allocate(&self.query(cx, &claims), node);
                allocated.map_err(|error| stop(error, node))?
            }
        };
        let mut allocations = allocations.into_iter().map(Arc::new);
        let reserved = demand.claims().iter().map(|claim| {
            let allocation = if claim.has_devices() { None } else { allocations.next() };
            ReservedClaim::new(claim.claim.clone(), allocation, cx.pod)
        });
        let reserved = ReservedClaims::new(reserved.collect());
        reserved.assume(assume);
        Ok(reserved)
    }

    /// The allocation stays if it was written: the next attempt uses it, or PostFilter takes it back.
    fn unreserve(&self, placement: &Placement, calls: &mut Vec<ApiCall>) {
        let written = self.reserved(placement).into_iter().flat_map(ReservedClaims::written);
        calls.extend(written.map(|claim| bind::release(&claim.claim.metadata, &placement.pod)));
    }
}

impl PreBind for DynamicResources {
    fn pre_flight(&self, placement: &Placement) -> PluginResult<PreFlight> {
        let is_empty = self.reserved(placement).is_none_or(ReservedClaims::is_empty);
        Ok(if is_empty { PreFlight::NothingToDo } else { PreFlight::Work { parallel: true } })
    }

    async fn pre_bind(&self, cx: &BindCycle) -> Verdict {
        let Some(claims) = self.reserved(cx) else { return Ok(()) };
        let binding_conditions = self.gates.binding_conditions;
        let binding = Binding { cx, claims, timeout: self.binding_timeout, binding_conditions };
        binding.write().await?;
        if binding_conditions {
            binding.wait().await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
