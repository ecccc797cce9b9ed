//! A scheduler under test that runs as a process: kube-scheduler or Harbormaster.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use harbormaster_api::Release;

use crate::components::{ApiClient, Component, Endpoint, free_ports};
use crate::process;

/// Time that a scheduler has to exit after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);

/// Time that a scheduler has to become ready.
const START: Duration = Duration::from_secs(60);

const POLL: Duration = Duration::from_millis(10);

/// A scheduler that takes part in a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contender {
    /// The real kube-scheduler.
    KubeScheduler,
    /// The real kube-scheduler with the plugins of scheduler-plugins, run from the executable file at this path.
    SchedulerPlugins(PathBuf),
    /// Harbormaster, run from the executable file at this path.
    Harbormaster(PathBuf),
    /// Another build of Harbormaster, with which the first one is compared.
    Baseline(PathBuf),
}

impl Contender {
    /// Returns the contender's name in reports.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::KubeScheduler => "kube-scheduler",
            Self::SchedulerPlugins(_) => "scheduler-plugins",
            Self::Harbormaster(_) => "harbormaster",
            Self::Baseline(_) => "baseline",
        }
    }
}

/// Options for starting a scheduler.
#[derive(Debug, Clone, Default)]
pub struct StartOptions {
    /// A KubeSchedulerConfiguration in JSON or YAML.
    pub config: String,
    /// Feature gates for both contenders, of the form `Gate=bool`.
    pub feature_gates: Vec<String>,
    /// If true, both contenders must decide alike: Harbormaster runs with `--parity`, and kube-scheduler receives its
    /// initial lists in name order. Neither retries a pod only because it has waited for long.
    pub parity: bool,
    /// If true, the scheduler works only while it holds the lease of its name.
    pub leader_election: bool,
    /// If true, the scheduler serves metrics, which [`Scheduler::activity`] and [`Scheduler::page`] need.
    pub metrics: bool,
}

/// A running scheduler. Dropping it kills the process.
#[derive(Debug)]
pub struct Scheduler {
    process: Process,
    metrics: Option<ApiClient>,
}

#[derive(Debug)]
enum Process {
    KubeScheduler(Component),
    SchedulerPlugins(Program),
    Harbormaster(Program),
}

/// A process that does not exit when its standard input is closed, unlike a [`Component`].
#[derive(Debug)]
struct Program {
    child: Child,
    log: PathBuf,
}

/// A scheduler's metrics about its own work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Activity {
    /// Number of pods that are ready to be scheduled or in backoff.
    pub queued: u64,
    /// Number of attempts so far.
    pub attempts: u64,
}

impl Scheduler {
    /// Starts `contender` for the release of `cluster` and, if it serves metrics, waits until it is ready.
    pub fn start(contender: &Contender, cluster: &Endpoint, options: &StartOptions) -> Result<Self> {
        let scheduler = match contender {
            Contender::KubeScheduler => start_kube_scheduler(cluster, options)?,
            Contender::SchedulerPlugins(binary) => start_scheduler_plugins(binary, cluster, options)?,
            Contender::Harbormaster(binary) | Contender::Baseline(binary) => {
                start_harbormaster(binary, cluster, options, "run", &[])?
            }
        };
        scheduler.ready(contender.name())
    }

    /// Starts Harbormaster's shadow of the cluster's scheduler with `more` flags, and waits until it compares decisions.
    pub fn start_shadow(
        binary: &Path,
        cluster: &Endpoint,
        options: &StartOptions,
        more: &[String],
    ) -> Result<Self> {
        let flags: Vec<String> = more.iter().cloned().chain(["--every=0".to_owned()]).collect();
        let options = StartOptions { metrics: true, ..options.clone() };
        start_harbormaster(binary, cluster, &options, "shadow", &flags)?.ready("the shadow")
    }

    /// Waits until the scheduler is ready, if it serves metrics.
    fn ready(mut self, name: &str) -> Result<Self> {
        let deadline = Instant::now() + START;
        while let Some(client) = &self.metrics {
            if client.get_text("/readyz").is_ok() {
                break;
            }
            self.check()?;
            if Instant::now() > deadline {
                bail!("{name} is not ready after {START:?}");
            }
            sleep(POLL);
        }
        Ok(self)
    }

    /// Returns the process ID.
    #[must_use]
    pub fn pid(&self) -> u32 {
        match &self.process {
            Process::KubeScheduler(component) => component.pid(),
            Process::SchedulerPlugins(program) | Process::Harbormaster(program) => program.child.id(),
        }
    }

    /// Fails with the end of the log if the process has exited.
    pub fn check(&mut self) -> Result<()> {
        let (status, log) = match &mut self.process {
            Process::KubeScheduler(component) => (component.exit_status()?, component.log_path().to_owned()),
            Process::SchedulerPlugins(program) | Process::Harbormaster(program) => {
                (program.child.try_wait()?, program.log.clone())
            }
        };
        match status {
            None => Ok(()),
            Some(status) => bail!("the scheduler exited ({status}); the end of its log:\n{}", tail(&log)),
        }
    }

    /// Returns the scheduler's activity if it serves metrics.
    pub fn activity(&self) -> Result<Option<Activity>> {
        let Some(text) = self.page("/metrics")? else { return Ok(None) };
        let pending = |queue| sum(&text, "scheduler_pending_pods{", queue);
        let queued = pending("\"active\"") + pending("\"backoff\"");
        Ok(Some(Activity { queued, attempts: sum(&text, "scheduler_schedule_attempts_total{", "") }))
    }

