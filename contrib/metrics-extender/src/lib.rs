//! A scheduler extender: pods go to nodes that have a label, and best to those that use the least CPU as metrics-server measures it.
//!
//! It is the extender that a known article builds as its example, written anew on `harbormaster-extender` as anybody outside of this
//! repository would. `README.md` says what it does and where it differs.
//!
//! Reading order: [`extender`] (the four verbs), [`score`] (from use to points), [`usage`] (what nodes use), [`labelled`] (which nodes
//! have the label), [`program`] (flags, and the way to the API server).
//!
//! Invariants: no request makes one to metrics-server; without metrics pods are scheduled all the same.

pub mod extender;
pub mod labelled;
pub mod program;
pub mod score;
pub mod usage;

pub use extender::{MetricsExtender, Mode};
pub use program::{Flags, main};
