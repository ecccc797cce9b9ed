//! Harbormaster with an additional plugin.

fn main() -> std::process::ExitCode {
    harbormaster::main(|registry| {
        registry.register::<own_scheduler::TeamNodes>();
    })
}
