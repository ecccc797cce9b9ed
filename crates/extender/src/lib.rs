//! Scheduler extenders: HTTP services that kube-scheduler, and Harbormaster, ask about nodes while they schedule a pod.
//!
//! Write async functions for the verbs that you need; the crate provides the server around them: TLS, health, metrics, limits, and
//! graceful shutdown.
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
//! Reading order: [`extender`] (the functions), [`ask`], [`preemption`] and [`binding`] (questions and answers), [`object`] (pods and
//! nodes), [`wire`] (the wire format), [`server`].
//!
//! Invariants:
//! - Objects are passed through unchanged: the text of every pod and node is available, and is returned byte by byte.
//! - An answer has the form of the request: objects if the scheduler sent objects, names if it sent names
//!   (`nodeCacheCapable: true`), in the order of the request.
//! - A client can harm only its own request; a function that panics is an error of its request.
//!
//! Of the rest of Harbormaster, the crate uses only `harbormaster-serve`, an HTTP server without anything of Kubernetes.

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
