//! Scheduler extenders: HTTP services that kube-scheduler, and Harbormaster, ask about nodes while they schedule a pod.
//!
//! Whoever writes one writes async functions for the verbs that are wanted, and gets a server around them: TLS, health, metrics,
//! limits, and an end in good order.
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
//! Reading order: [`extender`] (which functions there are), [`ask`], [`preemption`] and [`binding`] (what they are asked, and
//! answer), [`object`] (pods and nodes), [`wire`] (what it looks like on the wire), [`server`] (what is around them).
//!
//! Invariants:
//! - What a scheduler sends is kept as it is: the text of every pod and node is there, and goes back byte by byte.
//! - An answer has the form that was asked for: objects where the scheduler sent objects, names where it sent names
//!   (`nodeCacheCapable: true`), in the order of the request.
//! - Whatever a client sends costs that request and nothing else; a function that panics is an error of its request.
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
