//! The list of metrics, the alerts and the dashboards.

#![allow(clippy::unwrap_used, reason = "a failing set-up fails the test")]

mod alerts;
mod document;
