//! Whether replicas of Harbormaster keep their promises whatever happens to them.
//!
//! Three processes with leader election, one real etcd and kube-apiserver, pods that come and go at a steady pace on nodes
//! that are full by four fifths; and on a plan ([`Plan`]) leaders are killed, kube-apiserver is restarted, etcd stands still,
//! and the clock of one replica is wrong by minutes all the time.
//!
//! What became of it is judged by what Harbormaster has no part in: etcd's own history (`history`, `ledger`) and
//! kube-apiserver's audit log (`audit`). Each of these is a [`Violation`]:
//! - a pod that was bound twice, or whose node changed;
//! - a node that ever had more CPU, memory or pods than it can hold, in the order of etcd's revisions;
//! - a pod that has no node when there was time and room;
//! - a replica that wrote anything after another had the lease;
//! - a replica that ended or panicked without a reason;
//! - with [`Options::judges_times`], a lease that stayed with a killed replica for too long.
//!
//! Reading order: [`Plan`], `crew` (the processes), `load` (the pods), `history`, `ledger`, `audit`, `skew` (the wrong
//! clock), [`Report`].

mod audit;
mod crew;
mod history;
mod ledger;
mod load;
mod plan;
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
use harbormaster_api::Timestamp;

use self::audit::{Book, Log};
use self::crew::Crew;
use self::ledger::Ledger;
use self::load::{Load, lock};
pub use self::plan::{Plan, Trouble};
pub use self::report::{Report, Row, TakeOver, Waits};
pub use self::violation::Violation;
use crate::components::{ControlPlane, ControlPlaneOptions};

/// How many there are.
const REPLICAS: usize = 3;
/// client-go's defaults: how long a lease is respected that is not renewed …
const LEASE: Duration = Duration::from_secs(15);
/// … and how long a standby pauses at most: the retry period, and 1.2 times as long again at random.
const PAUSE: Duration = Duration::from_millis(4_400);
/// What requests may add.
const SLACK: Duration = Duration::from_secs(1);
/// Longer than everything that may happen to a pod one after the other: etcd stands still, a leader is killed, pods that
/// found no room are in backoff.
const LONGEST_WAIT: Duration = Duration::from_secs(120);
/// When a lease is that young its holder leads.
const FRESH: Duration = Duration::from_secs(5);

const TICK: Duration = Duration::from_millis(50);
/// From one row of the table to the next.
const ROW: Duration = Duration::from_secs(10);
/// For what takes its time on a machine that is busy with something else.
const PATIENCE: Duration = Duration::from_secs(180);

/// What to run.
#[derive(Debug, Clone)]
pub struct Options {
    /// The scheduler's program.
    pub harbormaster: PathBuf,
    /// What happens.
    pub plan: Plan,
    /// Chooses the sizes of pods.
    pub seed: u64,
    /// Pods per second.
    pub rate: u32,
    /// Nodes with room for about forty pods each.
    pub nodes: usize,
    /// Whether it counts when something takes too long. Not on a machine that has other things to do.
    pub judges_times: bool,
}

/// Runs, and tells `progress` every ten seconds how it stands.
///
/// # Errors
/// When the instrument itself fails. What replicas do wrong is in the report.
pub fn run(options: &Options, mut progress: impl FnMut(&Row)) -> Result<Report> {
    let mut play = Play::begin(options)?;
    let lasts = Duration::from_secs(options.plan.lasts_s);
    while play.begin.elapsed() < lasts || !play.troubles.is_empty() {
        ensure!(
            play.begin.elapsed() < lasts + PATIENCE,
            "nobody has led for minutes, so nobody could be killed; who led: {:?}",
            play.book.terms
        );
        play.next(&mut progress)?;
    }
    play.load.stop_creating();
    let ended = Instant::now();
    while ended.elapsed() < PATIENCE && !(play.is_settled() && play.crew.is_complete()) {
        play.next(&mut progress)?;
    }
    // Who waits still has seen the end of all troubles long ago.
    play.look()?;
    play.report()
}

/// A run.
struct Play<'a> {
    options: &'a Options,
    // Dropped in order: clients of the API first, the files last.
    load: Load,
    crew: Crew,
    cluster: ControlPlane,
    ledger: Arc<Mutex<Ledger>>,
    /// Why the history could not be read.
    trouble_with_history: Arc<Mutex<Option<anyhow::Error>>>,
    log: Log,
    book: Book,
    troubles: VecDeque<(u64, Trouble)>,
    kills: Vec<Kill>,
    begin: Instant,
    rows: u32,
    /// What has happened since the last row.
    happened: Vec<String>,
    /// Pods that were bound when the last row was told.
    told: usize,
    _files: tempfile::TempDir,
}

/// A leader that was killed.
struct Kill {
    replica: String,
    holder: String,
    at: Timestamp,
}

