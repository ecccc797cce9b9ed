//! Writes into the statuses of ElasticQuotas what is used.

use std::process::ExitCode;

fn main() -> ExitCode {
    capacity_scheduling::controller::main()
}
