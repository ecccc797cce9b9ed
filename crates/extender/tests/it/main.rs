//! The crate, tested with HTTP clients and with kube-scheduler.

#![allow(clippy::unwrap_used, reason = "a failing setup fails the test")]

mod e2e;
mod kube_scheduler;
mod listing;
mod serving;
