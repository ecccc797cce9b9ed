//! Result of a comparison.

use std::fmt;

use serde::Serialize;

/// Comparisons, and the differences among them.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// Number of clusters.
    pub clusters: usize,
    /// Number of pods that fitted without evictions.
    pub fitting: usize,
    /// Number of pods that did not.
    pub preemptors: usize,
    /// Number of pods for which both schedulers evict others.
    pub evicting: usize,
    /// Number of these for which both do so on the same node.
    pub on_the_same_node: usize,
    /// Number of nodes that evictions would have opened up, for all pods together.
    pub candidates: usize,
    /// The decisions that are wrong.
    pub findings: Vec<Finding>,
}

/// One decision that is wrong.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// The cluster's seed.
    pub seed: u64,
    /// `namespace/name` of the pod that came.
    pub pod: String,
    /// Description of the mistake.
    pub wrong: String,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { clusters, fitting, preemptors, evicting, on_the_same_node, candidates, findings } = self;
        let each = candidates / evicting.max(&1);
        writeln!(
            f,
            "{clusters} clusters, {preemptors} pods without room, {fitting} with: {evicting} preemptions among {each} \
             nodes each, {on_the_same_node} on the same node"
        )?;
        for Finding { seed, pod, wrong } in findings {
            writeln!(f, "seed {seed}, {pod}: {wrong}")?;
        }
        write!(f, "{} wrong", findings.len())
    }
}
