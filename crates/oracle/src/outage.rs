//! Measurement of how soon a scheduler binds pods after an outage of the API server.
//!
//! Each run has its own control plane. Some pods are bound, then kube-apiserver is killed and restarted on the same
//! port later; etcd keeps running. As soon as `/readyz` succeeds, more pods are created. The times of their bindings
//! come from etcd's history, so neither the load nor the caches of the new kube-apiserver delay what is measured.

use std::collections::HashMap;
use std::fmt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use comfy_table::{Table, presets};
use harbormaster_api::{Release, Timestamp};
use serde::Serialize;

use crate::bench::alternating;
use crate::components::{ApiClient, ControlPlane, ControlPlaneOptions};
use crate::replicas::history::{self, Change};
use crate::replicas::{load, wall_clock};
use crate::scheduler::{Contender, Scheduler, StartOptions};

/// Number of pods that are bound before the outage.
const EARLIER: usize = 20;
/// Number of pods that are created after the outage.
const PODS: usize = 20;
const NODES: usize = 10;
const SEED: u64 = 1;
/// Longest time after the outage, or after a new leader has the lease, until Harbormaster binds the first pod.
const LIMIT_S: f64 = 2.0;
/// Time that standbys have to read the cluster and to see the lease.
const SETTLING: Duration = Duration::from_secs(6);
/// Time limit for anything that a run waits for. Delays of client-go grow to one minute during an outage.
const PATIENCE: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(10);

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler";

/// Options of a measurement.
#[derive(Debug, Clone)]
pub struct Options {
    /// Release of Kubernetes.
    pub release: Release,
    /// Time from the end of kube-apiserver until it is started again.
    pub outage: Duration,
    /// Number of runs of each scheduler.
    pub pairs: usize,
    /// Number of instances of the scheduler. More than one elect a leader.
    pub replicas: usize,
}

/// One outage. Times are in seconds after `/readyz` succeeded.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// Name of the scheduler.
    pub scheduler: &'static str,
    /// Time from the end of kube-apiserver until `/readyz` succeeded.
    pub down_s: f64,
    /// Time at which an instance had acquired or renewed the lease, with several instances.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_s: Option<f64>,
    /// Time at which the first pod was bound.
    pub first_s: f64,
    /// Time at which all pods were bound.
    pub all_s: f64,
}

/// All runs, in order.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Requested length of each outage.
    pub outage_s: f64,
    /// Number of instances of the scheduler.
    pub replicas: usize,
    /// Longest time until Harbormaster's first binding after the outage, or after the lease was taken.
    pub limit_s: f64,
    /// The runs.
    pub runs: Vec<Run>,
}

/// Runs the contenders in the order A B B A, or only the first if there is one. Calls `progress` after each run.
///
/// # Errors
/// If a component fails, or if pods are not bound within minutes.
pub fn run(options: &Options, contenders: &[Contender], mut progress: impl FnMut(&Run)) -> Result<Report> {
    let mut runs = Vec::new();
    for contender in alternating(options.pairs).filter_map(|index| contenders.get(index)) {
        let run = measure(options, contender).with_context(|| contender.name())?;
        progress(&run);
        runs.push(run);
    }
    let (outage_s, replicas) = (options.outage.as_secs_f64(), options.replicas);
    Ok(Report { outage_s, replicas, limit_s: LIMIT_S, runs })
}

