//! DynamicResources: allocates devices for the resource claims of pods (KEP-4381).
//!
//! # What it does
//! Extension points: PreEnqueue, PreFilter, Filter, PostFilter, PodGroupPostFilter, Score, Reserve, PreBind. A claim
//! asks for devices of certain classes, and drivers offer devices in resource slices. A claim that has devices
//! restricts its pod to the nodes that can reach them. For a claim without devices, Filter looks for a free set of
//! devices on each node. Reserve assumes the devices of the chosen node, so that no other pod gets them. PreBind writes
//! the allocation and reserves the claim for the pod, then waits until the devices are ready if they have binding
//! conditions. If the pod fits on no node, PostFilter takes the devices from a claim that was unavailable on some node,
//! unless another pod uses the claim. For extended resources that a device class provides (KEP-5004) and that the node
//! does not offer, the plugin itself creates a claim.
//!
//! The members of a group that are placed in one cycle share the devices that were chosen for a claim in this cycle.
//! With the feature gate `DRAWorkloadResourceClaims` (KEP-5729), a claim that both a pod and its PodGroup list is reserved
//! for the group, and generated claims may belong to the group. If a group is rejected, PodGroupPostFilter takes devices
//! away that were unavailable on some node, as PostFilter does for a pod, or removes the group from a claim's consumers.
//!
//! # Rejects when
//! The pod is rejected on all nodes if:
//! - a claim does not exist or is being deleted, or a generated claim belongs to another pod;
//! - devices have been chosen for a claim, but the API server has not recorded them yet;
//! - a device class does not exist, or a request is of an unknown or disabled kind;
//! - a claim that was created for the pod's extended resources is left from an earlier attempt. PostFilter deletes it.
//!
//! A node is rejected with `cannot allocate all claims`, `invalid resource pools were encountered`, `resourceclaim not
//! available on the node` or `cannot fit resource`.
//!
//! Evicting pods does not help.
//!
//! # Scores by
//! The sum of the ranks of the alternatives that the pod would use on the node for its requests with `firstAvailable`:
//! 8 for the first alternative, 7 for the second, and so on.
//!
//! # Requeued by
//! A claim that loses its devices; a new claim of the pod, or one whose status changes; claims that were generated for
//! the pod; the deletion of the claim for the pod's extended resources; a pod that needs devices and loses its node
//! before it is bound; new or changed classes and slices; a rule that alters the taints of devices; a new node, or a node
//! whose labels or allocatable resources change.
//!
//! # Differs from kube-scheduler
//! - `filterTimeout` limits the number of search steps for one node, not the time, so that the same inputs always give
//!   the same decision.
//! - Share IDs are derived from the claim, so a replayed decision gives the same IDs.
//! - If several claims share a device and its driver then makes the device exclusive, the device stays in use until
//!   the last of these claims ends. Version 1.36 allocates the device once more if it has no capacities.
//! - A request for all devices can get devices that consume counters. Version 1.36 panics.
//! - A pod with both allocated and unallocated claims is scored by the allocations of the right claims, as in
//!   Kubernetes 1.37. Version 1.36 compares allocations with the wrong claims, or fails.
//! - Among the claims that nobody else uses, PostFilter takes the devices from the first in the pod's order; the choice
//!   of kube-scheduler is random. PostFilter reports success before the API server has answered.
//! - PodGroupPostFilter takes the devices of a claim that several members share only once. kube-scheduler does it for
//!   each member, and the second write fails. As in kube-scheduler, PodGroupPostFilter fails with `not found` if no
//!   member came as far as this plugin's PreFilter, and it says `deallocation and deletion of ResourceClaims completed`
//!   even if it did nothing.
//! - If several members of a group share a claim without devices, the first of them writes the devices, and the others
//!   accept them. In kube-scheduler, the others fail, and are tried again. If such a member names the claim before one of
//!   its own, kube-scheduler 1.37.2 confuses the devices of the two.
//! - If a pod has claims, and its extended resources need no devices on the chosen node, the pod is bound. Version 1.36
//!   creates an empty claim for these resources and then fails.
//! - A claim that is deleted with its devices, and a pod that loses its node before the devices chosen for it are
//!   written, wake the pods that wait for devices. In kube-scheduler, these pods wait until another event wakes them or
//!   five minutes have passed; only the deletion of such a claim wakes them in version 1.37.
//! - Version 1.36 crashes if a rule that taints devices exists.
//! - Of several classes for one extended resource, the newest always counts. In version 1.36, the order of events may
//!   matter.
//!
//! Reading order: `claims` (the pod), `group` (its group), `extended` (its extended resources), `demand` (one attempt), `readiness` (binding
//! conditions), `reserved` and `bind` (the result), `hints`, `lacks` (explanations). The devices themselves are in [`crate::devices`].

