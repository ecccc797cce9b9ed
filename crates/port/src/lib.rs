//! kube-scheduler's secure port (10259): health, metrics and configuration over HTTPS.
//!
//! ```text
//! connection ──> [`server`] ──TLS──> [`chain`]: who is it ([`authentication`]), may it ([`authorization`]),
//!                   │                           what is it ([`pages`], [`health`], [`zpages`])
//!                   └── `crowd`: how many connections there may be
//! ```
//!
//! Reading order: [`options`] (what the flags say), [`pages`] and [`health`] (what is served), `chain` (one request),
//! `authentication` with `client_certificate`, `proxy`, `token`, and `authorization` (who may read it), `reviews` and
//! `cluster` (what is asked of the API server), `tls`, `certificates` and `files` (how the connection is secured),
//! `listener`, `server`, `crowd` (connections), `slis`, `zpages`, `reply`, `query` (texts).
//!
//! Invariants:
//! - the port has a thread and a runtime of its own, so that whatever clients do costs no scheduling;
//! - a connection costs its own client: handshakes, heads, bodies and answers all have their time, and where there are
//!   too many connections the one that has waited longest gives way;
//! - a certificate of a client is not asked for on the level of TLS, but judged for each request: a wrong one is
//!   answered with 401;
//! - what cannot be judged is refused: without authorities no certificate counts, without an API server no token;
//! - files and the configmap are followed: what is broken in a new version is logged, and the old one kept.

mod authentication;
mod authorization;
mod cache;
mod certificates;
mod chain;
mod client_certificate;
mod cluster;
mod crowd;
mod files;
pub mod health;
mod kept;
mod listener;
pub mod options;
pub mod pages;
mod port;
mod proxy;
mod query;
mod reply;
mod reviews;
mod secured;
mod server;
mod slis;
mod tls;
mod together;
mod token;
mod trust;
mod user;
pub mod zpages;

#[cfg(test)]
mod tests;

pub use health::Check;
pub use options::Options;
pub use pages::{Content, Page};
pub use port::{Port, PortError};
