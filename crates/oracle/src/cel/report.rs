//! Result of a comparison.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::Value;

use super::case::Case;
use super::real::{Answer, Outcome};

/// Maximum number of differences that a report describes.
const MOST_DIFFERENCES: usize = 50;

/// Counts of the answers that were compared, and the differences between them.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// Number of expressions.
    pub expressions: usize,
    /// Number of evaluations for a device.
    pub evaluations: usize,
    /// Number of answers of Kubernetes, by kind.
    pub answers: BTreeMap<&'static str, usize>,
    /// Number of calls in expressions without a compile error, by function or macro.
    pub functions: BTreeMap<String, usize>,
    /// Number of expressions whose result depends on the order of the entries of a map.
    pub unstable: usize,
    /// Number of expressions with different answers.
    pub different: usize,
    /// Some of the expressions with different answers.
    pub differences: Vec<Difference>,
}

/// An expression with different answers.
#[derive(Debug, Clone, Serialize)]
pub struct Difference {
    /// Seed of the expression.
    pub seed: u64,
    /// The request.
    pub request: Value,
    /// Answer of Kubernetes.
    pub theirs: String,
    /// Answer of Harbormaster.
    pub ours: String,
}

impl Report {
    pub(super) fn add(&mut self, case: &Case, theirs: &Answer, ours: &Answer, outcome: &Outcome) {
        self.expressions += 1;
        let kind = match &theirs.compile_error {
            Some(error) if error.contains("Syntax error") => Some("syntax errors"),
            Some(error) if error.starts_with("compilation failed") => Some("type errors"),
            Some(_) => Some("other compile errors"),
            None => None,
        };
        kind.into_iter().for_each(|kind| self.count(kind));
        for result in &theirs.results {
            self.evaluations += 1;
            self.count(match result.error.as_str() {
                "" if result.value => "true",
                "" => "false",
                error if error.starts_with("operation cancelled") => "too expensive",
                _ => "runtime errors",
            });
        }
        if kind.is_none() {
            for function in functions(&case.expression) {
                *self.functions.entry(function.to_owned()).or_default() += 1;
            }
        }
        match outcome {
            Outcome::Equal => {}
            Outcome::Unstable => self.unstable += 1,
            Outcome::Different => {
                self.different += 1;
                if self.differences.len() < MOST_DIFFERENCES {
                    self.differences.push(Difference {
                        seed: case.seed,
                        request: case.request(),
                        theirs: shown(theirs),
                        ours: shown(ours),
                    });
                }
            }
        }
    }

    fn count(&mut self, kind: &'static str) {
        *self.answers.entry(kind).or_default() += 1;
    }
}

/// Names directly before an opening parenthesis.
fn functions(expression: &str) -> impl Iterator<Item = &str> {
    expression.match_indices('(').filter_map(|(at, _)| {
        let before = &expression[..at];
        let start = before.rfind(|c: char| !c.is_ascii_alphanumeric()).map_or(0, |at| at + 1);
        before.get(start..).filter(|name| !name.is_empty())
    })
}

fn shown(answer: &Answer) -> String {
    if let Some(error) = &answer.compile_error {
        return error.clone();
    }
    let results = answer.results.iter().map(|result| {
        let outcome = if result.error.is_empty() { result.value.to_string() } else { result.error.clone() };
        let cost = result.cost.map_or_else(|| "?".to_owned(), |cost| cost.to_string());
        format!("{outcome} (cost {cost})")
    });
    results.collect::<Vec<_>>().join("; ")
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { expressions, evaluations, different, unstable, .. } = self;
        writeln!(f, "{expressions} expressions, {evaluations} evaluations, {different} differences")?;
        writeln!(f, "{unstable} results that depend on the order of a Go map")?;
        let answers: Vec<String> =
            self.answers.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        writeln!(f, "answers: {}", answers.join(", "))?;
        writeln!(f, "{} functions and macros", self.functions.len())?;
        for Difference { seed, request, theirs, ours } in &self.differences {
            let expression = request["expression"].as_str().unwrap_or_default();
            writeln!(f, "\ndifference, seed {seed}: {expression}")?;
            writeln!(f, "  Kubernetes:   {theirs}\n  Harbormaster: {ours}")?;
        }
        Ok(())
    }
}
