//! The kit with plugins as authors write them.

#![allow(clippy::unwrap_used, reason = "a failing set-up fails the test")]

mod out_of_tree_plugin;
