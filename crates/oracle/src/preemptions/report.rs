//! Result of a comparison.

use std::fmt;

use serde::Serialize;

/// Counts of the comparisons, and the wrong decisions.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// Number of clusters.
    pub clusters: usize,
    /// Number of pods that fit without evictions.
    pub fitting: usize,
    /// Number of pods that do not fit without evictions.
    pub preemptors: usize,
    /// Number of pods for which both schedulers evict other pods.
    pub evicting: usize,
    /// Number of pods for which both schedulers evict other pods on the same node.
    pub on_the_same_node: usize,
    /// With `--parity`, number of pods for which a search of all nodes would have found victims that cost less.
    pub costlier: usize,
    /// Total number of candidate nodes for all pods.
    pub candidates: usize,
    /// Wrong decisions.
    pub findings: Vec<Finding>,
}

/// A wrong decision.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// Seed of the cluster.
    pub seed: u64,
    /// `namespace/name` of the preemptor.
    pub pod: String,
    /// Description of the mistake.
    pub wrong: String,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            clusters,
            fitting,
            preemptors,
            evicting,
            on_the_same_node,
            costlier,
            candidates,
            findings,
        } = self;
        let each = candidates / evicting.max(&1);
        writeln!(
            f,
            "{clusters} clusters, {fitting} pods fit, {preemptors} do not: {evicting} preemptions among {each} candidate \
             nodes each, {on_the_same_node} on the same node"
        )?;
        for Finding { seed, pod, wrong } in findings {
            writeln!(f, "seed {seed}, {pod}: {wrong}")?;
        }
        if *costlier > 0 {
            writeln!(f, "{costlier} cost more than necessary, because the search stops early with --parity")?;
        }
        write!(f, "{} wrong", findings.len())
    }
}
