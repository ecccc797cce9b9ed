//! Permission to write.

use std::{fmt, pin::Pin};

/// Permission to write, which can be withdrawn at any time.
///
/// The gate exists for leader election: a replica that is not the leader may read, but must not write.
pub trait WriteGate: fmt::Debug + Send + Sync {
    /// Returns true if writing is allowed.
    ///
    /// The client asks when the body of a request is about to be sent. By then, another task handles the request, which
    /// does not notice in time that the request has been canceled.
    fn is_open(&self) -> bool;

    /// Resolves as soon as writing is forbidden, or immediately if it already is.
    ///
    /// The client polls this future before every step of a request, so that a request that waited for the rate limiter
    /// or a connection is not sent too late.
    fn closed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;

    /// Returns the reason why writing is forbidden, for error messages.
    fn reason(&self) -> &'static str;
}

/// A gate that never opens.
#[derive(Debug)]
pub(crate) struct NeverOpen;

impl WriteGate for NeverOpen {
    fn is_open(&self) -> bool {
        false
    }

    fn closed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::ready(()))
    }

    fn reason(&self) -> &'static str {
        "this client only reads"
    }
}
