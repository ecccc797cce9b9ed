//! The extender on clusters.

#![allow(clippy::unwrap_used, reason = "a failing set-up fails the test")]

mod clusters;
mod e2e;
