//! Jobs: they create pods until enough have succeeded or too many have failed.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use harbormaster_api::Timestamp;
use serde_json::{Value, json};

use super::{
    ControllerContext, MOST_AT_ONCE, OwnedObjects,
    job_groups::{OwnedGroups, join},
    pod_control::{EventWording, PodControl},
    pod_of, write_status,
};
use crate::{
    events::Kind,
    fields::{
        condition, is_ending, is_finished, is_ready, list, name, now, number, set_condition, text, uid,
    },
    mirror::Mirror,
    sandbox::carry_on,
};

/// Pause after the first failed pod. Each further failure doubles the pause.
const PAUSE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);
/// Pause after the API server has refused the group of a Job's pods.
const PAUSE_WITHOUT_GROUP: Duration = Duration::from_secs(5);

/// Stand-in for the Job controller.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    /// Jobs that have not ended. Keyed by UID.
    tried: HashMap<String, JobHistory>,
}

/// The history of a job that has not ended.
#[derive(Debug)]
struct JobHistory {
    began: Timestamp,
    failed: usize,
    /// End of the pause after a failure. No pod is created until then.
    pause: Option<Timestamp>,
}

/// Pods of a job.
struct Pods<'a> {
    active: Vec<&'a Value>,
    /// True if some pods are still being deleted.
    is_ending: bool,
    succeeded: usize,
    failed: usize,
}

/// Reason and message of a failed job's condition.
type Failure = (&'static str, &'static str);

const TOO_MANY: Failure = ("BackoffLimitExceeded", "Job has reached the specified backoff limit");
const TOO_LONG: Failure = ("DeadlineExceeded", "Job was active longer than specified deadline");

impl Jobs {
    /// Takes one step for every job that has not ended. Returns the time at which the next step is due even if
    /// nothing changes.
    pub(super) fn reconcile(
        &mut self,
        tools: &ControllerContext,
        jobs: &Mirror,
        pods: &OwnedObjects<'_>,
        groups: Option<&OwnedGroups<'_>>,
    ) -> Option<Timestamp> {
        let now = tools.clock.now();
        let has_ended = |job: &Value| ["Complete", "Failed"].iter().any(|end| condition(job, end).is_some());
        let open: Vec<&Value> = jobs.all().filter(|job| !is_ending(job) && !has_ended(job)).collect();
        let known: HashSet<&str> = open.iter().map(|job| uid(job)).collect();
        self.tried.retain(|uid, _| known.contains(uid.as_str()));
        let step = |job: &&Value| {
            let control =
                PodControl { tools, component: "job-controller", owner: job, words: EventWording::Usual };
            let has_pods = !pods.of(job).is_empty();
            match groups.map_or(Ok(None), |groups| groups.ensure(&control, has_pods)) {
                Ok(group) => self.step(&control, &Pods::of(job, pods), group.as_ref(), now),
                Err(failure) => {
                    tracing::warn!(err = %failure, job = name(job), "The pods of a Job get no group");
                    Some(now + PAUSE_WITHOUT_GROUP)
                }
            }
        };
        open.iter().filter_map(step).min()
    }

    /// Takes one step for a job. Returns the time of the next step.
    fn step(
        &mut self,
        control: &PodControl<'_>,
        pods: &Pods<'_>,
        group: Option<&Value>,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let (tools, job) = (control.tools, control.owner);
        let tried = self.tried.entry(uid(job).to_owned()).or_insert_with(|| JobHistory {
            began: now,
            failed: pods.failed,
            pause: None,
        });
        if pods.failed > tried.failed {
            tried.pause = Some(now + pause(pods.failed));
        }
        tried.failed = pods.failed;
        tried.pause = tried.pause.filter(|end| *end > now);
        let deadline = seconds(job, "activeDeadlineSeconds").map(|seconds| tried.began + seconds);
        let failure = failure(job, pods, deadline.is_some_and(|deadline| deadline <= now));
        if let Some((reason, message)) = failure {
            if condition(job, "FailureTarget").is_none() {
                control.tell(Kind::Warning, reason, message);
            }
            pods.active.iter().for_each(|pod| control.delete(pod));
        } else {
            let wanted = if tried.pause.is_some() { 0 } else { wanted(job, pods.succeeded) };
            for _ in pods.active.len()..wanted.min(pods.active.len() + MOST_AT_ONCE) {
                carry_on("The Job controller", control.create(pod(job, group)));
            }
            if job["spec"]["suspend"] == true {
                pods.active.iter().for_each(|pod| control.delete(pod));
            }
            if pods.complete(job) {
                control.tell(Kind::Normal, "Completed", "Job completed");
            }
        }
        write_status(&tools.store, "jobs.batch", job, |job| status(job, pods, failure));
        tried.pause.into_iter().chain(deadline.filter(|at| *at > now)).min()
    }
}

impl<'a> Pods<'a> {
    fn of(job: &Value, pods: &OwnedObjects<'a>) -> Self {
        let own = pods.of(job);
        let in_phase = |phase: &str| own.iter().filter(|pod| text(pod, "/status/phase") == phase).count();
        Self {
            active: own.iter().copied().filter(|pod| !is_ending(pod) && !is_finished(pod)).collect(),
            is_ending: own.iter().any(|pod| is_ending(pod)),
            succeeded: in_phase("Succeeded"),
            failed: in_phase("Failed"),
        }
    }

