//! Pod status as a kubelet writes it.

use serde_json::{Value, json};

/// Half the number of seconds within which all pods start; a prime number.
const SPAN: u64 = 100_003;

/// The status of a running `pod`. The start time depends only on the pod's name, and no two pods of a script have the
/// same start time, because preemption may choose a node by the start times of its pods.
pub(super) fn running_status(pod: &str) -> Value {
    json!({
        "phase": "Running",
        "startTime": start_time(pod),
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2025-06-01T00:00:00Z"}],
    })
}

/// The start time of a pod, derived from the number at the end of its name. Pods created without a node and pods
/// created on one are numbered separately.
fn start_time(pod: &str) -> String {
    let number: u64 = pod.rsplit('-').next().and_then(|digits| digits.parse().ok()).unwrap_or(0);
    // A prime modulus keeps numbers different and shuffles them.
    let seconds = (number * 7919 % SPAN) * 2 + u64::from(pod.starts_with("bound"));
    let (day, hour, minute) = (seconds / 86_400 + 1, seconds / 3600 % 24, seconds / 60 % 60);
    format!("2025-06-{day:02}T{hour:02}:{minute:02}:{:02}Z", seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn all_pods_of_a_script_have_different_start_times() {
        let names = (0..5000).flat_map(|n| [format!("pod-{}-{n}", n % 7), format!("bound-{n}")]);
        let times: BTreeSet<String> = names.map(|name| start_time(&name)).collect();
        assert_eq!(times.len(), 10_000);
        assert!(times.iter().all(|time| time.starts_with("2025-06-0") && time.len() == 20));
    }
}
