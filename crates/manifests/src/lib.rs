//! Manifests and dumps of clusters: from file contents to the objects that an API server would store.
//!
//! Reading order: [`Manifests`] (the whole; `manifests::units` is its fast path), `documents` (from text to objects with
//! their locations; `json` is its fast path), `shape` (pods that differ only in their identity), `dump` (removal
//! of fields that only the server sets, restoration of objects that a dump lacks), `scaling` (Deployments whose
//! `replicas` were edited in a dump), [`edits`] and [`scenario`] (changes that a question assumes), `admission` (the API
//! server's rules), `error` and [`notices`] (messages).
//!
//! Invariants: nothing here reads a clock, a file or the environment, except for the number of processors; the same
//! text gives the same objects.

mod admission;
mod documents;
mod dump;
pub mod edits;
mod error;
mod json;
mod manifests;
pub mod notices;
mod older_versions;
mod parallel;
mod scaling;
pub mod scenario;
mod shape;

pub use documents::Location;
pub use error::{FieldProblem, ManifestError, ManifestErrors};
pub use harbormaster_yaml::Source;
pub use manifests::{Admitted, Manifest, Manifests, ReadOptions, Validate};
pub use shape::{ACCESS_PREFIX, Identity};
