//! The `harbormaster` program: the scheduler with the plugins of this repository.

use std::process::ExitCode;

/// Scheduling a pod takes a few hundred small allocations, and another thread frees most of them.
#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    harbormaster::main(|_| {})
}
