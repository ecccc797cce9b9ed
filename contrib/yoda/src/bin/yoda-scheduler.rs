//! Harbormaster with the plugin `yoda`.

use std::process::ExitCode;

fn main() -> ExitCode {
    harbormaster::main(|registry| {
        registry.register::<yoda::Yoda>();
    })
}
