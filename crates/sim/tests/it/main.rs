//! Tests of the simulator with the in-tree plugins.

#![allow(clippy::unwrap_used, reason = "a failing set-up fails the test")]

mod capacity;
mod custom_resources;
mod devices;
mod groups;
mod indexes;
mod permit;
mod simulate;
mod storage;
mod what_if;
mod why;
