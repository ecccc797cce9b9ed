//! Compares what every plugin says about every node.
//!
//! Random clusters are judged by the original plugins and by Harbormaster. Each
//! pending pod is judged alone against the bound pods. The first difference is
//! shrunk to a small cluster and returned with both sides' words.

mod compare;
mod judgement;
mod library_source;
mod report;
mod shrink;
mod source;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Context;

pub use compare::{Difference, compare};
pub use library_source::HarbormasterLibrary;
pub use report::Report;
pub use source::{Original, Result, VerdictSource, Verdicts};

use crate::generate::{Cluster, Shape};

/// What to compare.
#[derive(Debug, Clone)]
pub struct Options {
    /// The seed of the first cluster; the others follow.
    pub seed: u64,
    /// How many clusters.
    pub clusters: u64,
    /// Their size.
    pub shape: Shape,
    /// How long to shrink a difference.
    pub shrink_for: Duration,
    /// Look only at differences whose kind contains this text.
    pub only: Option<String>,
    /// Count the differences of all clusters instead of ending with the first.
    pub keep_going: bool,
}

/// What has been compared so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// Clusters.
    pub clusters: u64,
    /// Pending pods.
    pub pods: u64,
    /// Pairs of a pod and a node.
    pub verdicts: u64,
    /// Nodes that were scored for a pod.
    pub scores: u64,
    /// Pods that a plugin failed on.
    pub errors: u64,
    /// Rejections by plugin, those of whole pods included: what the clusters cover.
    pub rejections: BTreeMap<String, u64>,
}

/// Compares `left` and `right`, if not told otherwise until the first difference, and tells `progress`
/// after every cluster.
pub fn run(
    options: &Options,
    left: &mut dyn VerdictSource,
    right: &mut dyn VerdictSource,
    mut progress: impl FnMut(&Counts),
) -> Result<Report> {
    let start = Instant::now();
    let mut counts = Counts::default();
    let mut kinds: BTreeMap<String, Kind> = BTreeMap::new();
    for seed in options.seed..options.seed.saturating_add(options.clusters) {
        let cluster = Cluster::new(seed, &options.shape);
        let expected = left.judge(&cluster).with_context(|| format!("{}, seed {seed}", left.name()))?;
        let actual = match right.judge(&cluster) {
            Err(error) if options.keep_going => {
                let example = format!("seed {seed}");
                kinds.entry(format!("{error:#}")).or_insert(Kind { pods: 0, example }).pods += 1;
                continue;
            }
            actual => actual.with_context(|| format!("{}, seed {seed}", right.name()))?,
        };
        counts.add(&expected);
        let is_wanted = |difference: &Difference| {
            options.only.as_ref().is_none_or(|text| difference.kind.contains(text.as_str()))
        };
        let mut differences = compare::differences(&expected, &actual).filter(is_wanted);
        if options.keep_going {
            for difference in differences {
                let example = format!("seed {seed}, {}", difference.pod);
                kinds.entry(difference.kind).or_insert(Kind { pods: 0, example }).pods += 1;
            }
        } else if let Some(difference) = differences.next() {
            let small = shrink::shrink(cluster, &difference, left, right, options.shrink_for);
            let finding = report::Finding::new(seed, small, left, right, difference)?;
            return Ok(Report { counts, elapsed: start.elapsed(), kinds, finding: Some(finding) });
        }
        progress(&counts);
    }
    Ok(Report { counts, elapsed: start.elapsed(), kinds, finding: None })
}

/// Differences of one kind.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Kind {
    /// Pods whose first difference it is, or clusters that could not be judged.
    pub pods: u64,
    /// The seed and name of one of them.
    pub example: String,
}

impl Counts {
    fn add(&mut self, verdicts: &Verdicts) {
        self.clusters += 1;
        for verdict in verdicts.values() {
            self.pods += 1;
            self.verdicts += verdict.nodes.len() as u64;
            self.scores += verdict.scores.len() as u64;
            self.errors += u64::from(verdict.error.is_some());
            let statuses =
                [&verdict.pre_enqueue, &verdict.pre_filter].into_iter().chain(verdict.nodes.values());
            for status in statuses.flatten() {
                *self.rejections.entry(status.plugin.clone()).or_default() += 1;
            }
        }
    }
}
