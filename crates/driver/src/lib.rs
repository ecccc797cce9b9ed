//! The part of the scheduler that talks to a cluster.
//!
//! The engine is a state machine without I/O. This crate feeds it with what the API server tells and carries out what
//! it asks for:
//!
//! ```text
//! API server ──watch──> [`watch`] ──inputs──> engine thread ([`run`]) ──effects──> [`binder`], [`evictor`],
//!                                                    ^                                    [`status`], [`events`]
//!                                                    └──────── how bindings and evictions ended ────┘
//! ```
//!
//! Reading order: [`client`] (how the API server is reached), [`http`] (one request), `ages` (when connections are given
//! up), `reachability` (what is said of a server that is away), [`leader`] (whether anything may be written), [`limiter`] and [`backoff`] (how often and how long), [`watch`] (what comes in), [`binder`] with [`live_api`], [`evictor`], [`status`] and [`events`] (what goes out),
//! [`extenders`] (who is asked in the midst of a decision), [`mod@run`] (the whole), [`metrics`] (what is counted of it), [`health`] (how it is), [`console`] (what may be asked of it) with `debugger`,
//! [`reload`] (another configuration for it).
//!
//! Invariants:
//! - the engine has one owner, an operating system thread of its own; nothing else touches it;
//! - nothing waits for ever: every request has a time limit, every retry a bound, shutting down takes ten seconds at
//!   most, and three more to give up the lease;
//! - whoever does not lead writes nothing but the lease: [`http`] sends no request with a body from the moment on when
//!   another instance may lead;
//! - no event is lost while the API server takes events: memory alone bounds how many wait, and bindings come first;
//! - no answer of an API server, however odd, ends the process.
//!
//! Log lines carry kube-scheduler's verbosity in the field `v`; those with `v` of 0 are at tracing's level `INFO`, 1
//! and 2 at `DEBUG`, higher ones at `TRACE`.

mod ages;
pub mod backoff;
pub mod binder;
pub mod client;
pub mod clock;
pub mod console;
mod debugger;
pub mod engine_thread;
pub mod events;
pub mod evictor;
pub mod extenders;
pub mod health;
pub mod http;
pub mod lanes;
pub mod leader;
pub mod limiter;
pub mod live_api;
pub mod metrics;
mod notes;
mod reachability;
pub mod reload;
mod rests;
pub mod run;
mod slow;
pub mod status;
pub mod traces;
mod unchecked;
pub mod watch;

#[cfg(test)]
pub(crate) mod canned;

pub use client::{ClientError, ConnectionConfig};
pub use console::Console;
pub use extenders::{ExtenderConfig, ExtenderSetupError, ExtenderTls, HttpExtenders};
pub use health::Health;
pub use http::{ApiClient, ApiError};
pub use leader::{LeaderElection, Leadership, LeaseElection};
pub use metrics::Metrics;
pub use reload::Reload;
pub use run::{Driver, DriverConfig, DriverError, ExitReason, run};
pub use traces::Traces;
