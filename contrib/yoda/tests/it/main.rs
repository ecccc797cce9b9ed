//! The plugins in the simulator, in the sandbox and on clusters.

#![allow(clippy::unwrap_used, reason = "a failing set-up fails the test")]

mod clusters;
mod e2e;
mod examples;
mod preemption;
