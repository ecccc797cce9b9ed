//! Scheduling without a cluster: manifests in, placements and explanations out.
//!
//! Reading order: [`manifests`] (from files to objects as an API server would store them), [`inventory`] (from these to
//! nodes and pods, with the pods of workloads), [`volumes`] (what becomes of claims and volumes), [`mod@simulate`] (the
//! engine under virtual time), [`explain`] (each pod judged on its own), [`report`] and [`explanation`] (what comes out),
//! `lack` (what nodes lack, in numbers).
//!
//! Invariants: nothing here reads a clock, a file or the environment; the same input gives the same report.

pub mod daemons;
mod documents;
mod dump;
pub mod explain;
pub mod explanation;
pub mod inventory;
mod known;
mod lack;
pub mod manifests;
mod mistakes;
pub mod report;
mod scaling;
pub mod simulate;
mod verdict;
pub mod volumes;
mod workloads;

pub use documents::Place;
pub use explain::{Explained, explain_independent, explain_independently, independent};
pub use explanation::PodExplanation;
pub use inventory::{CustomObject, Inventory, Reading};
pub use manifests::{Intake, Manifest, Manifests, Source, Validate};
pub use mistakes::{ManifestError, ManifestErrors};
pub use report::{PodReport, Report};
pub use simulate::{explain_simulated, simulate};

use harbormaster_config::ConfigErrors;

/// Why nothing could be simulated.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    /// Some manifest is wrong.
    #[error(transparent)]
    Manifests(#[from] ManifestErrors),
}
