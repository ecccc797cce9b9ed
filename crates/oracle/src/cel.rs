//! Compares how Harbormaster and Kubernetes evaluate random CEL expressions that select devices.
//!
//! Every expression is compiled and evaluated for a few random devices by Kubernetes' own code and by Harbormaster.
//! Values, the texts of errors, and costs must be equal.
//!
//! Reading order: `case` (what is compared), `types`, `productions` and `expressions` (random expressions), `literals`,
//! `mutations` (broken texts), `devices`, `real` (Kubernetes' side), `report`.

mod case;
mod devices;
mod expressions;
mod literals;
mod mutations;
mod productions;
mod real;
mod report;
mod types;

use anyhow::Result;
use harbormaster_api::Release;

pub use report::{Difference, Report};

use case::Case;
use real::{Outcome, RealSelectors};

/// Options of a comparison.
#[derive(Debug, Clone)]
pub struct Options {
    /// Release of Kubernetes.
    pub release: Release,
    /// Seed of the first expression; the others have consecutive seeds.
    pub seed: u64,
    /// Number of expressions.
    pub expressions: u64,
}

/// Maximum number of times that Kubernetes is asked again before a difference counts. Some results depend on the order
/// of the entries of a map, which is random in Go.
const ATTEMPTS: usize = 100;

/// Compares all expressions, and calls `progress` after each.
///
/// # Errors
/// If Kubernetes' evaluator does not answer. Differences are not errors; they are in the report.
pub fn run(options: &Options, mut progress: impl FnMut(&Report)) -> Result<Report> {
    let mut real = RealSelectors::start(options.release)?;
    let mut report = Report::default();
    for seed in options.seed..options.seed.saturating_add(options.expressions) {
        let case = Case::new(seed, options.release);
        let (theirs, ours) = (real.ask(&case)?, case.ours());
        let mut outcome = theirs.compare(&ours);
        for _ in 0..ATTEMPTS {
            if outcome != Outcome::Different {
                break;
            }
            if real.ask(&case)?.compare(&ours) != Outcome::Different {
                outcome = Outcome::Unstable;
            }
        }
        report.add(&case, &theirs, &ours, &outcome);
        progress(&report);
    }
    Ok(report)
}
