//! The metrics extender.

use std::process::ExitCode;

fn main() -> ExitCode {
    metrics_extender::main()
}
