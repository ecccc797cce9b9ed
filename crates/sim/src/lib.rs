//! Scheduling without a cluster: manifests in, placements and explanations out.
//!
//! Reading order: [`manifests`] (from files to a cluster), [`setup`] (from a KubeSchedulerConfiguration to an engine's
//! configuration; a live scheduler uses it too), [`simulate`] (the engine under virtual time), [`explain`] (each pod
//! judged on its own), [`report`] and [`explanation`] (what comes out), `lack` (what nodes lack, in numbers).
//!
//! Invariants: nothing here reads a clock, a file or the environment; the same input gives the same report.

mod documents;
pub mod explain;
pub mod explanation;
mod lack;
pub mod manifests;
mod priority;
pub mod report;
pub mod setup;
pub mod simulate;
mod verdict;
mod workloads;

pub use documents::Place;
pub use explain::{Explained, explain_independent, explain_independently, independent};
pub use explanation::PodExplanation;
pub use manifests::{Cluster, ManifestError, ManifestErrors, Source};
pub use report::{PodReport, Report};
pub use setup::{Choices, Setup, SetupError};
pub use simulate::{explain_simulated, simulate};

/// Why nothing could be simulated.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// The configuration is wrong.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// Some manifest is wrong.
    #[error(transparent)]
    Manifests(#[from] ManifestErrors),
}
