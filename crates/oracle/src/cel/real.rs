//! Kubernetes' own compiler and evaluator of selectors.

use std::process::Command;

use anyhow::{Context, Result, bail};
use harbormaster_api::Release;
use serde::Deserialize;

use super::case::Case;
use crate::components::{LineProcess, RealBinary};

/// Answer to an expression.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer {
    pub(super) compile_error: Option<String>,
    /// Results for the devices; none after a compile error.
    #[serde(default, deserialize_with = "nullable")]
    pub(super) results: Vec<Evaluated>,
}

/// Result of an evaluation for one device.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Evaluated {
    pub(super) value: bool,
    /// Empty if the evaluation succeeded.
    #[serde(default)]
    pub(super) error: String,
    /// Cost, unless the evaluation did not begin or was cancelled.
    pub(super) cost: Option<u64>,
    /// True if several evaluations gave different results.
    #[serde(default)]
    pub(super) unstable: bool,
}

fn nullable<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<Evaluated>, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

/// Result of comparing two answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Equal,
    /// Kubernetes gives different answers to the same request.
    Unstable,
    Different,
}

impl Answer {
    pub(super) fn compare(&self, ours: &Answer) -> Outcome {
        match (&self.compile_error, &ours.compile_error) {
            (Some(theirs), Some(ours)) if same_text(theirs, ours) => Outcome::Equal,
            (None, None) if self.results.len() == ours.results.len() => {
                let is_equal = |(theirs, ours): (&Evaluated, &Evaluated)| {
                    let same_cost = theirs.cost.is_none() || theirs.cost == ours.cost;
                    theirs.unstable
                        || theirs.value == ours.value && same_text(&theirs.error, &ours.error) && same_cost
                };
                match () {
                    () if !self.results.iter().zip(&ours.results).all(is_equal) => Outcome::Different,
                    () if self.results.iter().any(|result| result.unstable) => Outcome::Unstable,
                    () => Outcome::Equal,
                }
            }
            _ => Outcome::Different,
        }
    }
}

/// Compares two errors. Where Kubernetes panics, Harbormaster reports an internal error. Addresses of functions do not
/// matter.
fn same_text(theirs: &str, ours: &str) -> bool {
    let (theirs, ours) = (without_addresses(theirs), without_addresses(ours));
    match theirs.strip_prefix("panic: ") {
        Some(why) => ours.strip_prefix("internal error: ") == Some(why),
        None => theirs == ours,
    }
}

fn without_addresses(text: &str) -> String {
    let shown = |word: &str| if word.starts_with("0x") { "0x" } else { word }.to_owned();
    text.split(' ').map(shown).collect::<Vec<String>>().join(" ")
}

/// The running program.
#[derive(Debug)]
pub(super) struct RealSelectors(LineProcess);

impl RealSelectors {
    /// Builds the program of a release if necessary, and starts it.
    pub(super) fn start(release: Release) -> Result<Self> {
        let mut command = Command::new(RealBinary::ensure(release)?.path());
        let process = LineProcess::start(command.arg("selectors"));
        process.map(Self).context("starting Kubernetes' evaluator of selectors")
    }

    /// Returns the answer to a case.
    pub(super) fn ask(&mut self, case: &Case) -> Result<Answer> {
        let Some(line) = self.0.ask(&case.request())? else {
            bail!("the evaluator has ended at seed {}: {}", case.seed, case.expression);
        };
        serde_json::from_slice(line).with_context(|| format!("seed {}", case.seed))
    }
}
