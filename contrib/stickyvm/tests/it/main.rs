//! Tests of the plugin in the simulator, in the sandbox and on clusters.

#![allow(clippy::unwrap_used, reason = "a failing setup fails the test")]

mod clusters;
mod e2e;
mod examples;
