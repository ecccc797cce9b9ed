//! Stack space for deeply nested expressions.
//!
//! The parser limits the depth of expressions, but an expression near the limit needs more stack than most threads
//! have.

use std::thread;

/// Stack size in bytes, enough for the deepest expression in a build without optimizations. Unused stack takes no
/// memory.
const SIZE: usize = 64 << 20;

/// Runs a function on a thread with a large stack. Returns `None` if the system cannot create the
/// thread, or if the function panics.
pub(crate) fn on_large_stack<V: Send>(compute: impl FnOnce() -> V + Send) -> Option<V> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(SIZE).spawn_scoped(scope, compute).ok()?;
        thread.join().ok()
    })
}