impl<'a> Play<'a> {
    /// Starts everything, and returns when the replica with the wrong clock leads and the pods begin to come.
    fn begin(options: &'a Options) -> Result<Self> {
        let files = tempfile::tempdir()?;
        let names: Vec<String> = (0..REPLICAS).map(|index| format!("replica-{index}")).collect();
        let (flags, log) = audit::flags(files.path(), &names)?;
        let cluster = start_cluster(files.path(), &names, flags)?;
        let client = cluster.client();
        for (name, room) in load::nodes(options.nodes) {
            client.post(load::NODES, &load::node(&name, room)).context("creating nodes")?;
        }
        let ledger = Arc::new(Mutex::new(Ledger::new(load::nodes(options.nodes))));
        let trouble_with_history = Arc::new(Mutex::new(None));
        follow(&cluster, &ledger, &trouble_with_history);

        let environment = skew::environment(files.path(), options.plan.skew_s)?;
        let mut crew = Crew::new(options.harbormaster.clone(), &cluster, &names, &environment)?;
        crew.start(true)?;
        let (mut log, mut book) = (Log::open(&log)?, Book::default());
        let started = Instant::now();
        while book.leader().is_none() {
            ensure!(started.elapsed() < PATIENCE, "{} does not lead after {PATIENCE:?}", names[0]);
            sleep(TICK);
            log.read()?.into_iter().for_each(|write| book.note(write));
        }
        crew.start(false)?;
        let load = Load::start(client, options.rate, options.seed, load::places(options.nodes), &ledger);
        Ok(Self {
            options,
            load,
            crew,
            cluster,
            ledger,
            trouble_with_history,
            log,
            book,
            troubles: options.plan.troubles.iter().copied().collect(),
            kills: Vec::new(),
            begin: Instant::now(),
            rows: 0,
            happened: Vec::new(),
            told: 0,
            _files: files,
        })
    }

    /// What there is to do now, and a moment's rest.
    fn next(&mut self, progress: &mut impl FnMut(&Row)) -> Result<()> {
        self.look()?;
        while let Some((at, trouble)) = self.troubles.front().copied()
            && at <= self.begin.elapsed().as_secs()
            && self.make(trouble)?
        {
            self.troubles.pop_front();
        }
        if self.begin.elapsed() >= ROW * (self.rows + 1) {
            self.rows += 1;
            progress(&self.row());
        }
        sleep(TICK);
        Ok(())
    }

    /// True if every pod was seen in etcd's history and has a node.
    fn is_settled(&self) -> bool {
        let numbers = lock(&self.ledger).numbers;
        numbers.created >= self.load.created() && numbers.pending == 0
    }

    /// Takes in what has happened.
    fn look(&mut self) -> Result<()> {
        if let Some(error) = lock(&self.trouble_with_history).take() {
            return Err(error.context("reading etcd's history"));
        }
        let terms = self.book.terms.len();
        self.log.read()?.into_iter().for_each(|write| self.book.note(write));
        let leaders: Vec<_> =
            self.book.terms[terms..].iter().map(|term| format!("{} leads", term.replica)).collect();
        leaders.into_iter().chain(self.crew.tend()?).for_each(|what| self.tell(&what));
        Ok(())
    }

    /// Remembers for the next row what has happened.
    fn tell(&mut self, what: &str) {
        self.happened.push(format!("{what} ({:.1} s)", self.begin.elapsed().as_secs_f64()));
    }

    /// Makes trouble; `false` if it has to wait.
    fn make(&mut self, trouble: Trouble) -> Result<bool> {
        match trouble {
            Trouble::KillLeader => return self.kill_leader(),
            Trouble::RestartApiServer { gracefully } => {
                self.cluster.restart_apiserver(gracefully, PATIENCE)?;
            }
            Trouble::StopEtcd => self.signal_etcd("STOP")?,
            Trouble::ContinueEtcd => self.signal_etcd("CONT")?,
        }
        self.tell(&trouble.to_string());
        Ok(true)
    }

    fn kill_leader(&mut self) -> Result<bool> {
        let now = wall_clock();
        let Some(leader) = self.book.leader().filter(|leader| now.since(leader.renewed) < FRESH) else {
            return Ok(false);
        };
        let (replica, holder) = (leader.replica.clone(), leader.holder.clone());
        if !self.crew.kill(&replica)? {
            return Ok(false);
        }
        self.tell(&format!("{replica} is killed"));
        self.kills.push(Kill { replica, holder, at: now });
        Ok(true)
    }

    fn signal_etcd(&self, name: &str) -> Result<()> {
        let pid = self.cluster.etcd().pid().to_string();
        let status =
            Command::new("kill").args([&format!("-{name}"), &pid]).status().context("running kill")?;
        ensure!(status.success(), "etcd takes no SIG{name}");
        Ok(())
    }

