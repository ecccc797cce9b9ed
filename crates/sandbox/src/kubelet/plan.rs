//! The next step of a kubelet for a pod, according to the pod's status and annotations.

use std::time::Duration;

use harbormaster_api::args::GoDuration;
use serde_json::Value;

use super::status::{is_backing_off, restarts};
use crate::{
    Pace,
    fields::{annotation, controller, is_ending, is_ready, name, text},
};

/// Annotation of a pod that may finish: its running time, such as `90s` or `1m30s`.
pub const RUN_FOR: &str = "sandbox.harbormaster.dev/run-for";
/// Annotation of a pod that fails: the time from each start of its containers until they exit with code 1.
pub const FAIL_AFTER: &str = "sandbox.harbormaster.dev/fail-after";
/// Annotation of a slow pod: the time from the start of its containers until they are ready, or `never`.
pub const READY_AFTER: &str = "sandbox.harbormaster.dev/ready-after";

/// Maximum time until a failed container is restarted.
const LONGEST_BACK_OFF: Duration = Duration::from_secs(300);
/// Running time after which a failed container is restarted immediately.
const LONG_RUN: Duration = Duration::from_secs(600);

/// An action of a kubelet on a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Start,
    /// Reports the pod as ready.
    Ready,
    /// Reports the pod as not ready.
    Unready,
    /// Makes the containers end with an error.
    Fail,
    /// Restarts the containers.
    Restart,
    Finish,
    End,
}

/// An action on a pod, and the pod's number of restarts when the action was planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) act: Action,
    restarts: i64,
}

/// State of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeState {
    /// The node works.
    Ready,
    /// The kubelet works and reports that the node is not ready.
    NotReady,
    /// The kubelet no longer reports.
    Silent,
    /// The node does not exist.
    Missing,
}

/// Returns the next step of a pod, and the time until it is due.
pub(super) fn next(pod: &Value, node: NodeState, pace: Pace) -> Option<(Step, Duration)> {
    if text(pod, "/spec/nodeName").is_empty() || node == NodeState::Silent {
        return None;
    }
    let (act, delay) = match text(pod, "/status/phase") {
        _ if is_ending(pod) => (Action::End, pace.stop),
        // A node that does not exist has no kubelet that could start the pod.
        "Pending" if node != NodeState::Missing => (Action::Start, pace.start),
        "Running" if is_backing_off(pod) => (Action::Restart, back_off(restarts(pod))),
        "Running" => running(pod, node, pace)?,
        _ => return None,
    };
    Some((Step { act, restarts: restarts(pod) }, delay))
}

/// Returns the next action on a pod whose containers run, and the time until it is due.
fn running(pod: &Value, node: NodeState, pace: Pace) -> Option<(Action, Duration)> {
    let ready_after = ready_after(pod);
    let readiness = match (is_ready(pod), ready_after) {
        (true, Readiness::Never) => Some((Action::Unready, Duration::ZERO)),
        (false, Readiness::After(delay)) if node == NodeState::Ready => Some((Action::Ready, delay)),
        _ => None,
    };
    // A ready pod has already run for the time that it took to become ready.
    let gone = match ready_after {
        Readiness::After(delay) if is_ready(pod) => delay,
        _ => Duration::ZERO,
    };
    let end = [
        fail_after(pod).map(|after| (Action::Fail, after)),
        run_time(pod, pace).map(|of| (Action::Finish, of)),
    ];
    let end = end.into_iter().flatten().map(|(act, delay)| (act, delay.saturating_sub(gone)));
    end.chain(readiness).min_by_key(|(_, delay)| *delay)
}

/// Time from the start of a pod's containers until the pod becomes ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Readiness {
    After(Duration),
    Never,
}

fn ready_after(pod: &Value) -> Readiness {
    match annotation(pod, READY_AFTER) {
        Some("never") => Readiness::Never,
        _ => Readiness::After(duration(pod, READY_AFTER).unwrap_or_default()),
    }
}

/// Returns true if a pod is ready as soon as its containers run.
pub(super) fn is_ready_at_once(pod: &Value) -> bool {
    ready_after(pod) == Readiness::After(Duration::ZERO)
}

fn fail_after(pod: &Value) -> Option<Duration> {
    duration(pod, FAIL_AFTER)
}

/// Returns the running time of a pod that may finish on its own.
fn run_time(pod: &Value, pace: Pace) -> Option<Duration> {
    if text(pod, "/spec/restartPolicy") == "Always" {
        return None;
    }
    let of_jobs = || {
        let owner = controller(pod).filter(|owner| owner["kind"] == "Job");
        // A pod that is supposed to fail does not succeed first.
        owner.filter(|_| annotation(pod, FAIL_AFTER).is_none()).map(|_| pace.run_for)
    };
    // An annotation that is not a duration is logged and has no effect.
    duration(pod, RUN_FOR).or_else(of_jobs)
}

