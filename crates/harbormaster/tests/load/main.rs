//! Thousands of pods on API servers. They keep every core busy for minutes, so they have a program of their own, and use
//! up nobody else's time limits.

mod capacity;
#[path = "../it/e2e/mod.rs"]
mod e2e;
mod thousand;