    fn row(&mut self) -> Row {
        let ledger = lock(&self.ledger);
        let numbers = ledger.numbers;
        let waits = &ledger.waits[self.told..];
        self.told = ledger.waits.len();
        Row {
            at_s: self.begin.elapsed().as_secs_f64(),
            created: numbers.created,
            bound: numbers.bound,
            deleted: numbers.gone,
            pending: numbers.pending,
            full: numbers.placed as f64 / (load::places(self.options.nodes) as f64 / 0.8),
            longest_wait_s: waits.iter().max().map_or(0.0, Duration::as_secs_f64),
            refused_bindings: self.book.refused.values().sum(),
            leader: self.book.leader().map(|leader| leader.replica.clone()).unwrap_or_default(),
            happened: std::mem::take(&mut self.happened),
        }
    }

    /// Ends everything, and judges.
    fn report(mut self) -> Result<Report> {
        self.crew.end()?;
        self.log.read()?.into_iter().for_each(|write| self.book.note(write));
        let skewed = self.book.offset("replica-0").context("replica-0 has never had the lease")?;
        let skew_s = self.options.plan.skew_s;
        ensure!(
            (skewed - skew_s as f64).abs() < 60.0,
            "the clock of replica-0 should be off by {skew_s} s, and is off by {skewed:.1} s"
        );
        let now = Instant::now();
        let ledger = lock(&self.ledger);
        let mut violations = ledger.violations.clone();
        violations.extend(self.book.violations());
        violations.extend(self.crew.violations.iter().cloned());
        let left = ledger.waiting(now).map(|(pod, waited)| (pod.to_owned(), waited));
        let slow =
            ledger.longest.clone().filter(|(_, wait)| self.options.judges_times && *wait > LONGEST_WAIT);
        let left = left.chain(slow);
        violations.extend(left.map(|(pod, wait)| Violation::LeftBehind { pod, seconds: wait.as_secs_f64() }));
        let take_overs: Vec<TakeOver> = self.kills.iter().map(|kill| self.take_over(kill)).collect();
        let limit = (LEASE + 2 * PAUSE + SLACK).as_secs_f64();
        let is_late = |take_over: &&TakeOver| {
            take_over.seconds.is_none_or(|seconds| self.options.judges_times && seconds > limit)
        };
        violations.extend(take_overs.iter().filter(is_late).map(|late| Violation::LateTakeOver {
            killed: late.killed.clone(),
            at: late.at.clone(),
            took: late.seconds,
            limit,
        }));
        let numbers = ledger.numbers;
        Ok(Report {
            plan: self.options.plan.clone(),
            rate: self.options.rate,
            nodes: self.options.nodes,
            created: numbers.created,
            bound: numbers.bound,
            deleted: numbers.gone,
            fullest_node: numbers.fullest as f64 / 1000.0,
            bindings: self.book.bound,
            refused_bindings: self.book.refused.clone(),
            terms: self.book.terms.iter().filter(|term| !term.holder.is_empty()).count(),
            leases_lost: self.crew.lost,
            take_overs,
            take_over_limit_s: limit,
            waits: Waits::of(&ledger.waits),
            clock_offsets_s: self
                .book
                .offsets
                .keys()
                .filter_map(|r| Some((r.clone(), self.book.offset(r)?)))
                .collect(),
            violations,
        })
    }

    fn take_over(&self, kill: &Kill) -> TakeOver {
        let next = self.book.take_over(&kill.holder, kill.at);
        TakeOver {
            killed: kill.replica.clone(),
            at: kill.at.to_rfc3339_micro(),
            by: next.map(|term| term.replica.clone()),
            seconds: next.map(|term| term.completed.since(kill.at).as_secs_f64()),
        }
    }
}

/// A cluster that knows the replicas by their names and writes down what they do.
fn start_cluster(files: &Path, replicas: &[String], audit: Vec<String>) -> Result<ControlPlane> {
    let tokens = files.join("tokens.csv");
    let mut lines = format!("{},admin,admin,system:masters\n", ControlPlane::TOKEN);
    for name in replicas {
        lines.push_str(&format!("{name},{name},{name}\n"));
    }
    std::fs::write(&tokens, lines)?;
    let mut apiserver_flags = audit;
    apiserver_flags.push(format!("--token-auth-file={}", tokens.display()));
    apiserver_flags.push(history::FLAG.to_owned());
    Ok(ControlPlane::start(&ControlPlaneOptions { apiserver_flags, ..ControlPlaneOptions::default() })?)
}

fn follow(cluster: &ControlPlane, ledger: &Arc<Mutex<Ledger>>, trouble: &Arc<Mutex<Option<anyhow::Error>>>) {
    let (ledger, trouble) = (Arc::downgrade(ledger), trouble.clone());
    history::follow(cluster.etcd_url(), move |change| {
        let Some(ledger) = ledger.upgrade() else { return false };
        match change {
            Ok(change) => lock(&ledger).note(change, Instant::now()),
            Err(error) => {
                *lock(&trouble) = Some(error);
                return false;
            }
        }
        true
    });
}

fn wall_clock() -> Timestamp {
    Timestamp::default() + SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
