//! Tests of the list of metrics, the alerts and the dashboard, and of attempts that extenders take part in.

#![allow(clippy::unwrap_used, reason = "a failing set-up fails the test")]

mod alerts;
mod document;
mod extenders;
