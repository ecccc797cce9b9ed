//! Limits of a connection.

use std::time::Duration;

/// Limits of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Time limit for the client's part of a TLS handshake.
    pub handshake: Duration,
    /// Time limit for the head of a request over HTTP/1.1, counted from the end of the request before. Should exceed the 90 s
    /// after which clients written in Go close idle connections; otherwise a request may meet a closed connection.
    pub head: Duration,
    /// Time limit for the first request of a connection. If set, connections that send no request for [`Self::head`] are closed
    /// over HTTP/2, too; their responses must then be complete when the service returns.
    pub first_request: Option<Duration>,
    /// Time for which a client may stop reading a response.
    pub stall: Duration,
    /// Time for which an HTTP/2 client may be silent before it is pinged, and time limit for its answer.
    pub ping: Duration,
    /// Number of requests that an HTTP/2 client may have open at once.
    pub streams: u32,
    /// Size of the head of a request in bytes, from the method to the empty line. Longer ones are answered with 431, and the
    /// connection is closed. `None`: hyper's own limits.
    pub head_bytes: Option<usize>,
    /// Number of bytes that an HTTP/2 client may send before they are read. `None`: hyper's own limit.
    pub window: Option<u32>,
    /// Time limit for open requests after the server was told to stop, or after [`Connection::close_soon`].
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
