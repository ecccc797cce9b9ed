//! The `harbormaster` program: the scheduler with the plugins of this repository.

use std::process::ExitCode;

fn main() -> ExitCode {
    harbormaster::main(|_| {})
}
