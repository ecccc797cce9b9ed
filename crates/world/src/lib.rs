//! The simulated world around a scheduler: decisions of a cluster's controllers, as pure functions. The simulator
//! applies the decisions to its own state, and the sandbox writes them to its API server.
//!
//! Reading order: [`workloads`] (pods of Deployments, StatefulSets, Jobs, …), [`daemons`] (pods of DaemonSets, and the
//! nodes that get them), [`volumes`] (claims, volumes and provisioners), [`devices`] (resource claims of pods).
//!
//! Invariants: nothing here reads a clock, a file or the environment; the same input gives the same decisions.

pub mod daemons;
pub mod devices;
pub mod volumes;
pub mod workloads;
