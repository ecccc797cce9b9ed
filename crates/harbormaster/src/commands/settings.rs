//! Meaning of the flags and the configuration file of `run` under a release of Kubernetes, and the choice of the release.

use harbormaster_api::{Release, features::Stage};
use harbormaster_client::ApiClient;
use harbormaster_config::{Emulation, FeatureGates, KubeSchedulerConfiguration};
use harbormaster_core::Notes;
use harbormaster_driver::{
    ConnectionConfig, LeaderElection, Metrics,
    metrics::{Build, Limits},
};
use harbormaster_setup::{Choices, Setup};
use harbormaster_yaml::Source;

use super::{
    COMMIT, VERSION,
    flags::{Flag, FlagType, Flags},
    metric_limits, origin,
    server_version::server_version,
};
use crate::scheduler;

/// Settings of a scheduler that runs as the kube-scheduler of one release.
pub(super) struct Settings {
    pub(super) emulation: Emulation,
    gates: FeatureGates,
    limits: Limits,
    pub(super) choices: Choices,
    pub(super) setup: Setup,
    pub(super) election: LeaderElection,
}

impl Settings {
    /// Reads the flags and the content of the configuration file. `choices` contains the plugins. `release` applies
    /// unless a flag names a version.
    ///
    /// # Errors
    /// All errors in the first invalid flag or in the configuration.
    pub(super) fn of(
        choices: Choices,
        given: &Flags,
        source: Option<&Source>,
        release: Release,
    ) -> Result<Self, String> {
        let (gates, emulation) = gates(given, release)?;
        let choices = with_flags(choices, given, &gates);
        let limits = metric_limits::limits(given, emulation.release())?;
        let config = configured(given, &choices, source)?;
        let mut setup = Setup::of(config, &choices).map_err(|e| e.to_string())?;
        origin::record(&mut setup, &choices);
        setup.engine.notes = Notes::at(i64::from(*given.v.get()));
        let election = scheduler::election(&setup.config, &choices.features).map_err(|e| e.to_string())?;
        Ok(Self { emulation, gates, limits, choices, setup, election })
    }

    /// Creates the metrics and sets the build, the versions, the limits and the features.
    pub(super) fn metrics(&self) -> Metrics {
        let metrics = Metrics::with(self.choices.features);
        metrics.set_build(Build { version: VERSION, commit: COMMIT.unwrap_or_default() });
        metrics.set_emulation(&self.emulation.emulated(), &self.emulation.min_compatible());
        metrics.limit(self.limits.clone());
        for (name, stage, on) in self.gates.all() {
            // As in Kubernetes, the stage of a generally available feature is empty.
            let stage = if stage == Stage::Ga { "" } else { stage.name() };
            metrics.set_feature(name, stage, on);
        }
        metrics
    }
}

/// The settings under each release that may apply, at least one of which is valid.
pub(super) struct Candidates {
    valid: Vec<Settings>,
    invalid: Vec<(Release, String)>,
}

impl Candidates {
    /// Returns the settings under the release that a flag names or, without the flag, under each release.
    ///
    /// # Errors
    /// If the settings are invalid under every release.
    pub(super) fn of(
        given: &Flags,
        settings: impl Fn(Release) -> Result<Settings, String>,
    ) -> Result<Self, String> {
        let (mut valid, mut invalid) = (Vec::new(), Vec::new());
        let releases = if names_release(given) { &[Release::NEWEST] } else { Release::ALL };
        for &release in releases {
            match settings(release) {
                Ok(settings) => valid.push(settings),
                Err(why) => invalid.push((release, why)),
            }
        }
        if valid.is_empty() { Err(reasons(&invalid)) } else { Ok(Self { valid, invalid }) }
    }

    /// Returns the settings under one of the releases. For what no release changes, such as the connection to the API
    /// server.
    pub(super) fn any(&self) -> &Settings {
        &self.valid[0]
    }

    /// Returns the settings under the release that applies: the only one, or else the one nearest to the version of the
    /// API server. Waits until the API server has answered.
    ///
    /// # Errors
    /// If the settings are invalid under that release.
    pub(super) async fn choose(mut self, server: &ApiClient) -> Result<Settings, String> {
        if self.valid.len() + self.invalid.len() == 1 {
            return Ok(self.valid.remove(0));
        }
        let version = server_version(server).await;
        let release = Release::nearest(version.minor);
        let (git, followed) = (&version.git_version, format!("1.{}", version.minor));
        match release.minor() == version.minor {
            true => tracing::info!(v = 0, server = git, %release, "Following the version of the API server"),
            false => tracing::warn!(
                server = git,
                version = followed,
                %release,
                "The version of the API server is not implemented: following the nearest release"
            ),
        }
        let is_chosen = |settings: &Settings| settings.emulation.release() == release;
        match self.valid.into_iter().find(is_chosen) {
            Some(settings) => Ok(settings),
            None => {
                let why = self.invalid.into_iter().find(|(invalid, _)| *invalid == release);
                Err(format!(
                    "the API server has Kubernetes {release}: {}",
                    why.map(|(_, why)| why).unwrap_or_default()
                ))
            }
        }
    }
}

/// Returns true if `--emulated-version` names a version.
pub(super) fn names_release(given: &Flags) -> bool {
    given.emulated_version.get().entries().iter().any(|entry| !entry.is_empty())
}

/// Returns the reason why settings are invalid under every release. If the reasons differ, each is preceded by its
/// release.
fn reasons(invalid: &[(Release, String)]) -> String {
    match invalid {
        [(_, first), rest @ ..] if rest.iter().all(|(_, why)| why == first) => first.clone(),
        _ => {
            let lines = invalid.iter().map(|(release, why)| format!("with Kubernetes {release}: {why}"));
            lines.collect::<Vec<_>>().join("\n")
        }
    }
}

