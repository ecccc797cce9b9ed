//! Time to compile selectors and to evaluate them for a device.
//!
//! `cargo bench -p harbormaster-cel --bench selectors [-- ROUNDS]`

#![expect(clippy::unwrap_used, reason = "the benchmark makes its own input")]

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use harbormaster_cel::{Attribute, Device, Features, Selector};

const EXPRESSIONS: &[&str] = &[
    r#"device.driver == "x""#,
    r#"device.driver == "x" && device.attributes["x"].model == "a100""#,
    r#"device.driver == "x" && device.attributes["x"].model == "a100" && device.capacity["x"].memory.compareTo(quantity("40Gi")) >= 0"#,
    r#"device.attributes["x"].driverVersion.isGreaterThan(semver("1.9.0"))"#,
    r#"["a30", "a100"].exists(model, device.attributes["x"].model == model)"#,
];

fn main() {
    let rounds = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(200_000);
    let attributes = [
        ("driverVersion".into(), Attribute::Version("1.10.3".into())),
        ("index".into(), Attribute::Int(3)),
        ("model".into(), Attribute::String("a100".into())),
        ("numa".into(), Attribute::Int(1)),
        ("uuid".into(), Attribute::String("GPU-3".into())),
    ];
    let capacity = [("memory", "80Gi".parse().unwrap())];
    let device = Device { driver: "x", attributes: &attributes, capacity: &capacity, ..Device::default() };
    for expression in EXPRESSIONS {
        let selector = Selector::compile(expression, Features::default()).unwrap();
        assert!(selector.matches(&device).unwrap());
        let compiled = measured(rounds / 100, || Selector::compile(expression, Features::default()).is_ok());
        let evaluated = measured(rounds, || selector.matches(black_box(&device)).is_ok());
        println!("{compiled:>6.0?} to compile, {:>4} ns to evaluate: {expression}", evaluated.as_nanos());
    }
}

/// Returns the time per round.
fn measured(rounds: u32, mut run: impl FnMut() -> bool) -> Duration {
    let begin = Instant::now();
    for _ in 0..rounds {
        black_box(run());
    }
    begin.elapsed() / rounds.max(1)
}
