//! The program with the files of `examples/scheduler-plugins`, and the tables of its custom resources.

#![allow(clippy::unwrap_used, reason = "a failing set-up fails the test")]

mod arguments;
mod examples;
mod hostile;
mod tables;
