//! The `harbormaster` program: the scheduler with the plugins of this repository.

use std::process::ExitCode;

/// Allocator that is fast for the few hundred small allocations of an attempt, most of which another thread frees.
#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    harbormaster::main(|_| {})
}
