//! NodeResourcesBalancedAllocation: prefers nodes whose resource utilization becomes more balanced.
//!
//! # What it does
//! Extension point: Score. Compares how evenly the configured resources of a node are used with and without the pod.
//!
//! # Rejects when
//! Never.
//!
//! # Scores by
//! The balance is `100 * (1 - d)`, truncated, where `d` is the standard deviation of the used fractions, each capped
//! at 1. The score is 75 plus half of the change in balance that the pod causes, so it ranges from 50 to 100; a pod
//! that does not change the balance scores 75. Resources that the node lacks, and scalar resources that the pod does
//! not request, are ignored. If a node does not offer a resource itself, the devices of the class that provides it
//! are counted instead. A pod that requests none of the configured resources is not scored. Missing requests get no
//! defaults.
//!
//! # Requeued by
//! Nothing.
//!
//! # Differs from kube-scheduler
//! - The status of a pending pod is ignored, since it has no relevant fields.
//! - Version 1.36 crashes if it scores a resource that a device class with selectors provides.

use harbormaster_api::args::NodeResourcesBalancedAllocationArgs;
use harbormaster_framework::{prelude::*, row_log::RowLog};

use super::{
    backing::Backing,
    lanes::{Lane, RequestKind, ScoredResource},
};
use crate::{
    devices::{DeviceClass, Devices, ResourceClaim, ResourceSlice},
    sign,
};

/// Prefers nodes with evenly used resources. See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct NodeResourcesBalancedAllocation {
    resources: Vec<ScoredResource>,
    backing: Backing,
}

impl Plugin for NodeResourcesBalancedAllocation {
    const NAME: &'static str = "NodeResourcesBalancedAllocation";
    const MAY_BLOCK: bool = false;
    implemented_points!();

    fn reads(&self, pod: RowPod<'_>, reads: &mut Reads) {
        reads.of(&pod.derived.request);
    }

    fn sign(&self, pod: &PodInfo) -> Result<Vec<SignFragment>, Unsignable> {
        Ok(vec![sign::resources(pod)])
    }
}

impl Build for NodeResourcesBalancedAllocation {
    type Args = NodeResourcesBalancedAllocationArgs;

    fn build(args: Self::Args, cx: &BuildCycle) -> Result<Self, PluginError> {
        Ok(Self { resources: ScoredResource::list(&args.resources), backing: Backing::new(cx) })
    }
}

impl Watches for NodeResourcesBalancedAllocation {
    type Resources = (ResourceClaim, DeviceClass, ResourceSlice);
}

impl Indexed for NodeResourcesBalancedAllocation {
    type Index = Devices;
}

impl ReadsCluster for NodeResourcesBalancedAllocation {
    fn reads_cluster(&self, cx: &Cycle<'_>, reads: &mut Reads) -> PluginResult<()> {
        let backed = self.backing.backed(self, cx, &cx.pod.derived.request)?;
        Backing::read_scored(&backed, &self.resources, reads);
        Ok(())
    }

    fn changed_rows<'a>(&self, cx: &Cycle<'a>) -> PluginResult<Option<&'a RowLog>> {
        self.backing.changed_rows(self, cx, &self.resources)
    }
}

impl PreScore<Row> for NodeResourcesBalancedAllocation {
    fn pre_score(&self, cx: &RowCycle<'_>, (): &(), _: &NodeSet) -> PluginResult<PreScored<()>> {
        Ok(if self.requests_nothing(cx.pod) { PreScored::Skip } else { PreScored::Continue(()) })
    }
}

impl Score<Row> for NodeResourcesBalancedAllocation {
    fn score(&self, cx: &RowCycle<'_>, (): &(), node: NodeRef<'_>) -> PluginResult<i64> {
        if self.requests_nothing(cx.pod) {
            return Ok(0);
        }
        Ok(score(&self.lanes(cx)?, node.idx(), &mut Vec::new()))
    }

