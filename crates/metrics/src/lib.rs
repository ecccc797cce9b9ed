//! Metrics of the scheduler under kube-scheduler's names.
//!
//! ```text
//! engine ──[`Meter`](harbormaster_core::meter::Meter)──> [`recorder`] ──┐
//! host ──sizes──> [`gauges`] ────────────────────────────────────────────┤──> families ──[`encode`]──> page
//! API client ──requests──> [`client`] ───────────────────────────────────┤
//! operating system ──/proc──> [`process`] ───────────────────────────────┘
//! ```
//!
//! Reading order: [`families`] (the table of all names, labels and buckets, from which [`document`] generates
//! `docs/metrics.md`), [`metrics`] (the shared handle), [`recorder`] and [`plugins`] (the engine's meter), [`attempts`]
//! (timings for log lines and traces), then the rest in any order. [`pods`] generates the second page; [`limits`] hides
//! metrics and label values on the first page.
//!
//! Invariants:
//! - a series that is used often is looked up by its labels once; later observations find it by index, or in a small
//!   map if the label values are not known in advance;
//! - recording never influences a decision;
//! - a page is text in version 0.0.4 of Prometheus' format, with floats as Go prints them, so that buckets have the
//!   labels that dashboards expect.
//!
//! This is a separate crate because it reads the clock and `/proc`, which the engine must not do. It needs neither a
//! network nor an async runtime, so tests and simulations can measure without the driver.

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
