//! Harbormaster with the plugins `CapacityScheduling` and `QuotaSort`.

use std::process::ExitCode;

fn main() -> ExitCode {
    harbormaster::main(|registry| {
        registry
            .register::<capacity_scheduling::CapacityScheduling>()
            .register::<capacity_scheduling::QuotaSort>();
    })
}
