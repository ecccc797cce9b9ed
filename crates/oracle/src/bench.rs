//! Compares what two schedulers cost on a real API server.
//!
//! Each run has a control plane of its own, so that none inherits a larger
//! etcd. The order is A B B A ..., so that a machine that gets slower hurts
//! both. Only ratios of one run mean anything: etcd and kube-apiserver share
//! the processors, and machines differ by factors.

mod chart;
mod churn;
mod creation;
mod measurement;
mod report;
mod svg;
mod volume_controller;
mod watch;
mod watcher;
mod workload;

use anyhow::Result;
use serde_json::{Value, json};

pub use measurement::Measurement;
pub use report::{Comparison, Ratio, Report, Unequal};
pub use workload::{PLAIN, Size, Sizing, WORKLOADS, Workload};

use crate::scheduler::Contender;

/// What to run.
#[derive(Debug, Clone)]
pub struct Options {
    /// The shapes of work, one after the other.
    pub workloads: Vec<&'static Workload>,
    /// How large they are.
    pub sizing: Sizing,
    /// How often each scheduler runs.
    pub pairs: usize,
    /// Threads that create pods.
    pub threads: usize,
    /// Whether the measured pods exist, too, when the scheduler starts. The
    /// rate then is that of the scheduler, not of the creation.
    pub backlog: bool,
}

/// Runs both contenders in turn with every workload and tells `progress` the
/// workload and the contender after every run. A workload that fails does not
/// stop the next.
pub fn run(
    options: &Options,
    contenders: [&Contender; 2],
    mut progress: impl FnMut(&'static str, &'static str, &Measurement),
) -> Result<Report> {
    let sized: Vec<_> =
        options.workloads.iter().map(|workload| (*workload, options.sizing.of(workload))).collect();
    for (workload, size) in &sized {
        workload.check(*size)?;
    }
    let mut comparisons = Vec::new();
    for (workload, size) in sized {
        let mut runs = [Vec::new(), Vec::new()];
        let mut failure = None;
        for turn in 0..options.pairs * 2 {
            // A B B A
            let index = (turn / 2 + turn) % 2;
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

/// The scheduler configuration of both contenders.
fn configuration() -> Value {
    json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"qps": 5000, "burst": 5000},
    })
}
