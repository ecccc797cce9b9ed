//! Checks of the guarantees of several replicas of Harbormaster under faults.
//!
//! The setup is three processes with leader election, one real etcd and kube-apiserver, and pods that are created and
//! deleted at a steady rate on nodes that are 80 % full. According to a [`Plan`], leaders are killed, kube-apiserver is
//! restarted and etcd is suspended. Throughout the run, the clock of one replica is wrong by minutes.
//!
//! The result is evaluated from sources that Harbormaster does not influence: etcd's history (`history`, `ledger`) and
//! kube-apiserver's audit log (`audit`). Each of the following is a [`Violation`]:
//! - a pod was bound twice, or its node changed;
//! - at some etcd revision, the pods on a node exceeded the node's capacity for CPU, memory or pods;
//! - a pod has no node although there was time and capacity;
//! - a replica wrote anything after another replica had acquired the lease;
//! - a replica exited for a reason other than a lost lease, or panicked;
//! - no other replica led after a leader was killed;
//! - with [`Options::checks_times`], another replica led too late after a kill, or a pod was bound too late.
//!
//! Reading order: [`Plan`], `processes`, `load` (the pods), `history`, `ledger`, `audit`, `skew` (the wrong clock),
//! [`Report`].

mod audit;
pub(crate) mod history;
mod ledger;
pub(crate) mod load;
mod plan;
mod processes;
mod report;
mod skew;
mod violation;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use harbormaster_api::{Release, Timestamp};

use self::audit::{AuditLog, WriteLog};
use self::ledger::Ledger;
use self::load::{Load, lock};
pub use self::plan::{Fault, Plan};
use self::processes::Replicas;
pub use self::report::{Failover, Progress, Report, WaitTimes};
pub use self::violation::Violation;
use crate::components::{ControlPlane, ControlPlaneOptions};

/// Number of replicas.
const REPLICAS: usize = 3;
/// client-go's default lease duration: the time for which standbys respect a lease that has not been renewed.
const LEASE: Duration = Duration::from_secs(15);
/// Longest pause of a standby between two attempts to acquire the lease, with client-go's defaults: the retry period
/// plus a random time of up to 1.2 times the retry period.
const PAUSE: Duration = Duration::from_millis(4_400);
/// Time that requests may add to a time limit.
const SLACK: Duration = Duration::from_secs(1);
/// Time within which every pod must be bound. It is longer than the sum of all delays that the suspension of etcd, a
/// killed leader, and backoff may cause.
const LONGEST_WAIT: Duration = Duration::from_secs(120);
/// A lease holder counts as the leader only if it renewed the lease within this time.
const FRESH: Duration = Duration::from_secs(5);

const TICK: Duration = Duration::from_millis(50);
/// Interval between progress reports.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);
/// Time limit for operations that may be slow on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// Options of a run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Release of Kubernetes.
    pub release: Release,
    /// Path of the harbormaster program.
    pub harbormaster: PathBuf,
    /// Faults.
    pub plan: Plan,
    /// Seed for the sizes of pods.
    pub seed: u64,
    /// Number of pods created per second.
    pub rate: u32,
    /// Number of nodes, each with capacity for about forty pods.
    pub nodes: usize,
    /// True if exceeded time limits are violations. Set this only on an otherwise idle machine.
    pub checks_times: bool,
}

/// Runs the test and calls `progress` every ten seconds.
///
/// # Errors
/// If the test itself fails. Violations are not errors; they are in the report.
pub fn run(options: &Options, mut progress: impl FnMut(&Progress)) -> Result<Report> {
    let mut run = Run::start(options)?;
    let duration = Duration::from_secs(options.plan.duration_s);
    while run.started.elapsed() < duration || !run.faults.is_empty() {
        ensure!(
            run.started.elapsed() < duration + PATIENCE,
            "no replica has led for minutes, so none could be killed; terms so far: {:?}",
            run.writes.terms
        );
        run.step(&mut progress)?;
    }
    run.load.stop_creating();
    let ended = Instant::now();
    while ended.elapsed() < PATIENCE && !(run.is_settled() && run.replicas.is_complete()) {
        run.step(&mut progress)?;
    }
    // By now, enough time has passed since the last fault for every pod to be bound.
    run.observe()?;
    run.report()
}

/// State of a run.
struct Run<'a> {
    options: &'a Options,
    // Dropped in order: first the clients of the API, last the files.
    load: Load,
    replicas: Replicas,
    cluster: ControlPlane,
    ledger: Arc<Mutex<Ledger>>,
    /// Error from reading the history.
    history_error: Arc<Mutex<Option<anyhow::Error>>>,
    log: AuditLog,
    writes: WriteLog,
    faults: VecDeque<(u64, Fault)>,
    kills: Vec<Kill>,
    started: Instant,
    progress_reports: u32,
    /// Events since the last progress report.
    events: Vec<String>,
    /// Number of bound pods at the last progress report.
    reported: usize,
    _files: tempfile::TempDir,
}

/// A leader that was killed.
struct Kill {
    replica: String,
    holder: String,
    at: Timestamp,
}

