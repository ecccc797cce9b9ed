//! A client for the Kubernetes API server.
//!
//! The client sends requests; watching, object types and leader election are the concern of its callers.
//!
//! ```text
//! [`config`] ──> [`ApiClient`] ──rate limit, write gate──> [`connections`] ──> `network` ──> API server
//!                     │
//!                     └── errors ──> `reachability` (one log line per outage), `recovery`, [`retries`], [`backoff`]
//! ```
//!
//! Reading order: [`client`] (one request), [`error`] (failures of a request), [`config`] (choice of the server),
//! `kubeconfig`, `access`, `credentials`, `exec_plugin` and `tls` (address, authentication and trust), [`connections`]
//! (when connections are abandoned), [`network`] (how connections are made; `wide` is their buffer), [`limiter`], [`backoff`] and [`retries`]
//! (when requests are sent and retried), `reachability` (logging of outages), `recovery` (their end), [`observe`]
//! (metrics and traces), [`gate`] (permission to write).
//!
//! Invariants:
//! - every request has a time limit, which covers only the beginning of a stream;
//! - a request with a body is sent only while the [`WriteGate`] is open, and canceled when the gate closes;
//! - no response, however malformed, terminates the process.

mod access;
pub mod backoff;
pub mod body;
pub mod client;
pub mod config;
pub mod connections;
mod credentials;
pub mod error;
mod exec_plugin;
pub mod gate;
mod http2;
mod kubeconfig;
pub mod limiter;
pub mod network;
pub mod observe;
mod reachability;
mod recovery;
pub mod retries;
mod tls;
mod wide;

#[cfg(any(test, feature = "test-util"))]
pub mod fake_server;

pub use backoff::{Backoff, Jitter};
pub use client::{ApiClient, Document, Encoding, Stream};
pub use config::{ClientError, ConnectionConfig, Overrides};
pub use credentials::CredentialsError;
pub use error::{ApiError, Refusal, error_chain};
pub use exec_plugin::PluginError;
pub use gate::WriteGate;
pub use kubeconfig::KubeconfigError;
pub use limiter::RateLimiter;
pub use retries::Retries;
pub use tls::{Identity, TlsError, TlsOptions, accept_every_certificate};
