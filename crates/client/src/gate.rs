//! Permission to write.

use std::{fmt, pin::Pin};

/// Permission to write, which can be withdrawn at any time.
///
/// Leader election is the reason for it: an instance that does not lead may read, but must not write.
pub trait WriteGate: fmt::Debug + Send + Sync {
    /// Resolves as soon as writing is forbidden: at once if it is forbidden already.
    ///
    /// The client polls this before every step of a request, so that nothing is sent late that waited for the rate limiter,
    /// a connection or the processor.
    fn closed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;

    /// Reason why writing is forbidden, for error messages.
    fn reason(&self) -> &'static str;
}
