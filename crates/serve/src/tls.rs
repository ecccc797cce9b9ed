//! TLS.

use std::{fmt, net::IpAddr, sync::Arc};

use rustls::ServerConfig;

/// Name of HTTP/2 in protocol negotiation (ALPN).
pub const HTTP2: &[u8] = b"h2";
/// Name of HTTP/1.1 in protocol negotiation (ALPN).
pub const HTTP1: &[u8] = b"http/1.1";

/// Source of TLS configurations.
pub trait TlsSource: fmt::Debug + Send + Sync {
    /// Returns the configuration for a new connection to the server's address `local`.
    fn config(&self, local: Option<IpAddr>) -> Arc<ServerConfig>;
}

impl TlsSource for Arc<ServerConfig> {
    fn config(&self, _: Option<IpAddr>) -> Arc<ServerConfig> {
        self.clone()
    }
}
