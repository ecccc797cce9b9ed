//! An HTTP server: accepts, secures, limits and closes connections.
//!
//! Callers supply a hyper service, which produces the responses; see [`Server::run`].
//!
//! ```text
//! listener ──> [`Admission`] ──> TLS ([`TlsSource`]) ──> HTTP/1.1 or HTTP/2 with [`Limits`] ──> service of the caller
//! ```
//!
//! Reading order: [`server`] (the accept loop, and one connection), [`limits`], [`connections`] (admission, idle
//! connections), [`listener`], [`tls`], [`certificates`] and [`files`] (certificates in files that may be renewed),
//! [`latest`].
//!
//! Invariants:
//! - a client can harm only its own connection: handshakes, request heads and responses that are not read have time
//!   limits;
//! - a broken version of a file is reported, and the previous version stays in use.
//!
//! This crate uses no other crate of the workspace and has no knowledge of Kubernetes.

pub mod certificates;
pub mod connections;
pub mod files;
pub mod latest;
pub mod limits;
pub mod listener;
pub mod server;
pub mod tls;

pub use certificates::{CertificateFiles, PemPair, authorities};
pub use connections::{Admission, Connection};
pub use files::WatchedFiles;
pub use latest::Latest;
pub use limits::Limits;
pub use listener::listen;
pub use server::{Client, Server};
pub use tls::{HTTP1, HTTP2, TlsSource};