mod bind;
mod claims;
mod demand;
mod extended;
mod group;
mod hints;
mod lacks;
mod readiness;
mod reserved;

use std::{sync::Arc, time::Duration};

use harbormaster_api::{
    Release,
    args::{DynamicResourcesArgs, GoDuration},
    features::Feature,
};
use harbormaster_framework::prelude::*;

use crate::devices::{
    AllocationError, DeviceClass, DeviceGates, DeviceQuery, DeviceTaintRule, Devices, ResourceClaim,
    ResourceSlice,
};
use bind::Binding;
use demand::{Demand, Patience};
pub use group::GroupClaims;
pub use reserved::ReservedClaims;
use reserved::{ReservedClaim, ReservedExtended};

/// Allocates devices for claims. See the [module documentation](self).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DynamicResources {
    gates: DeviceGates,
    /// Feature gate `DRAExtendedResource`.
    extended_resources: bool,
    /// `filterTimeout`, which [`Self::max_steps`] converts to a number of steps; zero for no limit.
    filter_timeout: Duration,
    binding_timeout: Duration,
    /// True if PostFilter gives a reason even if it does nothing (Kubernetes 1.36).
    explains_inaction: bool,
    /// True if groups are kept together in topology domains.
    has_placements: bool,
    /// True if claims may belong to groups (feature gate `DRAWorkloadResourceClaims`).
    of_groups: bool,
}

/// The claims of a pod in one attempt. See [`DynamicResources`].
#[derive(Clone, Debug, Default)]
pub struct PodDevices(Option<Arc<Demand>>);

impl Plugin for DynamicResources {
    const NAME: &'static str = "DynamicResources";
    const MAY_BLOCK: bool = false;
    implemented_points!();

    fn events(&self) -> Option<Vec<Registration<Self>>> {
        Some(hints::events(self.gates))
    }

    fn sign(&self, pod: &PodInfo) -> Result<Vec<SignFragment>, Unsignable> {
        if pod.spec.resource_claims.is_empty() { Ok(Vec::new()) } else { Err(Unsignable) }
    }
}

impl Watches for DynamicResources {
    type Resources = (ResourceClaim, DeviceClass, ResourceSlice, DeviceTaintRule, GroupClaims);
}

impl Indexed for DynamicResources {
    type Index = Devices;
}

impl Build for DynamicResources {
    type Args = DynamicResourcesArgs;

    fn build(args: Self::Args, cx: &BuildCycle) -> Result<Self, PluginError> {
        let timeout = args.filter_timeout.map(GoDuration::to_std).unwrap_or_default();
        Ok(Self {
            gates: DeviceGates::of(cx.features),
            extended_resources: cx.features.enabled(Feature::DRAExtendedResource),
            filter_timeout: timeout,
            binding_timeout: args.binding_timeout.map_or(BINDING_TIMEOUT, GoDuration::to_std),
            explains_inaction: cx.features.release() < Release::V1_37,
            has_placements: cx.features.enabled(Feature::TopologyAwareWorkloadScheduling),
            of_groups: cx.features.enabled(Feature::DRAWorkloadResourceClaims),
        })
    }
}

/// Number of search steps per microsecond of `filterTimeout`. kube-scheduler stops when the time is up. Harbormaster
/// counts steps instead, because a replayed decision must end in the same way. On current hardware, kube-scheduler
/// takes about one step per microsecond; Harbormaster is faster.
const STEPS_PER_MICROSECOND: u64 = 1;

/// Default of `bindingTimeout`.
const BINDING_TIMEOUT: Duration = Duration::from_secs(600);

