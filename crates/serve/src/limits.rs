//! Limits of a connection.

use std::time::Duration;

/// Limits of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Time limit for a TLS handshake.
    pub handshake: Duration,
    /// Time limit for the head of a request over HTTP/1.1, counted from the end of the previous request. It should
    /// exceed the 90 s after which clients written in Go close idle connections; otherwise, a client may send a request
    /// over a connection that has just been closed.
    pub head: Duration,
    /// Time limit for the first request of a connection. If this limit is set, HTTP/2 connections that send no request
    /// for [`Self::head`] are also closed. A request then counts as finished when the service returns, so the response
    /// must be complete by then.
    pub first_request: Option<Duration>,
    /// Longest time for which a client may stop reading a response.
    pub stall: Duration,
    /// Time for which an HTTP/2 client may be silent before it is pinged; also the time limit for the answer to the
    /// ping.
    pub ping: Duration,
    /// Maximum number of concurrent requests of an HTTP/2 client.
    pub streams: u32,
    /// Maximum size of a request head in bytes, from the method to the empty line. A request with a longer head is
    /// answered with status 431, and its connection is closed. With `None`, hyper's own limits apply.
    pub head_bytes: Option<usize>,
    /// Maximum number of bytes that an HTTP/2 client may send before the server has read them. With `None`, hyper's own
    /// limit applies.
    pub window: Option<u32>,
    /// Time limit for open requests after the server is told to stop, or after [`Connection::close_soon`].
    ///
    /// [`Connection::close_soon`]: crate::Connection::close_soon
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(10),
            head: Duration::from_secs(120),
            first_request: None,
            stall: Duration::from_secs(30),
            ping: Duration::from_secs(30),
            streams: 100,
            head_bytes: None,
            window: None,
            grace: Duration::from_secs(5),
        }
    }
}
