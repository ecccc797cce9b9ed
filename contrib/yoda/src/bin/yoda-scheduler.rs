//! Harbormaster with the `yoda` plugin.

use std::process::ExitCode;

fn main() -> ExitCode {
    harbormaster::main(|registry| {
        registry.register::<yoda::Yoda>();
    })
}
