//! The `run` command: from flags to a running scheduler.

use std::{
    ffi::OsString,
    path::Path,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use harbormaster_api::Release;
use harbormaster_driver::{
    Clients, Console, DriverConfig, ExitReason, Health, LeaderElection, Pace, RecordingConfig, Reload, Traces,
};
use harbormaster_port::{Check, Options, Port, pages::SetVerbosity};
use harbormaster_yaml::Source;

use super::{
    COMMIT, CommandError, CommandResult, Program, VERSION, files,
    flags::{self, Flags, Read, VersionRequest},
    log,
    log_output::{self, Output},
    releases,
    reload::{Follower, Hangups},
    secure_port::{self, Shown},
    settings::{self, Candidates, Settings},
};
use crate::scheduler;

/// Minimum of `--record-max-size`.
const SMALLEST_RECORDING: u64 = 1 << 20;
/// Minimum of `--record-max-age`.
const SHORTEST_RECORDING: Duration = Duration::from_secs(60);

/// Runs a scheduler until it stops, unless a flag asks only for the help, the version or the configuration. `name` is
/// the name by which the user called the command.
pub(crate) fn main(program: &Program, name: &str, args: Vec<OsString>) -> CommandResult {
    let given = match flags::read(name, args) {
        Read::Flags(given) => given,
        Read::Print(help) => {
            print!("{help}");
            return Ok(());
        }
        Read::Wrong(why) => return usage_error(name, &why),
    };
    if let Some(&form) = given.version.given() {
        return print_version(program, name, form);
    }
    with_log(program, &given, |level| run(program, &given, level))
}

/// Starts the log, does the work of a command, and reports its error.
pub(super) fn with_log(
    program: &Program,
    given: &Flags,
    work: impl FnOnce(&log::Threshold) -> Result<(), String>,
) -> CommandResult {
    // Invalid feature gates are reported later, when logging has started. No release changes the gates of logging.
    let gates = Release::ALL.iter().find_map(|release| settings::gates(given, *release).ok());
    let output = match Output::of(given, &gates.map(|(gates, _)| gates).unwrap_or_default()) {
        Ok(output) => output,
        Err(why) => {
            eprintln!("{why}");
            return Err(CommandError::Error);
        }
    };
    let level = log::start(output, i64::from(*given.v.get()), &program.plugins);
    let commit = COMMIT.unwrap_or("unknown");
    tracing::debug!(v = 2, version = VERSION, commit, kubernetes = releases(", "), "Starting Harbormaster");
    let ended = work(&level);
    log_output::flush();
    match ended {
        Ok(()) => Ok(()),
        Err(why) => {
            match output.format {
                log::Format::Text => eprintln!("Error: {why}"),
                log::Format::Json => tracing::error!(err = why, "command failed"),
            }
            Err(CommandError::Error)
        }
    }
}

pub(super) fn usage_error(name: &str, why: &str) -> CommandResult {
    eprintln!("Error: {why}\nSee '{name} --help' for the flags.");
    Err(CommandError::Error)
}

pub(super) fn print_version(program: &Program, name: &str, form: VersionRequest) -> CommandResult {
    match form {
        VersionRequest::Raw => println!(
            "harbormaster version={VERSION:?} commit={:?} kubernetes={:?} os={:?} arch={:?}",
            COMMIT.unwrap_or_default(),
            releases(", "),
            std::env::consts::OS,
            std::env::consts::ARCH
        ),
        VersionRequest::Plain => println!("{}", program.version()),
        VersionRequest::None => return usage_error(name, "--version=false has no effect"),
    }
    Ok(())
}

fn run(program: &Program, given: &Flags, level: &log::Threshold) -> Result<(), String> {
    warn_of_flags(given);
    let port = secure_port::options(given)?;
    let recording = recording(given)?;
    let source = given.config.given().map(|path| files::read(path)).transpose()?;
    let settings = |release| Settings::of(program.choices(), given, source.as_ref(), release);
    if let Some(path) = given.write_config_to.given() {
        return write_config(Path::new(path), &settings(Release::NEWEST)?, given);
    }
    let candidates = Candidates::of(given, settings)?;
    #[cfg(target_os = "linux")]
    super::patience::let_others_finish();
    let pace = Pace::default();
    let runtime = super::paced_runtime(pace.clone())?;
    runtime.block_on(schedule(given, source, candidates, (port, recording), level, pace))
}

/// Returns the place and the size of the recording, if there is to be one.
fn recording(given: &Flags) -> Result<Option<RecordingConfig>, String> {
    let Some(directory) = given.record.given().filter(|directory| !directory.is_empty()) else {
        return Ok(None);
    };
    let size = given.record_max_size.get();
    let max_size = u64::try_from(size.value()).ok().filter(|size| *size >= SMALLEST_RECORDING);
    let max_size =
        max_size.ok_or_else(|| format!("--record-max-size={size}: a recording needs at least 1Mi"))?;
    let (age, max_age) = (given.record_max_age.get(), given.record_max_age.get().to_std());
    if max_age < SHORTEST_RECORDING {
        return Err(format!("--record-max-age={age}: a recording needs at least 1m0s"));
    }
    Ok(Some(RecordingConfig { directory: directory.into(), max_size, max_age }))
}

fn write_config(path: &Path, settings: &Settings, given: &Flags) -> Result<(), String> {
    let file = path.display();
    let release = settings.emulation.release();
    std::fs::write(path, settings.setup.config.to_yaml(release)).map_err(|e| format!("{file}: {e}"))?;
    match settings::names_release(given) {
        true => tracing::info!(%file, %release, "Wrote configuration"),
        false => tracing::info!(
            %file,
            %release,
            "Wrote configuration for the newest release; --emulated-version selects another one"
        ),
    }
    Ok(())
}

/// Runs until SIGTERM or SIGINT, or until the lease is lost. A second signal ends the process immediately. The port is
/// open from the beginning, even while the API server has not yet said which release to follow.
async fn schedule(
    given: &Flags,
    source: Option<Source>,
    candidates: Candidates,
    (port, recording): (Option<Options>, Option<RecordingConfig>),
    level: &log::Threshold,
    pace: Pace,
) -> Result<(), String> {
    let signals = Signals::new().map_err(|e| format!("listening for signals: {e}"))?;
    let (health, console, reload) = (Health::default(), Console::default(), Reload::default());
    dump_on_signal(console.clone()).map_err(|e| format!("listening for signals: {e}"))?;
    // From here on, SIGHUP means that the file has changed.
    let source = source.map(|source| (source, Hangups::new()));
    let traces = Traces::from_environment()?;
    let Settings { setup, election, .. } = candidates.any();
    let connection = settings::connection(given, &setup.config);
    connection.check().map_err(|e| e.to_string())?;
    let stopping = Arc::new(AtomicBool::new(false));
    // As in kube-scheduler, this check always passes. The kubelet restarts a container whose check fails, and a standby
    // is as healthy as a leader.
    let leads = matches!(election, LeaderElection::Lease(_)).then(|| Check::new("leaderElection", || Ok(())));
    let checks = secure_port::checks(&health, &stopping, leads);
    let shown = Shown::default();
    let set_verbosity = verbosity(level, &console);
    let content = secure_port::content(given, &setup.config, &shown, checks, set_verbosity, &console);
    let port = port.map(|options| Port::start(options, content)).transpose().map_err(|e| e.to_string())?;
    let mut shutdown = pin!(asked_to_stop(signals, stopping));
    let clients = Clients::new(&connection).await.map_err(|e| e.to_string())?;
    let settings = tokio::select! {
        settings = candidates.choose(&clients.main) => settings?,
        () = &mut shutdown => {
            close(port);
            return Ok(());
        }
    };
    for warning in &settings.setup.warnings {
        tracing::warn!("{warning}");
    }
    let metrics = settings.metrics();
    shown.set(&settings, &metrics);
    let following = source.map(|(source, hangups)| {
        let follower =
            Follower::new(given, &settings, source, shown.config.clone(), &metrics, reload.clone());
        tokio::spawn(follower.run(hangups))
    });
    let driver = DriverConfig {
        election: settings.election,
        extenders: scheduler::extenders(&settings.setup.config),
        health,
        metrics,
        console,
        traces: traces.clone(),
        reload,
        recording,
        pace,
        ..DriverConfig::default()
    };
    let ended = harbormaster_driver::run(clients, driver, settings.setup.engine, shutdown).await;
    if let Some(following) = following {
        following.abort();
    }
    traces.stop().await;
    close(port);
    match ended {
        Ok(ExitReason::Finished) => Ok(()),
        Ok(ExitReason::Abandoned) => {
            Err("shutdown took too long, and work in progress was abandoned".to_owned())
        }
        Err(e) => Err(e.to_string()),
    }
}

/// Returns a future that waits until a signal asks the process to stop. The second such signal ends the process.
pub(super) fn asked_to_stop(mut signals: Signals, stopping: Arc<AtomicBool>) -> impl Future<Output = ()> {
    let (asked, stop) = tokio::sync::oneshot::channel();
    tokio::spawn(async move {
        signals.next().await;
        stopping.store(true, Ordering::Relaxed);
        // The send fails if the scheduler has already ended.
        let _ = asked.send(());
        signals.next().await;
        tracing::error!("Received a second signal: exiting immediately");
        std::process::exit(1);
    });
    async {
        let _ = stop.await;
    }
}

pub(super) fn close(port: Option<Port>) {
    if let Some(port) = port {
        port.stop();
    }
}

/// Returns a function that sets the verbosity of the log and of the engine's notes.
pub(super) fn verbosity(level: &log::Threshold, console: &Console) -> SetVerbosity {
    let (level, console) = (level.clone(), console.clone());
    Arc::new(move |v| {
        level.set(i64::from(v));
        console.set_verbosity(i64::from(v));
    })
}

fn warn_of_flags(given: &Flags) {
    if given.config.given().is_some() {
        let replaced = given.overridden();
        if !replaced.is_empty() {
            tracing::warn!(flags = replaced.join(" "), "These flags are ignored because --config is given");
        }
    }
}

/// On SIGUSR2, logs the scheduler's cache and queue, and compares them with the API server.
#[cfg(unix)]
fn dump_on_signal(console: Console) -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut asked = signal(SignalKind::user_defined2())?;
    tokio::spawn(async move {
        while asked.recv().await.is_some() {
            console.dump();
        }
    });
    Ok(())
}

/// Does nothing: the platform has no SIGUSR2.
#[cfg(not(unix))]
fn dump_on_signal(_: Console) -> std::io::Result<()> {
    Ok(())
}

/// Signals that end a process.
#[cfg(unix)]
pub(crate) struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    pub(crate) fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Signals that end a process.
#[cfg(not(unix))]
pub(crate) struct Signals;

#[cfg(not(unix))]
impl Signals {
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self)
    }

    pub(crate) async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
