//! Validation of Kubernetes objects: kinds, schemas, defaults, admission and checks, as in kube-apiserver. The
//! in-memory API server applies these rules to requests, and the manifest reader applies them to files.
//!
//! Reading order: [`kinds`] (the table of all kinds), [`schema`] (types and their fields), [`admission`] (defaults,
//! admission and checks), [`custom`] (custom resources), [`forms`] (kinds whose stored form differs from their wire
//! form), [`ownership`] (parts of objects with one owner), [`value`] (reading and writing JSON values).
//!
//! Invariants: nothing here reads a clock, random numbers, the environment, a file or a socket; no object, however odd,
//! causes a panic.

pub mod admission;
pub mod custom;
mod field_error;
pub mod forms;
pub mod kinds;
pub mod ownership;
pub mod schema;
pub mod selector;
pub mod value;

pub use field_error::FieldError;
pub use kinds::Kind;
