//! Cells of pods.

use harbormaster_api::Timestamp;
use serde_json::Value;

use super::since;
use crate::value::{has_condition, is_true, list, number, present, text};

/// Summary of the statuses of a pod's containers.
struct Summary {
    ready: usize,
    total: usize,
    status: String,
    restarts: i64,
    /// Latest time at which a container ended before it was restarted, in RFC 3339 format.
    restarted: String,
}

pub(super) fn ready(pod: &Value) -> String {
    let summary = Summary::of(pod);
    format!("{}/{}", summary.ready, summary.total)
}

pub(super) fn status(pod: &Value) -> String {
    Summary::of(pod).status
}

pub(super) fn restarts(pod: &Value, now: Timestamp) -> Value {
    let Summary { restarts, restarted, .. } = Summary::of(pod);
    match since(&restarted, now) {
        Some(Value::String(ago)) if restarts > 0 => format!("{restarts} ({ago} ago)").into(),
        _ => restarts.to_string().into(),
    }
}

pub(super) fn readiness_gates(pod: &Value) -> String {
    let gates = list(pod, "/spec/readinessGates");
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let open = gates.iter().filter(|gate| has_condition(pod, text(gate, "/conditionType")));
    format!("{}/{}", open.count(), gates.len())
}

/// Returns the reason why a container ended.
fn ended(terminated: &Value) -> String {
    match (text(terminated, "/reason"), number(terminated, "/signal")) {
        ("", 0) => format!("ExitCode:{}", number(terminated, "/exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

impl Summary {
    fn of(pod: &Value) -> Self {
        let gated = list(pod, "/status/conditions")
            .iter()
            .any(|c| text(c, "/type") == "PodScheduled" && text(c, "/reason") == "SchedulingGated");
        let (phase, reason) = (text(pod, "/status/phase"), text(pod, "/status/reason"));
        let status = match (gated, reason) {
            (true, _) => "SchedulingGated",
            (_, "") => phase,
            (_, reason) => reason,
        };
        let init = list(pod, "/spec/initContainers");
        let sidecars: Vec<&str> = init
            .iter()
            .filter(|container| text(container, "/restartPolicy") == "Always")
            .map(|container| text(container, "/name"))
            .collect();
        let mut summary = Self {
            ready: 0,
            total: list(pod, "/spec/containers").len() + sidecars.len(),
            status: status.to_owned(),
            restarts: 0,
            restarted: String::new(),
        };
        let initializing = summary.init_containers(pod, &sidecars, init.len());
        if !initializing || has_condition(pod, "Initialized") {
            // From here on, only the sidecars among the init containers count.
            (summary.restarts, summary.restarted) = (0, String::new());
            let statuses = list(pod, "/status/initContainerStatuses").iter();
            statuses.filter(|s| sidecars.contains(&text(s, "/name"))).for_each(|s| summary.count(s));
            summary.containers(pod);
        }
        if present(pod, "/metadata/deletionTimestamp").is_some() {
            if reason == "NodeLost" {
                summary.status = "Unknown".to_owned();
            } else if !matches!(phase, "Succeeded" | "Failed") {
                summary.status = "Terminating".to_owned();
            }
        }
        summary
    }

    fn count(&mut self, status: &Value) {
        self.restarts += number(status, "/restartCount");
        let finished = text(status, "/lastState/terminated/finishedAt");
        if finished > self.restarted.as_str() {
            self.restarted = finished.to_owned();
        }
    }

    /// Summarizes the init containers. Returns true if the pod is still being initialized.
    fn init_containers(&mut self, pod: &Value, sidecars: &[&str], all: usize) -> bool {
        for (i, status) in list(pod, "/status/initContainerStatuses").iter().enumerate() {
            self.count(status);
            let terminated = present(status, "/state/terminated");
            let waiting = text(status, "/state/waiting/reason");
            if terminated.is_some_and(|terminated| number(terminated, "/exitCode") == 0) {
                continue;
            }
            if sidecars.contains(&text(status, "/name")) && is_true(status, "/started") {
                self.ready += usize::from(is_true(status, "/ready"));
                continue;
            }
            self.status = match (terminated, waiting) {
                (Some(terminated), _) => format!("Init:{}", ended(terminated)),
                (None, "" | "PodInitializing") => format!("Init:{i}/{all}"),
                (None, reason) => format!("Init:{reason}"),
            };
            return true;
        }
        false
    }

    fn containers(&mut self, pod: &Value) {
        let (mut running, mut error) = (false, None);
        for status in list(pod, "/status/containerStatuses").iter().rev() {
            self.count(status);
            let terminated = present(status, "/state/terminated");
            let waiting = text(status, "/state/waiting/reason");
            if !waiting.is_empty() {
                self.status = waiting.to_owned();
            } else if let Some(terminated) = terminated {
                self.status = ended(terminated);
                if number(terminated, "/exitCode") != 0 {
                    error = Some(self.status.clone());
                }
            } else if is_true(status, "/ready") && status.pointer("/state/running").is_some() {
                running = true;
                self.ready += 1;
            }
        }
        if self.status == "Completed" {
            self.status = match error {
                _ if running && has_condition(pod, "Ready") => "Running".to_owned(),
                Some(error) => error,
                None if running => "NotReady".to_owned(),
                None => "Completed".to_owned(),
            };
        }
    }
}
