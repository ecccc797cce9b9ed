//! NodeResourcesFit: requires that a node has the requested resources, and scores nodes by resource utilization.
//!
//! # What it does
//! Extension points: PreFilter, Filter, PreScore, Score, PlacementScore. Compares the pod's requests (containers, init containers,
//! sidecars, pod-level requests and overhead) with the node's allocatable resources and the requests of its pods.
//!
//! # Rejects when
//! The node has no room for another pod (`Too many pods`), or too little free cpu, memory, ephemeral storage or scalar
//! resource (`Insufficient cpu`, `Insufficient example.com/gpu`, …); all shortages are reported. Eviction may help
//! unless a request exceeds the node's capacity. Extended resources that are listed in `ignoredResources`, or whose
//! group is listed in `ignoredResourceGroups`, are ignored. If a device class provides an extended resource and the node
//! does not offer it (KEP-5004), the resource is left to DynamicResources.
//!
//! # Scores by
//! The weighted mean of one value for each resource in `scoringStrategy` that the node has; scalar resources count only
//! for pods that request them. A container without a cpu request is counted as requesting 100m, and a container without
//! a memory request as requesting 200 MiB. If a node does not offer a resource itself, the devices of the class that
//! provides it are counted instead.
//! - `LeastAllocated`: the free fraction.
//! - `MostAllocated`: the used fraction.
//! - `RequestedToCapacityRatio`: a function of the used fraction; resources with a result of zero are excluded from
//!   the mean.
//!
//! Placements of groups are always scored by `MostAllocated`, as if the nodes of the placement were one node.
//!
//! # Requeued by
//! The deletion or termination of a pod that was on a node or nominated to one; a pod on a node that now requests
//! less of a resource, if the pending pod also requests that resource; a decrease in the pending pod's own requests; a
//! new node that could hold the pending pod if the node were empty; an increase in such a node's allocatable pods, or
//! in its amount of a requested resource; a new device class, or one with a new `extendedResourceName`, that provides
//! a requested resource.
//!
//! # Differs from kube-scheduler
//! - Scalar resources are reported in name order; kube-scheduler's order is random.
//! - If its PreFilter is disabled, the plugin still filters instead of failing.
//! - Pod-level requests count even if the `PodLevelResources` feature gate is off.

use std::sync::Arc;

use harbormaster_api::{
    Resources, Str,
    args::NodeResourcesFitArgs,
    requests::{self, StatusRule},
};
use harbormaster_framework::{prelude::*, row_log::RowLog};

use super::{
    backing::Backing,
    demand::{Demand, IgnoredResources},
    lanes::{Lane, RequestKind, ScoredResource},
    strategy::Strategy,
};
use crate::{
    devices::{
        CLASS_PREFIX, DeviceClass, Devices, ResourceClaim, ResourceSlice, is_provided, may_be_provided,
    },
    sign,
};

/// Requires that a node has the requested resources. See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct NodeResourcesFit {
    ignored: IgnoredResources,
    strategy: Strategy,
    resources: Vec<ScoredResource>,
    backing: Backing,
    /// Rule by which the statuses of resized pods count for hints.
    status_rule: StatusRule,
}

/// A pod's request, prepared for comparisons. See [`NodeResourcesFit`].
#[derive(Clone, Debug, Default)]
pub struct FitState(Arc<Demand>);

impl Plugin for NodeResourcesFit {
    const NAME: &'static str = "NodeResourcesFit";
    const MAY_BLOCK: bool = false;
    implemented_points!();

    fn events(&self) -> Option<Vec<Registration<Self>>> {
        use EventResource::{AssignedPod, Node, TargetPod};
        let less = Action::DELETE | Action::UPDATE_POD_SCALE_DOWN;
        let mut events = vec![
            Registration::hinted(AssignedPod, less, Self::after_pod),
            Registration::always(TargetPod, Action::UPDATE_POD_SCALE_DOWN),
            Registration::hinted_with_objects(
                Node,
                Action::ADD | Action::UPDATE_NODE_ALLOCATABLE,
                Self::after_node,
            ),
        ];
        if self.backing.is_on() {
            let known = Action::ADD | Action::UPDATE;
            events.push(Registration::on::<DeviceClass>(known, Self::after_class));
        }
        Some(events)
    }

