//! Code shared by the end-to-end tests: API servers, the built binary, and the objects that the tests use.

#![allow(dead_code, unreachable_pub, reason = "each test program uses a part of this")]

pub mod cluster;
pub mod extender;
pub mod group_scene;
pub mod objects;
pub mod pod_watch;
pub mod port;
pub mod process;
pub mod proxy;
pub mod scene;
pub mod server;
pub mod tunnel;
pub mod volume_scene;
pub mod volumes;
pub mod wake_scene;
