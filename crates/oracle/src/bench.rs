//! Compares what two schedulers cost on a real API server.
//!
//! Each run has a control plane of its own, so that none inherits a larger
//! etcd. The order is A B B A ..., so that a machine that gets slower hurts
//! both. Only ratios of one run mean anything: etcd and kube-apiserver share
//! the processors, and machines differ by factors.

mod measurement;
mod report;
mod watcher;
mod workload;

use anyhow::Result;
use serde_json::{Value, json};

pub use measurement::Measurement;
pub use report::Report;

use crate::generate::UNBUILT;
use crate::scheduler::Contender;

/// What to run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Nodes with 4 CPUs, 32 GiB and 110 pods each.
    pub nodes: usize,
    /// Pods that are measured, 100m and 500 MiB each.
    pub pods: usize,
    /// Pods that exist when the scheduler starts; at least one.
    pub init_pods: usize,
    /// How often each scheduler runs.
    pub pairs: usize,
    /// Threads that create pods.
    pub threads: usize,
    /// Whether the measured pods exist, too, when the scheduler starts. The
    /// rate then is that of the scheduler, not of the creation.
    pub backlog: bool,
    /// Disable the plugins that Harbormaster does not have yet on both sides.
    pub foundation: bool,
}

/// Runs both contenders in turn and tells `progress` after every run.
pub fn run(
    options: &Options,
    contenders: [&Contender; 2],
    mut progress: impl FnMut(&'static str, &Measurement),
) -> Result<Report> {
    let mut runs = [Vec::new(), Vec::new()];
    for pair in 0..options.pairs {
        for turn in 0..2 {
            let index = (pair + turn) % 2;
            let measurement = measurement::measure(options, contenders[index])?;
            progress(contenders[index].name(), &measurement);
            runs[index].push(measurement);
        }
    }
    Ok(Report::new(contenders.map(Contender::name), runs))
}

/// The scheduler configuration of both contenders.
fn configuration(options: &Options) -> Value {
    let mut config = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"qps": 5000, "burst": 5000},
    });
    if options.foundation {
        let disabled: Vec<Value> = UNBUILT.iter().map(|name| json!({"name": name})).collect();
        config["profiles"] = json!([{"plugins": {"multiPoint": {"disabled": disabled}}}]);
    }
    config
}
