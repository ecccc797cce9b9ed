//! Whether a pod costs Harbormaster as much after many minutes as at first.
//!
//! Pods come at a steady rate, and after a minute the oldest go at the same
//! rate. No two are alike to a selector: every pod has a label of its own, every
//! tenth an anti-affinity selector of its own, as pods of Jobs and StatefulSets
//! do. With [`Options::churn`] nodes, workloads and claims come and go, too, every
//! pod has preferences, an image and a host port of its own, and memory must not
//! grow either. The API server is ours, in memory and in this
//! process: what the scheduler's process uses is the scheduler's alone.

mod churn;
mod memory;
mod unlike;

use std::collections::VecDeque;
use std::fmt;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use self::churn::Churn;
pub use self::memory::{Sample, Trend};
use crate::components::{ApiClient, Error};
use crate::embedded::Embedded;
use crate::process;
use crate::scheduler::{Contender, Scheduler, StartOptions, sum};

/// From one look at the memory to the next.
const STEP: Duration = Duration::from_secs(10);
const STEPS_PER_MINUTE: usize = 6;
const PODS: &str = "/api/v1/namespaces/default/pods";
/// The minute with which the last one is compared: the first ones fill caches.
const THIRD: usize = 2;
/// The last minute may cost this many times the third.
const MOST: f64 = 1.2;
/// With churn, resident memory may grow by this part over the last half.
const MOST_GROWTH: f64 = 0.05;
/// Every how many pods one has a selector of its own.
const SELECTIVE: u64 = 10;

/// What to run.
#[derive(Debug, Clone)]
pub struct Options {
    /// The scheduler's program.
    pub harbormaster: PathBuf,
    /// Pods per second that come, and that go.
    pub rate: u64,
    /// How long; at least four, so that there is something to compare.
    pub minutes: usize,
    /// Nodes with 4 CPUs, 32 GiB and 110 pods each.
    pub nodes: usize,
    /// Whether nodes, workloads with Services and claims with volumes come and go beside the pods, and no two pods are alike to
    /// any plugin.
    pub churn: bool,
}

/// What one minute took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Minute {
    /// CPU time of the scheduler's process per pod that came, in milliseconds.
    pub cpu_ms_per_pod: f64,
    /// Its resident memory at the end of the minute, in MiB.
    pub resident_mib: f64,
    /// Pods that came.
    pub pods: u64,
    /// Pods without a node at the end of the minute.
    pub pending: usize,
    /// Nodes in the scheduler's cache then.
    pub cached_nodes: u64,
    /// Pods in the scheduler's cache then.
    pub cached_pods: u64,
    /// Pods whose binding it has not seen yet.
    pub assumed_pods: u64,
}

/// What a run took.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// In order.
    pub minutes: Vec<Minute>,
    /// The memory every ten seconds, in order.
    pub samples: Vec<Sample>,
    /// Whether growing memory counts.
    pub churn: bool,
}

impl Report {
    /// What a pod cost in the last minute, in pods of the third; `None` of a run without a fourth minute.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        let [first, .., last] = self.minutes.get(THIRD..)? else { return None };
        Some(last.cpu_ms_per_pod / first.cpu_ms_per_pod)
    }

    /// Where memory went; `None` of a run that was too short to tell.
    #[must_use]
    pub fn trend(&self) -> Option<Trend> {
        Trend::of(&self.samples)
    }

    /// Whether the cost, and with churn the memory, has stayed what it was.
    #[must_use]
    pub fn is_steady(&self) -> bool {
        let is_flat = || self.trend().is_some_and(|trend| trend.growth <= MOST_GROWTH);
        self.ratio().is_some_and(|ratio| ratio <= MOST) && (!self.churn || is_flat())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ratio() {
            Some(ratio) => write!(f, "the last minute ÷ the third: {ratio:.2} (at most {MOST})")?,
            None => write!(f, "too short to compare: the third minute is compared with a later one")?,
        }
        let Some(trend) = self.trend() else { return Ok(()) };
        write!(f, "\n{trend}")?;
        if self.churn { write!(f, " (at most {:+.0} %)", MOST_GROWTH * 100.0) } else { Ok(()) }
    }
}

