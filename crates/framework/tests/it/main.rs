//! Tests of the framework with small plugins.

#![allow(clippy::unwrap_used, reason = "a failing set-up fails the test")]

mod assumed_objects;
mod cached_equals_fresh;
mod failing_filters;
