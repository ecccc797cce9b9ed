//! The test kit, applied to a plugin as an author would write it.

#![allow(clippy::unwrap_used, reason = "a failing setup fails the test")]

mod out_of_tree_plugin;
