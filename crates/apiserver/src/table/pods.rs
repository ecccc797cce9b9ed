//! Cells of pods.

use harbormaster_api::Timestamp;
use serde_json::Value;

use super::since;
use crate::kinds::text;

/// What the statuses of a pod's containers come to.
struct Summary {
    ready: usize,
    total: usize,
    status: String,
    restarts: u64,
    /// When a container ended for the last time, in RFC 3339.
    restarted: String,
}

pub(super) fn ready(pod: &Value, _: Timestamp) -> Value {
    let summary = Summary::of(pod);
    format!("{}/{}", summary.ready, summary.total).into()
}

pub(super) fn status(pod: &Value, _: Timestamp) -> Value {
    Summary::of(pod).status.into()
}

pub(super) fn restarts(pod: &Value, now: Timestamp) -> Value {
    let Summary { restarts, restarted, .. } = Summary::of(pod);
    match since(Some(&Value::from(restarted)), now) {
        Some(Value::String(ago)) if restarts > 0 => format!("{restarts} ({ago} ago)").into(),
        _ => restarts.to_string().into(),
    }
}

pub(super) fn readiness_gates(pod: &Value, _: Timestamp) -> Value {
    let gates = list(pod, "/spec/readinessGates");
    if gates.is_empty() {
        return "<none>".into();
    }
    let open = gates.iter().filter(|gate| has_condition(pod, text(gate, "/conditionType")));
    format!("{}/{}", open.count(), gates.len()).into()
}

fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn has_condition(pod: &Value, name: &str) -> bool {
    let conditions = list(pod, "/status/conditions");
    conditions.iter().any(|c| text(c, "/type") == name && text(c, "/status") == "True")
}

fn is_true(value: &Value, pointer: &str) -> bool {
    value.pointer(pointer).and_then(Value::as_bool).unwrap_or(false)
}

/// Why a container ended.
fn ended(terminated: &Value) -> String {
    let number = |name: &str| terminated.get(name).and_then(Value::as_i64).unwrap_or(0);
    match (text(terminated, "/reason"), number("signal")) {
        ("", 0) => format!("ExitCode:{}", number("exitCode")),
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
            summary.restart_count(list(pod, "/status/initContainerStatuses"), &sidecars);
            summary.containers(pod);
        }
        if pod.pointer("/metadata/deletionTimestamp").is_some_and(|at| !at.is_null()) {
            if reason == "NodeLost" {
                summary.status = "Unknown".to_owned();
            } else if !matches!(phase, "Succeeded" | "Failed") {
                summary.status = "Terminating".to_owned();
            }
        }
        summary
    }

    /// Counts the restarts of sidecars only.
    fn restart_count(&mut self, statuses: &[Value], sidecars: &[&str]) {
        (self.restarts, self.restarted) = (0, String::new());
        for status in statuses.iter().filter(|status| sidecars.contains(&text(status, "/name"))) {
            self.count(status);
        }
    }

    fn count(&mut self, status: &Value) {
        self.restarts += status.get("restartCount").and_then(Value::as_u64).unwrap_or(0);
        let finished = text(status, "/lastState/terminated/finishedAt");
        if finished > self.restarted.as_str() {
            self.restarted = finished.to_owned();
        }
    }

    /// Whether the pod is still being initialized.
    fn init_containers(&mut self, pod: &Value, sidecars: &[&str], all: usize) -> bool {
        for (i, status) in list(pod, "/status/initContainerStatuses").iter().enumerate() {
            self.count(status);
            let terminated = status.pointer("/state/terminated").filter(|t| !t.is_null());
            let waiting = text(status, "/state/waiting/reason");
            let exit_code = terminated.and_then(|t| t.get("exitCode")).and_then(Value::as_i64).unwrap_or(0);
            if terminated.is_some() && exit_code == 0 {
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
            let terminated = status.pointer("/state/terminated").filter(|t| !t.is_null());
            let waiting = text(status, "/state/waiting/reason");
            if !waiting.is_empty() {
                self.status = waiting.to_owned();
            } else if let Some(terminated) = terminated {
                self.status = ended(terminated);
                if terminated.get("exitCode").and_then(Value::as_i64).unwrap_or(0) != 0 {
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
