//! A scheduler extender that requires a node label and prefers nodes with low CPU usage, as measured by metrics-server.
//!
//! The extender reimplements the example of a well-known article, using only the public API of `harbormaster-extender`.
//! `README.md` describes the extender and how it differs from the article.
//!
//! Reading order: [`extender`] (the four verbs), [`score`], [`usage`] (CPU usage of nodes), [`labelled`] (nodes with
//! the label), [`program`] (flags, connection to the API server).
//!
//! Invariants: serving a request never calls metrics-server; pods are scheduled even without metrics.

pub mod extender;
pub mod labelled;
pub mod program;
pub mod score;
pub mod usage;

pub use extender::{MetricsExtender, Mode};
pub use program::{Flags, main};