impl<'a> Run<'a> {
    /// Starts everything. Returns when the replica with the wrong clock leads and the first pods have been created.
    fn start(options: &'a Options) -> Result<Self> {
        let files = tempfile::tempdir()?;
        let names: Vec<String> = (0..REPLICAS).map(|index| format!("replica-{index}")).collect();
        let (flags, log) = audit::flags(files.path(), &names)?;
        let cluster = start_cluster(options.release, files.path(), &names, flags)?;
        let client = cluster.client();
        for (name, capacity) in load::nodes(options.nodes) {
            client.post(load::NODES, &load::node(&name, capacity)).context("creating nodes")?;
        }
        let ledger = Arc::new(Mutex::new(Ledger::new(load::nodes(options.nodes))));
        let history_error = Arc::new(Mutex::new(None));
        follow(&cluster, &ledger, &history_error);

        let environment = skew::environment(files.path(), options.plan.skew_s)?;
        let mut replicas = Replicas::new(options.harbormaster.clone(), &cluster, &names, &environment)?;
        replicas.start(true)?;
        let (mut log, mut writes) = (AuditLog::open(&log)?, WriteLog::default());
        let started = Instant::now();
        while writes.leader().is_none() {
            ensure!(started.elapsed() < PATIENCE, "{} does not lead after {PATIENCE:?}", names[0]);
            sleep(TICK);
            log.read()?.into_iter().for_each(|write| writes.add(write));
        }
        replicas.start(false)?;
        let load = Load::start(client, options.rate, options.seed, load::places(options.nodes), &ledger);
        Ok(Self {
            options,
            load,
            replicas,
            cluster,
            ledger,
            history_error,
            log,
            writes,
            faults: options.plan.faults.iter().copied().collect(),
            kills: Vec::new(),
            started: Instant::now(),
            progress_reports: 0,
            events: Vec::new(),
            reported: 0,
            _files: files,
        })
    }

    /// Takes the actions that are due now, then sleeps for a moment.
    fn step(&mut self, progress: &mut impl FnMut(&Progress)) -> Result<()> {
        self.observe()?;
        while let Some((at, fault)) = self.faults.front().copied()
            && at <= self.started.elapsed().as_secs()
            && self.inject(fault)?
        {
            self.faults.pop_front();
        }
        if self.started.elapsed() >= PROGRESS_INTERVAL * (self.progress_reports + 1) {
            self.progress_reports += 1;
            progress(&self.progress());
        }
        sleep(TICK);
        Ok(())
    }

    /// Returns true if every pod has appeared in etcd's history and has a node.
    fn is_settled(&self) -> bool {
        let counts = lock(&self.ledger).counts;
        counts.created >= self.load.created() && counts.pending == 0
    }

    /// Reads new entries of the audit log, and restarts replicas that have exited.
    fn observe(&mut self) -> Result<()> {
        if let Some(error) = lock(&self.history_error).take() {
            return Err(error.context("reading etcd's history"));
        }
        let terms = self.writes.terms.len();
        self.log.read()?.into_iter().for_each(|write| self.writes.add(write));
        let leaders: Vec<_> =
            self.writes.terms[terms..].iter().map(|term| format!("{} leads", term.replica)).collect();
        leaders.into_iter().chain(self.replicas.restart_ended()?).for_each(|event| self.record(&event));
        Ok(())
    }

    /// Adds an event to the next progress report.
    fn record(&mut self, event: &str) {
        self.events.push(format!("{event} ({:.1} s)", self.started.elapsed().as_secs_f64()));
    }

    /// Injects a fault. Returns false if the fault has to wait.
    fn inject(&mut self, fault: Fault) -> Result<bool> {
        match fault {
            Fault::KillLeader => return self.kill_leader(),
            Fault::RestartApiServer { gracefully } => {
                self.cluster.restart_apiserver(gracefully, PATIENCE)?;
            }
            Fault::StopEtcd => self.signal_etcd("STOP")?,
            Fault::ContinueEtcd => self.signal_etcd("CONT")?,
        }
        self.record(&fault.to_string());
        Ok(true)
    }

    fn kill_leader(&mut self) -> Result<bool> {
        let now = wall_clock();
        let Some(leader) = self.writes.leader().filter(|leader| now.since(leader.renewed) < FRESH) else {
            return Ok(false);
        };
        let (replica, holder) = (leader.replica.clone(), leader.holder.clone());
        if !self.replicas.kill(&replica)? {
            return Ok(false);
        }
        self.record(&format!("{replica} is killed"));
        self.kills.push(Kill { replica, holder, at: now });
        Ok(true)
    }

    fn signal_etcd(&self, name: &str) -> Result<()> {
        let pid = self.cluster.etcd().pid().to_string();
        let status =
            Command::new("kill").args([&format!("-{name}"), &pid]).status().context("running kill")?;
        ensure!(status.success(), "sending SIG{name} to etcd failed");
        Ok(())
    }

