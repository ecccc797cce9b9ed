//! Harbormaster with the plugin `StickyVM`.

use std::process::ExitCode;

fn main() -> ExitCode {
    harbormaster::main(|registry| {
        registry.register::<stickyvm::StickyVM>();
    })
}
