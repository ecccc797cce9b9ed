//! Pods fail, restart repeatedly, or never become ready, as their annotations specify.

use harbormaster_sandbox::{Clock, FAIL_AFTER, READY_AFTER};

use super::*;

/// Returns a workload of the given kind whose pods have an annotation.
fn annotated(kind: &str, annotation: (&str, &str), more: &Value) -> Value {
    let mut spec = json!({"template": {
        "metadata": {"labels": {"app": "web"}, "annotations": {annotation.0: annotation.1}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }});
    if kind != "Job" {
        spec["selector"] = json!({"matchLabels": {"app": "web"}});
    }
    for (field, value) in more.as_object().unwrap() {
        match field.as_str() {
            "restartPolicy" => spec["template"]["spec"][field] = value.clone(),
            _ => spec[field] = value.clone(),
        }
    }
    json!({"metadata": {"name": "web"}, "spec": spec})
}

async fn with(resource: &str, object: Value) -> (Sandbox, Clock) {
    let options = options(2, "");
    let clock = options.clock.clone();
    let sandbox = Sandbox::start(options).await.unwrap();
    sandbox.store().create(resource, object).unwrap();
    (sandbox, clock)
}

fn condition(object: &Value, name: &str) -> Option<(String, String)> {
    let conditions = object["status"]["conditions"].as_array()?;
    let found = conditions.iter().find(|condition| condition["type"] == name)?;
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    Some((text("status"), text("reason")))
}

fn is(object: &Value, name: &str, status: &str, reason: &str) -> bool {
    condition(object, name) == Some((status.to_owned(), reason.to_owned()))
}

/// Returns the pods, ordered by name.
fn pods(sandbox: &Sandbox) -> Vec<Value> {
    let (pods, _) = sandbox.store().list("pods", "default", "", "").unwrap();
    pods.iter().map(|pod| pod.value()).collect()
}

fn in_phase(sandbox: &Sandbox, phase: &str) -> usize {
    pods(sandbox).iter().filter(|pod| pod["status"]["phase"] == phase).count()
}

#[tokio::test]
async fn a_job_whose_pods_fail_retries_after_a_pause_and_then_fails() {
    let more = json!({"backoffLimit": 1, "restartPolicy": "Never"});
    let (sandbox, clock) = with("jobs.batch", annotated("Job", (FAIL_AFTER, "1h"), &more)).await;
    let job = || read(&sandbox, "jobs.batch", "web");
    eventually(|| in_phase(&sandbox, "Running") == 1).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    clock.advance(Duration::from_secs(3601));
    eventually(|| job()["status"]["failed"] == 1).await;
    let failed = pods(&sandbox).remove(0);
    let ended = &failed["status"]["containerStatuses"][0]["state"]["terminated"];
    assert_eq!(
        (&failed["status"]["phase"], &ended["exitCode"], &ended["reason"]),
        (&json!("Failed"), &json!(1), &json!("Error"))
    );
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(pods(&sandbox).len(), 1, "the next pod comes after ten seconds");
    clock.advance(Duration::from_secs(11));
    eventually(|| in_phase(&sandbox, "Running") == 1).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    clock.advance(Duration::from_secs(3601));
    eventually(|| is(&job(), "Failed", "True", "BackoffLimitExceeded")).await;
    assert_eq!(pods(&sandbox).len(), 2);
    sandbox.stop().await.unwrap();
}

#[tokio::test]
async fn a_job_that_is_active_for_too_long_fails() {
    let more = json!({"activeDeadlineSeconds": 60, "restartPolicy": "Never"});
    let run_for = (harbormaster_sandbox::RUN_FOR, "24h");
    let (sandbox, clock) = with("jobs.batch", annotated("Job", run_for, &more)).await;
    eventually(|| in_phase(&sandbox, "Running") == 1).await;
    clock.advance(Duration::from_secs(61));
    eventually(|| is(&read(&sandbox, "jobs.batch", "web"), "Failed", "True", "DeadlineExceeded")).await;
    assert_eq!(pods(&sandbox).len(), 0);
    sandbox.stop().await.unwrap();
}

#[tokio::test]
async fn failed_containers_are_restarted_after_longer_and_longer_pauses() {
    let deployment = annotated("Deployment", (FAIL_AFTER, "1m"), &json!({}));
    let (sandbox, clock) = with("deployments.apps", deployment).await;
    let status = || {
        pods(&sandbox).first().map(|pod| pod["status"]["containerStatuses"][0].clone()).unwrap_or_default()
    };
    let has_run = async |restarts: i64| {
        eventually(|| status()["restartCount"] == restarts && status()["state"]["running"].is_object()).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        clock.advance(Duration::from_secs(61));
    };
    has_run(0).await;
    has_run(1).await;
    let waits = || status()["state"]["waiting"]["reason"] == "CrashLoopBackOff";
    eventually(waits).await;
    assert_eq!(status()["lastState"]["terminated"]["exitCode"], 1);
    eventually(|| read(&sandbox, "deployments.apps", "web")["status"]["availableReplicas"].is_null()).await;
    let (events, _) = sandbox.store().list("events", "default", "", "reason=BackOff").unwrap();
    let pod = &pods(&sandbox)[0]["metadata"];
    let told = format!(
        "Back-off restarting failed container c in pod {}_default({})",
        pod["name"].as_str().unwrap(),
        pod["uid"].as_str().unwrap()
    );
    assert_eq!(events[0].value()["message"], told);
    clock.advance(Duration::from_secs(11));
    has_run(2).await;
    eventually(waits).await;
    sandbox.stop().await.unwrap();
}

#[tokio::test]
async fn a_rollout_of_pods_that_never_become_ready_is_reported_as_stuck() {
    let more = json!({"replicas": 4, "progressDeadlineSeconds": 60});
    let healthy = annotated("Deployment", ("note", "none"), &more);
    let (mut sandbox, clock) = with("deployments.apps", healthy).await;
    let deployment = |sandbox: &Sandbox| read(sandbox, "deployments.apps", "web");
    assert!(sandbox.settled(LIMIT).await);
    assert!(is(&deployment(&sandbox), "Progressing", "True", "NewReplicaSetAvailable"));
    let patch = json!({"spec": {"template": {"metadata": {"annotations": {READY_AFTER: "never"}}}}});
    change(&sandbox, "deployments.apps", "web", &patch);
    eventually(|| pods(&sandbox).len() == 5).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(is(&deployment(&sandbox), "Progressing", "True", "ReplicaSetUpdated"));
    clock.advance(Duration::from_secs(61));
    eventually(|| is(&deployment(&sandbox), "Progressing", "False", "ProgressDeadlineExceeded")).await;
    assert_eq!(deployment(&sandbox)["status"]["availableReplicas"], 3, "the old pods stay");
    let unready = pods(&sandbox).into_iter().filter(|pod| is(pod, "Ready", "False", "ContainersNotReady"));
    assert_eq!(unready.count(), 2);

    let patch = json!({"spec": {"template": {"metadata": {"annotations": {READY_AFTER: null}}}}});
    change(&sandbox, "deployments.apps", "web", &patch);
    eventually(|| is(&deployment(&sandbox), "Progressing", "True", "NewReplicaSetAvailable")).await;
    sandbox.stop().await.unwrap();
}

#[tokio::test]
async fn a_pod_becomes_ready_late_and_unready_again_according_to_its_annotation() {
    let pod = json!({"metadata": {"name": "slow", "annotations": {READY_AFTER: "1m"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let (sandbox, clock) = with("pods", pod).await;
    let slow = || read(&sandbox, "pods", "slow");
    eventually(|| is(&slow(), "Ready", "False", "ContainersNotReady")).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    clock.advance(Duration::from_secs(61));
    eventually(|| is(&slow(), "Ready", "True", "")).await;
    change(&sandbox, "pods", "slow", &json!({"metadata": {"annotations": {READY_AFTER: "never"}}}));
    eventually(|| is(&slow(), "Ready", "False", "ContainersNotReady")).await;
    change(&sandbox, "pods", "slow", &json!({"metadata": {"annotations": {READY_AFTER: null}}}));
    eventually(|| is(&slow(), "Ready", "True", "")).await;
    sandbox.stop().await.unwrap();
}
