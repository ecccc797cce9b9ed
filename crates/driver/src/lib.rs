//! The part of the scheduler that communicates with a cluster.
//!
//! The engine is a state machine without I/O. This crate feeds it inputs from the API server and carries out its
//! effects:
//!
//! ```text
//! API server ──watch──> [`watch`] ──inputs──> engine ([`engine_host`]) ──effects──> [`binder`], [`evictor`],
//!                                                ^                                    [`status`], [`events`]
//!                                                └──────── outcomes of bindings and evictions ──┘
//! ```
//!
//! Layers; each uses only the layers above it in this list:
//!
//! 1. [`clock`], [`pace`], [`health`], [`traces`], [`tasks`], [`recording`], `slow`, `notes`; [`clients`] (the API clients of a scheduler: see
//!    `harbormaster-client`);
//! 2. [`leader`] (leader election, and this instance's permission to write);
//! 3. [`extenders`] (HTTP extenders, which the engine calls during an attempt);
//! 4. [`message`] (messages to the engine);
//! 5. input: [`watch`], `sources` with `web` (objects that plugins fetch from elsewhere); output: [`live_api`] and
//!    [`binder`], [`evictor`], [`status`], [`events`]; external requests: [`console`] with `debugger`, [`metrics`],
//!    [`reload`];
//! 6. [`engine_loop`] (the engine and its state in the driver), [`engine_host`] (where it runs);
//! 7. [`mod@run`] (everything combined); [`mod@shadow`] (the watches without an engine, for comparison with another scheduler).
//!
//! Invariants:
//! - the engine has one owner, which is either a task or a thread; nothing else touches it;
//! - attempts that may take long or may block are made on that thread, so they delay neither the lease nor a request
//!   in progress;
//! - nothing waits forever: every request has a time limit, every write about a pod is retried only a limited number
//!   of times, and shutdown takes at most ten seconds plus three to release the lease;
//! - an instance that is not the leader writes nothing but the lease: once another instance may lead, only the client
//!   for the lease sends requests with a body;
//! - no event is lost while the API server accepts events: bindings take precedence, but events wait in a queue that is
//!   bounded only by a memory limit;
//! - no response from an API server, however malformed, terminates the process.
//!
//! Log lines carry kube-scheduler's verbosity in the `v` field. Lines with a `v` of 0 have tracing's `INFO` level,
//! lines with 1 or 2 have `DEBUG`, and lines with a higher `v` have `TRACE`.

pub mod binder;
pub mod clients;
pub mod clock;
pub mod console;
mod debugger;
pub mod engine_host;
pub mod engine_loop;
pub mod events;
pub mod evictor;
pub mod extenders;
pub mod health;
pub mod leader;
pub mod live_api;
pub mod message;
pub mod metrics;
mod notes;
pub mod pace;
pub mod recording;
pub mod reload;
pub mod run;
pub mod served_version;
pub mod shadow;
mod slow;
mod sources;
pub mod status;
pub mod tasks;
pub mod traces;
pub mod watch;
mod web;

pub use clients::{Clients, Reader};
pub use console::{Console, Unanswered};
pub use extenders::{ExtenderConfig, ExtenderSetupError, ExtenderTls, HttpExtenders};
pub use harbormaster_client::{ClientError, ConnectionConfig, Encoding};
pub use health::Health;
pub use leader::{LeaderElection, Leadership, LeaseElection};
pub use metrics::Metrics;
pub use pace::Pace;
pub use recording::RecordingConfig;
pub use reload::Reload;
pub use run::{Driver, DriverConfig, DriverError, ExitReason, run};
pub use shadow::{Compared, ShadowConfig, shadow};
pub use sources::fetch_unless_stored;
pub use traces::Traces;
