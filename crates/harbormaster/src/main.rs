//! The `harbormaster` program: the scheduler with the plugins of this repository.

use std::process::ExitCode;

/// A pod is a few hundred small allocations on its way through, most of them freed by another thread.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    harbormaster::main(|_| {})
}
