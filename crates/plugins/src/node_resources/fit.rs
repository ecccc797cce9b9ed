//! NodeResourcesFit: a node must have what the pod asks for, and the better the match the better the score.
//!
//! # What it does
//! PreFilter, Filter, Score. Compares what the pod asks for (containers, init containers, sidecars, pod-level requests
//! and overhead) with what the node has for pods and what the pods on it ask for.
//!
//! # Rejects when
//! The node has no room for one pod more (`Too many pods`), or too little free cpu, memory, ephemeral storage or any
//! scalar resource (`Insufficient cpu`, `Insufficient example.com/gpu`, …); all that is missing is told. Eviction may
//! help, unless some request is more than all that the node has. Extended resources named by `ignoredResources` or of
//! a group in `ignoredResourceGroups` are not looked at.
//!
//! # Scores by
//! The weighted mean over the resources of `scoringStrategy` that the node has; scalar resources count only for pods
//! that ask for them. Containers that do not name cpu or memory count with 100m and 200 MiB.
//! - `LeastAllocated`: the free share.
//! - `MostAllocated`: the used share.
//! - `RequestedToCapacityRatio`: a function of the used share; resources that come to zero are left out of the mean.
//!
//! # Requeued by
//! The end of a pod that had a node; a pod on a node that now asks for less of something this pod wants, or this pod
//! asking for less itself; a new node that could hold the pod if empty; such a node when it offers more pods or more of
//! something the pod wants.
//!
//! # Differs from kube-scheduler
//! Scalar resources are reported in the order of their names, where kube-scheduler's order is random. Without its
//! PreFilter it filters all the same instead of failing. Extended resources that device classes provide (KEP-5004) are
//! looked for on nodes only. Pod-level requests always count, whatever the gate `PodLevelResources` says.

use std::sync::Arc;

use harbormaster_api::{Resources, args::NodeResourcesFitArgs, requests};
use harbormaster_framework::prelude::*;

use super::{
    demand::{Demand, Ignored},
    lanes::{Count, Lane, Scored},
    strategy::Strategy,
};
use crate::sign;

/// See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct NodeResourcesFit {
    ignored: Ignored,
    strategy: Strategy,
    resources: Vec<Scored>,
}

/// A pod's request, ready to be compared with nodes. See [`NodeResourcesFit`].
#[derive(Clone, Debug, Default)]
pub struct FitState(Arc<Demand>);

impl Plugin for NodeResourcesFit {
    const NAME: &'static str = "NodeResourcesFit";
    type FilterState = FitState;
    type ScoreState = ();

    fn points(points: &mut Points<Self>) {
        points.pre_filter().filter().pre_score().score();
    }

    fn events(&self) -> Option<Vec<Registration<Self>>> {
        use EventResource::{Node, Pod};
        Some(vec![
            Registration::hinted(Pod, Action::DELETE | Action::UPDATE_POD_SCALE_DOWN, Self::after_pod),
            Registration::hinted(Node, Action::ADD | Action::UPDATE_NODE_ALLOCATABLE, Self::after_node),
        ])
    }

    fn reads(&self, pod: RowPod<'_>, reads: &mut Reads) {
        reads.of(&pod.spec.request).of(&pod.spec.score_request);
    }

    fn sign(&self, pod: &PodInfo) -> Result<Vec<SignFragment>, Unsignable> {
        Ok(vec![sign::resources(pod)])
    }
}

impl Build for NodeResourcesFit {
    type Args = NodeResourcesFitArgs;

    fn build(args: Self::Args, _: &BuildCycle) -> Result<Self, PluginError> {
        Ok(Self {
            ignored: Ignored {
                names: args.ignored_resources.into_iter().collect(),
                groups: args.ignored_resource_groups.into_iter().collect(),
            },
            strategy: Strategy::new(&args.scoring_strategy)?,
            resources: Scored::list(&args.scoring_strategy.resources),
        })
    }
}

impl PreFilter<Row> for NodeResourcesFit {
    fn pre_filter(&self, cx: &RowCycle<'_>) -> Result<PreFiltered<Self::FilterState>, Stop> {
        Ok(PreFiltered::state(FitState(Arc::new(Demand::new(&cx.pod.spec.request, &self.ignored)))))
    }
}

impl Filter<Row> for NodeResourcesFit {
    fn filter(&self, cx: &RowCycle<'_>, state: &Self::FilterState, node: NodeRef<'_>) -> Verdict {
        Ok(state.0.judge(cx.nodes, node)?)
    }

    fn filter_batch(
        &self,
        cx: &RowCycle<'_>,
        state: &Self::FilterState,
        sweep: &mut Sweep<'_>,
    ) -> PluginResult<()> {
        state.0.sweep(cx.nodes, sweep);
        Ok(())
    }
}

impl PreScore<Row> for NodeResourcesFit {
    fn pre_score(&self, _: &RowCycle<'_>, _: &Self::FilterState, _: &NodeSet) -> PluginResult<PreScored<()>> {
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
        let request = &cx.pod.spec.score_request;
        let asks = self.resources.iter().map(|r| r.of(request));
        Lane::of(&self.resources, asks, cx.nodes, Count::NonZero)
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
        // As in kube-scheduler, ignored resources count here.
        let demand = Demand::new(&pod.spec.request, &Ignored::default());
        let gains = || old.is_none_or(|old| demand.gains(&old.allocatable, &new.allocatable));
        Ok(if demand.fits_empty(new) && gains() { Hint::Queue } else { Hint::Skip })
    }
}

/// Whether less is asked of something wanted.
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