    fn reads(&self, pod: RowPod<'_>, reads: &mut Reads) {
        reads.of(&pod.derived.request).of(&pod.derived.score_request);
    }

    fn sign(&self, pod: &PodInfo) -> Result<Vec<SignFragment>, Unsignable> {
        Ok(vec![sign::resources(pod)])
    }
}

impl Build for NodeResourcesFit {
    type Args = NodeResourcesFitArgs;

    fn build(args: Self::Args, cx: &BuildCycle) -> Result<Self, PluginError> {
        Ok(Self {
            ignored: IgnoredResources {
                names: args.ignored_resources.into_iter().collect(),
                groups: args.ignored_resource_groups.into_iter().collect(),
            },
            strategy: Strategy::new(&args.scoring_strategy)?,
            resources: ScoredResource::list(&args.scoring_strategy.resources),
            backing: Backing::new(cx),
            status_rule: StatusRule::of(cx.features.release()),
        })
    }
}

impl Watches for NodeResourcesFit {
    type Resources = (ResourceClaim, DeviceClass, ResourceSlice);
}

impl Indexed for NodeResourcesFit {
    type Index = Devices;
}

impl ReadsCluster for NodeResourcesFit {
    fn reads_cluster(&self, cx: &Cycle<'_>, reads: &mut Reads) -> PluginResult<()> {
        let backed = self.backing.backed(self, cx, &cx.pod.derived.request)?;
        if !backed.is_empty() {
            reads.of(&backed);
        }
        Ok(())
    }

    fn changed_rows<'a>(&self, cx: &Cycle<'a>) -> PluginResult<Option<&'a RowLog>> {
        self.backing.changed_rows(self, cx, &self.resources)
    }
}

impl PreFilter<Row, FitState> for NodeResourcesFit {
    fn pre_filter(&self, cx: &RowCycle<'_>) -> Result<PreFiltered<FitState>, Stop> {
        let backed = self.backed(cx)?;
        let demand = Demand::new(&cx.pod.derived.request, &self.ignored, |name| backed.contains(name));
        Ok(PreFiltered::state(FitState(Arc::new(demand))))
    }
}

impl Filter<Row, FitState> for NodeResourcesFit {
    fn filter(&self, cx: &RowCycle<'_>, state: &FitState, node: NodeRef<'_>) -> Verdict {
        Ok(state.0.check(cx.nodes, node)?)
    }

    fn filter_batch(&self, cx: &RowCycle<'_>, state: &FitState, sweep: &mut Sweep<'_>) -> PluginResult<()> {
        state.0.sweep(cx.nodes, sweep);
        Ok(())
    }
}

impl PreScore<Row, FitState> for NodeResourcesFit {
    fn pre_score(&self, _: &RowCycle<'_>, _: &FitState, _: &NodeSet) -> PluginResult<PreScored<()>> {
        Ok(PreScored::Continue(()))
    }
}

impl Score<Row> for NodeResourcesFit {
    fn score(&self, cx: &RowCycle<'_>, (): &(), node: NodeRef<'_>) -> PluginResult<i64> {
        Ok(self.strategy.score(&self.lanes(cx)?, node.idx()))
    }

    fn score_batch(&self, cx: &RowCycle<'_>, (): &(), scores: &mut Scores<'_>) -> PluginResult<()> {
        self.strategy.score_batch(&self.lanes(cx)?, scores);
        Ok(())
    }
}

impl PlacementScore for NodeResourcesFit {
    fn score_placement(&self, cx: &GroupCycle<'_>, proposed: &ProposedPlacement<'_>) -> PluginResult<i64> {
        let requests = || proposed.assignments.iter().map(|one| &one.pod.derived.score_request);
        let asks = self.resources.iter().map(|resource| requests().map(|request| resource.of(request)).sum());
        let lanes = Lane::of(&self.resources, asks, cx.nodes, RequestKind::NonZero, &[]);
        Ok(Strategy::Most.score_together(&lanes, &proposed.placement.nodes))
    }
}

