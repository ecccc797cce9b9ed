//! Modules shared with the end-to-end tests of the program `harbormaster`.

#![allow(dead_code, unreachable_pub, reason = "each test program uses only some of these modules")]

#[path = "../../../../harbormaster/tests/it/e2e/cluster.rs"]
pub mod cluster;
#[path = "../../../../harbormaster/tests/it/e2e/objects.rs"]
pub mod objects;
