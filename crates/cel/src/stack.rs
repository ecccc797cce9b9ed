//! Stack space for deeply nested expressions.
//!
//! The parser limits the depth of expressions, but an expression near the limit needs more stack than most threads
//! have.

use std::{panic, thread};

/// Stack size in bytes, enough for the deepest expression in a build without optimizations. Unused stack takes no
/// memory.
const SIZE: usize = 64 << 20;

/// Runs a function on a thread with a large stack. Returns `None` if the system cannot create the thread. If the function
/// panics, so does this one, as if the function had been called directly.
pub(crate) fn on_large_stack<V: Send>(compute: impl FnOnce() -> V + Send) -> Option<V> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(SIZE).spawn_scoped(scope, compute).ok()?;
        Some(thread.join().unwrap_or_else(|panic| panic::resume_unwind(panic)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_not_mistaken_for_a_lack_of_threads() {
        let panic = panic::catch_unwind(|| on_large_stack(|| panic!("why"))).unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"why"));
        assert_eq!(on_large_stack(|| 1), Some(1));
    }
}
