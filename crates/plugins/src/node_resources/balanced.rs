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

use std::ops::Range;

use harbormaster_api::args::NodeResourcesBalancedAllocationArgs;
use harbormaster_framework::{prelude::*, row_log::RowLog};

use super::{
    backing::Backing,
    lanes::{ColumnLane, Lane, RequestKind, ScoredResource},
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
        if let Some(two) = Lane::two_columns(&lanes) {
            scores.for_each_run(|rows, scores| score_columns(&two, rows, scores));
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

/// The capacity and use of a resource, and the pod's request for it.
type Amount = ((i64, i64), i64);

/// Computes the score of a node. `amounts` is a buffer: reading a lane may be slow, because devices are counted.
fn score(lanes: &[Lane<'_>], row: NodeIdx, amounts: &mut Vec<Amount>) -> i64 {
    amounts.clear();
    amounts.extend(lanes.iter().map(|lane| (lane.at(row), lane.ask)));
    score_amounts(amounts)
}

fn score_amounts(amounts: &[Amount]) -> i64 {
    let with = balance(amounts.iter().copied());
    let without = balance(amounts.iter().map(|(amount, _)| (*amount, 0)));
    // The requests of all pods may overflow together, and a balance then has any value.
    50 + 50_i64.wrapping_add(with).wrapping_sub(without) / 2
}

/// Computes the scores of several nodes for two columns.
fn score_columns([a, b]: &[ColumnLane<'_>; 2], rows: Range<usize>, scores: &mut [i64]) {
    let used = a.run(rows.clone()).zip(b.run(rows.clone()));
    if a.is_exact(rows.clone()) && b.is_exact(rows) {
        scores.iter_mut().zip(used).for_each(|(raw, used)| *raw = score_exact(used, (a.ask, b.ask)));
    } else {
        scores.iter_mut().zip(used).for_each(|(raw, (of_a, of_b))| {
            *raw = score_amounts(&[(of_a, a.ask), (of_b, b.ask)]);
        });
    }
}

/// Computes [`score_amounts`] for two resources whose amounts are [exact](ColumnLane::is_exact). Has no branches and
/// converts no numbers, so that several nodes are computed at once.
#[inline]
fn score_exact(((a_has, a_used), (b_has, b_used)): TwoLanes, (a_ask, b_ask): (i64, i64)) -> i64 {
    let share = |used: i64, has: f64| {
        let share = small::float(used) / has;
        // Unlike `f64::min`, this is one instruction. The share is a number, because the capacity is not zero.
        if share < 1.0 { share } else { 1.0 }
    };
    let even = |a: f64, b: f64| small::floor((1.0 - ((a - b) / 2.0).abs()) * 100.0);
    let (a_has, b_has) = (small::float(a_has), small::float(b_has));
    let with = even(share(a_used + a_ask, a_has), share(b_used + b_ask, b_has));
    let without = even(share(a_used, a_has), share(b_used, b_has));
    50 + (small::integer(50.0 + with - without) >> 1)
}

/// The capacity and use of two resources.
type TwoLanes = ((i64, i64), (i64, i64));

/// Conversions of numbers from 0 to 2^52, exclusive. The instructions that convert any number take one number each;
/// these use instructions that take several.
mod small {
    /// From here to 2^53, the least significant bit of an `f64` stands for 1.
    const UNIT: f64 = (1_u64 << 52) as f64;

    #[inline]
    pub(super) fn float(number: i64) -> f64 {
        f64::from_bits(number as u64 | UNIT.to_bits()) - UNIT
    }

    #[inline]
    pub(super) fn floor(number: f64) -> f64 {
        let nearest = (number + UNIT) - UNIT;
        if nearest > number { nearest - 1.0 } else { nearest }
    }

    /// Converts an integer.
    #[inline]
    pub(super) fn integer(number: f64) -> i64 {
        ((number + UNIT).to_bits() ^ UNIT.to_bits()) as i64
    }
}

/// Returns the balance, 50..=100, given the capacity, use and added amount of each resource.
#[inline]
fn balance(amounts: impl Iterator<Item = Amount> + Clone) -> i64 {
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
