//! NodeResourcesFit: requires that a node has the requested resources, and scores nodes by resource utilization.
//!
//! # What it does
//! Extension points: PreFilter, Filter, Score. Compares the pod's requests (containers, init containers, sidecars,
//! pod-level requests and overhead) with the node's allocatable resources and the requests of its pods.
//!
//! # Rejects when
//! The node has no room for another pod (`Too many pods`), or too little free cpu, memory, ephemeral storage or scalar
//! resource (`Insufficient cpu`, `Insufficient example.com/gpu`, …); all shortages are reported. Eviction may help
//! unless a request exceeds the node's capacity. Extended resources that are listed in `ignoredResources`, or whose
//! group is listed in `ignoredResourceGroups`, are ignored.
//!
//! # Scores by
//! The weighted mean of one value for each resource in `scoringStrategy` that the node has; scalar resources count only
//! for pods that request them. A container without a cpu request is counted as requesting 100m, and a container without
//! a memory request as requesting 200 MiB.
//! - `LeastAllocated`: the free fraction.
//! - `MostAllocated`: the used fraction.
//! - `RequestedToCapacityRatio`: a function of the used fraction; resources with a result of zero are excluded from
//!   the mean.
//!
//! # Requeued by
//! The deletion or termination of a pod that was on a node; a pod on a node that now requests less of a resource that
//! the pending pod requests; a decrease in the pending pod's own requests; a new node that could hold the pending pod
//! if the node were empty; an increase in such a node's allocatable pods, or in its amount of a requested resource.
//!
//! # Differs from kube-scheduler
//! - Scalar resources are reported in name order; kube-scheduler's order is random.
//! - If its PreFilter is disabled, the plugin still filters instead of failing.
//! - Extended resources that device classes provide (KEP-5004) count only if the node reports them as allocatable.
//! - Pod-level requests always count, whether or not the `PodLevelResources` feature gate is enabled.

use std::sync::Arc;

use harbormaster_api::{Resources, args::NodeResourcesFitArgs, requests};
use harbormaster_framework::prelude::*;

use super::{
    demand::{Demand, IgnoredResources},
    lanes::{Lane, RequestKind, ScoredResource},
    strategy::Strategy,
};
use crate::sign;

/// Requires that a node has the requested resources. See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct NodeResourcesFit {
    ignored: IgnoredResources,
    strategy: Strategy,
    resources: Vec<ScoredResource>,
}

/// A pod's request, prepared for comparisons. See [`NodeResourcesFit`].
#[derive(Clone, Debug, Default)]
pub struct FitState(Arc<Demand>);

impl Plugin for NodeResourcesFit {
    const NAME: &'static str = "NodeResourcesFit";
    implemented_points!();

    fn events(&self) -> Option<Vec<Registration<Self>>> {
        use EventResource::{Node, Pod};
        Some(vec![
            Registration::hinted(Pod, Action::DELETE | Action::UPDATE_POD_SCALE_DOWN, Self::after_pod),
            Registration::hinted(Node, Action::ADD | Action::UPDATE_NODE_ALLOCATABLE, Self::after_node),
        ])
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

    fn build(args: Self::Args, _: &BuildCycle) -> Result<Self, PluginError> {
        Ok(Self {
            ignored: IgnoredResources {
                names: args.ignored_resources.into_iter().collect(),
                groups: args.ignored_resource_groups.into_iter().collect(),
            },
            strategy: Strategy::new(&args.scoring_strategy)?,
            resources: ScoredResource::list(&args.scoring_strategy.resources),
        })
    }
}

impl PreFilter<Row, FitState> for NodeResourcesFit {
    fn pre_filter(&self, cx: &RowCycle<'_>) -> Result<PreFiltered<FitState>, Stop> {
        Ok(PreFiltered::state(FitState(Arc::new(Demand::new(&cx.pod.derived.request, &self.ignored)))))
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

impl PreScore<Row> for NodeResourcesFit {
    fn pre_score(&self, _: &RowCycle<'_>, (): &(), _: &NodeSet) -> PluginResult<PreScored<()>> {
        Ok(PreScored::Continue(()))
    }
}

impl Score<Row> for NodeResourcesFit {
    fn score(&self, cx: &RowCycle<'_>, (): &(), node: NodeRef<'_>) -> PluginResult<i64> {
        Ok(self.strategy.score(&self.lanes(cx), node.idx()))
    }

    fn score_batch(&self, cx: &RowCycle<'_>, (): &(), scores: &mut Scores<'_>) -> PluginResult<()> {
        let lanes = self.lanes(cx);
        for (row, score) in scores.iter_mut() {
            *score = self.strategy.score(&lanes, row);
        }
        Ok(())
    }
}

impl NodeResourcesFit {
    fn lanes<'a>(&'a self, cx: &RowCycle<'a>) -> Vec<Lane<'a>> {
        let request = &cx.pod.derived.score_request;
        let asks = self.resources.iter().map(|r| r.of(request));
        Lane::of(&self.resources, asks, cx.nodes, RequestKind::NonZero)
    }

    fn after_pod(&self, pod: &PodInfo, change: &Change<'_>) -> PluginResult<Hint> {
        let helps = match change {
            Change::Pod { old: Some(gone), new: None } => {
                gone.node_name.is_some() || gone.status.nominated_node_name.is_some()
            }
            Change::Pod { new: Some(new), .. } if new.uid == pod.uid => true,
            Change::Pod { old: Some(old), new: Some(new) } => {
                let (before, after) = (requests::pod_request(old), requests::pod_request(new));
                new.node_name.is_some() && frees_wanted(&requests::pod_request(pod), &before, &after)
            }
            _ => true,
        };
        Ok(if helps { Hint::Queue } else { Hint::Skip })
    }

    fn after_node(&self, pod: &PodInfo, change: &Change<'_>) -> PluginResult<Hint> {
        let Change::Node { old, new: Some(new) } = change else { return Ok(Hint::Queue) };
        // As in kube-scheduler, resources that Filter ignores are not ignored here.
        let demand = Demand::new(&pod.derived.request, &IgnoredResources::default());
        let gains = || old.is_none_or(|old| demand.gains(&old.allocatable, &new.allocatable));
        Ok(if demand.fits_empty(new) && gains() { Hint::Queue } else { Hint::Skip })
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
