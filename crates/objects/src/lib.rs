//! What Kubernetes objects are, and what an API server makes of them before they are stored. The API server in memory
//! applies it to requests, and the reader of manifests to files.
//!
//! Reading order: [`kinds`] (the one table that everything follows), [`schema`] (what objects consist of), [`rules`]
//! (defaults, admission and checks), [`custom`] (kinds that definitions make), [`forms`] (kinds whose stored form is
//! another one), [`ownership`] (which of their parts belong
//! together), [`value`] (reading and writing JSON values).
//!
//! Invariants: nothing here reads a clock, random numbers, the environment, a file or a socket; no object, however odd,
//! makes it panic.

pub mod custom;
mod field_error;
pub mod forms;
pub mod kinds;
pub mod ownership;
pub mod rules;
pub mod schema;
pub mod selector;
pub mod value;

pub use field_error::FieldError;
pub use kinds::Kind;
