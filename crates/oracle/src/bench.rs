//! Comparison of the cost of two schedulers on a real API server.
//!
//! Each run has its own control plane, so that no run starts with an etcd that contains data from earlier runs. The
//! runs alternate in the order A B B A ..., so that a gradual slowdown of the machine affects both schedulers. Only
//! ratios on the same machine are meaningful, because etcd and kube-apiserver share its processors, and some machines
//! are several times as fast as others.

mod chart;
mod churn;
mod creation;
mod latency;
mod load_watcher;
mod measurement;
mod report;
mod svg;
mod updates;
mod volume_controller;
mod watch;
mod watcher;
mod workload;

use anyhow::Result;
use harbormaster_api::Release;
use serde_json::{Value, json};

pub use latency::Latency;
pub use measurement::{Lists, Measurement};
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
    /// Overrides for the workloads' sizes.
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
    mut progress: impl FnMut(&'static str, &'static str, &Measurement),
) -> Result<Report> {
    let sized: Vec<_> =
        options.workloads.iter().map(|workload| (*workload, options.sizing.of(workload))).collect();
    for (workload, size) in &sized {
        workload.check(*size, options.release)?;
    }
    let mut comparisons = Vec::new();
    for (workload, size) in sized {
        let mut runs = [Vec::new(), Vec::new()];
        let mut failure = None;
        for index in alternating(options.pairs) {
            match measurement::measure(options, workload, size, contenders[index]) {
                Ok(measurement) => {
                    progress(workload.name, contenders[index].name(), &measurement);
                    runs[index].push(measurement);
                }
                Err(error) => {
                    failure = Some(format!("{}: {error:#}", contenders[index].name()));
                    break;
                }
            }
        }
        comparisons.push(Comparison::new(workload.name, size, runs, failure));
    }
    Ok(Report::new(contenders.map(Contender::name), comparisons))
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
