//! Resource quantities in all notations.

use super::Random;

/// CPU requests. The requests in [`CPU_NASTY`] are rounded up, huge, or in unusual notations.
const CPU: &[&str] = &[
    "50m", "100m", "250m", "500m", "0.5", "1", "1500m", "2", "0.1", "1e0", "100.5m", "1m", "0", "3", "1.25",
];
const CPU_NASTY: &[&str] = &["1n", "100u", "1e3", "1k", "0.0001", "2e-1", "+1", "00.5", "7", ".5"];

const MEMORY: &[&str] = &[
    "64Mi",
    "128Mi",
    "0.5Gi",
    "1Gi",
    "1500M",
    "2Gi",
    "1.5Gi",
    "200Mi",
    "209715200",
    "0",
    "1e9",
    "100k",
    "3Gi",
];
// The sum over a node's pods stays below 8Ei. Above that, kube-scheduler's integers overflow and its scores become
// invalid; nobody relies on invalid scores.
const MEMORY_NASTY: &[&str] = &["1", "128974848000m", "0.1Ki", "1m", "1Ei", "1.5", "1e12", "123456789"];

/// Memory requests that are not a whole number of bytes.
pub(super) const FRACTIONS: [&str; 3] = ["0.1Ki", "1m", "1.5"];

/// Picks a CPU request.
pub(super) fn cpu(random: &mut Random) -> &'static str {
    if random.chance(8) { random.pick::<&str>(CPU_NASTY) } else { random.pick::<&str>(CPU) }
}

/// Picks a memory or ephemeral-storage request.
pub(super) fn memory(random: &mut Random) -> &'static str {
    if random.chance(8) { random.pick::<&str>(MEMORY_NASTY) } else { random.pick::<&str>(MEMORY) }
}

/// Picks a request that kube-apiserver always accepts.
pub(super) fn plain(random: &mut Random, resource: &str) -> &'static str {
    match resource {
        "cpu" => random.pick::<&str>(CPU),
        _ => random.pick::<&str>(MEMORY),
    }
}
