//! Keeps the statuses of PodGroups up to date.

use std::process::ExitCode;

fn main() -> ExitCode {
    coscheduling::controller::main()
}
