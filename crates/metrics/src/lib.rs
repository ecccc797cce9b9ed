//! The metrics of a scheduler, under the names that kube-scheduler gives them.
//!
//! ```text
//! engine ──[`Meter`](harbormaster_core::meter::Meter)──> [`recorder`] ──┐
//! engine's thread ──sizes──> [`gauges`] ─────────────────────────────────┤──> families ──[`encode`]──> page
//! API client ──requests──> [`client`] ───────────────────────────────────┤
//! operating system ──/proc──> [`process`] ───────────────────────────────┘
//! ```
//!
//! Reading order: [`families`] (the table: every name, label and bucket, from which `docs/metrics.md` is made by [`document`]),
//! [`metrics`] (the handle that everybody shares), [`recorder`] with [`plugins`] (what the engine is lent) and [`attempts`] (what
//! log lines and traces need of it), then the rest in any order; [`pods`] is the second page, [`limits`] is what is not to be
//! seen on the first.
//!
//! Invariants:
//! - a series is looked up by its labels once; an observation finds it by number, or in a small map where the label is open;
//! - nothing that is recorded has any influence on a decision;
//! - a page is text in the format 0.0.4 of Prometheus, with floats as Go prints them, so that buckets have the labels that
//!   dashboards know.
//!
//! A crate of its own because it reads the clock and `/proc`, which the engine must not, and needs neither network nor
//! runtime, so that tests and simulations can measure without the driver.

pub mod attempts;
pub mod client;
pub mod document;
pub mod encode;
pub mod families;
pub mod gauges;
pub mod limits;
pub mod metrics;
pub mod plugins;
pub mod pods;
pub mod process;
pub mod recorder;
mod series;

pub use attempts::{AttemptTimes, Attempts};
pub use families::{Family, Kind, Stability};
pub use metrics::Metrics;
