//! The guide's listings and plugins.

#![allow(clippy::unwrap_used, reason = "a failing set-up fails the test")]

mod listings;
mod sandbox;