    fn score_batch(&self, cx: &RowCycle<'_>, (): &(), scores: &mut Scores<'_>) -> PluginResult<()> {
        if self.requests_nothing(cx.pod) {
            scores.iter_mut().for_each(|(_, score)| *score = 0);
            return Ok(());
        }
        let lanes = self.lanes(cx)?;
        if let Some([a, b]) = Lane::two_columns(&lanes) {
            scores.for_each_run(|rows, scores| {
                let used = a.run(rows.clone()).zip(b.run(rows));
                scores.iter_mut().zip(used).for_each(|(raw, used)| *raw = score_two(used, (a.ask, b.ask)));
            });
            return Ok(());
        }
        let mut amounts = Vec::with_capacity(lanes.len());
        scores.iter_mut().for_each(|(row, raw)| *raw = score(&lanes, row, &mut amounts));
        Ok(())
    }
}

impl NodeResourcesBalancedAllocation {
    fn requests_nothing(&self, pod: RowPod<'_>) -> bool {
        self.resources.iter().all(|r| r.of(&pod.derived.request) == 0)
    }

    fn lanes<'a>(&'a self, cx: &RowCycle<'a>) -> PluginResult<Vec<Lane<'a>>> {
        let request = &cx.pod.derived.request;
        let asks = self.resources.iter().map(|r| r.of(request));
        let devices = self.backing.devices(self, cx, &self.resources)?;
        Ok(Lane::of(&self.resources, asks, cx.nodes, RequestKind::Requested, &devices))
    }
}

/// The capacity and use of two resources.
type TwoLanes = ((i64, i64), (i64, i64));

/// Computes the score of a node. `amounts` is a buffer: reading a lane may be slow, because devices are counted.
fn score(lanes: &[Lane<'_>], row: NodeIdx, amounts: &mut Vec<((i64, i64), i64)>) -> i64 {
    amounts.clear();
    amounts.extend(lanes.iter().map(|lane| (lane.at(row), lane.ask)));
    let with = balance(amounts.iter().copied());
    let without = balance(amounts.iter().map(|(amount, _)| (*amount, 0)));
    50 + (50 + with - without) / 2
}

/// Computes [`score`] for two resources with their capacities and uses, and the pod's requests. Has no branches, so that
/// several nodes are computed at once.
#[inline]
fn score_two(((a_has, a_used), (b_has, b_used)): TwoLanes, (a_ask, b_ask): (i64, i64)) -> i64 {
    let share = |used: i64, more: i64, has: i64| {
        let share = used.wrapping_add(more) as f64 / has as f64;
        // Unlike `f64::min`, this is one instruction. The share is a number unless the capacity is zero.
        if share < 1.0 { share } else { 1.0 }
    };
    let even = |a: f64, b: f64| ((1.0 - ((a - b) / 2.0).abs()) * 100.0) as i64;
    let with = even(share(a_used, a_ask, a_has), share(b_used, b_ask, b_has));
    let without = even(share(a_used, 0, a_has), share(b_used, 0, b_has));
    // A single resource, or none, is always balanced.
    if a_has == 0 || b_has == 0 { 75 } else { 50 + (50 + with - without) / 2 }
}

/// Returns the balance, 50..=100, given the capacity, use and added amount of each resource.
#[inline]
fn balance(amounts: impl Iterator<Item = ((i64, i64), i64)> + Clone) -> i64 {
    let present = amounts.filter(|((has, _), _)| *has != 0);
    let shares = present.map(|((has, used), more)| (used.wrapping_add(more) as f64 / has as f64).min(1.0));
    let (mut first, mut last, mut sum, mut count) = (0.0, 0.0, 0.0, 0u32);
    for share in shares.clone() {
        if count == 0 {
            first = share;
        }
        last = share;
        sum += share;
        count += 1;
    }
    let deviation = match count {
        0 | 1 => 0.0,
        2 => ((first - last) / 2.0_f64).abs(),
        n => {
            let mean = sum / f64::from(n);
            let squares = shares.fold(0.0, |all, share| all + (share - mean) * (share - mean));
            (squares / f64::from(n)).sqrt()
        }
    };
    ((1.0 - deviation) * 100.0) as i64
}

#[cfg(test)]
#[path = "balanced_tests.rs"]
mod tests;
