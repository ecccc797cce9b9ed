//! Permission to write.

use std::{fmt, pin::Pin};

/// Permission to write, which can be withdrawn at any time.
///
/// The gate exists for leader election: a replica that is not the leader may read, but must not write.
pub trait WriteGate: fmt::Debug + Send + Sync {
    /// Resolves as soon as writing is forbidden, or immediately if it already is.
    ///
    /// The client polls this future before every step of a request, so that a request that waited for the rate limiter,
    /// a connection or the processor is not sent too late.
    fn closed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;

    /// Returns the reason why writing is forbidden, for error messages.
    fn reason(&self) -> &'static str;
}
