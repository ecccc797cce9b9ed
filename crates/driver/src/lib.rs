//! The part of the scheduler that talks to a cluster.
//!
//! The engine is a state machine without I/O. This crate feeds it with inputs from the API server and carries out its effects:
//!
//! ```text
//! API server ──watch──> [`watch`] ──inputs──> engine thread ([`run`]) ──effects──> [`binder`], [`evictor`],
//!                                                    ^                                    [`status`], [`events`]
//!                                                    └──────── how bindings and evictions ended ────┘
//! ```
//!
//! Layers; each uses only those above it:
//!
//! 1. [`clock`], [`health`], [`traces`], [`tasks`], `slow`, `notes`; [`clients`] (the API clients of a scheduler: see
//!    `harbormaster-client`);
//! 2. [`leader`] (leader election, and whether this instance may write);
//! 3. [`extenders`] (HTTP extenders, which the engine asks during an attempt);
//! 4. [`message`] (messages to the engine's thread);
//! 5. input: [`watch`]; output: [`live_api`] and [`binder`], [`evictor`], [`status`], [`events`]; from outside: [`console`] with
//!    `debugger`, [`metrics`], [`reload`];
//! 6. [`engine_thread`];
//! 7. [`mod@run`] (the whole).
//!
//! Invariants:
//! - the engine belongs to one operating system thread; nothing else touches it;
//! - nothing waits forever: every request has a time limit, every retry a bound, shutting down takes ten seconds at most, and
//!   three more to release the lease;
//! - an instance that does not lead writes nothing but the lease: its clients send no request with a body from the moment on
//!   when another instance may lead;
//! - no event is lost while the API server accepts events: only memory bounds how many wait, and bindings come first;
//! - no response of an API server, however malformed, ends the process.
//!
//! Log lines carry kube-scheduler's verbosity in the field `v`; those with `v` of 0 are at tracing's level `INFO`, 1
//! and 2 at `DEBUG`, higher ones at `TRACE`.

pub mod binder;
pub mod clients;
pub mod clock;
pub mod console;
mod debugger;
pub mod engine_thread;
pub mod events;
pub mod evictor;
pub mod extenders;
pub mod health;
pub mod leader;
pub mod live_api;
pub mod message;
pub mod metrics;
mod notes;
pub mod reload;
pub mod run;
mod slow;
pub mod status;
pub mod tasks;
pub mod traces;
pub mod watch;

pub use clients::Clients;
pub use console::Console;
pub use extenders::{ExtenderConfig, ExtenderSetupError, ExtenderTls, HttpExtenders};
pub use harbormaster_client::{ClientError, ConnectionConfig};
pub use health::Health;
pub use leader::{LeaderElection, Leadership, LeaseElection};
pub use metrics::Metrics;
pub use reload::Reload;
pub use run::{Driver, DriverConfig, DriverError, ExitReason, run};
pub use traces::Traces;
