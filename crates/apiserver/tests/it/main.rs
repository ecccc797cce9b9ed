//! The API server as its clients see it.

#![allow(clippy::unwrap_used, reason = "a failing set-up fails the test")]

mod bad_input;
mod http;
mod serve;
mod watch_model;
mod watch_replay;
mod wire;
