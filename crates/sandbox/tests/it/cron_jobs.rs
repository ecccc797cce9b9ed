//! CronJobs start Jobs according to a clock that tests move.

use super::*;

const HOUR: Duration = Duration::from_secs(3600);

/// Returns an hourly CronJob whose pods run for the given time.
fn cron_job(run_for: &str, change: &Value) -> Value {
    let mut spec = json!({"schedule": "@hourly", "jobTemplate": {"spec": {"template": {
        "metadata": {"annotations": {"sandbox.harbormaster.dev/run-for": run_for}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}});
    for (field, value) in change.as_object().unwrap() {
        spec[field] = value.clone();
    }
    json!({"metadata": {"name": "tick"}, "spec": spec})
}

fn names(sandbox: &Sandbox) -> Vec<String> {
    let (jobs, _) = sandbox.store().list("jobs.batch", "", "", "").unwrap();
    jobs.iter().map(|job| job.name().to_owned()).collect()
}

fn reasons(sandbox: &Sandbox) -> Vec<String> {
    let (events, _) = sandbox.store().list("events", "", "", "involvedObject.kind=CronJob").unwrap();
    let mut all: Vec<String> =
        events.iter().map(|event| event.value()["reason"].as_str().unwrap().to_owned()).collect();
    all.sort();
    all.dedup();
    all
}

fn active(sandbox: &Sandbox) -> usize {
    let status = read(sandbox, "cronjobs.batch", "tick")["status"].clone();
    status["active"].as_array().map_or(0, Vec::len)
}

async fn ticking(run_for: &str, change: &Value) -> (Sandbox, harbormaster_sandbox::Clock) {
    let options = options(1, "");
    let clock = options.clock.clone();
    let sandbox = Sandbox::start(options).await.unwrap();
    sandbox.store().create("cronjobs.batch", cron_job(run_for, change)).unwrap();
    (sandbox, clock)
}

#[tokio::test]
async fn a_job_starts_every_hour_and_the_last_three_are_kept() {
    let (sandbox, clock) = ticking("1ms", &json!({})).await;
    let mut seen = Vec::new();
    for hour in 1..=5 {
        clock.advance(HOUR);
        eventually(|| names(&sandbox).iter().any(|name| !seen.contains(name))).await;
        seen.extend(names(&sandbox));
        eventually(|| active(&sandbox) == 0).await;
        eventually(|| names(&sandbox).len() == hour.min(3)).await;
    }
    let status = read(&sandbox, "cronjobs.batch", "tick")["status"].clone();
    assert!(status["lastScheduleTime"].as_str().unwrap().ends_with(":00:00Z"), "{status}");
    assert!(status["lastSuccessfulTime"].is_string(), "{status}");
    let job = read(&sandbox, "jobs.batch", &names(&sandbox)[2]);
    let time = &job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"];
    assert_eq!(
        (time, &job["metadata"]["ownerReferences"][0]["name"]),
        (&status["lastScheduleTime"], &json!("tick"))
    );
    assert_eq!(reasons(&sandbox), ["SawCompletedJob", "SuccessfulCreate", "SuccessfulDelete"]);
    sandbox.store().delete("cronjobs.batch", "default", "tick", None).unwrap();
    eventually(|| names(&sandbox).is_empty()).await;
    eventually(|| sandbox.store().list("pods", "", "", "").unwrap().0.is_empty()).await;
}

#[tokio::test]
async fn the_concurrency_policy_decides_what_happens_if_a_job_is_still_running() {
    for (policy, jobs) in [("Allow", 2), ("Forbid", 1), ("Replace", 1)] {
        let (sandbox, clock) = ticking("1h", &json!({"concurrencyPolicy": policy})).await;
        clock.advance(HOUR);
        eventually(|| active(&sandbox) == 1).await;
        let first = names(&sandbox);
        clock.advance(HOUR);
        match policy {
            "Forbid" => eventually(|| reasons(&sandbox).contains(&"JobAlreadyActive".to_owned())).await,
            _ => eventually(|| names(&sandbox).last() != first.last()).await,
        }
        eventually(|| names(&sandbox).len() == jobs && active(&sandbox) == jobs).await;
        assert_eq!(names(&sandbox).contains(&first[0]), policy != "Replace", "{policy}");
    }
}

#[tokio::test]
async fn a_cron_job_that_is_suspended_or_late_or_invalid_starts_nothing() {
    for change in [
        json!({"suspend": true}),
        json!({"schedule": "59 23 31 2 *"}),
        json!({"timeZone": "Atlantis/Capital"}),
    ] {
        let (sandbox, clock) = ticking("1ms", &change).await;
        clock.advance(HOUR);
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(names(&sandbox), [""; 0], "{change}");
    }
    let (sandbox, clock) = ticking("1ms", &json!({"suspend": true, "startingDeadlineSeconds": 10})).await;
    let since = clock.now().0 / 3_600_000_000_000 * 3600 + 3600 + 1800;
    let now = clock.now().0 / 1_000_000_000;
    clock.advance(Duration::from_secs(u64::try_from(since - now).unwrap()));
    change(&sandbox, "cronjobs.batch", "tick", &json!({"spec": {"suspend": false}}));
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(names(&sandbox), [""; 0], "half an hour late");
    change(&sandbox, "cronjobs.batch", "tick", &json!({"spec": {"startingDeadlineSeconds": 3600}}));
    eventually(|| names(&sandbox).len() == 1).await;
}
