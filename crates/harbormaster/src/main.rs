//! The `harbormaster` program: the scheduler with the plugins of this repository.

use std::process::ExitCode;

/// Scheduling a pod makes a few hundred small allocations, most of which are freed on another thread.
#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    harbormaster::main(|_| {})
}
