//! Tests of the list of metrics, the alerts and the dashboard.

#![allow(clippy::unwrap_used, reason = "a failing set-up fails the test")]

mod alerts;
mod document;
