//! Harbormaster with the `Coscheduling` plugin.

use std::process::ExitCode;

fn main() -> ExitCode {
    harbormaster::main(|registry| {
        registry.register::<coscheduling::Coscheduling>();
    })
}
