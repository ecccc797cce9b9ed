//! Reports of comparisons, as text and JSON.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use harbormaster_api::Release;
use serde::Serialize;

use super::compare::Difference;
use super::outcome::PodOutcome;
use super::script::Script;

/// Result for one script.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Seed of the script.
    pub seed: u64,
    /// Number of steps in the script.
    pub steps: usize,
    /// Number of pods at the end.
    pub pods: usize,
    /// Number of pods without a node at the end.
    pub pending: usize,
    /// Number of preempted pods.
    pub preempted: usize,
    /// Number of members of groups that have been scheduled, after the step with the most such pods.
    pub in_groups: usize,
    /// Number of pods with a node and bound claims.
    pub with_volumes: usize,
    /// Number of resource claims that had devices for pods, after the step with the most such claims.
    pub with_devices: usize,
    /// Number of distinct extender calls.
    pub extender_calls: usize,
    /// Number of requests that the API server rejected.
    pub refused: usize,
    /// Number of runs of the first scheduler; more than one if its first run differs from the second scheduler's run.
    pub tried: usize,
    /// Duration of each scheduler's run.
    pub elapsed: [Duration; 2],
    /// Total duration.
    pub total: Duration,
    /// The first difference, if any.
    pub finding: Option<Finding>,
}

/// A difference and the script that reproduces it.
#[derive(Debug, Serialize)]
pub struct Finding {
    /// The first difference.
    pub difference: Difference,
    /// Names of the schedulers.
    pub names: [&'static str; 2],
    /// The script.
    pub script: Script,
}

impl Finding {
    pub(super) fn new(script: &Script, difference: Difference, names: [&'static str; 2]) -> Self {
        Self { difference, names, script: script.clone() }
    }

    /// Writes the script and returns the command that runs it again on a stage of the release.
    pub fn save(&self, release: Release, path: &Path) -> std::io::Result<String> {
        std::fs::write(path, serde_json::to_string_pretty(&self.script)?)?;
        let (right, path) = (self.names[1], path.display());
        Ok(format!("harbormaster-oracle decisions --kube {release} --right {right} --script {path}"))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [left, right] = self.elapsed.map(|elapsed| elapsed.as_secs_f64());
        write!(
            f,
            "seed {}: {} steps, {} pods, {} pending, {} preempted, {} in scheduled groups, {} with volumes, {} claims with devices, {} extender calls, {} rejected requests, {left:.1} s + {right:.1} s: {}",
            self.seed,
            self.steps,
            self.pods,
            self.pending,
            self.preempted,
            self.in_groups,
            self.with_volumes,
            self.with_devices,
            self.extender_calls,
            self.refused,
            match (&self.finding, self.tried) {
                (Some(_), _) => "DIFFERENT".to_owned(),
                (None, 1) => "equal".to_owned(),
                (None, tried) => format!("equal to run {tried} of the first scheduler"),
            }
        )?;
        self.finding.as_ref().map_or(Ok(()), |finding| write!(f, "\n{finding}"))
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { step, pod, field, left, right, pods, extender_calls } = &self.difference;
        writeln!(f, "  first difference after step {step}: {field} of {pod} ({pods} pods differ)")?;
        for (index, step) in self.script.steps.iter().enumerate().take(step + 1).skip(step.saturating_sub(3))
        {
            writeln!(f, "    step {index}: {}", step.summary())?;
        }
        for ((name, outcome), calls) in self.names.iter().zip([left, right]).zip(extender_calls) {
            writeln!(f, "  {name}:")?;
            write_outcome(f, outcome.as_ref())?;
            for call in calls {
                writeln!(f, "    calls {} to {} {}: {}", call.extender, call.verb, call.pod, call.body)?;
            }
        }
        let objects = self.script.steps.iter().flat_map(super::Step::objects);
        match objects.into_iter().find(|object| object["metadata"]["name"] == pod.as_str()) {
            Some(object) => writeln!(f, "  the pod: {object}"),
            None => Ok(()),
        }
    }
}

fn write_outcome(f: &mut fmt::Formatter<'_>, outcome: Option<&PodOutcome>) -> fmt::Result {
    for (field, value) in
        outcome.into_iter().flat_map(PodOutcome::fields).filter(|(_, value)| !value.is_empty())
    {
        writeln!(f, "    {field}: {value}")?;
    }
    Ok(())
}