    fn complete(&self, job: &Value) -> bool {
        match count(job, "completions") {
            Some(completions) => self.succeeded >= completions,
            None => self.succeeded > 0 && self.active.is_empty(),
        }
    }
}

fn status(job: &mut Value, pods: &Pods<'_>, failure: Option<Failure>) {
    let ready = pods.active.iter().filter(|pod| is_ready(pod)).count();
    for (field, value) in [
        ("active", pods.active.len()),
        ("ready", ready),
        ("succeeded", pods.succeeded),
        ("failed", pods.failed),
    ] {
        job["status"][field] = json!(value);
    }
    if !job["status"]["startTime"].is_string() {
        job["status"]["startTime"] = now().into();
    }
    if let Some((reason, message)) = failure {
        set_condition(job, "FailureTarget", true, reason, message);
        if pods.active.is_empty() && !pods.is_ending {
            set_condition(job, "Failed", true, reason, message);
        }
    } else if pods.complete(job) {
        job["status"]["completionTime"] = now().into();
        set_condition(
            job,
            "Complete",
            true,
            "CompletionsReached",
            "Reached expected number of succeeded pods",
        );
    }
}

/// Returns the failure of a job, if any. A job that has begun to fail keeps its reason.
fn failure(job: &Value, pods: &Pods<'_>, is_late: bool) -> Option<Failure> {
    if let Some(condition) = condition(job, "FailureTarget") {
        return Some(if text(condition, "/reason") == TOO_LONG.0 { TOO_LONG } else { TOO_MANY });
    }
    let limit = count(job, "backoffLimit").unwrap_or(6);
    // A pod that restarts its failed containers does not fail itself, so restarts are counted.
    let restarts = |pod: &&Value| -> i64 {
        let statuses = list(pod, "/status/containerStatuses").iter();
        statuses.filter_map(|status| number(status, "/restartCount")).sum()
    };
    let restarts = usize::try_from(pods.active.iter().map(restarts).sum::<i64>()).unwrap_or(0);
    let in_place = text(job, "/spec/template/spec/restartPolicy") == "OnFailure";
    if pods.failed > limit || (in_place && restarts > 0 && restarts >= limit) {
        return Some(TOO_MANY);
    }
    is_late.then_some(TOO_LONG)
}

/// Returns the pause after a number of failed pods.
fn pause(failed: usize) -> Duration {
    let doublings = u32::try_from(failed.saturating_sub(1)).unwrap_or(u32::MAX).min(6);
    (PAUSE * (1 << doublings)).min(LONGEST_PAUSE)
}

fn seconds(job: &Value, field: &str) -> Option<Duration> {
    u64::try_from(number(&job["spec"], &format!("/{field}"))?).ok().map(Duration::from_secs)
}

fn count(job: &Value, field: &str) -> Option<usize> {
    usize::try_from(number(&job["spec"], &format!("/{field}"))?).ok()
}

/// Returns the number of pods that should run concurrently.
fn wanted(job: &Value, succeeded: usize) -> usize {
    if job["spec"]["suspend"] == true {
        return 0;
    }
    let parallelism = count(job, "parallelism").unwrap_or(1);
    match count(job, "completions") {
        Some(completions) => parallelism.min(completions.saturating_sub(succeeded)),
        // One successful pod means that the work is done.
        None if succeeded > 0 => 0,
        None => parallelism,
    }
}

fn pod(job: &Value, group: Option<&Value>) -> Value {
    let mut pod = pod_of(job);
    if let Some(group) = group {
        join(&mut pod, group);
    }
    pod["metadata"]["generateName"] = format!("{}-", name(job)).into();
    for (label, value) in [
        ("batch.kubernetes.io/controller-uid", uid(job)),
        ("batch.kubernetes.io/job-name", name(job)),
        ("controller-uid", uid(job)),
        ("job-name", name(job)),
    ] {
        pod["metadata"]["labels"][label] = value.into();
    }
    pod
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods(active: Vec<&Value>, failed: usize) -> Pods<'_> {
        Pods { active, is_ending: false, succeeded: 0, failed }
    }

    #[test]
    fn a_job_fails_when_it_takes_too_long_or_more_pods_have_failed_than_its_limit_allows() {
        let job = json!({"spec": {"backoffLimit": 2}});
        assert_eq!(failure(&job, &pods(Vec::new(), 2), false), None);
        assert_eq!(failure(&job, &pods(Vec::new(), 3), false), Some(TOO_MANY));
        assert_eq!(failure(&job, &pods(Vec::new(), 0), true), Some(TOO_LONG));
        assert_eq!(failure(&json!({"spec": {}}), &pods(Vec::new(), 6), false), None);
    }

    #[test]
    fn restarts_of_containers_count_as_failures() {
        let template = json!({"spec": {"restartPolicy": "OnFailure"}});
        let restarted = json!({"status": {"containerStatuses": [{"restartCount": 2}]}});
        for (limit, expected) in [(0, Some(TOO_MANY)), (2, Some(TOO_MANY)), (3, None)] {
            let job = json!({"spec": {"backoffLimit": limit, "template": template}});
            assert_eq!(failure(&job, &pods(vec![&restarted], 0), false), expected, "{limit}");
        }
    }

    #[test]
    fn each_failure_doubles_the_pause_up_to_ten_minutes() {
        let seconds: Vec<u64> = [1, 2, 3, 6, 7, 100].into_iter().map(|n| pause(n).as_secs()).collect();
        assert_eq!(seconds, [10, 20, 40, 320, 600, 600]);
    }
}
