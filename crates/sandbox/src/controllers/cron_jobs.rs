//! CronJobs: a Job at each scheduled time.

mod cron;
mod schedule;

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use harbormaster_api::Timestamp;
use serde_json::{Value, json};

use self::schedule::{Complaint, Schedule};
use super::{ControllerContext, OwnedObjects, write_status};
use crate::{
    events::{Kind, Source},
    fields::{condition, is_ending, list, name, namespace, number, owned_by, text, uid},
    mirror::Mirror,
    sandbox::{carry_on, is_passing},
};

const COMPONENT: &str = "cronjob-controller";
const JOBS: &str = "jobs.batch";
const SCHEDULED_FOR: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";
/// Number of consecutive missed times that causes a warning.
const MANY: u64 = 100;

/// Stand-in for the CronJob controller.
#[derive(Debug, Default)]
pub(super) struct CronJobs {
    /// Keyed by UID: the generation of the CronJob and its parsed schedule.
    schedules: HashMap<String, (i64, Result<Schedule, Complaint>)>,
    /// Last reported problem of each CronJob, which is not reported again. Keyed by UID.
    complaints: HashMap<String, String>,
}

/// Part of a CronJob's status that describes its Jobs.
#[derive(Clone, Debug)]
struct Status {
    active: Vec<Value>,
    last_time: Value,
    last_success: Value,
}

impl CronJobs {
    /// Takes one step with every CronJob. Returns the time at which the next Job must start.
    pub(super) fn reconcile(
        &mut self,
        tools: &ControllerContext,
        cron_jobs: &Mirror,
        jobs: &OwnedObjects<'_>,
    ) -> Option<Timestamp> {
        let all: Vec<&Value> = cron_jobs.all().filter(|cron_job| !is_ending(cron_job)).collect();
        let uids: HashSet<&str> = all.iter().map(|cron_job| uid(cron_job)).collect();
        self.schedules.retain(|uid, _| uids.contains(uid.as_str()));
        self.complaints.retain(|uid, _| uids.contains(uid.as_str()));
        all.into_iter().filter_map(|cron_job| self.step(tools, cron_job, jobs.of(cron_job))).min()
    }

    fn step(&mut self, tools: &ControllerContext, cron_job: &Value, jobs: &[&Value]) -> Option<Timestamp> {
        let mut status = followed_up(tools, cron_job, jobs);
        clean_up(tools, cron_job, jobs);
        let next = match self.schedule(cron_job) {
            _ if cron_job["spec"]["suspend"] == true => None,
            Err(complaint) => {
                self.complain(tools, cron_job, complaint);
                None
            }
            Ok(schedule) => {
                let now = tools.clock.now();
                self.start(tools, cron_job, jobs, &schedule, now, &mut status);
                schedule.next(now)
            }
        };
        write_status(&tools.store, "cronjobs.batch", cron_job, |cron_job| status.write(cron_job));
        next
    }

    /// Returns the schedule of a CronJob, which is parsed once per generation.
    fn schedule(&mut self, cron_job: &Value) -> Result<Schedule, Complaint> {
        let generation = number(cron_job, "/metadata/generation").unwrap_or(0);
        let known = self.schedules.get(uid(cron_job)).filter(|(of, _)| *of == generation);
        if let Some((_, schedule)) = known {
            return schedule.clone();
        }
        let schedule = Schedule::of(cron_job);
        self.schedules.insert(uid(cron_job).to_owned(), (generation, schedule.clone()));
        schedule
    }

    /// Starts the Job for the last scheduled time that has passed, if that time is still due.
    fn start(
        &mut self,
        tools: &ControllerContext,
        cron_job: &Value,
        jobs: &[&Value],
        schedule: &Schedule,
        now: Timestamp,
        status: &mut Status,
    ) {
        let earliest = earliest(cron_job, now);
        let Some(time) = schedule.latest(earliest, now) else { return };
        if let Some(first) = schedule.next(earliest)
            && let Some(second) = schedule.next(first)
            && now.since(first).as_secs() / second.since(first).as_secs().max(1) >= MANY
        {
            let message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
            tell(tools, cron_job, Kind::Warning, "TooManyMissedTimes", message);
        }
        match text(cron_job, "/spec/concurrencyPolicy") {
            "Forbid" if !status.active.is_empty() => {
                let message =
                    "Not starting job because prior execution is running and concurrency policy is Forbid";
                return self.complain(
                    tools,
                    cron_job,
                    (Kind::Normal, "JobAlreadyActive", message.to_owned()),
                );
            }
            "Replace" => {
                let is_active = |job: &&&Value| status.active.iter().any(|active| active["uid"] == uid(job));
                jobs.iter().filter(is_active).for_each(|job| delete(tools, cron_job, job));
                status.active.clear();
            }
            _ => {}
        }
        let wanted = job(cron_job, schedule, time);
        let name_of_job = name(&wanted).to_owned();
        match tools.store.create(JOBS, wanted) {
            Ok(created) => {
                tell(
                    tools,
                    cron_job,
                    Kind::Normal,
                    "SuccessfulCreate",
                    &format!("Created job {name_of_job}"),
                );
                status.active.push(reference(&created.value()));
                status.last_time = time.to_rfc3339().into();
                self.complaints.remove(uid(cron_job));
            }
            // A Job of this name was created for the same time.
            Err(failure) if is_passing(&failure) => status.last_time = time.to_rfc3339().into(),
            Err(failure) => {
                let message = format!("Error creating job: {failure}");
                self.complain(tools, cron_job, (Kind::Warning, "FailedCreate", message));
            }
        }
    }

