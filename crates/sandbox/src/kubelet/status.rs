//! Status of a pod, as a kubelet writes it.

use serde_json::{Value, json};

use super::plan;
use crate::fields::{list, now, set_condition, text, uid};

/// Returns the number of restarts of the pod's container that was restarted most often.
pub(super) fn restarts(pod: &Value) -> i64 {
    let statuses = list(pod, "/status/containerStatuses").iter();
    statuses.filter_map(|status| status["restartCount"].as_i64()).max().unwrap_or(0)
}

/// Returns true if containers of a pod have failed and are waiting for their restart.
pub(super) fn is_backing_off(pod: &Value) -> bool {
    let mut statuses = list(pod, "/status/containerStatuses").iter();
    statuses.any(|status| text(status, "/state/waiting/reason") == "CrashLoopBackOff")
}

/// Makes a pod run. The pod is ready, unless its annotation delays that or its node is not ready.
pub(super) fn start(pod: &mut Value, ip: &str, host_ip: &str, node_is_ready: bool) {
    let started = now();
    let runs = json!({"running": {"startedAt": started}});
    let done = json!({"exitCode": 0, "reason": "Completed", "startedAt": started, "finishedAt": started});
    let done = json!({"terminated": done});
    let containers: Vec<Value> =
        list(pod, "/spec/containers").iter().map(|container| of_container(pod, container, &runs)).collect();
    let first: Vec<Value> = list(pod, "/spec/initContainers")
        .iter()
        .map(|container| {
            // Sidecars keep running.
            let runs_on = text(container, "/restartPolicy") == "Always";
            of_container(pod, container, if runs_on { &runs } else { &done })
        })
        .collect();
    let status = &mut pod["status"];
    status["phase"] = "Running".into();
    status["startTime"] = started.into();
    status["podIP"] = ip.into();
    status["podIPs"] = json!([{"ip": ip}]);
    status["hostIP"] = host_ip.into();
    status["hostIPs"] = json!([{"ip": host_ip}]);
    status["containerStatuses"] = containers.into();
    if !first.is_empty() {
        status["initContainerStatuses"] = first.into();
    }
    for condition in ["PodReadyToStartContainers", "Initialized"] {
        set_condition(pod, condition, true, "", "");
    }
    set_ready(pod, plan::is_ready_at_once(pod));
    if !node_is_ready {
        set_condition(pod, "Ready", false, "", "");
    }
}

fn of_container(pod: &Value, container: &Value, state: &Value) -> Value {
    let name = text(container, "/name");
    json!({
        "name": name, "image": container["image"], "imageID": format!("sandbox://{}", text(container, "/image")),
        "containerID": format!("sandbox://{}/{name}", uid(pod)), "restartCount": 0, "ready": true,
        "started": true, "state": state, "lastState": {},
    })
}

/// Marks either all containers of a running pod as ready, or none.
pub(super) fn set_ready(pod: &mut Value, ready: bool) {
    each_container(pod, |status| status["ready"] = ready.into());
    let names: Vec<&str> =
        list(pod, "/spec/containers").iter().map(|container| text(container, "/name")).collect();
    let why = format!("containers with unready status: [{}]", names.join(" "));
    for condition in ["Ready", "ContainersReady"] {
        match ready {
            true => set_condition(pod, condition, true, "", ""),
            false => set_condition(pod, condition, false, "ContainersNotReady", &why),
        }
    }
}

/// Makes the containers end with an error. Whether they are restarted depends on the pod's restart policy.
pub(super) fn fail(pod: &mut Value) {
    if text(pod, "/spec/restartPolicy") == "Never" {
        return end(pod, "Failed", 1, "Error", "PodFailed");
    }
    if plan::restarts_at_once(pod) {
        each_container(pod, |status| status["lastState"] = ended(&status["state"], 1, "Error"));
        return restart(pod);
    }
    let (namespace, name) = (text(pod, "/metadata/namespace"), text(pod, "/metadata/name"));
    let of = format!("{name}_{namespace}({})", uid(pod));
    let pause = plan::back_off(restarts(pod)).as_secs();
    let pause = if pause < 60 { format!("{pause}s") } else { format!("{}m{}s", pause / 60, pause % 60) };
    each_container(pod, |status| {
        let container = text(status, "/name");
        let message = format!("back-off {pause} restarting failed container={container} pod={of}");
        status["lastState"] = ended(&status["state"], 1, "Error");
        status["state"] = json!({"waiting": {"reason": "CrashLoopBackOff", "message": message}});
        status["started"] = false.into();
    });
    set_ready(pod, false);
}

