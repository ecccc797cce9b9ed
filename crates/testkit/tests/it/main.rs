//! The kit, used on plugins as authors write them.

#![allow(clippy::unwrap_used, reason = "a failing setup fails the test")]

mod out_of_tree_plugin;
