//! Checks that Harbormaster's cost per pod does not grow over many minutes.
//!
//! Pods are created at a steady rate, and after a minute the oldest are deleted at the same rate. Each pod has a unique
//! label, as the pods of Jobs and StatefulSets have, and every tenth pod has an anti-affinity selector for its own
//! label, so no two pods and no two selectors are equal. The in-memory API server runs in this process, so the
//! scheduler's own process uses CPU and memory only for scheduling.
//!
//! With [`Options::churn`], nodes, workloads and claims are created and deleted too, and every pod has unique
//! preferences, a unique image and a unique host port. Memory must not grow either.

mod churn;
mod memory;
mod unique;

use std::collections::VecDeque;
use std::fmt;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harbormaster_api::Release;
use serde_json::{Value, json};

use self::churn::Churn;
pub use self::memory::{Sample, Trend};
use crate::components::{ApiClient, Error};
use crate::embedded::Embedded;
use crate::process;
use crate::scheduler::{Contender, Scheduler, StartOptions, sum};

/// Interval between memory samples.
const STEP: Duration = Duration::from_secs(10);
const STEPS_PER_MINUTE: usize = 6;
const PODS: &str = "/api/v1/namespaces/default/pods";
/// Index of the minute with which the last minute is compared. In earlier minutes, caches are still filling up.
const THIRD: usize = 2;
/// Maximum ratio of the cost in the last minute to the cost in the third.
const MAX_RATIO: f64 = 1.2;
/// With churn, maximum growth of resident memory over the last half of the run, as a fraction.
const MAX_GROWTH: f64 = 0.05;
/// One in this many pods has a unique selector.
const SELECTIVE: u64 = 10;

/// Options of a run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Release of kube-scheduler that Harbormaster reproduces.
    pub release: Release,
    /// Path of the harbormaster program.
    pub harbormaster: PathBuf,
    /// Number of pods created, and deleted, per second.
    pub rate: u64,
    /// Duration in minutes; at least four, so that the last minute can be compared with the third.
    pub minutes: usize,
    /// Number of nodes, each with 4 CPUs, 32 GiB of memory and room for 110 pods.
    pub nodes: usize,
    /// True if nodes, workloads with Services, and claims with volumes are created and deleted too, and every pod has
    /// preferences, an image and a host port of its own.
    pub churn: bool,
}

/// Measurements of one minute.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Minute {
    /// CPU time of the scheduler per created pod, in milliseconds.
    pub cpu_ms_per_pod: f64,
    /// Resident memory of the scheduler at the end of the minute, in MiB.
    pub resident_mib: f64,
    /// Number of pods created.
    pub pods: u64,
    /// Number of pods without a node at the end of the minute.
    pub pending: usize,
    /// Number of nodes in the scheduler's cache at the end of the minute.
    pub cached_nodes: u64,
    /// Number of pods in the scheduler's cache at the end of the minute.
    pub cached_pods: u64,
    /// Number of pods whose binding has not been confirmed to the scheduler yet.
    pub assumed_pods: u64,
}

/// Result of a run.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Minutes in order.
    pub minutes: Vec<Minute>,
    /// Memory samples, one every ten seconds, in order.
    pub samples: Vec<Sample>,
    /// True if memory must not grow.
    pub churn: bool,
}

impl Report {
    /// Returns the ratio of the cost per pod in the last minute to that in the third; `None` without a fourth minute.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        let [first, .., last] = self.minutes.get(THIRD..)? else { return None };
        Some(last.cpu_ms_per_pod / first.cpu_ms_per_pod)
    }

    /// Returns the trend of memory; `None` if the run was too short.
    #[must_use]
    pub fn trend(&self) -> Option<Trend> {
        Trend::of(&self.samples)
    }

    /// Returns true if the cost, and with churn the memory, has not grown beyond its limit.
    #[must_use]
    pub fn is_steady(&self) -> bool {
        let is_flat = || self.trend().is_some_and(|trend| trend.growth <= MAX_GROWTH);
        self.ratio().is_some_and(|ratio| ratio <= MAX_RATIO) && (!self.churn || is_flat())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ratio() {
            Some(ratio) => write!(f, "the last minute ÷ the third: {ratio:.2} (at most {MAX_RATIO})")?,
            None => write!(f, "too short: there is no minute to compare with the third")?,
        }
        let Some(trend) = self.trend() else { return Ok(()) };
        write!(f, "\n{trend}")?;
        if self.churn { write!(f, " (at most {:+.0} %)", MAX_GROWTH * 100.0) } else { Ok(()) }
    }
}