fn duration(pod: &Value, key: &str) -> Option<Duration> {
    let given = annotation(pod, key)?;
    match given.parse::<GoDuration>() {
        Ok(given) => Some(given.to_std()),
        Err(error) => {
            tracing::warn!(pod = name(pod), err = %error, "The annotation {key} is not a duration");
            None
        }
    }
}

/// Returns true if a failed pod is restarted without a pause.
pub(super) fn restarts_at_once(pod: &Value) -> bool {
    restarts(pod) == 0 || fail_after(pod).is_some_and(|after| after >= LONG_RUN)
}

/// Returns the pause before the next restart, after the given number of restarts.
pub(super) fn back_off(restarts: i64) -> Duration {
    let doublings = u32::try_from(restarts.saturating_sub(1)).unwrap_or(0).min(5);
    (Duration::from_secs(10) * (1 << doublings)).min(LONGEST_BACK_OFF)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PACE: Pace = Pace {
        start: Duration::from_secs(1),
        stop: Duration::from_secs(2),
        run_for: Duration::from_secs(30),
    };

    fn pod(annotations: &Value, phase: &str, ready: bool) -> Value {
        let status = if ready { "True" } else { "False" };
        json!({
            "metadata": {"annotations": annotations},
            "spec": {"nodeName": "n", "restartPolicy": "OnFailure"},
            "status": {"phase": phase, "conditions": [{"type": "Ready", "status": status}]},
        })
    }

    fn planned(pod: &Value, node: NodeState) -> Option<(Action, u64)> {
        next(pod, node, PACE).map(|(step, delay)| (step.act, delay.as_secs()))
    }

    #[test]
    fn the_action_due_first_comes_first() {
        let fails = json!({FAIL_AFTER: "20s"});
        let slow = json!({FAIL_AFTER: "20s", READY_AFTER: "5s"});
        let late = json!({FAIL_AFTER: "20s", READY_AFTER: "1m"});
        let never = json!({READY_AFTER: "never"});
        let short = json!({FAIL_AFTER: "20s", RUN_FOR: "10s"});
        let running =
            |annotations: &Value, ready| planned(&pod(annotations, "Running", ready), NodeState::Ready);
        for (annotations, ready, expected) in [
            (&fails, true, Some((Action::Fail, 20))),
            (&slow, false, Some((Action::Ready, 5))),
            (&slow, true, Some((Action::Fail, 15))),
            (&late, false, Some((Action::Fail, 20))),
            (&never, true, Some((Action::Unready, 0))),
            (&never, false, None),
            (&short, true, Some((Action::Finish, 10))),
            (&json!({}), false, Some((Action::Ready, 0))),
            (&json!({}), true, None),
        ] {
            assert_eq!(running(annotations, ready), expected, "{annotations} {ready}");
        }
    }

    #[test]
    fn pods_of_jobs_finish_unless_they_are_supposed_to_fail() {
        for (annotations, expected) in [
            (json!({}), (Action::Finish, 30)),
            (json!({FAIL_AFTER: "1h"}), (Action::Fail, 3600)),
            (json!({FAIL_AFTER: "1h", RUN_FOR: "1m"}), (Action::Finish, 60)),
            (json!({RUN_FOR: "soon"}), (Action::Finish, 30)),
        ] {
            let mut pod = pod(&annotations, "Running", true);
            pod["metadata"]["ownerReferences"] = json!([{"kind": "Job", "controller": true}]);
            assert_eq!(planned(&pod, NodeState::Ready), Some(expected), "{annotations}");
        }
    }

    #[test]
    fn the_next_step_depends_on_the_state_of_the_node() {
        let plain = json!({});
        let mut ending = pod(&plain, "Running", true);
        ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        for (node, expected) in [
            (NodeState::Ready, [Some((Action::Start, 1)), Some((Action::Ready, 0)), Some((Action::End, 2))]),
            (NodeState::NotReady, [Some((Action::Start, 1)), None, Some((Action::End, 2))]),
            (NodeState::Silent, [None, None, None]),
            (NodeState::Missing, [None, None, Some((Action::End, 2))]),
        ] {
            let pods = [pod(&plain, "Pending", false), pod(&plain, "Running", false), ending.clone()];
            assert_eq!(pods.map(|pod| planned(&pod, node)), expected, "{node:?}");
        }
    }

    #[test]
    fn the_back_off_doubles_up_to_five_minutes() {
        let seconds: Vec<u64> = [1, 2, 3, 4, 5, 6, 100].into_iter().map(|n| back_off(n).as_secs()).collect();
        assert_eq!(seconds, [10, 20, 40, 80, 160, 300, 300]);
    }
}
