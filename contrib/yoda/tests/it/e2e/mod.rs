//! The end-to-end test helpers of the `harbormaster` crate.

#![allow(dead_code, unreachable_pub, reason = "each test program uses only some of these modules")]

#[path = "../../../../../crates/harbormaster/tests/it/e2e/cluster.rs"]
pub mod cluster;
#[path = "../../../../../crates/harbormaster/tests/it/e2e/objects.rs"]
pub mod objects;
#[path = "../../../../../crates/harbormaster/tests/it/e2e/process.rs"]
pub mod process;
#[path = "../../../../../crates/harbormaster/tests/it/e2e/server.rs"]
pub mod server;
