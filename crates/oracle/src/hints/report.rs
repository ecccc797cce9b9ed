//! Result of a comparison.

use std::collections::BTreeMap;
use std::fmt;

use harbormaster_api::Release;
use serde::Serialize;
use serde_json::Value;

use crate::verdict_oracle::{Change, Hints};

/// Counts of the hint results that were compared, and the results that differ.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// Release of Kubernetes.
    #[serde(skip)]
    pub(super) release: Release,
    /// Number of clusters.
    pub clusters: usize,
    /// Number of changes.
    pub changes: usize,
    /// Number of hint results of kube-scheduler's plugins, by plugin and result.
    pub answers: BTreeMap<String, BTreeMap<String, usize>>,
    /// Differences by kind.
    pub differences: BTreeMap<String, Difference>,
}

/// Hint results that differ in the same way.
#[derive(Debug, Clone, Serialize)]
pub struct Difference {
    /// Number of these results.
    pub count: usize,
    /// Seed of one of the clusters.
    pub seed: u64,
    /// A pod in that cluster.
    pub pod: Value,
    /// A change of that cluster.
    pub change: Change,
}

/// Returns true if only Harbormaster wakes pods with this hint. When a pod fails to bind or is deleted, these events
/// wake the pods that may use the volumes or devices chosen for that pod. The deletion of a claim for extended resources
/// wakes the pod that the claim was for.
fn is_ours_alone(hint: &str, change: &Change, release: Release) -> bool {
    let is_for_extended_resources = |claim: &Value| !claim["metadata"]["annotations"][EXTENDED].is_null();
    match hint {
        "VolumeBinding AssignedPodDelete" | "DynamicResources AssignedPodDelete" => true,
        "DynamicResources resource.k8s.io/ResourceClaimDelete" => {
            release < Release::V1_37 || change.old.as_ref().is_some_and(is_for_extended_resources)
        }
        _ => false,
    }
}

/// Annotation of claims for extended resources.
const EXTENDED: &str = "resource.kubernetes.io/extended-resource-claim";

impl Report {
    /// Number of hint results that were compared.
    #[must_use]
    pub fn compared(&self) -> usize {
        self.answers.values().flat_map(BTreeMap::values).sum()
    }

    pub(super) fn compare(&mut self, seed: u64, pod: &Value, change: &Change, theirs: &Hints, ours: &Hints) {
        for hint in theirs.keys().chain(ours.keys().filter(|hint| !theirs.contains_key(*hint))) {
            let plugin = hint.split(' ').next().unwrap_or_default();
            if is_ours_alone(hint, change, self.release) {
                continue;
            }
            // A plugin that is not registered for an event does not wake the pod either.
            let said = |hints: &Hints| hints.get(hint).map_or("QueueSkip", String::as_str).to_owned();
            let (theirs, ours) = (said(theirs), said(ours));
            if theirs != ours {
                let kind = format!("{hint}: kube-scheduler {theirs}, Harbormaster {ours}");
                let first = || Difference { count: 0, seed, pod: pod.clone(), change: change.clone() };
                self.differences.entry(kind).or_insert_with(first).count += 1;
            }
            *self.answers.entry(plugin.to_owned()).or_default().entry(theirs).or_default() += 1;
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { clusters, changes, answers, differences, .. } = self;
        writeln!(f, "{clusters} clusters, {changes} changes, {} hints", self.compared())?;
        for (plugin, answers) in answers {
            let answers: Vec<String> =
                answers.iter().map(|(answer, count)| format!("{count} {answer}")).collect();
            writeln!(f, "  {plugin}: {}", answers.join(", "))?;
        }
        for (kind, Difference { count, seed, pod, change }) in differences {
            writeln!(f, "{kind}: {count} times; seed {seed}: {change}, for {pod}")?;
        }
        write!(f, "{} differ", differences.values().map(|difference| difference.count).sum::<usize>())
    }
}
