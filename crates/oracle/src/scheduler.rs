//! A scheduler under test: the original, or Harbormaster, as a process.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::components::{ApiClient, Component, Endpoint, free_ports};
use crate::process;

/// How long a scheduler may take to end by itself.
const GRACE: Duration = Duration::from_secs(5);

/// How long a scheduler may take to be ready.
const START: Duration = Duration::from_secs(60);

const POLL: Duration = Duration::from_millis(10);

/// Which scheduler to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contender {
    /// The original.
    KubeScheduler,
    /// The program at this path.
    Harbormaster(PathBuf),
}

impl Contender {
    /// Its name in reports.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::KubeScheduler => "kube-scheduler",
            Self::Harbormaster(_) => "harbormaster",
        }
    }
}

/// How to start it.
#[derive(Debug, Clone, Default)]
pub struct StartOptions {
    /// A KubeSchedulerConfiguration in JSON or YAML.
    pub config: String,
    /// `Gate=bool` for both contenders.
    pub feature_gates: Vec<String>,
    /// Decide exactly like kube-scheduler: Harbormaster's `--parity`, and for
    /// kube-scheduler an initial list in the order of names.
    pub parity: bool,
    /// Serve metrics, so that [`Scheduler::activity`] and [`Scheduler::page`] have an answer.
    pub metrics: bool,
}

/// A running scheduler; it ends with this value.
#[derive(Debug)]
pub struct Scheduler {
    process: Process,
    metrics: Option<ApiClient>,
}

#[derive(Debug)]
enum Process {
    Original(Component),
    Harbormaster(Program),
}

/// Harbormaster's process; unlike the original it does not follow a pipe.
#[derive(Debug)]
struct Program {
    child: Child,
    log: PathBuf,
}

/// What a scheduler says about its own work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Activity {
    /// Pods that are about to be tried.
    pub queued: u64,
    /// Attempts so far.
    pub attempts: u64,
}

impl Scheduler {
    /// Starts `contender` on `cluster` and, where it can tell, waits until it
    /// schedules.
    pub fn start(contender: &Contender, cluster: &Endpoint, options: &StartOptions) -> Result<Self> {
        let mut scheduler = match contender {
            Contender::KubeScheduler => start_original(cluster, options)?,
            Contender::Harbormaster(binary) => start_harbormaster(binary, cluster, options)?,
        };
        let deadline = Instant::now() + START;
        while let Some(client) = &scheduler.metrics {
            if client.get_text("/readyz").is_ok() {
                break;
            }
            scheduler.check()?;
            if Instant::now() > deadline {
                bail!("{} is not ready after {START:?}", contender.name());
            }
            sleep(POLL);
        }
        Ok(scheduler)
    }

    /// The process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        match &self.process {
            Process::Original(component) => component.pid(),
            Process::Harbormaster(program) => program.child.id(),
        }
    }

    /// Fails with the end of the log when the process has ended.
    pub fn check(&mut self) -> Result<()> {
        let (status, log) = match &mut self.process {
            Process::Original(component) => (component.exit_status()?, component.log_path().to_owned()),
            Process::Harbormaster(program) => (program.child.try_wait()?, program.log.clone()),
        };
        match status {
            None => Ok(()),
            Some(status) => bail!("the scheduler ended ({status}); the end of its log:\n{}", tail(&log)),
        }
    }

    /// The scheduler's own account, where it serves one.
    pub fn activity(&self) -> Result<Option<Activity>> {
        let Some(text) = self.page("/metrics")? else { return Ok(None) };
        let pending = |queue| sum(&text, "scheduler_pending_pods{", queue);
        let queued = pending("\"active\"") + pending("\"backoff\"");
        Ok(Some(Activity { queued, attempts: sum(&text, "scheduler_schedule_attempts_total{", "") }))
    }

    /// The page with its metrics at that path, where it serves one.
    pub fn page(&self, path: &str) -> Result<Option<String>> {
        Ok(self.metrics.as_ref().map(|client| client.get_text(path)).transpose()?)
    }

    /// Whether it writes events in rounds: the last ones come some time after the attempt that they are about.
    #[must_use]
    pub fn writes_events_in_rounds(&self) -> bool {
        matches!(self.process, Process::Harbormaster(_))
    }

    /// Ends it gracefully.
    pub fn stop(self) -> Result<()> {
        match self.process {
            Process::Original(component) => component.stop().map(drop).map_err(Into::into),
            Process::Harbormaster(program) => program.stop(),
        }
    }
}

impl Program {
    fn stop(mut self) -> Result<()> {
        process::ask_to_end(self.child.id()).context("running kill")?;
        let deadline = Instant::now() + GRACE;
        while self.child.try_wait()?.is_none() && Instant::now() < deadline {
            sleep(POLL);
        }
        Ok(())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Both fail only when the process is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The sum of the series on a page of metrics whose line begins like this and has that label.
pub(crate) fn sum(page: &str, begin: &str, label: &str) -> u64 {
    let lines = page.lines().filter(|line| line.starts_with(begin) && line.contains(label));
    // Prometheus writes whole numbers as floats when they are large.
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>() as u64
}

/// Flags for a port that tells everybody how the scheduler is, and who asks there.
fn metrics_port() -> Result<(Vec<String>, ApiClient)> {
    let [port] = free_ports()?;
    let flags = vec![
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        "--authorization-always-allow-paths=/readyz,/metrics,/metrics/resources".to_owned(),
    ];
    Ok((flags, ApiClient::new(&format!("https://127.0.0.1:{port}"), "")))
}

fn start_original(cluster: &Endpoint, options: &StartOptions) -> Result<Scheduler> {
    let mut gates = options.feature_gates.clone();
    if options.parity {
        // A streamed initial list is delivered in the random order of a Go map.
        gates.push("WatchListClient=false".to_owned());
    }
    let mut flags = vec!["--pod-max-in-unschedulable-pods-duration=24h".to_owned()];
    if !gates.is_empty() {
        flags.push(format!("--feature-gates={}", gates.join(",")));
    }
    let mut metrics = None;
    if options.metrics {
        let (port, client) = metrics_port()?;
        flags.extend(port);
        metrics = Some(client);
    }
    let component = cluster.start_kube_scheduler(&options.config, &flags)?;
    Ok(Scheduler { process: Process::Original(component), metrics })
}

fn start_harbormaster(binary: &Path, cluster: &Endpoint, options: &StartOptions) -> Result<Scheduler> {
    let config = cluster.write_scheduler_config(&options.config)?;
    let log = config.with_extension("harbormaster.log");
    let output = File::create(&log)?;
    let mut command = Command::new(binary);
    command
        .arg("run")
        .arg(format!("--config={}", config.display()))
        .args(["--leader-elect=false", "--pod-max-in-unschedulable-pods-duration=24h"]);
    let mut metrics = None;
    if options.metrics {
        let (port, client) = metrics_port()?;
        command.args(port);
        metrics = Some(client);
    } else {
        command.arg("--secure-port=0");
    }
    if !options.feature_gates.is_empty() {
        command.arg(format!("--feature-gates={}", options.feature_gates.join(",")));
    }
    if options.parity {
        command.arg("--parity");
    }
    let child = command
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .spawn()
        .with_context(|| format!("running {}", binary.display()))?;
    Ok(Scheduler { process: Process::Harbormaster(Program { child, log }), metrics })
}

fn tail(log: &Path) -> String {
    process::last_lines(&std::fs::read_to_string(log).unwrap_or_default(), 20)
}
