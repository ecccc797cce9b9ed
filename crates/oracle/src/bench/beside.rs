//! Harbormaster's shadow beside kube-scheduler in a large cluster: agreement, and the cost of both.

use std::fmt;
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use harbormaster_api::Release;
use serde::Serialize;
use serde_json::{Value, json};

use super::creation::Creator;
use super::watcher::Watcher;
use super::workload::{SizeOverrides, Workload};
use crate::components::{ControlPlane, ControlPlaneOptions};
use crate::process;
use crate::scheduler::{Contender, Scheduler, StartOptions};

/// Time between two bindings after which kube-scheduler counts as stuck.
const PATIENCE: Duration = Duration::from_secs(300);

/// Time in which a shadow reports differences that are in doubt.
const DOUBT: Duration = Duration::from_secs(7);

/// Options of a run.
#[derive(Debug, Clone, Copy)]
pub struct ShadowOptions {
    /// Release of Kubernetes.
    pub release: Release,
    /// Number of nodes.
    pub nodes: usize,
    /// Number of threads that create pods.
    pub threads: usize,
    /// `percentageOfNodesToScore` of both schedulers; that of kube-scheduler's defaults if `None`.
    pub percentage: Option<u32>,
}

/// Result of a run.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ShadowCost {
    /// Name of the workload.
    pub workload: &'static str,
    /// Number of pods.
    pub pods: usize,
    /// The shadow's report.
    pub report: Value,
    /// CPU time of kube-scheduler and of the shadow while they decide, in seconds.
    pub cpu_s: [f64; 2],
    /// CPU time of the shadow until it compares, in seconds.
    pub start_cpu_s: f64,
    /// Peak resident memory of kube-scheduler and of the shadow, in MiB.
    pub peak_mib: [f64; 2],
}

impl ShadowCost {
    fn result(&self, name: &str) -> u64 {
        self.report["results"][name].as_u64().unwrap_or(0)
    }
}

impl fmt::Display for ShadowCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let results = self.report["results"].as_object().into_iter().flatten();
        let counts: Vec<String> = results
            .filter(|(_, count)| **count != 0)
            .map(|(name, count)| format!("{count} {}", name.replace('_', " ")))
            .collect();
        let best = self.result("same") + self.result("equal");
        let decision = |quantile: &str| self.report["decision"][quantile].as_f64().unwrap_or(0.0) * 1e3;
        let ([theirs, ours], [their_memory, memory]) = (self.cpu_s, self.peak_mib);
        write!(
            f,
            "{}, {} pods: {}; {:.1} % on a node with the best score; decision median {:.2} ms, 99th percentile {:.2} ms; CPU \
             {theirs:.1} s for kube-scheduler, {ours:.1} s for the shadow ({:.1} s more at its start); memory \
             {their_memory:.0} MiB and {memory:.0} MiB",
            self.workload,
            self.pods,
            counts.join(", "),
            100.0 * best as f64 / self.pods as f64,
            decision("p50"),
            decision("p99"),
            self.start_cpu_s,
        )
    }
}

/// Lets kube-scheduler place `pods` pods of the workload, beside a shadow of the program `binary`.
pub fn beside(
    options: ShadowOptions,
    workload: &'static Workload,
    pods: usize,
    binary: &Path,
) -> Result<ShadowCost> {
    let ShadowOptions { release, nodes, threads, percentage } = options;
    let overrides = SizeOverrides { nodes: Some(nodes), init_pods: Some(0), pods: Some(pods), scale: 1.0 };
    let size = overrides.of(workload);
    let cluster = ControlPlane::start(&ControlPlaneOptions { release, ..ControlPlaneOptions::default() })?;
    let client = cluster.client().clone();
    let creator = Creator { client: &client, workload, size, threads, rate: None };
    creator.prepare()?;
    let bindings = Watcher::bindings(&client)?;
    let start_options = StartOptions { config: configuration(percentage), ..StartOptions::default() };
    let scheduler = Scheduler::start(&Contender::KubeScheduler, &cluster, &start_options)?;
    bindings.wait_for(creator.warm_up(), PATIENCE)?;
    let file = cluster.directory().join("report.json");
    let flags = [format!("--report={}", file.display())];
    let mut shadow = Scheduler::start_shadow(binary, &cluster, &start_options, &flags)?;
    let cpu = |scheduler: &Scheduler| process::cpu_time(scheduler.pid());
    let before = [cpu(&scheduler)?, cpu(&shadow)?];
    creator.create_measured()?;
    bindings.wait_for(creator.warm_up() + pods, PATIENCE)?;
    sleep(DOUBT);
    shadow.check()?;
    let after = [cpu(&scheduler)?, cpu(&shadow)?];
    let memory = [process::memory(scheduler.pid())?, process::memory(shadow.pid())?];
    shadow.stop()?;
    scheduler.stop()?;
    let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let report: Value = serde_json::from_str(&text).with_context(|| file.display().to_string())?;
    if report["decisions"].as_u64() < Some(pods as u64) {
        bail!("the shadow has compared only {} of {pods} decisions", report["decisions"]);
    }
    Ok(ShadowCost {
        workload: workload.name,
        pods,
        report,
        cpu_s: [0, 1].map(|at| after[at].saturating_sub(before[at]).as_secs_f64()),
        start_cpu_s: before[1].as_secs_f64(),
        peak_mib: memory.map(|memory| memory.peak as f64 / 1024.0),
    })
}

/// kube-scheduler's defaults, except for the given percentage of nodes to score.
fn configuration(percentage: Option<u32>) -> String {
    let mut config = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
    });
    if let Some(percentage) = percentage {
        config["percentageOfNodesToScore"] = percentage.into();
    }
    config.to_string()
}
