//! Tests of the extender with real clusters.

#![allow(clippy::unwrap_used, reason = "a failing setup fails the test")]

mod clusters;
mod e2e;
