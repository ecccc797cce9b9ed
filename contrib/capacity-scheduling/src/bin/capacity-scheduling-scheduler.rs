//! Harbormaster with the plugin `CapacityScheduling`.

use std::process::ExitCode;

fn main() -> ExitCode {
    harbormaster::main(|registry| {
        registry.register::<capacity_scheduling::CapacityScheduling>();
    })
}
