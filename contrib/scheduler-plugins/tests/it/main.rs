//! The program with the files of `examples/scheduler-plugins`.

#![allow(clippy::unwrap_used, reason = "a failing set-up fails the test")]

mod arguments;
mod examples;
