//! The plugins of Trimaran, which place pods by the measured load of nodes: [`TargetLoadPacking`],
//! [`LoadVariationRiskBalancing`], [`LowRiskOverCommitment`] and [`Peaks`].
//!
//! The plugins have the names, the arguments and the formulas of the plugins of
//! [scheduler-plugins](https://github.com/kubernetes-sigs/scheduler-plugins). `README.md` lists the differences.
//!
//! Measurements arrive beside decisions: a [`source`] fetches a [`report`] every half minute. Pods that were placed since
//! the measurement are counted by [`arrivals`], so that a report does not send all pods to the same node.
//!
//! Reading order: [`report`], [`source`], [`arrivals`], then one file per plugin; `beta` is the distribution that
//! LowRiskOverCommitment uses, `exponential` the function that Peaks uses.

pub mod arrivals;
mod beta;
mod exponential;
mod load_variation;
mod low_risk;
mod peaks;
pub mod report;
pub mod source;
mod target_load;

pub use load_variation::{LoadVariationArgs, LoadVariationRiskBalancing};
pub use low_risk::{LowRiskArgs, LowRiskOverCommitment};
pub use peaks::{Peaks, PeaksArgs};
pub use target_load::{TargetLoadArgs, TargetLoadPacking};

use harbormaster::{api::pod::ResourceList, prelude::NodeRef};

/// Returns the millicores and the bytes of memory of a node's machine, or those that pods can get if the node does not
/// say.
fn capacity(node: NodeRef<'_>) -> (i64, i64) {
    let of = |resources: &harbormaster::api::Resources| (resources.milli_cpu, resources.memory);
    let object = node.object().map(|object| (of(&object.capacity), of(&object.allocatable)));
    object.map_or((0, 0), |(capacity, allocatable)| if capacity == (0, 0) { allocatable } else { capacity })
}

/// Returns the millicores and the bytes of memory that the pods on a node can get.
fn allocatable(node: NodeRef<'_>) -> (i64, i64) {
    node.object().map_or((0, 0), |object| (object.allocatable.milli_cpu, object.allocatable.memory))
}

/// Returns the amount of a resource in a list.
fn listed(list: &ResourceList, name: &str) -> Option<i64> {
    list.iter().find(|(other, _)| other == name).map(|(_, amount)| *amount)
}

/// Rounds half away from zero. Numbers that are too large are capped.
fn rounded(number: f64) -> i64 {
    number.round() as i64
}

#[cfg(test)]
mod tests;
