//! The extender's program.

use std::process::ExitCode;

fn main() -> ExitCode {
    metrics_extender::main()
}
