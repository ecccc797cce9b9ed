//! Reports the GPUs of the node on which it runs.

use std::process::ExitCode;

fn main() -> ExitCode {
    yoda::sniffer::main()
}
