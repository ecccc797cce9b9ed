//! The controller on a cluster, and random histories of the scheduler.

#![allow(clippy::unwrap_used, reason = "a failing set-up fails the test")]

mod books;
mod controller;
mod groups;
mod histories;