fn measure(options: &Options, contender: &Contender) -> Result<Run> {
    let mut cluster = ControlPlane::start(&ControlPlaneOptions {
        release: options.release,
        apiserver_flags: vec![history::FLAG.to_owned()],
        ..ControlPlaneOptions::default()
    })?;
    let client = cluster.client().clone();
    for (name, capacity) in load::nodes(NODES) {
        client.post(load::NODES, &load::node(&name, capacity)).context("creating nodes")?;
    }
    let mut bindings = Bindings::follow(cluster.etcd_url());
    let elects = options.replicas > 1;
    let start_options = StartOptions { leader_election: elects, ..StartOptions::default() };
    let mut schedulers = (0..options.replicas.max(1))
        .map(|_| Scheduler::start(contender, &cluster, &start_options))
        .collect::<Result<Vec<_>>>()?;
    create(&client, 0..EARLIER)?;
    bindings.wait_for(0..EARLIER, &mut schedulers)?;
    sleep(SETTLING);

    let (killed, killed_at) = (Instant::now(), wall_clock());
    cluster.kill_apiserver()?;
    sleep(options.outage);
    cluster.restart_apiserver(false, PATIENCE)?;
    let ready = Instant::now();

    let lease = elects.then(|| {
        let client = client.clone();
        thread::spawn(move || wait_for_lease(&client, killed_at))
    });
    create(&client, EARLIER..EARLIER + PODS)?;
    let bound = bindings.wait_for(EARLIER..EARLIER + PODS, &mut schedulers)?;
    let lease =
        lease.map(|lease| lease.join().unwrap_or_else(|_| bail!("the thread panicked"))).transpose()?;
    let seconds = |at: Instant| at.saturating_duration_since(ready).as_secs_f64();
    Ok(Run {
        scheduler: contender.name(),
        down_s: ready.duration_since(killed).as_secs_f64(),
        lease_s: lease.map(seconds),
        first_s: bound.first().copied().map_or(0.0, seconds),
        all_s: bound.iter().max().copied().map_or(0.0, seconds),
    })
}

fn create(client: &ApiClient, numbers: std::ops::Range<usize>) -> Result<()> {
    let mut pods = numbers.map(|number| load::pod(SEED, number as u64));
    pods.try_for_each(|pod| client.post(load::PODS, &pod).map(drop)).context("creating pods")
}

/// Waits until the lease has been renewed after `outage` began. Only the restarted server can have stored this.
fn wait_for_lease(client: &ApiClient, outage: Timestamp) -> Result<Instant> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        // The server has only just started, so requests may still fail.
        let renewed = client.get(LEASE).ok().and_then(|lease| renewed(&lease));
        if renewed.is_some_and(|at| at > outage) {
            return Ok(Instant::now());
        }
        sleep(POLL);
    }
    bail!("no instance has taken the lease within {PATIENCE:?}")
}

fn renewed(lease: &serde_json::Value) -> Option<Timestamp> {
    Timestamp::parse(lease["spec"]["renewTime"].as_str()?).ok()
}

/// Bindings of pods, by the names of the pods.
struct Bindings {
    changes: Receiver<(Instant, Result<Change>)>,
    bound: HashMap<String, Instant>,
}

impl Bindings {
    fn follow(etcd: &str) -> Self {
        let (sender, changes) = channel();
        history::follow(etcd, move |change| sender.send((Instant::now(), change)).is_ok());
        Self { changes, bound: HashMap::new() }
    }

    /// Waits until the pods with these numbers are bound, and returns the times of their bindings.
    fn wait_for(
        &mut self,
        numbers: std::ops::Range<usize>,
        schedulers: &mut [Scheduler],
    ) -> Result<Vec<Instant>> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let times = numbers.clone().map(|number| self.bound.get(&format!("pod-{number}")).copied());
            if let Some(times) = times.collect::<Option<Vec<_>>>() {
                return Ok(times);
            }
            if Instant::now() > deadline {
                // Of several instances, the leader exits when its lease runs out.
                if let [only] = schedulers {
                    only.check()?;
                }
                bail!("pods are not bound after {PATIENCE:?}; {} are", self.bound.len());
            }
            match self.changes.recv_timeout(POLL) {
                Ok((at, change)) => self.add(at, change?),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => bail!("the watch of etcd has ended"),
            }
        }
    }

    fn add(&mut self, at: Instant, change: Change) {
        if let Change::Put(pod) = change
            && pod.node.is_some()
        {
            self.bound.entry(pod.name).or_insert(at);
        }
    }
}

impl Run {
    /// Time until the first binding, without the time for which the scheduler had to wait for the lease.
    #[must_use]
    pub fn own_s(&self) -> f64 {
        (self.first_s - self.lease_s.unwrap_or(0.0)).max(0.0)
    }
}

impl Report {
    /// The runs in which Harbormaster bound its first pod too late.
    pub fn late(&self) -> impl Iterator<Item = &Run> {
        let ours = |run: &&Run| run.scheduler == "harbormaster";
        self.runs.iter().filter(ours).filter(|run| run.own_s() > self.limit_s)
    }

