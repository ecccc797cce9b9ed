//! Comparison of the verdicts of every plugin on every node.
//!
//! kube-scheduler's plugins and Harbormaster evaluate random clusters. Each pending pod is evaluated as if it were the
//! only pending pod. The first difference is shrunk to a small cluster and returned with both schedulers' verdicts.

mod compare;
mod devices;
mod judgement;
mod library_source;
mod report;
mod shrink;
mod source;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Context;
use harbormaster_api::Release;

pub use compare::{Difference, compare};
pub(crate) use judgement::Judgement;
pub use library_source::HarbormasterLibrary;
pub use report::Report;
pub use source::{RealPlugins, Result, VerdictSource, Verdicts};

use crate::generate::{Cluster, Shape};
use crate::verdict_oracle::Status;

/// Options of a comparison.
#[derive(Debug, Clone)]
pub struct Options {
    /// Release of both sources, for the command that reproduces a difference.
    pub release: Release,
    /// Seed of the first cluster; the others have consecutive seeds.
    pub seed: u64,
    /// Number of clusters.
    pub clusters: u64,
    /// Size of clusters.
    pub shape: Shape,
    /// Time limit for shrinking a difference.
    pub shrink_for: Duration,
    /// If present, differences whose kind does not contain this text are ignored.
    pub only: Option<String>,
    /// If true, the differences of all clusters are counted; otherwise, the comparison stops at the first difference.
    pub keep_going: bool,
    /// Subcommand and flags that reproduce a difference, apart from the seed.
    pub command: String,
}

/// Counts of the comparisons so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// Number of clusters.
    pub clusters: u64,
    /// Number of pending pods.
    pub pods: u64,
    /// Number of pairs of a pod and a node.
    pub verdicts: u64,
    /// Number of nodes that were scored for a pod.
    pub scores: u64,
    /// Number of pods for which a plugin failed.
    pub errors: u64,
    /// Number of nodes on which evictions make a pod fit.
    pub candidates: u64,
    /// Number of rejections by plugin, including those of whole pods. Shows the coverage of the clusters.
    pub rejections: BTreeMap<String, u64>,
    /// Number of pairs of a claim and a node for which devices were chosen.
    pub allocations: u64,
    /// Number of reasons that DynamicResources gave, by status code and text. The texts contain no numbers.
    pub about_devices: BTreeMap<String, u64>,
}

/// Compares `left` and `right` until the first difference, or in all clusters if [`Options::keep_going`] is true, and
/// calls `progress` after every evaluated cluster.
pub fn run(
    options: &Options,
    left: &mut dyn VerdictSource,
    right: &mut dyn VerdictSource,
    progress: impl FnMut(&Counts),
) -> Result<Report> {
    let cluster = |seed| {
        let mut cluster = Cluster::new(seed, &options.shape);
        if options.release >= Release::V1_37 {
            // A documented difference: namespace selectors do not select a namespace without an object.
            cluster.add_missing_namespaces();
        }
        cluster
    };
    run_on(&cluster, options, left, right, progress)
}

/// Like [`run`], in the clusters that `cluster` generates from seeds.
pub(crate) fn run_on(
    cluster: &dyn Fn(u64) -> Cluster,
    options: &Options,
    left: &mut dyn VerdictSource,
    right: &mut dyn VerdictSource,
    mut progress: impl FnMut(&Counts),
) -> Result<Report> {
    let start = Instant::now();
    let mut counts = Counts::default();
    let mut kinds: BTreeMap<String, Kind> = BTreeMap::new();
    for seed in options.seed..options.seed.saturating_add(options.clusters) {
        let cluster = cluster(seed);
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
        let is_selected = |difference: &Difference| {
            options.only.as_ref().is_none_or(|text| difference.kind.contains(text.as_str()))
        };
        let mut differences = compare::differences(&expected, &actual).filter(is_selected);
        if options.keep_going {
            for difference in differences {
                let example = format!("seed {seed}, {}", difference.pod);
                kinds.entry(difference.kind).or_insert(Kind { pods: 0, example }).pods += 1;
            }
        } else if let Some(difference) = differences.next() {
            let small = shrink::shrink(cluster, &difference, left, right, options.shrink_for);
            let finding = report::Finding::new(&options.command, seed, small, left, right, difference)?;
            return Ok(Report { counts, elapsed: start.elapsed(), kinds, finding: Some(finding) });
        }
        progress(&counts);
    }
    Ok(Report { counts, elapsed: start.elapsed(), kinds, finding: None })
}

/// The differences of one kind.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Kind {
    /// Number of pods whose first difference is of this kind, or number of clusters that could not be evaluated.
    pub pods: u64,
    /// Seed and name of one of these pods, or seed of one of these clusters.
    pub example: String,
}

impl Counts {
    fn note_devices(&mut self, point: &str, status: &Status) {
        for reason in status.reasons.iter().filter(|_| status.plugin == "DynamicResources") {
            let kind = compare::without_names(&format!("{point}{}: {reason}", status.code));
            *self.about_devices.entry(kind).or_default() += 1;
        }
    }

    fn add(&mut self, verdicts: &Verdicts) {
        self.clusters += 1;
        for verdict in verdicts.values() {
            self.pods += 1;
            self.verdicts += verdict.nodes.len() as u64;
            self.scores += verdict.scores.len() as u64;
            self.errors += u64::from(verdict.error.is_some());
            let preemption = verdict.preemption.as_ref();
            self.candidates += preemption.map_or(0, |preemption| preemption.candidates.len() as u64);
            let statuses =
                [&verdict.pre_enqueue, &verdict.pre_filter].into_iter().chain(verdict.nodes.values());
            for status in statuses.flatten() {
                *self.rejections.entry(status.plugin.clone()).or_default() += 1;
                self.note_devices("", status);
            }
            verdict.post_filter.iter().for_each(|status| self.note_devices("PostFilter ", status));
            self.allocations += verdict.allocations.values().map(|claims| claims.len() as u64).sum::<u64>();
        }
    }
}
