//! The `run` command: from flags to a running scheduler.

use std::{
    ffi::OsString,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use harbormaster_api::features::Stage;
use harbormaster_config::{Emulation, FeatureGates, KubeSchedulerConfiguration};
use harbormaster_core::Notes;
use harbormaster_driver::{
    ConnectionConfig, Console, DriverConfig, ExitReason, Health, LeaderElection, Metrics, Reload, Traces,
    metrics::Build,
};
use harbormaster_port::{
    Check, Port, PortError,
    pages::{Configuration, SetVerbosity},
};
use harbormaster_setup::{Choices, Setup};
use harbormaster_yaml::Source;

use super::{
    COMMIT, CommandError, CommandResult, Program, VERSION, files,
    flags::{self, Flag, FlagType, Flags, Read, VersionRequest},
    log,
    log_output::{self, Output},
    metric_limits,
    reload::Follower,
    secure_port,
};
use crate::scheduler;

/// Runs a scheduler until a signal stops it. `name` is the name by which the user called the command.
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
    // Invalid feature gates are reported later, when logging has started.
    let output = match Output::of(&given, &gates(&given).map(|(gates, _)| gates).unwrap_or_default()) {
        Ok(output) => output,
        Err(why) => {
            eprintln!("{why}");
            return Err(CommandError::Error);
        }
    };
    let level = log::start(output, i64::from(*given.v.get()), &program.plugins);
    let commit = COMMIT.unwrap_or("unknown");
    tracing::debug!(v = 2, version = VERSION, commit, kubernetes = "v1.36", "Starting Harbormaster");
    let ended = run(program, &given, &level);
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

fn usage_error(name: &str, why: &str) -> CommandResult {
    eprintln!("Error: {why}\nSee '{name} --help' for the flags.");
    Err(CommandError::Error)
}

fn print_version(program: &Program, name: &str, form: VersionRequest) -> CommandResult {
    match form {
        VersionRequest::Raw => println!(
            "harbormaster version={VERSION:?} commit={:?} kubernetes=\"v1.36\" os={:?} arch={:?}",
            COMMIT.unwrap_or_default(),
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
    let choices = choices(program.choices(), given)?;
    let metrics = metrics(given)?;
    let source = given.config.given().map(|path| files::read(path)).transpose()?;
    let config = configured(given, &choices, source.as_ref())?;
    let connection = connection(given, &config);
    let mut setup = Setup::of(config, &choices).map_err(|e| e.to_string())?;
    setup.engine.notes = Notes::at(i64::from(*given.v.get()));
    if let Some(path) = given.write_config_to.given() {
        std::fs::write(path, setup.config.to_yaml()).map_err(|e| format!("{path}: {e}"))?;
        tracing::info!(file = path, "Wrote configuration");
        return Ok(());
    }
    for warning in &setup.warnings {
        tracing::warn!("{warning}");
    }
    let election = scheduler::election(&setup.config, &choices.features).map_err(|e| e.to_string())?;
    let (health, console, reload) = (Health::default(), Console::default(), Reload::default());
    let stopping = Arc::new(AtomicBool::new(false));
    // As in kube-scheduler, this check always passes. Kubelet restarts a program whose check fails, and a standby is as
    // healthy as a leader.
    let leads = matches!(election, LeaderElection::Lease(_)).then(|| Check::new("leaderElection", || Ok(())));
    let checks = secure_port::checks(&health, &stopping, leads);
    let shown = Configuration::from(setup.config.to_value());
    let set_verbosity = verbosity(level, &console);
    let content = secure_port::content(given, &setup.config, &shown, checks, &metrics, set_verbosity);
    let open = || port.map(|options| Port::start(options, content)).transpose();
    let follower = source.map(|source| {
        Follower::new((given, &choices), (source, &setup.config), shown, &metrics, reload.clone())
    });
    let extenders = scheduler::extenders(&setup.config);
    let driver = DriverConfig {
        connection,
        election,
        health,
        metrics,
        console,
        extenders,
        reload,
        ..DriverConfig::default()
    };
    start(driver, setup, follower, &stopping, open)
}

/// Returns the feature gates and the emulated version of Kubernetes.
fn gates(given: &Flags) -> Result<(FeatureGates, Emulation), String> {
    let versions = (given.emulated_version.get().texts(), given.min_compatibility_version.get().texts());
    let emulation = Emulation::parse(versions.0, versions.1).map_err(|e| e.to_string())?;
    let gates =
        FeatureGates::parse_at(given.feature_gates.get().texts(), emulation).map_err(|e| e.to_string())?;
    Ok((gates, emulation))
}

/// Returns a function that sets the verbosity of the log and of the engine's notes.
fn verbosity(level: &log::Threshold, console: &Console) -> SetVerbosity {
    let (level, console) = (level.clone(), console.clone());
    Arc::new(move |v| {
        level.set(i64::from(v));
        console.set_verbosity(i64::from(v));
    })
}

/// Creates the metrics and sets the build, the versions, the limits and the features.
fn metrics(given: &Flags) -> Result<Metrics, String> {
    let metrics = Metrics::default();
    let (gates, emulation) = gates(given)?;
    metrics.set_build(Build { version: VERSION, commit: COMMIT.unwrap_or_default() });
    metrics.set_emulation(&emulation.emulated(), &emulation.min_compatible());
    metrics.limit(metric_limits::limits(given)?);
    for (name, stage, on) in gates.all() {
        // As in Kubernetes, the stage of a generally available feature is empty.
        let stage = if stage == Stage::Ga { "" } else { stage.name() };
        metrics.set_feature(name, stage, on);
    }
    Ok(metrics)
}

fn warn_of_flags(given: &Flags) {
    if given.config.given().is_some() {
        let replaced = given.overridden();
        if !replaced.is_empty() {
            tracing::warn!(flags = replaced.join(" "), "These flags are ignored because --config is given");
        }
    }
}

/// Adds the choices that only flags can make.
fn choices(choices: Choices, given: &Flags) -> Result<Choices, String> {
    let (gates, _) = gates(given)?;
    let max_wait = given.pod_max_in_unschedulable_pods_duration.given().map(|wait| wait.to_std());
    let parity = *given.parity.get();
    Ok(Choices { features: gates.features(), parity, max_wait, ..choices })
}

/// Reads the configuration file, or applies the deprecated flags to the default configuration if there is no file. Then
/// applies the leader election flags, which override the file.
pub(super) fn configured(
    given: &Flags,
    choices: &Choices,
    source: Option<&Source>,
) -> Result<KubeSchedulerConfiguration, String> {
    let mut config = match source {
        Some(Source { name, text }) => {
            harbormaster_config::load(text, name, &choices.features).map_err(|e| e.to_string())?
        }
        None => {
            let mut config = KubeSchedulerConfiguration::default_for(&choices.features);
            let client = &mut config.client_connection;
            set(&mut client.qps, &given.kube_api_qps);
            set(&mut client.burst, &given.kube_api_burst);
            set(&mut client.content_type, &given.kube_api_content_type);
            set(&mut config.enable_profiling, &given.profiling);
            set(&mut config.enable_contention_profiling, &given.contention_profiling);
            config
        }
    };
    if config.client_connection.kubeconfig.is_empty() {
        set(&mut config.client_connection.kubeconfig, &given.kubeconfig);
    }
    let lease = &mut config.leader_election;
    set(&mut lease.leader_elect, &given.leader_elect);
    set(&mut lease.lease_duration, &given.leader_elect_lease_duration);
    set(&mut lease.renew_deadline, &given.leader_elect_renew_deadline);
    set(&mut lease.retry_period, &given.leader_elect_retry_period);
    set(&mut lease.resource_lock, &given.leader_elect_resource_lock);
    set(&mut lease.resource_name, &given.leader_elect_resource_name);
    set(&mut lease.resource_namespace, &given.leader_elect_resource_namespace);
    Ok(config)
}

/// Sets a field to the value of a flag that was given.
fn set<T: FlagType + Clone>(field: &mut T, flag: &Flag<T>) {
    if let Some(value) = flag.given() {
        field.clone_from(value);
    }
}

fn connection(given: &Flags, config: &KubeSchedulerConfiguration) -> ConnectionConfig {
    let master = Some(given.master.get().clone()).filter(|address| !address.is_empty());
    ConnectionConfig { master, ..scheduler::connection(config) }
}

/// Runs until SIGTERM or SIGINT, or until the lease is lost. A second signal ends the process immediately.
fn start(
    driver: DriverConfig,
    setup: Setup,
    follower: Option<Follower>,
    stopping: &Arc<AtomicBool>,
    open: impl FnOnce() -> Result<Option<Port>, PortError>,
) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| format!("starting the runtime: {e}"))?;
    runtime.block_on(async {
        let mut signals = Signals::new().map_err(|e| format!("listening to signals: {e}"))?;
        dump_on_signal(driver.console.clone()).map_err(|e| format!("listening to signals: {e}"))?;
        driver.connection.check().map_err(|e| e.to_string())?;
        let port = open().map_err(|e| e.to_string())?;
        let (asked, stop) = tokio::sync::oneshot::channel();
        let stopping = stopping.clone();
        tokio::spawn(async move {
            signals.next().await;
            stopping.store(true, Ordering::Relaxed);
            // The send fails if the scheduler has already ended.
            let _ = asked.send(());
            signals.next().await;
            tracing::error!("A second signal: exiting immediately");
            std::process::exit(1);
        });
        let shutdown = async {
            let _ = stop.await;
        };
        let traces = Traces::from_environment()?;
        let driver = DriverConfig { traces: traces.clone(), ..driver };
        let following = follower.map(|follower| tokio::spawn(follower.run()));
        let ended = harbormaster_driver::run(driver, setup.engine, shutdown).await;
        if let Some(following) = following {
            following.abort();
        }
        traces.stop().await;
        if let Some(port) = port {
            port.stop();
        }
        match ended {
            Ok(ExitReason::Finished) => Ok(()),
            Ok(ExitReason::Abandoned) => Err("stopping took too long".to_owned()),
            Err(e) => Err(e.to_string()),
        }
    })
}

/// Makes the scheduler log its whole state and compare it with the API server on SIGUSR2.
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

/// Does nothing: the platform has no such signal.
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

#[cfg(test)]
mod tests {
    use harbormaster_api::args::GoDuration;

    use super::*;

    fn given(args: &[&str]) -> Box<Flags> {
        match flags::read("run", args.iter().map(OsString::from)) {
            Read::Flags(given) => given,
            other => panic!("{other:?}"),
        }
    }

    fn configured(args: &[&str]) -> KubeSchedulerConfiguration {
        let given = given(args);
        let source = given.config.given().map(|path| files::read(path)).transpose().unwrap();
        super::configured(&given, &Choices::default(), source.as_ref()).unwrap()
    }

    fn file(name: &str, text: &str) -> String {
        let path = std::env::temp_dir().join(format!("harbormaster-run-{}-{name}", std::process::id()));
        let start = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
        std::fs::write(&path, format!("{start}{text}")).unwrap();
        path.to_string_lossy().into_owned()
    }

    #[test]
    fn deprecated_flags_apply_only_without_a_file() {
        let flags = ["--kube-api-qps=7", "--kube-api-burst=9", "--kubeconfig=/k"];
        let config = configured(&flags);
        assert_eq!((config.client_connection.qps, config.client_connection.burst), (7.0, 9));
        assert_eq!(config.client_connection.kubeconfig, "/k");

        let path = file("deprecated", "clientConnection: {qps: 3}\n");
        let with_file: Vec<&str> = flags.into_iter().chain(["--config", path.as_str()]).collect();
        let config = configured(&with_file);
        assert_eq!((config.client_connection.qps, config.client_connection.burst), (3.0, 100));
        assert_eq!(config.client_connection.kubeconfig, "/k", "the file names none");
        std::fs::write(
            &path,
            std::fs::read_to_string(&path).unwrap().replace("qps: 3", "kubeconfig: /other"),
        )
        .unwrap();
        assert_eq!(configured(&with_file).client_connection.kubeconfig, "/other");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn leader_election_flags_override_the_file() {
        let path =
            file("leader", "leaderElection: {leaderElect: true, resourceName: mine, leaseDuration: 30s}\n");
        let config =
            configured(&["--config", &path, "--leader-elect=false", "--leader-elect-resource-name=other"]);
        assert!(!config.leader_election.leader_elect);
        assert_eq!(config.leader_election.resource_name, "other");
        assert_eq!(config.leader_election.lease_duration, GoDuration::from_secs(30));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_leader_is_elected_unless_a_flag_or_the_file_turns_it_off() {
        let path = file("elects", "leaderElection: {leaderElect: false}\n");
        let elects = |args: &[&str]| configured(args).leader_election.leader_elect;
        assert!(elects(&[]) && elects(&["--leader-elect"]));
        assert!(!elects(&["--leader-elect=false"]));
        assert!(!elects(&["--config", &path]));
        assert!(elects(&["--config", &path, "--leader-elect"]));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn gates_and_durations_become_choices() {
        let choice = choices(
            Choices::default(),
            &given(&["--pod-max-in-unschedulable-pods-duration=90s", "--parity"]),
        )
        .unwrap();
        assert_eq!(choice.max_wait, Some(std::time::Duration::from_secs(90)));
        assert!(choice.parity);
        let error = choices(Choices::default(), &given(&["--feature-gates=Nonsense=true"])).unwrap_err();
        assert_eq!(error, "unrecognized feature gate: Nonsense");
    }

    #[test]
    fn the_master_flag_sets_the_address_of_the_api_server() {
        let given = given(&["--master=127.0.0.1:8080"]);
        let connection = connection(&given, &KubeSchedulerConfiguration::default_config());
        assert_eq!(connection.master.as_deref(), Some("127.0.0.1:8080"));
        assert_eq!((connection.kubeconfig, connection.qps, connection.burst), (None, 50.0, 100));
    }
}