impl NodeResourcesFit {
    /// Returns the requested resources that device classes provide.
    fn backed(&self, cx: &RowCycle<'_>) -> PluginResult<Vec<Str>> {
        match cx.cluster() {
            Some(cluster) => self.backing.backed(self, &cluster, &cx.pod.derived.request),
            None => Ok(Vec::new()),
        }
    }

    fn lanes<'a>(&'a self, cx: &RowCycle<'a>) -> PluginResult<Vec<Lane<'a>>> {
        let request = &cx.pod.derived.score_request;
        let asks = self.resources.iter().map(|r| r.of(request));
        let devices = self.backing.devices(self, cx, &self.resources)?;
        Ok(Lane::of(&self.resources, asks, cx.nodes, RequestKind::NonZero, &devices))
    }

    fn after_pod(&self, pod: &PodInfo, change: &Change<'_>) -> PluginResult<Hint> {
        let helps = match change {
            Change::Pod { old: Some(gone), new: None } => {
                gone.node_name.is_some() || gone.status.nominated_node_name.is_some()
            }
            Change::Pod { old: Some(old), new: Some(new) } => {
                let request = |pod| requests::pod_request(pod, self.status_rule);
                new.node_name.is_some() && frees_wanted(&request(pod), &request(old), &request(new))
            }
            _ => true,
        };
        Ok(if helps { Hint::Queue } else { Hint::Skip })
    }

    fn after_node(&self, cx: HintCycle<'_>, change: &Change<'_>) -> PluginResult<Hint> {
        let Change::Node { old, new: Some(new) } = change else { return Ok(Hint::Queue) };
        // As in kube-scheduler, resources that Filter ignores are not ignored here.
        let (_, classes, _) = self.watched(cx.objects);
        let is_backed =
            |name: &Str| self.backing.is_on() && may_be_provided(name) && is_provided(classes, name);
        let demand = Demand::new(&cx.pod.derived.request, &IgnoredResources::default(), is_backed);
        let gains = || old.is_none_or(|old| demand.gains(&old.allocatable, &new.allocatable));
        Ok(if demand.fits_empty(new) && gains() { Hint::Queue } else { Hint::Skip })
    }
}

impl NodeResourcesFit {
    /// Hint for a class, which may now provide a resource that the pod requests.
    fn after_class(
        &self,
        pod: &PodInfo,
        Changed { old, new }: Changed<'_, DeviceClass>,
    ) -> PluginResult<Hint> {
        let Some(new) = new else { return Ok(Hint::Skip) };
        let requests = |resource: &str| {
            let mut scalars = pod.derived.request.scalars.iter();
            scalars.any(|(name, _)| **name == *resource)
        };
        let is_new_name = old.is_none_or(|old| old.extended_resource_name != new.extended_resource_name);
        let is_wanted = is_new_name && new.extended_resource_name.as_deref().is_some_and(requests);
        let helps = is_wanted || (old.is_none() && requests(&format!("{CLASS_PREFIX}{}", new.metadata.name)));
        Ok(if helps { Hint::Queue } else { Hint::Skip })
    }
}

/// Returns true if the request for any wanted resource decreases.
fn frees_wanted(wanted: &Resources, before: &Resources, after: &Resources) -> bool {
    let frees = |wanted: i64, before: i64, after: i64| wanted != 0 && before > after;
    frees(wanted.milli_cpu, before.milli_cpu, after.milli_cpu)
        || frees(wanted.memory, before.memory, after.memory)
        || frees(wanted.ephemeral_storage, before.ephemeral_storage, after.ephemeral_storage)
        || wanted.scalars.iter().any(|(name, wanted)| frees(*wanted, before.scalar(name), after.scalar(name)))
}

#[cfg(test)]
#[path = "fit_filter_tests.rs"]
mod filter_tests;
#[cfg(test)]
#[path = "fit_score_tests.rs"]
mod score_tests;