/// Returns the feature gates and the emulated version of Kubernetes, which is `release` unless a flag names one.
pub(super) fn gates(given: &Flags, release: Release) -> Result<(FeatureGates, Emulation), String> {
    let versions = (given.emulated_version.get().texts(), given.min_compatibility_version.get().texts());
    let emulation = Emulation::parse(versions.0, versions.1, release).map_err(|e| e.to_string())?;
    let gates =
        FeatureGates::parse_at(given.feature_gates.get().texts(), emulation).map_err(|e| e.to_string())?;
    Ok((gates, emulation))
}

/// Adds the choices that are made by flags, not by the configuration.
fn with_flags(choices: Choices, given: &Flags, gates: &FeatureGates) -> Choices {
    let max_wait = given.pod_max_in_unschedulable_pods_duration.given().map(|wait| wait.to_std());
    Choices { features: gates.features(), parity: *given.parity.get(), max_wait, ..choices }
}

/// Reads the configuration file, or applies the deprecated flags to the default configuration if there is no file. Then
/// applies `--kubeconfig` if the file names no kubeconfig, and the leader election flags, which override the file.
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

/// Returns the settings of the connection to the API server.
pub(super) fn connection(given: &Flags, config: &KubeSchedulerConfiguration) -> ConnectionConfig {
    let master = Some(given.master.get().clone()).filter(|address| !address.is_empty());
    ConnectionConfig { master, ..scheduler::connection(config) }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use harbormaster_api::args::GoDuration;

    use super::*;
    use crate::commands::{
        files,
        flags::{self, Read},
    };

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

    fn settings(args: &[&str], release: Release) -> Result<Settings, String> {
        Settings::of(Choices::default(), &given(args), None, release)
    }

    fn candidates(args: &[&str]) -> Result<Candidates, String> {
        Candidates::of(&given(args), |release| settings(args, release))
    }

    fn file(name: &str, text: &str) -> String {
        let path = std::env::temp_dir().join(format!("harbormaster-run-{}-{name}", std::process::id()));
        let start = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
        std::fs::write(&path, format!("{start}{text}")).unwrap();
        path.to_string_lossy().into_owned()
    }

    #[test]
    fn a_file_overrides_the_client_flags_and_its_kubeconfig_takes_precedence() {
        let flags = ["--kube-api-qps=7", "--kube-api-burst=9", "--kubeconfig=/k"];
        let config = configured(&flags);
        assert_eq!((config.client_connection.qps, config.client_connection.burst), (7.0, 9));
        assert_eq!(config.client_connection.kubeconfig, "/k");

        let path = file("deprecated", "clientConnection: {qps: 3}\n");
        let with_file: Vec<&str> = flags.into_iter().chain(["--config", path.as_str()]).collect();
        let config = configured(&with_file);
        assert_eq!((config.client_connection.qps, config.client_connection.burst), (3.0, 100));
        assert_eq!(config.client_connection.kubeconfig, "/k", "the file names no kubeconfig");
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
    fn flags_become_choices_and_unknown_gates_are_rejected() {
        let args = ["--pod-max-in-unschedulable-pods-duration=90s", "--parity"];
        let choices = settings(&args, Release::V1_36).unwrap().choices;
        assert_eq!(choices.max_wait, Some(std::time::Duration::from_secs(90)));
        assert!(choices.parity);
        let error = settings(&["--feature-gates=Nonsense=true"], Release::V1_36).err().unwrap();
        assert_eq!(error, "unrecognized feature gate: Nonsense");
    }

    #[test]
    fn the_master_flag_sets_the_address_of_the_api_server() {
        let given = given(&["--master=127.0.0.1:8080"]);
        let connection = connection(&given, &KubeSchedulerConfiguration::default_config());
        assert_eq!(connection.master.as_deref(), Some("127.0.0.1:8080"));
        assert_eq!((connection.kubeconfig, connection.qps, connection.burst), (None, 50.0, 100));
    }

    #[test]
    fn a_named_version_is_the_only_candidate_and_determines_the_release() {
        for (args, expected) in [
            (&["--emulated-version=1.37"][..], vec![Release::V1_37]),
            (&["--emulated-version=kube=1.34"], vec![Release::V1_36]),
            (&[], Release::ALL.to_vec()),
            (&["--emulated-version="], Release::ALL.to_vec()),
        ] {
            let found: Vec<_> =
                candidates(args).unwrap().valid.iter().map(|s| s.emulation.release()).collect();
            assert_eq!(found, expected, "{args:?}");
        }
    }

    #[test]
    fn settings_that_no_release_accepts_are_rejected_without_asking_the_api_server() {
        for (gates, expected) in [
            ("Nonsense=true", "unrecognized feature gate: Nonsense"),
            (
                "SidecarContainers=false",
                "with Kubernetes 1.36: cannot set feature gate SidecarContainers to false, feature is locked to true\n\
                 with Kubernetes 1.37: unrecognized feature gate: SidecarContainers",
            ),
        ] {
            let args = format!("--feature-gates={gates}");
            assert_eq!(candidates(&[&args]).err().unwrap(), expected);
        }
        let candidates = candidates(&["--feature-gates=SchedulerPreQueueingHints=true"]).unwrap();
        assert_eq!(candidates.any().emulation.release(), Release::V1_37);
        assert_eq!(candidates.invalid.len(), 1);
    }
}