impl DynamicResources {
    fn patience(&self, cx: &Cycle<'_>) -> Patience {
        Patience { timeout: self.gates.binding_conditions.then_some(self.binding_timeout), now: cx.now }
    }

    /// Returns the maximum number of search steps for one node.
    fn max_steps(&self) -> u64 {
        let is_limited = self.gates.filter_timeout && !self.filter_timeout.is_zero();
        let micros = u64::try_from(self.filter_timeout.as_micros()).unwrap_or(u64::MAX);
        if is_limited { micros.saturating_mul(STEPS_PER_MICROSECOND).max(1) } else { u64::MAX }
    }

    /// Returns the query for the devices of these claims.
    fn query<'a>(&self, cx: &Cycle<'a>, claims: &'a [&'a Custom<ResourceClaim>]) -> DeviceQuery<'a> {
        let (_, classes, ..) = self.watched(cx.objects);
        DeviceQuery { claims, classes, gates: self.gates, max_steps: self.max_steps() }
    }
}

impl PreEnqueue for DynamicResources {
    fn pre_enqueue(&self, cx: EnqueueCycle<'_>) -> Verdict {
        let (all, ..) = self.watched(cx.objects);
        claims::of(cx.pod, all, self.of_groups)
            .map(drop)
            .map_err(|reason| Reject::unresolvable(reason).into())
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
    /// An allocated claim that cannot be used on the node is remembered for PostFilter only if the claims that still
    /// need devices could get them there.
    fn filter(&self, cx: &Cycle<'_>, PodDevices(demand): &PodDevices, node: NodeRef<'_>) -> Verdict {
        let Some(demand) = demand else { return Ok(()) };
        let extended = demand.extended_on(cx.pod, node)?;
        let unusable = demand.unusable_on(node, &self.patience(cx));
        let claims = demand.to_allocate(extended.as_deref());
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

    fn filter_batch(&self, cx: &Cycle<'_>, state: &PodDevices, sweep: &mut Sweep<'_>) -> PluginResult<()> {
        let rows = sweep.rows();
        let mut take = |node: NodeRef<'_>, stop: Stop| match stop {
            Stop::Reject(reject) => {
                sweep.reject(node.idx(), reject);
                Ok(())
            }
            Stop::Error(error) => Err(error),
        };
        match state.0.as_ref().filter(|demand| demand.is_same_on_all_nodes()) {
            Some(demand) => {
                let (claims, nodes) = (demand.to_allocate(None), cx.nodes);
                let index = self.index(cx)?;
                index.each_unfit(&self.query(cx, &claims), nodes, rows, |node, error| {
                    take(node, stop(error, node))
                })
            }
            None => rows
                .iter()
                .map(|row| cx.nodes.node(row))
                .try_for_each(|node| self.filter(cx, state, node).or_else(|stop| take(node, stop))),
        }
    }

    fn lacks(&self, cx: &Cycle<'_>, PodDevices(demand): &PodDevices, node: NodeRef<'_>) -> Option<String> {
        self.shortfall(cx, demand.as_deref()?, node)
    }
}

/// Converts an error of the allocator to a rejection of the node or to an error that fails the attempt.
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
        let inaction = |reason| self.explains_inaction.then_some(reason);
        let reason = match demand {
            None => inaction("no new claims to deallocate"),
            Some(demand) => match demand.free(cx.pod) {
                Some((calls, done)) => {
                    cx.calls.extend(calls);
                    Some(done)
                }
                None => inaction("still not schedulable"),
            },
        };
        let reasons = reason.into_iter().map(Into::into).collect();
        Ok(PostFiltered::NoHelp { reasons, nomination: Nomination::Keep })
    }
}

impl PodGroupPostFilter<PodDevices> for DynamicResources {
    fn group_post_filter(
        &self,
        cx: &mut GroupPostFilterCycle<'_>,
        states: &[Option<&PodDevices>],
    ) -> PluginResult<GroupPostFiltered> {
        if self.has_placements && cx.group.topology_key.is_some() {
            return Ok(GroupPostFiltered::NoHelp { reasons: Vec::new() });
        }
        if !cx.pre_filtered {
            // The state that PreFilter would have written is missing.
            return Err("not found".into());
        }
        self.free_claims(cx, states)
    }
}

