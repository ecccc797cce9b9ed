//! What a comparison of decisions found, for people and machines.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use super::compare::Difference;
use super::outcome::PodOutcome;
use super::script::Script;

/// The result for one script.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The script's seed.
    pub seed: u64,
    /// Steps in the script.
    pub steps: usize,
    /// Pods at the end.
    pub pods: usize,
    /// Pods without a node at the end.
    pub pending: usize,
    /// Pods that have been preempted.
    pub preempted: usize,
    /// Pods with a node and volumes that they claimed.
    pub claiming: usize,
    /// Different questions that extenders were asked.
    pub asked: usize,
    /// Requests that the API server refused.
    pub refused: usize,
    /// How often the first scheduler played: more than once if it plays this script in more than one way, or differs.
    pub tried: usize,
    /// How long each scheduler's play took.
    pub elapsed: [Duration; 2],
    /// How long all of it took.
    pub total: Duration,
    /// The first difference, if any.
    pub finding: Option<Finding>,
}

/// A difference and the script that shows it.
#[derive(Debug, Serialize)]
pub struct Finding {
    /// Where the plays part.
    pub difference: Difference,
    /// The schedulers.
    pub names: [&'static str; 2],
    /// The script.
    pub script: Script,
}

impl Finding {
    pub(super) fn new(script: &Script, difference: Difference, names: [&'static str; 2]) -> Self {
        Self { difference, names, script: script.clone() }
    }

    /// Writes the script and returns the command that plays it again.
    pub fn save(&self, path: &Path) -> std::io::Result<String> {
        std::fs::write(path, serde_json::to_string_pretty(&self.script)?)?;
        Ok(format!("harbormaster-oracle decisions --right {} --script {}", self.names[1], path.display()))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [left, right] = self.elapsed.map(|elapsed| elapsed.as_secs_f64());
        write!(
            f,
            "seed {}: {} steps, {} pods, {} pending, {} preempted, {} with volumes, {} questions to extenders, {} requests refused, {left:.1} s + {right:.1} s: {}",
            self.seed,
            self.steps,
            self.pods,
            self.pending,
            self.preempted,
            self.claiming,
            self.asked,
            self.refused,
            match (&self.finding, self.tried) {
                (Some(_), _) => "DIFFERENT".to_owned(),
                (None, 1) => "equal".to_owned(),
                (None, tried) => format!("equal to play {tried} of the first scheduler"),
            }
        )?;
        self.finding.as_ref().map_or(Ok(()), |finding| write!(f, "\n{finding}"))
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { step, pod, field, left, right, pods, asked } = &self.difference;
        writeln!(f, "  first difference after step {step}, in {pods} pods, first {pod}: {field}")?;
        for (index, step) in self.script.steps.iter().enumerate().take(step + 1).skip(step.saturating_sub(3))
        {
            writeln!(f, "    step {index}: {}", step.summary())?;
        }
        for ((name, outcome), asked) in self.names.iter().zip([left, right]).zip(asked) {
            writeln!(f, "  {name}:")?;
            write_outcome(f, outcome.as_ref())?;
            for asked in asked {
                writeln!(f, "    asks {} to {} {}: {}", asked.extender, asked.verb, asked.pod, asked.body)?;
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