    /// Returns the page of metrics at `path` if the scheduler serves metrics.
    pub fn page(&self, path: &str) -> Result<Option<String>> {
        Ok(self.metrics.as_ref().map(|client| client.get_text(path)).transpose()?)
    }

    /// Returns true if the scheduler writes events in batches, so that the last events arrive some time after the
    /// attempts that they report.
    #[must_use]
    pub fn writes_events_in_batches(&self) -> bool {
        matches!(self.process, Process::Harbormaster(_))
    }

    /// Stops the scheduler gracefully.
    pub fn stop(self) -> Result<()> {
        match self.process {
            Process::KubeScheduler(component) => component.stop().map(drop).map_err(Into::into),
            Process::SchedulerPlugins(program) | Process::Harbormaster(program) => program.stop(),
        }
    }
}

impl Program {
    /// Starts a program whose output goes to the file `log`.
    fn start(command: &mut Command, log: PathBuf) -> Result<Self> {
        let output = File::create(&log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("running {}", command.get_program().display()))?;
        Ok(Self { child, log })
    }

    fn stop(mut self) -> Result<()> {
        process::terminate(self.child.id()).context("running kill")?;
        let deadline = Instant::now() + GRACE;
        while self.child.try_wait()?.is_none() && Instant::now() < deadline {
            sleep(POLL);
        }
        Ok(())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Both fail only if the process has already exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sums the series on a page of metrics whose lines start with `prefix` and contain `label`.
pub(crate) fn sum(page: &str, prefix: &str, label: &str) -> u64 {
    let lines = page.lines().filter(|line| line.starts_with(prefix) && line.contains(label));
    // Large integers are written as floats.
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>() as u64
}

/// Returns flags for a port that serves metrics and readiness to anyone, and a client for it.
fn metrics_port() -> Result<(Vec<String>, ApiClient)> {
    let [port] = free_ports()?;
    let flags = vec![
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        "--authorization-always-allow-paths=/readyz,/metrics,/metrics/resources".to_owned(),
    ];
    Ok((flags, ApiClient::new(&format!("https://127.0.0.1:{port}"), "")))
}

/// Returns the flag for the time after which a pod is retried even if no event has woken it. Without `parity`, the time
/// is short, so that a measurement ends although kube-scheduler sometimes misses an event.
fn longest_wait(options: &StartOptions) -> String {
    let time = if options.parity { "24h" } else { "30s" };
    format!("--pod-max-in-unschedulable-pods-duration={time}")
}

fn leader_election(options: &StartOptions) -> String {
    format!("--leader-elect={}", options.leader_election)
}

fn start_kube_scheduler(cluster: &Endpoint, options: &StartOptions) -> Result<Scheduler> {
    let (flags, metrics) = kube_scheduler_flags(options)?;
    let component = cluster.start_kube_scheduler(&options.config, &flags)?;
    Ok(Scheduler { process: Process::KubeScheduler(component), metrics })
}

fn start_scheduler_plugins(binary: &Path, cluster: &Endpoint, options: &StartOptions) -> Result<Scheduler> {
    let (flags, metrics) = kube_scheduler_flags(options)?;
    let config = cluster.write_scheduler_config(&options.config)?;
    let mut command = Command::new(binary);
    command.arg(format!("--config={}", config.display())).args(flags);
    if metrics.is_none() {
        command.arg("--secure-port=0");
    }
    command.arg(format!("--cert-dir={}", config.with_extension("").display()));
    let program = Program::start(&mut command, config.with_extension("scheduler-plugins.log"))?;
    Ok(Scheduler { process: Process::SchedulerPlugins(program), metrics })
}

/// Returns the flags of kube-scheduler that `options` require, and a client for its metrics.
fn kube_scheduler_flags(options: &StartOptions) -> Result<(Vec<String>, Option<ApiClient>)> {
    let mut gates = options.feature_gates.clone();
    if options.parity {
        // A streamed initial list is delivered in the random order of a Go map.
        gates.push("WatchListClient=false".to_owned());
    }
    let mut flags = vec![longest_wait(options), leader_election(options)];
    if !gates.is_empty() {
        flags.push(format!("--feature-gates={}", gates.join(",")));
    }
    if !options.metrics {
        return Ok((flags, None));
    }
    let (port, client) = metrics_port()?;
    flags.extend(port);
    Ok((flags, Some(client)))
}

/// Returns Harbormaster's flag that makes it reproduce the kube-scheduler of a release.
pub(crate) fn emulating(release: Release) -> String {
    format!("--emulated-version={release}")
}

fn start_harbormaster(
    binary: &Path,
    cluster: &Endpoint,
    options: &StartOptions,
    subcommand: &str,
    more: &[String],
) -> Result<Scheduler> {
    let config = cluster.write_scheduler_config(&options.config)?;
    let mut command = Command::new(binary);
    command
        .arg(subcommand)
        .arg(format!("--config={}", config.display()))
        .arg(emulating(cluster.release()))
        .arg(leader_election(options))
        .arg(longest_wait(options))
        .args(more);
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
    let program = Program::start(&mut command, config.with_extension("harbormaster.log"))?;
    Ok(Scheduler { process: Process::Harbormaster(program), metrics })
}

fn tail(log: &Path) -> String {
    process::last_lines(&std::fs::read_to_string(log).unwrap_or_default(), 20)
}