impl Score for DynamicResources {
    const NORMALIZE: Normalize = Normalize::Proportional { reverse: false };

    fn scores_pod(&self, cx: &Cycle<'_>) -> bool {
        self.alternatives(cx).is_some()
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
    /// Returns the claims of the pod if some of them have alternatives.
    fn alternatives<'a>(&self, cx: &Cycle<'a>) -> Option<Vec<&'a Custom<ResourceClaim>>> {
        if cx.pod.spec.resource_claims.is_empty() {
            return None;
        }
        let (all, ..) = self.watched(cx.objects);
        let claims = claims::of(cx.pod, all, self.of_groups).ok()?;
        let claims: Vec<_> = claims.into_iter().map(|(_, claim)| claim).collect();
        claims.iter().any(|claim| has_alternatives(claim)).then_some(claims)
    }

    /// Returns the claims of the pod if some of them need devices and nodes may differ in their ranks.
    fn demand(&self, cx: &Cycle<'_>) -> PluginResult<Option<Demand>> {
        if self.alternatives(cx).is_none() {
            return Ok(None);
        }
        match Demand::of(self, cx) {
            Ok(demand) => Ok(demand.filter(Demand::needs_devices)),
            Err(Stop::Reject(_)) => Ok(None),
            Err(Stop::Error(error)) => Err(error),
        }
    }

    /// Returns the sum of the ranks of the alternatives that the pod would use on the node; 0 if it finds no devices.
    fn rank(&self, cx: &Cycle<'_>, demand: &Demand, node: NodeRef<'_>) -> PluginResult<i64> {
        let Ok(extended) = demand.extended_on(cx.pod, node) else { return Ok(0) };
        let claims = demand.to_allocate(extended.as_deref());
        match self.index(cx)?.fits(&self.query(cx, &claims), node) {
            Ok(rank) => Ok(rank + demand.rank_of_allocated()),
            Err(AllocationError::Fatal(why)) => Err(why.into()),
            Err(_) => Ok(0),
        }
    }
}

fn has_alternatives(claim: &ResourceClaim) -> bool {
    claim.spec.devices.requests.iter().any(|request| !request.first_available.is_empty())
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
        let extended = demand.extended_on(cx.pod, node)?;
        let claims = demand.to_allocate(extended.as_deref());
        let allocations = match claims.is_empty() {
            true => Vec::new(),
            false => {
                let allocated = self.index(cx)?.allocate(&self.query(cx, &claims), node);
                allocated.map_err(|error| stop(error, node))?
            }
        };
        let mut allocations = allocations.into_iter().map(Arc::new);
        let reserved = demand.claims().iter().map(|wanted| {
            let allocation = match wanted.is_pending {
                true => wanted.claim.status.allocation.clone(),
                false if wanted.has_devices() => None,
                false => allocations.next(),
            };
            let (consumer, claim) = (wanted.consumer.clone(), wanted.as_recorded());
            let reserved = ReservedClaim::used_by(consumer, claim, allocation, cx.pod, self.of_groups);
            reserved.sharing(cx.group_cycle.is_some())
        });
        let claims: Vec<ReservedClaim> = reserved.collect();
        let extended = match demand.extended() {
            None => ReservedExtended::NotWanted,
            Some(_) => ReservedExtended::new(extended, allocations.next()),
        };
        let reserved = ReservedClaims::new(claims, extended);
        reserved.assume(cx, self.gates, assume);
        Ok(reserved)
    }

    /// The allocation stays if it was written: the next attempt uses it, or PostFilter takes it back. The claim for
    /// extended resources is deleted.
    fn unreserve(&self, placement: &Placement, calls: &mut Vec<ApiCall>) {
        let Some(reserved) = self.reserved(placement) else { return };
        let of_pod = reserved.reserved_for_pod();
        calls.extend(of_pod.map(|claim| bind::release(&claim.claim.metadata, &placement.pod.uid)));
        let created = reserved.created();
        calls.extend(created.into_iter().flat_map(|created| bind::delete(&created.claim.metadata)));
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