/// Runs the test, and calls `progress` after every minute with its number, from 1.
///
/// # Errors
/// If the scheduler exits, the API server rejects a request, or pods stay pending.
pub fn run(options: &Options, mut progress: impl FnMut(usize, &Minute)) -> Result<Report> {
    let cluster = Embedded::start_as(options.release.minor(), |_| Ok(()))?;
    let client = cluster.client();
    for index in 0..options.nodes {
        client.post("/api/v1/nodes", &node(index)).context("creating nodes")?;
    }
    let contender = Contender::Harbormaster(options.harbormaster.clone());
    // Without these settings, the run would measure the client's default limit of 50 requests per second.
    let config = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"qps": 5000, "burst": 5000},
    });
    let start_options = StartOptions { config: config.to_string(), metrics: true, ..StartOptions::default() };
    let mut scheduler = Scheduler::start(&contender, &cluster, &start_options)?;
    let started = Instant::now();
    let mut stream = Stream::new(client, options);
    let mut report = Report { churn: options.churn, ..Report::default() };
    for number in 1..=options.minutes {
        let (cpu, created) = (process::cpu_time(scheduler.pid())?, stream.created);
        for _ in 0..STEPS_PER_MINUTE {
            stream.run_for(STEP).or_else(|error| scheduler.check().and(Err(error)))?;
            scheduler.check()?;
            let resident_mib = process::memory(scheduler.pid())?.resident as f64 / 1024.0;
            report.samples.push(Sample { at_s: started.elapsed().as_secs_f64(), resident_mib });
        }
        let cpu = process::cpu_time(scheduler.pid())?.saturating_sub(cpu);
        let pods = stream.created - created;
        let metrics = scheduler.page("/metrics")?.unwrap_or_default();
        let cached = |kind: &str| sum(&metrics, "scheduler_cache_size{", kind);
        let minute = Minute {
            cpu_ms_per_pod: cpu.as_secs_f64() * 1000.0 / pods as f64,
            resident_mib: report.samples.last().map_or(0.0, |sample| sample.resident_mib),
            pods,
            pending: pending(client)?,
            cached_nodes: cached("\"nodes\""),
            cached_pods: cached("\"pods\""),
            assumed_pods: cached("\"assumed_pods\""),
        };
        progress(number, &minute);
        let few = options.rate as usize * 5;
        ensure!(
            minute.pending <= few,
            "{} pods are pending, so the cost of the others is not meaningful",
            minute.pending
        );
        report.minutes.push(minute);
    }
    scheduler.stop()?;
    Ok(report)
}

/// A stream of pods that are created and deleted.
struct Stream<'a> {
    client: &'a ApiClient,
    interval: Duration,
    /// Maximum number of existing pods, which is the number created in one minute. If there are more, the oldest are
    /// deleted.
    max_pods: usize,
    created: u64,
    existing: VecDeque<u64>,
    next: Instant,
    churn: Option<Churn<'a>>,
}

impl<'a> Stream<'a> {
    fn new(client: &'a ApiClient, options: &Options) -> Self {
        let Options { rate, nodes, churn, .. } = *options;
        let (interval, max_pods) = (Duration::from_secs(1) / rate as u32, 60 * rate as usize);
        let churn = churn.then(|| Churn::new(client, rate, nodes));
        Self {
            client,
            interval,
            max_pods,
            created: 0,
            existing: VecDeque::new(),
            next: Instant::now(),
            churn,
        }
    }