/// Runs, and tells `progress` the number of every minute that is over, from one on.
///
/// # Errors
/// When the scheduler ends, the API server refuses something, or pods stay without a node.
pub fn run(options: &Options, mut progress: impl FnMut(usize, &Minute)) -> Result<Report> {
    let cluster = Embedded::start(|_| Ok(()))?;
    let client = cluster.client();
    for index in 0..options.nodes {
        client.post("/api/v1/nodes", &node(index)).context("creating nodes")?;
    }
    let contender = Contender::Harbormaster(options.harbormaster.clone());
    // The client's default limit of 50 requests a second would be what is measured.
    let config = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"qps": 5000, "burst": 5000},
    });
    let start_options = StartOptions { config: config.to_string(), metrics: true, ..StartOptions::default() };
    let mut scheduler = Scheduler::start(&contender, &cluster, &start_options)?;
    let begin = Instant::now();
    let mut stream = Stream::new(client, options);
    let mut report = Report { churn: options.churn, ..Report::default() };
    for number in 1..=options.minutes {
        let (cpu, created) = (process::cpu_time(scheduler.pid())?, stream.created);
        for _ in 0..STEPS_PER_MINUTE {
            stream.run_for(STEP).or_else(|error| scheduler.check().and(Err(error)))?;
            scheduler.check()?;
            let resident_mib = process::memory(scheduler.pid())?.resident as f64 / 1024.0;
            report.samples.push(Sample { at_s: begin.elapsed().as_secs_f64(), resident_mib });
        }
        let cpu = process::cpu_time(scheduler.pid())?.saturating_sub(cpu);
        let pods = stream.created - created;
        let numbers = scheduler.page("/metrics")?.unwrap_or_default();
        let cached = |kind: &str| sum(&numbers, "scheduler_cache_size{", kind);
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
            "{} pods wait for a node; the cost of the others says little",
            minute.pending
        );
        report.minutes.push(minute);
    }
    scheduler.stop()?;
    Ok(report)
}

/// Pods that come and go.
struct Stream<'a> {
    client: &'a ApiClient,
    interval: Duration,
    /// How many are there before the first goes: those of a minute.
    kept: usize,
    created: u64,
    there: VecDeque<u64>,
    next: Instant,
    churn: Option<Churn<'a>>,
}

impl<'a> Stream<'a> {
    fn new(client: &'a ApiClient, options: &Options) -> Self {
        let Options { rate, nodes, churn, .. } = *options;
        let (interval, kept) = (Duration::from_secs(1) / rate as u32, 60 * rate as usize);
        let churn = churn.then(|| Churn::new(client, rate, nodes));
        Self { client, interval, kept, created: 0, there: VecDeque::new(), next: Instant::now(), churn }
    }

    /// A stream that has fallen behind catches up.
    fn run_for(&mut self, time: Duration) -> Result<()> {
        let end = self.next + time;
        while self.next < end {
            sleep(self.next.saturating_duration_since(Instant::now()));
            let mut pod = pod(self.created);
            if let Some(churn) = &mut self.churn {
                churn.before(self.created, &mut pod)?;
            }
            self.client.post(PODS, &pod).context("creating a pod")?;
            self.there.push_back(self.created);
            self.created += 1;
            if self.there.len() > self.kept
                && let Some(oldest) = self.there.pop_front()
            {
                let path = format!("{PODS}/{}?gracePeriodSeconds=0", name(oldest));
                gone(self.client.delete(&path)).context("deleting a pod")?;
                if let Some(churn) = &self.churn {
                    churn.after(oldest)?;
                }
            }
            self.next += self.interval;
        }
        Ok(())
    }
}

/// What was deleted already is gone as well.
fn gone(answer: Result<Value, Error>) -> Result<(), Error> {
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
    fn memory_that_grows_counts_with_churn_only() {
        let sample = |i: u32| Sample { at_s: f64::from(i), resident_mib: f64::from(100 + i) };
        let growing = Report { samples: (0..40).map(sample).collect(), ..report(&[1.0; 5]) };
        assert!(growing.is_steady());
        assert!(!Report { churn: true, ..growing }.is_steady());
    }

    #[test]
    fn every_pod_has_a_label_of_its_own_and_a_tenth_a_selector() {
        let pods: Vec<Value> = (0..100).map(pod).collect();
        let own: std::collections::HashSet<_> =
            pods.iter().map(|pod| pod["metadata"]["labels"]["own"].to_string()).collect();
        assert_eq!(own.len(), 100);
        assert_eq!(pods.iter().filter(|pod| pod["spec"]["affinity"].is_object()).count(), 10);
    }
}
