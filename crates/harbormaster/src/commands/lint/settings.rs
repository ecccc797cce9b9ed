//! Profiles that get no pods, and settings of the whole scheduler.

use harbormaster_api::{points::ExtensionPoint, similar::similar};
use harbormaster_config::DEFAULT_SCHEDULER_NAME;

use super::finding::{Finding, Subject};

/// Name of the lease that the cluster's own kube-scheduler holds.
const LEASE: &str = "kube-scheduler";
/// client-go's `JitterFactor`.
const JITTER_FACTOR: f64 = 1.2;

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let mut findings = pods(subject);
    findings.extend(alike(subject));
    findings.extend(percentages(subject));
    findings.extend(without_effect(subject));
    findings.extend(election(subject));
    findings
}

/// Finds profiles without pods, and pods without a profile. If the names are similar, one of them is a mistake.
fn pods(subject: &Subject<'_>) -> Vec<Finding> {
    let Some(demand) = subject.pods else { return Vec::new() };
    let names = || subject.config.profiles.iter().map(|profile| profile.scheduler_name.as_str());
    let mut findings = Vec::new();
    for (at, profile, _) in subject.profiles() {
        let name = profile.scheduler_name.as_str();
        if !demand.schedulers.iter().any(|wanted| **wanted == *name) {
            let field = format!("profiles[{at}].schedulerName");
            let message = format!("no pod of the manifests names the scheduler {name:?}");
            let help = format!("set `schedulerName: {name}` in pods that this profile should schedule");
            findings.push(subject.note("profile-unused", field, message, help));
        }
    }
    for wanted in demand.schedulers.iter().filter(|wanted| !names().any(|name| *name == ***wanted)) {
        let message = format!("pods of the manifests name the scheduler {wanted:?}, which no profile has");
        // A profile that has pods is named correctly.
        let unused = names().filter(|name| !demand.schedulers.iter().any(|wanted| **wanted == **name));
        findings.push(match similar(wanted, unused) {
            Some(near) => {
                let at = names().position(|name| name == near).unwrap_or_default();
                let help = format!("{near:?} is the name of profiles[{at}]: use one name in both places");
                subject.warning("scheduler-unknown", format!("profiles[{at}].schedulerName"), message, help)
            }
            None => {
                let help = "add a profile unless another scheduler of the cluster schedules these pods";
                subject.note("scheduler-unknown", "profiles", message, help)
            }
        });
    }
    findings
}

/// Finds profiles that differ in nothing but their names.
fn alike(subject: &Subject<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, _, plan) in subject.profiles() {
        let is_same = |other: &&harbormaster_config::ProfilePlan| {
            let lists = ExtensionPoint::ALL.into_iter().all(|point| other.at(point) == plan.at(point));
            let percentages = other.percentage_of_nodes_to_score == plan.percentage_of_nodes_to_score;
            lists && percentages && other.args == plan.args
        };
        if let Some(first) = subject.plans[..at].iter().position(|other| is_same(&other)) {
            let message = format!("the profile differs from profiles[{first}] only in its name");
            let help = "change what should differ, or let all pods name one of the profiles";
            findings.push(subject.note("profiles-alike", format!("profiles[{at}]"), message, help));
        }
    }
    findings
}

/// Finds percentages that have no effect, or another one than in kube-scheduler.
fn percentages(subject: &Subject<'_>) -> Vec<Finding> {
    const FIELD: &str = "percentageOfNodesToScore";
    let (config, mut findings) = (subject.config, Vec::new());
    let own = |profile: &harbormaster_config::Profile| profile.percentage_of_nodes_to_score;
    let global = config.percentage_of_nodes_to_score;
    let is_overridden = config.profiles.iter().all(|profile| own(profile).is_some());
    if subject.sets(FIELD) && global.is_some() && is_overridden {
        let message = "every profile sets its own percentage, so this one has no effect";
        findings.push(subject.warning("percentage-overridden", FIELD, message, "remove it"));
    }
    let used = (!is_overridden).then(|| (FIELD.to_owned(), global));
    let owned = config.profiles.iter().enumerate();
    let all = used.into_iter().chain(owned.map(|(at, one)| (format!("profiles[{at}].{FIELD}"), own(one))));
    for (field, percentage) in all {
        let (message, help) = match percentage {
            Some(0) => (
                "0 means all nodes; in kube-scheduler and with --parity, it means a share that depends on the size of \
                 the cluster"
                    .to_owned(),
                "remove it, or run with --parity if you want kube-scheduler's share",
            ),
            Some(some @ 1..=99) => (
                format!("the search ends when {some}% of the nodes fit, so better nodes may not be considered"),
                "remove it: by default, all nodes are scored, which costs little here",
            ),
            _ => continue,
        };
        findings.push(subject.note("percentage-of-nodes", field, message, help));
    }
    findings
}

/// Finds settings of kube-scheduler that have no effect in Harbormaster.
fn without_effect(subject: &Subject<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if subject.sets("parallelism") {
        let message = "one thread decides for all pods, so the number of workers has no effect here";
        findings.push(subject.note("no-effect", "parallelism", message, "remove it"));
    }
    if subject.sets("enableContentionProfiling") && subject.config.enable_contention_profiling {
        let message = "there are no locks to profile, so this has no effect here";
        findings.push(subject.note("no-effect", "enableContentionProfiling", message, "remove it"));
    }
    if subject.config.delay_cache_until_active && !subject.config.leader_election.leader_elect {
        let message = "replicas elect no leader, so the cache is filled at once";
        let help = "turn on leaderElection.leaderElect, or remove it";
        findings.push(subject.warning("no-effect", "delayCacheUntilActive", message, help));
    }
    findings
}

/// Finds replicas that would schedule at the same time, or never.
fn election(subject: &Subject<'_>) -> Vec<Finding> {
    let lease = &subject.config.leader_election;
    if !lease.leader_elect {
        let message = "replicas elect no leader, so two of them would schedule the same pods";
        let help = "run one replica only, or turn on leader election";
        return vec![subject.note("election-off", "leaderElection.leaderElect", message, help)];
    }
    let mut findings = Vec::new();
    let is_default = |name: &str| name == DEFAULT_SCHEDULER_NAME;
    let is_second = !subject.config.profiles.iter().any(|profile| is_default(&profile.scheduler_name));
    if is_second && lease.resource_name == LEASE && lease.resource_namespace == "kube-system" {
        let message = "this is the lease of the cluster's own kube-scheduler; while that one holds it, this scheduler \
                       waits";
        let help = "set another resourceName, such as the name of the profile";
        findings.push(subject.note("lease-shared", "leaderElection.resourceName", message, help));
    }
    // The candidate checks this, as in client-go, after the configuration was accepted.
    if lease.renew_deadline.nanos() as f64 <= JITTER_FACTOR * lease.retry_period.nanos() as f64 {
        let message =
            "the deadline is not more than 1.2 times retryPeriod, so the scheduler refuses to start";
        let help = "raise renewDeadline, or lower retryPeriod";
        findings.push(subject.warning("lease-refused", "leaderElection.renewDeadline", message, help));
    }
    findings
}