    /// Creates and deletes pods for the given time. If the stream falls behind schedule, it catches up.
    fn run_for(&mut self, time: Duration) -> Result<()> {
        let end = self.next + time;
        while self.next < end {
            sleep(self.next.saturating_duration_since(Instant::now()));
            let mut pod = pod(self.created);
            if let Some(churn) = &mut self.churn {
                churn.before_creation(self.created, &mut pod)?;
            }
            self.client.post(PODS, &pod).context("creating a pod")?;
            self.existing.push_back(self.created);
            self.created += 1;
            if self.existing.len() > self.max_pods
                && let Some(oldest) = self.existing.pop_front()
            {
                let path = format!("{PODS}/{}?gracePeriodSeconds=0", name(oldest));
                allow_missing(self.client.delete(&path)).context("deleting a pod")?;
                if let Some(churn) = &self.churn {
                    churn.after_deletion(oldest)?;
                }
            }
            self.next += self.interval;
        }
        Ok(())
    }
}

/// Ignores the error that an object no longer exists.
fn allow_missing(answer: Result<Value, Error>) -> Result<(), Error> {
    match answer {
        Ok(_) | Err(Error::Refused { status: 404, .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

fn pending(client: &ApiClient) -> Result<usize> {
    let list = client.get(&format!("{PODS}?fieldSelector=spec.nodeName=")).context("listing pods")?;
    Ok(list["items"].as_array().map_or(0, Vec::len))
}

fn name(number: u64) -> String {
    format!("pod-{number}")
}

fn node(index: usize) -> Value {
    let name = format!("node-{index}");
    let labels = json!({
        "kubernetes.io/hostname": name,
        "topology.kubernetes.io/zone": format!("zone-{}", index % 3),
    });
    let resources = json!({"cpu": "4", "memory": "32Gi", "pods": "110"});
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": resources, "allocatable": resources},
    })
}

fn pod(number: u64) -> Value {
    let name = name(number);
    let container = json!({
        "name": "c",
        "image": "registry.example/app:v1",
        "resources": {"requests": {"cpu": "10m", "memory": "20Mi"}},
    });
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "soak", "own": name}},
        "spec": {"containers": [container]},
    });
    if number.is_multiple_of(SELECTIVE) {
        let term = json!({
            "labelSelector": {"matchLabels": {"own": name}},
            "topologyKey": "kubernetes.io/hostname",
        });
        pod["spec"]["affinity"] =
            json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    }
    pod
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(costs: &[f64]) -> Report {
        let minute = |cost: &f64| Minute {
            cpu_ms_per_pod: *cost,
            resident_mib: 1.0,
            pods: 1,
            pending: 0,
            cached_nodes: 1,
            cached_pods: 1,
            assumed_pods: 0,
        };
        Report { minutes: costs.iter().map(minute).collect(), ..Report::default() }
    }

    #[test]
    fn the_last_minute_is_compared_with_the_third() {
        assert_eq!(report(&[9.0, 5.0, 1.0, 7.0, 1.5]).ratio(), Some(1.5));
        assert!(report(&[9.0, 5.0, 1.0, 1.1]).is_steady());
        assert!(!report(&[1.0, 1.0, 1.0, 1.3]).is_steady());
        assert_eq!(report(&[9.0, 5.0, 1.0]).ratio(), None);
    }

    #[test]
    fn growing_memory_matters_only_with_churn() {
        let sample = |i: u32| Sample { at_s: f64::from(i), resident_mib: f64::from(100 + i) };
        let growing = Report { samples: (0..40).map(sample).collect(), ..report(&[1.0; 5]) };
        assert!(growing.is_steady());
        assert!(!Report { churn: true, ..growing }.is_steady());
    }

    #[test]
    fn every_pod_has_a_unique_label_and_every_tenth_has_anti_affinity() {
        let pods: Vec<Value> = (0..100).map(pod).collect();
        let own: std::collections::HashSet<_> =
            pods.iter().map(|pod| pod["metadata"]["labels"]["own"].to_string()).collect();
        assert_eq!(own.len(), 100);
        assert_eq!(pods.iter().filter(|pod| pod["spec"]["affinity"].is_object()).count(), 10);
    }
}
