//! The simulated world around a scheduler: decisions of the controllers of a cluster, as pure functions. The simulator
//! plays with them, and the sandbox writes them to its API server.
//!
//! Reading order: [`workloads`] (pods of Deployments, StatefulSets, Jobs, …), [`daemons`] (pods of DaemonSets and their
//! nodes), [`volumes`] (claims, volumes and provisioners).
//!
//! Invariants: nothing here reads a clock, a file or the environment; the same input gives the same decisions.

pub mod daemons;
pub mod volumes;
pub mod workloads;
