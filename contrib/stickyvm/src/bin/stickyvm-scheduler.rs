//! Harbormaster with the `StickyVM` plugin.

use std::process::ExitCode;

fn main() -> ExitCode {
    harbormaster::main(|registry| {
        registry.register::<stickyvm::StickyVM>();
    })
}
