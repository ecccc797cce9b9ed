//! Comparison of the plugins in `contrib/` with those of kubernetes-sigs/scheduler-plugins.
//!
//! A Go program (`tests/family`) links the real plugins. It evaluates random clusters with one plugin at a time: its
//! rejections, its scores on every node, and its order of pods. The plugins that read custom resources get them from
//! the request, not from an API server. Differences are shrunk and reported as by [`verdicts`](crate::verdicts).
//!
//! The clusters of each plugin are in `clusters`. The clusters contain no cases for which the plugin's README lists a
//! difference.

mod clusters;
mod evictions;
mod ours;
pub mod profiles;
mod real;

use std::collections::BTreeMap;
use std::fmt;

use crate::generate::Cluster;
use crate::verdict_oracle::{NodeScore, PodVerdict, Status};
use crate::verdicts::{Counts, Options, Report, Result, run_on};

pub use ours::OurFamily;
pub use real::RealFamily;

/// A plugin that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plugin {
    /// CapacityScheduling
    CapacityScheduling,
    /// LoadVariationRiskBalancing
    LoadVariationRiskBalancing,
    /// LowRiskOverCommitment
    LowRiskOverCommitment,
    /// NetworkOverhead
    NetworkOverhead,
    /// NodeResourceTopologyMatch
    NodeResourceTopologyMatch,
    /// NodeResourcesAllocatable
    NodeResourcesAllocatable,
    /// Peaks
    Peaks,
    /// PodState
    PodState,
    /// PreemptionToleration
    PreemptionToleration,
    /// QOSSort
    QOSSort,
    /// SySched
    SySched,
    /// TargetLoadPacking
    TargetLoadPacking,
    /// TopologicalSort
    TopologicalSort,
}

impl Plugin {
    /// All plugins.
    pub const ALL: &[Self] = &[
        Self::CapacityScheduling,
        Self::LoadVariationRiskBalancing,
        Self::LowRiskOverCommitment,
        Self::NetworkOverhead,
        Self::NodeResourceTopologyMatch,
        Self::NodeResourcesAllocatable,
        Self::Peaks,
        Self::PodState,
        Self::PreemptionToleration,
        Self::QOSSort,
        Self::SySched,
        Self::TargetLoadPacking,
        Self::TopologicalSort,
    ];

    /// Generates the cluster for a seed.
    #[must_use]
    pub fn cluster(self, seed: u64) -> Cluster {
        clusters::cluster(self, seed)
    }
}

impl fmt::Display for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Makes verdicts comparable: the same extreme score for all nodes means as much as no scores.
fn comparable(mut verdict: PodVerdict) -> PodVerdict {
    let all_are = |total: i64| verdict.scores.values().all(|score| score.total == total);
    if all_are(0) || all_are(100) {
        let scores = verdict.scores.values_mut();
        scores.for_each(|score| *score = NodeScore { total: 0, plugins: BTreeMap::new() });
    }
    verdict.pre_filter.iter_mut().for_each(shorten);
    verdict
}

/// Reduces the reason why a quota rejects a pod, which names amounts here, to the part that both programs share.
fn shorten(status: &mut Status) {
    for reason in &mut status.reasons {
        for kind in ["is more than Max", "total ElasticQuota used is more than min"] {
            if reason.contains(kind) {
                *reason = kind.to_owned();
            }
        }
    }
}

/// Compares a plugin in all clusters, and calls `progress` after each cluster.
///
/// # Errors
/// If one of the two programs fails. Differences are not errors; they are in the report.
pub fn run(plugin: Plugin, options: &Options, progress: impl FnMut(&Counts)) -> Result<Report> {
    let (mut left, mut right) = (RealFamily::start()?, OurFamily::default());
    run_on(&|seed| plugin.cluster(seed), options, &mut left, &mut right, progress)
}
