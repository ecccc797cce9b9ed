//! Reports the GPUs of the node that it runs on.

use std::process::ExitCode;

fn main() -> ExitCode {
    yoda::sniffer::main()
}