    fn complain(&mut self, tools: &ControllerContext, cron_job: &Value, (kind, reason, message): Complaint) {
        if self.complaints.insert(uid(cron_job).to_owned(), message.clone()) != Some(message.clone()) {
            tell(tools, cron_job, kind, reason, &message);
        }
    }
}

impl Status {
    fn of(cron_job: &Value) -> Self {
        let status = &cron_job["status"];
        Self {
            active: list(cron_job, "/status/active").to_vec(),
            last_time: status["lastScheduleTime"].clone(),
            last_success: status["lastSuccessfulTime"].clone(),
        }
    }

    fn write(&self, cron_job: &mut Value) {
        let active = if self.active.is_empty() { Value::Null } else { self.active.clone().into() };
        let Some(status) = cron_job["status"].as_object_mut() else { return };
        for (field, value) in [
            ("active", active),
            ("lastScheduleTime", self.last_time.clone()),
            ("lastSuccessfulTime", self.last_success.clone()),
        ] {
            match value.is_null() {
                true => status.remove(field),
                false => status.insert(field.to_owned(), value),
            };
        }
    }
}

/// Returns the updated status of a CronJob: without active Jobs that have finished or are missing, and with the time
/// of the last success. Sends events about these Jobs.
fn followed_up(tools: &ControllerContext, cron_job: &Value, jobs: &[&Value]) -> Status {
    let mut status = Status::of(cron_job);
    status.active.retain(|active| {
        let Some(job) = jobs.iter().find(|job| active["uid"] == uid(job)) else {
            let message = format!("Active job went missing: {}", text(active, "/name"));
            tell(tools, cron_job, Kind::Normal, "MissingJob", &message);
            return false;
        };
        let Some(end) = end_of(job) else { return true };
        let message = format!("Saw completed job: {}, condition: {end}", name(job));
        tell(tools, cron_job, Kind::Normal, "SawCompletedJob", &message);
        false
    });
    for job in jobs.iter().filter(|job| end_of(job) == Some("Complete")) {
        let time = &job["status"]["completionTime"];
        if time.as_str() > status.last_success.as_str() {
            status.last_success = time.clone();
        }
    }
    status
}

/// Returns the final condition of a Job.
fn end_of(job: &Value) -> Option<&'static str> {
    let holds = |end: &&&str| condition(job, end).is_some_and(|end| text(end, "/status") == "True");
    ["Complete", "Failed"].iter().find(holds).copied()
}

/// Deletes the oldest finished Jobs if there are more of them than the history limits allow.
fn clean_up(tools: &ControllerContext, cron_job: &Value, jobs: &[&Value]) {
    for (end, limit) in [("Complete", "successfulJobsHistoryLimit"), ("Failed", "failedJobsHistoryLimit")] {
        let Some(limit) = number(&cron_job["spec"], &format!("/{limit}")) else { continue };
        let mut ended: Vec<&Value> = jobs.iter().copied().filter(|job| end_of(job) == Some(end)).collect();
        ended.sort_by_key(|job| (text(job, "/status/startTime"), name(job)));
        let surplus = ended.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
        ended.iter().take(surplus).for_each(|job| delete(tools, cron_job, job));
    }
}

fn delete(tools: &ControllerContext, cron_job: &Value, job: &Value) {
    let deleted = tools.store.delete(JOBS, namespace(job), name(job), None);
    if deleted.is_ok() {
        tell(tools, cron_job, Kind::Normal, "SuccessfulDelete", &format!("Deleted job {}", name(job)));
    }
    carry_on("The CronJob controller", deleted);
}

fn tell(tools: &ControllerContext, cron_job: &Value, kind: Kind, reason: &str, message: &str) {
    tools.events.tell(Source::controller(COMPONENT), cron_job, kind, reason, message);
}

/// Returns the time after which starts are due: the last start or the creation, but no earlier than the starting
/// deadline allows.
fn earliest(cron_job: &Value, now: Timestamp) -> Timestamp {
    let time = |pointer: &str| Timestamp::parse(text(cron_job, pointer)).ok();
    let since = time("/status/lastScheduleTime").or_else(|| time("/metadata/creationTimestamp"));
    let since = since.unwrap_or(now);
    let deadline = number(cron_job, "/spec/startingDeadlineSeconds").and_then(|s| u64::try_from(s).ok());
    match deadline {
        Some(seconds) => {
            let nanos = i64::try_from(Duration::from_secs(seconds).as_nanos()).unwrap_or(i64::MAX);
            since.max(Timestamp(now.0.saturating_sub(nanos)))
        }
        None => since,
    }
}

/// Returns the Job for a scheduled time. The Job's name contains the time, so each time has only one Job.
fn job(cron_job: &Value, schedule: &Schedule, time: Timestamp) -> Value {
    let template = &cron_job["spec"]["jobTemplate"];
    let minutes = time.since(Timestamp::default()).as_secs() / 60;
    let mut metadata = json!({
        "name": format!("{}-{minutes}", name(cron_job)),
        "namespace": namespace(cron_job),
        "ownerReferences": owned_by(cron_job),
    });
    for field in ["labels", "annotations"] {
        if template["metadata"][field].is_object() {
            metadata[field] = template["metadata"][field].clone();
        }
    }
    metadata["annotations"][SCHEDULED_FOR] = schedule.shown(time).into();
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": template["spec"]})
}

fn reference(job: &Value) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "namespace": namespace(job), "name": name(job), "uid": uid(job),
        "resourceVersion": job["metadata"]["resourceVersion"],
    })
}
