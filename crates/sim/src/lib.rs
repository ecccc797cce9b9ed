//! Scheduling without a cluster: manifests in, placements and explanations out.
//!
//! Reading order: [`inventory`] (from manifests to nodes and pods, including the pods of workloads), [`mod@simulate`]
//! (the engine under virtual time), [`explain`] (each pod evaluated on its own), [`report`] and [`explanation`] (the
//! results), `lack` (resources and labels that nodes lack), [`mod@why`] (what would place a pod that waits), [`mod@capacity`] (how
//! many copies of a pod fit; `original`, what belongs to a copy), [`mod@difference`] (what a change of the cluster does),
//! [`drain`] (an order of evictions), [`usage`] (what the nodes' pods request). Manifests are read by `harbormaster-manifests`; the
//! controllers' decisions are in `harbormaster-world`.
//!
//! Invariants: nothing in this crate reads a clock, a file or the environment; the same input gives the same report.

pub mod capacity;
pub mod difference;
pub mod drain;
pub mod explain;
pub mod explanation;
pub mod inventory;
mod lack;
pub mod original;
pub mod report;
pub mod simulate;
pub mod usage;
mod verdict;
pub mod why;

pub use capacity::{Capacity, CapacityError, capacity, with_request};
pub use difference::{Difference, Outcome, difference};
pub use drain::{DrainPlan, drain_plan};
pub use explain::{Explained, explain_independent, explain_independently, independent};
pub use explanation::PodExplanation;
pub use inventory::{CustomObject, Inventory, Reading};
pub use original::Original;
pub use report::{PodReport, Report};
pub use simulate::{explain_simulated, simulate};
pub use usage::{NodeUsage, Total, Usage, UsageBefore};
pub use why::{
    Change, Contrast, GroupState, RankedNode, Remedy, Standing, StuckMember, Victims, Waker, Why, why,
    why_decided, why_independent, why_placed,
};

use harbormaster_config::ConfigErrors;
use harbormaster_manifests::ManifestErrors;

/// The reason why a simulation could not start.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    /// A manifest is wrong.
    #[error(transparent)]
    Manifests(#[from] ManifestErrors),
}
