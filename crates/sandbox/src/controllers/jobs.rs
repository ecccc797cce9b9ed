//! Jobs: pods until enough have succeeded.

use serde_json::{Value, json};

use super::{
    MOST_AT_ONCE, Owned, Tools,
    pod_control::{PodControl, Words},
    pod_of, write_status,
};
use crate::{
    events::Kind,
    fields::{condition, is_ending, is_finished, is_ready, name, now, number, set_condition, text, uid},
    mirror::Mirror,
    sandbox::carry_on,
};

pub(super) fn reconcile(tools: &Tools, jobs: &Mirror, pods: &Owned<'_>) {
    for job in jobs.all().filter(|job| !is_ending(job) && condition(job, "Complete").is_none()) {
        let control = PodControl { tools, component: "job-controller", owner: job, words: Words::Usual };
        let own = pods.of(job);
        let active: Vec<&Value> =
            own.iter().copied().filter(|pod| !is_ending(pod) && !is_finished(pod)).collect();
        let in_phase = |phase: &str| own.iter().filter(|pod| text(pod, "/status/phase") == phase).count();
        let (succeeded, failed) = (in_phase("Succeeded"), in_phase("Failed"));
        let wanted = wanted(job, succeeded);
        for _ in active.len()..wanted.min(active.len() + MOST_AT_ONCE) {
            carry_on("The Job controller", control.create(pod(job)));
        }
        if job["spec"]["suspend"] == true {
            active.iter().for_each(|pod| control.delete(pod));
        }
        if is_complete(job, succeeded, active.len()) {
            control.tell(Kind::Normal, "Completed", "Job completed");
        }
        write_status(&tools.store, "jobs.batch", job, |job| {
            let ready = active.iter().filter(|pod| is_ready(pod)).count();
            for (field, value) in
                [("active", active.len()), ("ready", ready), ("succeeded", succeeded), ("failed", failed)]
            {
                job["status"][field] = json!(value);
            }
            if !job["status"]["startTime"].is_string() {
                job["status"]["startTime"] = now().into();
            }
            if is_complete(job, succeeded, active.len()) {
                job["status"]["completionTime"] = now().into();
                set_condition(
                    job,
                    "Complete",
                    true,
                    "CompletionsReached",
                    "Reached expected number of succeeded pods",
                );
            }
        });
    }
}

fn count(job: &Value, field: &str) -> Option<usize> {
    usize::try_from(number(&job["spec"], &format!("/{field}"))?).ok()
}

/// How many pods are to run at a time.
fn wanted(job: &Value, succeeded: usize) -> usize {
    if job["spec"]["suspend"] == true {
        return 0;
    }
    let parallelism = count(job, "parallelism").unwrap_or(1);
    match count(job, "completions") {
        Some(completions) => parallelism.min(completions.saturating_sub(succeeded)),
        // One that has succeeded says that the work is done.
        None if succeeded > 0 => 0,
        None => parallelism,
    }
}

fn is_complete(job: &Value, succeeded: usize, active: usize) -> bool {
    match count(job, "completions") {
        Some(completions) => succeeded >= completions,
        None => succeeded > 0 && active == 0,
    }
}

fn pod(job: &Value) -> Value {
    let mut pod = pod_of(job);
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
