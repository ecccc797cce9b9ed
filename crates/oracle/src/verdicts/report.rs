//! Reports of comparisons, as text and JSON.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::compare::differences;
use super::{Counts, Difference, Kind, Result, VerdictSource};
use crate::generate::Cluster;

/// Result of a comparison.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Counts of the comparisons.
    pub counts: Counts,
    /// Duration, including shrinking.
    pub elapsed: Duration,
    /// Differences by kind, if they are counted.
    pub kinds: BTreeMap<String, Kind>,
    /// The first difference, if any; `None` if differences are counted.
    pub finding: Option<Finding>,
}

impl Report {
    /// Returns true if there is no difference.
    #[must_use]
    pub fn is_equal(&self) -> bool {
        self.finding.is_none() && self.kinds.is_empty()
    }
}

/// A difference with a small cluster that reproduces it.
#[derive(Debug, Serialize)]
pub struct Finding {
    /// Subcommand and flags that reproduce the difference, apart from the seed.
    pub command: String,
    /// Seed of the original cluster.
    pub seed: u64,
    /// The difference in the small cluster.
    pub difference: Difference,
    /// The small cluster.
    pub cluster: Cluster,
    /// Complete verdicts of both sources on the pod.
    pub sides: Vec<SourceVerdict>,
}

/// Verdict of one source on the pod of a [`Finding`].
#[derive(Debug, Serialize)]
pub struct SourceVerdict {
    /// Name of the source.
    pub name: String,
    /// The formatted verdict.
    pub verdict: String,
}

impl Finding {
    pub(super) fn new(
        command: &str,
        seed: u64,
        cluster: Cluster,
        left: &mut dyn VerdictSource,
        right: &mut dyn VerdictSource,
        original: Difference,
    ) -> Result<Self> {
        let verdicts = [left.judge(&cluster)?, right.judge(&cluster)?];
        let mut all = differences(&verdicts[0], &verdicts[1]);
        let difference = all.find(|found| found.resembles(&original)).unwrap_or(original);
        drop(all);
        let side = |source: &dyn VerdictSource, index: usize| SourceVerdict {
            name: source.name().to_owned(),
            verdict: verdicts[index]
                .get(&difference.pod)
                .map_or_else(|| "no verdict".to_owned(), |verdict| format!("{verdict:#?}")),
        };
        let sides = vec![side(left, 0), side(right, 1)];
        Ok(Self { command: command.to_owned(), seed, difference, cluster, sides })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { clusters, pods, verdicts, scores, errors, candidates, .. } = &self.counts;
        let Counts { rejections, allocations, about_devices, .. } = &self.counts;
        writeln!(
            f,
            "{clusters} clusters, {pods} pods, {verdicts} verdicts, {scores} scored nodes in {:.1} s: {}",
            self.elapsed.as_secs_f64(),
            if self.is_equal() { "no difference" } else { "DIFFERENT" }
        )?;
        write!(f, "pods with an error: {errors}; nodes where evictions help: {candidates}; rejections:")?;
        for (plugin, count) in rejections {
            write!(f, " {} {count}", if plugin.is_empty() { "PreFilter's subset" } else { plugin })?;
        }
        writeln!(f, "\nallocations of claims: {allocations}; reasons of DynamicResources:")?;
        for (text, count) in about_devices {
            writeln!(f, "  {count} {text}")?;
        }
        for (kind, Kind { pods, example }) in &self.kinds {
            writeln!(f, "{pods} times, e.g. {example}: {kind}")?;
        }
        self.finding.as_ref().map_or(Ok(()), |finding| write!(f, "\n{finding}"))
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { pod, node, about, left, right, .. } = &self.difference;
        let node = node.as_ref().map(|node| format!(" on {node}")).unwrap_or_default();
        writeln!(f, "seed {}, pod {pod}{node}, {about}:", self.seed)?;
        for (side, verdict) in self.sides.iter().zip([left, right]) {
            writeln!(f, "  {}: {verdict}", side.name)?;
        }
        if !self.cluster.features.is_empty() {
            writeln!(f, "\n# --feature-gates={}=true", self.cluster.features.join("=true,"))?;
        }
        writeln!(f, "\n# config.yaml\n{}", yaml(&self.cluster.config))?;
        writeln!(f, "# cluster.yaml")?;
        for object in &self.cluster.objects {
            writeln!(f, "---\n{}", yaml(object))?;
        }
        for side in &self.sides {
            writeln!(f, "# verdict of {} on {pod}:\n{}", side.name, side.verdict)?;
        }
        let Self { command, seed, .. } = self;
        write!(f, "# to reproduce: harbormaster-oracle {command} --seed {seed} --clusters 1")
    }
}

/// Formats the value as YAML or, if that fails, as JSON, which is also YAML.
fn yaml(value: &serde_json::Value) -> String {
    serde_saphyr::to_string(value).unwrap_or_else(|_| value.to_string())
}
