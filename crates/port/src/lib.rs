//! kube-scheduler's secure port (10259): health, metrics and configuration over HTTPS.
//!
//! ```text
//! connection ──> `harbormaster-serve` ──> `chain`: authentication, authorization, then [`pages`], [`health`], [`zpages`]
//! ```
//!
//! Reading order: [`options`] (the flags), [`pages`] and [`health`] (the content), `port` (the thread and its server),
//! `chain` (one request), `authentication` with `client_certificate`, `proxy` and `token`, `authorization`, `reviews`
//! and `cluster` (requests to the API server), `tls`, `certificates`, `files` and `tls_state` (TLS), `slis`, `zpages`, [`why`],
//! [`browser`], `reply`, `query` (text), `loopback` (a port for the page alone).
//!
//! Invariants:
//! - the port has its own thread and runtime, so that clients cannot slow down scheduling;
//! - a client can affect only its own connection: handshakes, request heads, bodies and responses have time limits, and
//!   when there are too many connections, an idle connection is closed;
//! - TLS does not require a client certificate; each request is authenticated, and is answered with 401 if it has
//!   invalid credentials and no valid ones;
//! - a credential that cannot be verified is rejected: without authorities, no certificate is valid; without an API
//!   server, no token is valid;
//! - files and the configmap are reloaded when they change; an invalid version is logged, and the previous version
//!   stays in use.

mod authentication;
mod authorization;
pub mod browser;
mod cache;
mod certificates;
mod chain;
mod client_certificate;
mod cluster;
mod files;
pub mod health;
mod loopback;
pub mod options;
pub mod pages;
mod port;
mod proxy;
mod query;
mod reply;
mod reviews;
mod single_flight;
mod slis;
mod tls;
mod tls_state;
mod token;
mod trust;
mod user;
pub mod why;
pub mod zpages;

#[cfg(test)]
mod tests;

pub use health::Check;
pub use loopback::LoopbackPort;
pub use options::Options;
pub use pages::{Content, Page};
pub use port::{Port, PortError};