/// Makes the containers run again.
pub(super) fn restart(pod: &mut Value) {
    let started = now();
    each_container(pod, |status| {
        status["state"] = json!({"running": {"startedAt": started}});
        status["restartCount"] = (status["restartCount"].as_i64().unwrap_or(0) + 1).into();
        status["started"] = true.into();
    });
    set_ready(pod, plan::is_ready_at_once(pod));
}

/// Makes the pod succeed.
pub(super) fn finish(pod: &mut Value) {
    end(pod, "Succeeded", 0, "Completed", "PodCompleted");
}

fn end(pod: &mut Value, phase: &str, code: i64, reason: &str, of_pod: &str) {
    each_container(pod, |status| {
        status["state"] = ended(&status["state"], code, reason);
        status["ready"] = false.into();
        status["started"] = false.into();
    });
    pod["status"]["phase"] = phase.into();
    for condition in ["Ready", "ContainersReady"] {
        set_condition(pod, condition, false, of_pod, "");
    }
}

/// Returns the state of a container that was running and has just ended.
fn ended(state: &Value, code: i64, reason: &str) -> Value {
    let began = text(state, "/running/startedAt");
    json!({"terminated": {"exitCode": code, "reason": reason, "startedAt": began, "finishedAt": now()}})
}

fn each_container(pod: &mut Value, change: impl Fn(&mut Value)) {
    let statuses = pod.pointer_mut("/status/containerStatuses").and_then(Value::as_array_mut);
    statuses.into_iter().flatten().for_each(change);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running(policy: &str) -> Value {
        let mut pod = json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "u"},
            "spec": {"restartPolicy": policy, "containers": [{"name": "c", "image": "i"}]},
            "status": {},
        });
        start(&mut pod, "10.244.0.2", "172.18.0.1", true);
        pod
    }

    fn condition<'a>(pod: &'a Value, name: &str) -> (&'a str, &'a str) {
        let all = list(pod, "/status/conditions");
        let found = all.iter().find(|condition| text(condition, "/type") == name).unwrap();
        (text(found, "/status"), text(found, "/reason"))
    }

    #[test]
    fn a_container_that_keeps_failing_waits_longer_and_longer() {
        let mut pod = running("Always");
        fail(&mut pod);
        assert_eq!(restarts(&pod), 1, "immediately the first time");
        assert!(!is_backing_off(&pod));
        for (restarted, pause) in
            [(1, "10s"), (2, "20s"), (3, "40s"), (4, "1m20s"), (5, "2m40s"), (6, "5m0s")]
        {
            fail(&mut pod);
            let status = pod["status"]["containerStatuses"][0].clone();
            let message = format!("back-off {pause} restarting failed container=c pod=web_shop(u)");
            assert_eq!(status["state"]["waiting"], json!({"reason": "CrashLoopBackOff", "message": message}));
            assert_eq!(status["lastState"]["terminated"]["exitCode"], 1);
            assert_eq!((restarts(&pod), is_backing_off(&pod)), (restarted, true));
            assert_eq!(condition(&pod, "Ready"), ("False", "ContainersNotReady"));
            assert_eq!(pod["status"]["phase"], "Running");
            restart(&mut pod);
            assert_eq!(condition(&pod, "Ready"), ("True", ""));
        }
    }

    #[test]
    fn a_pod_that_is_not_restarted_fails() {
        let mut pod = running("Never");
        fail(&mut pod);
        assert_eq!(pod["status"]["phase"], "Failed");
        assert_eq!(condition(&pod, "Ready"), ("False", "PodFailed"));
        assert_eq!(pod["status"]["containerStatuses"][0]["state"]["terminated"]["reason"], "Error");
        assert_eq!(restarts(&pod), 0);
    }
}
