//! Harbormaster with the plugins of scheduler-plugins.

use std::process::ExitCode;

fn main() -> ExitCode {
    harbormaster::main(scheduler_plugins::register)
}
