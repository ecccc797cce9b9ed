//! Harbormaster with the plugins of the guide.

use std::process::ExitCode;

use guide::{Crews, Gang, Gpu, Halls, Headroom, NoMaintenance, Seats, Shaky, Tariff, TenantLimit};

fn main() -> ExitCode {
    harbormaster::main(|registry| {
        registry.register::<Gpu>(); // chapter 1
        registry.register::<Headroom>(); // chapters 2, 3 and 9
        registry.register::<NoMaintenance>(); // chapter 4
        registry.register::<Tariff>(); // chapter 4
        registry.register::<TenantLimit>(); // chapter 5
        registry.register::<Gang>(); // chapter 6
        registry.register::<Crews>(); // chapter 6
        registry.register::<Halls>(); // chapter 6
        registry.register::<Seats>(); // chapter 7
        registry.register::<Shaky>(); // chapter 10
    })
}
