//! Tests with thousands of pods on API servers. They keep every core busy for minutes, so they have their own program
//! and cannot make other tests exceed their time limits.

mod capacity;
#[path = "../it/e2e/mod.rs"]
mod e2e;
mod thousand;