    fn progress(&mut self) -> Progress {
        let ledger = lock(&self.ledger);
        let counts = ledger.counts;
        let waits = &ledger.waits[self.reported..];
        self.reported = ledger.waits.len();
        Progress {
            at_s: self.started.elapsed().as_secs_f64(),
            created: counts.created,
            bound: counts.bound,
            deleted: counts.deleted,
            pending: counts.pending,
            full: counts.placed as f64 / (load::places(self.options.nodes) as f64 / 0.8),
            longest_wait_s: waits.iter().max().map_or(0.0, Duration::as_secs_f64),
            refused_bindings: self.writes.refused.values().sum(),
            leader: self.writes.leader().map(|leader| leader.replica.clone()).unwrap_or_default(),
            events: std::mem::take(&mut self.events),
        }
    }

    /// Stops everything and evaluates the run.
    fn report(mut self) -> Result<Report> {
        self.replicas.stop()?;
        self.log.read()?.into_iter().for_each(|write| self.writes.add(write));
        let skewed = self.writes.offset("replica-0").context("replica-0 has never held the lease")?;
        let skew_s = self.options.plan.skew_s;
        ensure!(
            (skewed - skew_s as f64).abs() < 60.0,
            "the clock of replica-0 should be off by {skew_s} s, but is off by {skewed:.1} s"
        );
        let now = Instant::now();
        let ledger = lock(&self.ledger);
        let mut violations = ledger.violations.clone();
        violations.extend(self.writes.violations());
        violations.extend(self.replicas.violations.iter().cloned());
        let pending = ledger.waiting(now).map(|(pod, waited)| (pod.to_owned(), waited));
        let slow =
            ledger.longest.clone().filter(|(_, wait)| self.options.checks_times && *wait > LONGEST_WAIT);
        let late = pending.chain(slow);
        violations.extend(late.map(|(pod, wait)| Violation::LeftBehind { pod, seconds: wait.as_secs_f64() }));
        let failovers: Vec<Failover> = self.kills.iter().map(|kill| self.failover(kill)).collect();
        let limit = (LEASE + 2 * PAUSE + SLACK).as_secs_f64();
        let is_late = |failover: &&Failover| {
            failover.seconds.is_none_or(|seconds| self.options.checks_times && seconds > limit)
        };
        violations.extend(failovers.iter().filter(is_late).map(|late| Violation::LateFailover {
            killed: late.killed.clone(),
            at: late.at.clone(),
            took: late.seconds,
            limit,
        }));
        let counts = ledger.counts;
        Ok(Report {
            plan: self.options.plan.clone(),
            rate: self.options.rate,
            nodes: self.options.nodes,
            created: counts.created,
            bound: counts.bound,
            deleted: counts.deleted,
            fullest_node: counts.fullest as f64 / 1000.0,
            bindings: self.writes.bound,
            refused_bindings: self.writes.refused.clone(),
            terms: self.writes.terms.iter().filter(|term| !term.holder.is_empty()).count(),
            leases_lost: self.replicas.lost,
            failovers,
            failover_limit_s: limit,
            waits: WaitTimes::of(&ledger.waits),
            clock_offsets_s: self
                .writes
                .offsets
                .keys()
                .filter_map(|r| Some((r.clone(), self.writes.offset(r)?)))
                .collect(),
            violations,
        })
    }

    fn failover(&self, kill: &Kill) -> Failover {
        let next = self.writes.failover(&kill.holder, kill.at);
        Failover {
            killed: kill.replica.clone(),
            at: kill.at.to_rfc3339_micro(),
            by: next.map(|term| term.replica.clone()),
            seconds: next.map(|term| term.completed.since(kill.at).as_secs_f64()),
        }
    }
}

/// Starts a cluster with a user for each replica and an audit log of their requests.
fn start_cluster(
    release: Release,
    files: &Path,
    replicas: &[String],
    audit: Vec<String>,
) -> Result<ControlPlane> {
    let tokens = files.join("tokens.csv");
    let mut lines = format!("{},admin,admin,system:masters\n", ControlPlane::TOKEN);
    for name in replicas {
        lines.push_str(&format!("{name},{name},{name}\n"));
    }
    std::fs::write(&tokens, lines)?;
    let mut apiserver_flags = audit;
    apiserver_flags.push(format!("--token-auth-file={}", tokens.display()));
    apiserver_flags.push(history::FLAG.to_owned());
    let options = ControlPlaneOptions { release, apiserver_flags, ..ControlPlaneOptions::default() };
    Ok(ControlPlane::start(&options)?)
}

fn follow(
    cluster: &ControlPlane,
    ledger: &Arc<Mutex<Ledger>>,
    first_error: &Arc<Mutex<Option<anyhow::Error>>>,
) {
    let (ledger, first_error) = (Arc::downgrade(ledger), first_error.clone());
    history::follow(cluster.etcd_url(), move |change| {
        let Some(ledger) = ledger.upgrade() else { return false };
        match change {
            Ok(change) => lock(&ledger).apply(change, Instant::now()),
            Err(error) => {
                *lock(&first_error) = Some(error);
                return false;
            }
        }
        true
    });
}

pub(crate) fn wall_clock() -> Timestamp {
    Timestamp::default() + SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
