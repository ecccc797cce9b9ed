//! Scheduler extenders: HTTP services that kube-scheduler and Harbormaster call while they schedule a pod.
//!
//! Write async functions for the verbs that you need; the crate provides the server with TLS, health checks, metrics,
//! limits and graceful shutdown.
//!
//! ```no_run
//! use harbormaster_extender::{Ask, Error, Extender, Filtered, Reject};
//!
//! async fn filter(ask: Ask) -> Result<Filtered, Error> {
//!     Ok(ask.filter(|node| match node.name().starts_with("edge-") {
//!         true => Err(Reject::unresolvable("node(s) are at the edge")),
//!         false => Ok(()),
//!     }))
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     Extender::new().filter(filter).main()
//! }
//! ```
//!
//! Reading order: [`extender`] (the functions), [`ask`], [`preemption`] and [`binding`] (requests and answers),
//! [`object`] (pods and nodes), [`wire`] (the wire format), [`server`].
//!
//! Invariants:
//! - Objects pass through unchanged: the JSON text of every pod and node is available and is returned byte for byte.
//! - The answer to a filter request has the form of the request: objects if the scheduler sent objects, names if it
//!   sent names (`nodeCacheCapable: true`), in the order of the request.
//! - Nothing that a client sends affects other requests, and a function that panics fails only the current request.
//!
//! The only other Harbormaster crate that this crate uses is `harbormaster-serve`, an HTTP server that contains nothing
//! specific to Kubernetes.

pub mod ask;
pub mod binding;
mod error;
pub mod extender;
mod metrics;
pub mod object;
pub mod preemption;
mod program;
mod routes;
pub mod server;
mod tls;
pub mod wire;

pub use ask::{Ask, Candidate, Filtered, MAX_SCORE, Reject, Scores};
pub use binding::Binding;
pub use error::Error;
pub use extender::{Extender, Verb};
pub use object::{Container, Metadata, Node, Owner, Pod, Taint};
pub use preemption::{Preempted, Preemption, Victim, Victims};
pub use program::init_log;
pub use server::{Limits, ServeError, Server, Serving, TlsFiles};

pub use prometheus;
pub use serde_json;