    fn table(&self) -> Table {
        let has_lease = self.replicas > 1;
        let mut header = vec!["scheduler", "down s"];
        header.extend(has_lease.then_some("lease taken s"));
        header.extend(["first bound s", "all bound s"]);
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN).set_header(header);
        for run in &self.runs {
            let seconds = |value: f64| format!("{value:.2}");
            let mut row = vec![run.scheduler.to_owned(), seconds(run.down_s)];
            row.extend(has_lease.then(|| run.lease_s.map(seconds).unwrap_or_default()));
            row.extend([run.first_s, run.all_s].map(seconds));
            table.add_row(row);
        }
        table
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.table())?;
        writeln!(
            f,
            "seconds after /readyz succeeded; kube-apiserver was started again {} s after its end; {PODS} new pods",
            self.outage_s
        )?;
        let after = if self.replicas > 1 { "the lease was taken" } else { "/readyz succeeded" };
        match self.late().count() {
            0 => write!(f, "harbormaster's first bindings came within {} s after {after}", self.limit_s),
            late => write!(
                f,
                "in {late} runs, harbormaster's first binding came more than {} s after {after}",
                self.limit_s
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report(replicas: usize, runs: &[(&'static str, Option<f64>, f64)]) -> Report {
        let run = |&(scheduler, lease_s, first_s): &(&'static str, Option<f64>, f64)| Run {
            scheduler,
            down_s: 25.5,
            lease_s,
            first_s,
            all_s: first_s + 0.25,
        };
        Report { outage_s: 20.0, replicas, limit_s: LIMIT_S, runs: runs.iter().map(run).collect() }
    }

    #[test]
    fn only_harbormaster_can_be_late() {
        let report = report(1, &[("kube-scheduler", None, 31.0), ("harbormaster", None, 1.5)]);
        assert_eq!(report.late().count(), 0);
        let text = report.to_string();
        assert!(text.contains("| harbormaster   | 25.50  | 1.50          | 1.75        |"), "{text}");
        assert!(
            text.contains("came within 2 s after /readyz succeeded") && !text.contains("lease"),
            "{text}"
        );
    }

    #[test]
    fn a_first_binding_after_the_limit_is_late() {
        let report = report(1, &[("harbormaster", None, 2.1), ("harbormaster", None, 1.9)]);
        assert_eq!(report.late().map(|run| run.first_s).collect::<Vec<_>>(), [2.1]);
        assert!(report.to_string().contains("in 1 runs, harbormaster's first binding came more than 2 s"));
    }

    #[test]
    fn the_wait_for_the_lease_is_not_the_schedulers_own_time() {
        let report = report(3, &[("harbormaster", Some(3.5), 4.0), ("harbormaster", Some(0.5), 3.0)]);
        assert_eq!(report.late().map(Run::own_s).collect::<Vec<_>>(), [2.5]);
        assert!(report.to_string().contains("| harbormaster | 25.50  | 3.50          | 4.00"), "{report}");
        let first = report.runs[1].clone();
        assert_eq!(
            Run { first_s: 0.25, ..first }.own_s(),
            0.0,
            "a leader may bind before it renews its lease"
        );
    }

    #[test]
    fn only_the_first_write_with_a_node_is_the_binding() {
        let (_sender, changes) = channel();
        let mut bindings = Bindings { changes, bound: HashMap::new() };
        let begun = Instant::now();
        let later = |seconds| begun + Duration::from_secs(seconds);
        let pod = |node: Option<&str>| {
            Change::Put(history::Pod {
                name: "pod-0".to_owned(),
                node: node.map(str::to_owned),
                cpu: 0,
                memory: 0,
            })
        };
        bindings.add(later(0), pod(None));
        bindings.add(later(1), pod(Some("n")));
        bindings.add(later(2), pod(Some("n")));
        assert_eq!(bindings.wait_for(0..1, &mut []).unwrap(), [later(1)]);
    }

    #[test]
    fn the_renewal_of_a_lease_is_read() {
        let lease = json!({"spec": {"renewTime": "2026-01-02T03:04:05.000006Z"}});
        assert_eq!(renewed(&lease), Timestamp::parse("2026-01-02T03:04:05.000006Z").ok());
        assert_eq!(renewed(&json!({"spec": {}})), None);
    }
}
