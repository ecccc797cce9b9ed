//! Comparison of the cost of two schedulers on a real API server.
//!
//! Each run has its own control plane, so that no run starts with an etcd that contains data from earlier runs. The
//! runs alternate in the order A B B A ..., so that a gradual slowdown of the machine affects both schedulers. Only
//! ratios on the same machine are meaningful, because etcd and kube-apiserver share its processors, and some machines
//! are several times as fast as others.

mod beside;
mod chart;
mod churn;
mod creation;
mod flame;
mod latency;
mod load_watcher;
mod measurement;
mod perf;
mod report;
mod svg;
mod updates;
mod volume_controller;
mod watch;
mod watcher;
mod workload;

use anyhow::{Context, Result, bail};
use harbormaster_api::Release;
use serde_json::{Value, json};

pub use beside::{ShadowCost, ShadowOptions, beside};
pub use flame::{FlameError, Profile};
pub use latency::Latency;
pub use measurement::{Lists, Measurement};
pub use perf::{Catalog, Entry, Listing, Obstacle, Plan};
pub use report::{Comparison, Ratio, Report, UnequalPair};
pub use workload::{PLAIN, PLUGIN_WORKLOADS, Size, SizeOverrides, WORKLOADS, Workload};

use crate::scheduler::Contender;

/// Options of a benchmark.
#[derive(Debug, Clone)]
pub struct Options {
    /// Release of Kubernetes.
    pub release: Release,
    /// Workloads to run, in order.
    pub workloads: Vec<&'static Workload>,
    /// Workloads of `scheduler_perf` to run after them, in order.
    pub plans: Vec<Plan>,
    /// Overrides for the workloads' sizes, except of those of `scheduler_perf`.
    pub sizing: SizeOverrides,
    /// Number of runs of each scheduler per workload.
    pub pairs: usize,
    /// Number of threads that create pods.
    pub threads: usize,
    /// Number of pods created per second; as many as possible if `None`. Only the workloads whose pods are created once
    /// follow it.
    pub rate: Option<u32>,
    /// True if the measured pods are created before the scheduler starts. The measured rate is then the scheduler's
    /// rate, not the rate of pod creation.
    pub backlog: bool,
}

/// Runs both contenders alternately with every workload. After every successful run, calls `progress` with the names of
/// the workload and the contender. If a workload fails, the next one still runs.
pub fn run(
    options: &Options,
    contenders: [&Contender; 2],
    mut progress: impl FnMut(&str, &'static str, &Measurement),
) -> Result<Report> {
    let mut comparisons = Vec::new();
    for subject in subjects(options)? {
        let (name, size) = (subject.name(), subject.size());
        let mut runs = [Vec::new(), Vec::new()];
        let mut failure = None;
        for index in alternating(options.pairs) {
            match subject.measure(options, contenders[index], &mut None) {
                Ok(measurement) => {
                    progress(name, contenders[index].name(), &measurement);
                    runs[index].push(measurement);
                }
                Err(error) => {
                    failure = Some(format!("{}: {error:#}", contenders[index].name()));
                    break;
                }
            }
        }
        comparisons.push(Comparison::new(name, size, runs, failure));
    }
    Ok(Report::new(contenders.map(Contender::name), comparisons))
}

/// Runs one contender once with the only workload, and profiles it in the measured phase. The profiler takes CPU time
/// itself, so the measurement must not be compared with others. The contender, which may have to be built, is asked for
/// only if the workload can run and can be profiled.
pub fn profile(
    options: &Options,
    contender: impl FnOnce() -> Result<Contender>,
) -> Result<(Measurement, Profile)> {
    let subjects = subjects(options)?;
    let [subject] = &subjects[..] else {
        bail!("one workload can be profiled at a time, not {}", subjects.len());
    };
    let mut profile = Some(Profile::new()?);
    let measurement = subject.measure(options, &contender()?, &mut profile)?;
    Ok((measurement, profile.context("the profile is missing")?))
}

/// A workload that is about to run.
enum Subject<'a> {
    BuiltIn(&'static Workload, Size),
    Planned(&'a Plan),
}

/// Returns the selected workloads. Fails if one of them cannot run.
fn subjects(options: &Options) -> Result<Vec<Subject<'_>>> {
    let mut subjects = Vec::new();
    for workload in &options.workloads {
        let size = options.sizing.of(workload);
        workload.check(size, options.release)?;
        subjects.push(Subject::BuiltIn(workload, size));
    }
    subjects.extend(options.plans.iter().map(Subject::Planned));
    Ok(subjects)
}

impl Subject<'_> {
    fn name(&self) -> &str {
        match self {
            Self::BuiltIn(workload, _) => workload.name,
            Self::Planned(plan) => &plan.name,
        }
    }

    fn size(&self) -> Size {
        match self {
            Self::BuiltIn(_, size) => *size,
            Self::Planned(plan) => plan.size,
        }
    }

    fn measure(
        &self,
        options: &Options,
        contender: &Contender,
        profile: &mut Option<Profile>,
    ) -> Result<Measurement> {
        match self {
            Self::BuiltIn(workload, size) => {
                measurement::measure(options, workload, *size, contender, profile)
            }
            Self::Planned(plan) => perf::measure(options, plan, contender, profile),
        }
    }
}

/// Returns the index of the contender of each turn: A B B A.
pub(crate) fn alternating(pairs: usize) -> impl Iterator<Item = usize> {
    (0..pairs * 2).map(|turn| (turn / 2 + turn) % 2)
}

/// Returns the configuration of both contenders, with the default profile or another one.
fn configuration(profile: Option<Value>) -> Value {
    let mut config = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"qps": 5000, "burst": 5000},
    });
    if let Some(profile) = profile {
        config["profiles"] = json!([profile]);
    }
    config
}
