//! A scheduler inside another program.

use std::path::{Path, PathBuf};
#[cfg(feature = "simulate")]
use std::sync::Arc;

use harbormaster_api::features::{Feature, Features};
use harbormaster_config::{ConfigError, ConfigErrors, KubeSchedulerConfiguration};
use harbormaster_core::Notes;
use harbormaster_driver::{
    Clients, ConnectionConfig, DriverConfig, DriverError, Encoding, ExitReason, ExtenderConfig, ExtenderTls,
    LeaderElection, LeaseElection,
};
#[cfg(feature = "simulate")]
use harbormaster_driver::{ExtenderSetupError, Health, HttpExtenders};
use harbormaster_framework::registry::{Build, Registry};
#[cfg(feature = "simulate")]
use harbormaster_manifests::ManifestErrors;
#[cfg(feature = "sandbox")]
use harbormaster_sandbox::{AttachedScheduler, Options, Sandbox, SandboxError};
use harbormaster_setup::{Choices, Setup};
#[cfg(feature = "simulate")]
use harbormaster_sim::{Inventory, Reading, Report};
use harbormaster_yaml::Source;

#[cfg(feature = "simulate")]
use crate::witness::Witness;

/// Profiles with their plugins, ready to run against a cluster, in a simulation or in a sandbox.
#[derive(Clone, Debug)]
pub struct Scheduler {
    setup: Setup,
    #[cfg(any(feature = "sandbox", feature = "simulate"))]
    features: Features,
    election: LeaderElection,
    kubeconfig: Option<PathBuf>,
}

/// Settings from which a scheduler is built.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    choices: Choices,
    config: Option<Source>,
    kubeconfig: Option<PathBuf>,
    verbosity: i64,
}

/// Result of [`Scheduler::simulate`].
#[cfg(feature = "simulate")]
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Simulation {
    /// Result for every pod.
    pub report: Report,
    /// Notices about the manifests and about failures of extenders, one line each.
    pub notices: Vec<String>,
}

impl Builder {
    /// Adds a plugin that the configuration can name. A plugin whose name is already registered replaces the earlier
    /// plugin.
    #[must_use]
    pub fn plugin<P: Build>(self) -> Self {
        self.plugins(|registry| {
            registry.register::<P>();
        })
    }

    /// Adds plugins through a registry, as [`crate::main`] does.
    #[must_use]
    pub fn plugins(mut self, register: impl FnOnce(&mut Registry)) -> Self {
        register(&mut self.choices.plugins);
        self
    }

    /// Sets the KubeSchedulerConfiguration, as YAML or JSON. Error messages use `file` as its file name. Without a
    /// configuration, the scheduler has the default profile.
    #[must_use]
    pub fn config(mut self, file: impl Into<String>, text: impl Into<String>) -> Self {
        self.config = Some(Source { name: file.into(), text: text.into() });
        self
    }

    /// Sets the kubeconfig file that [`Scheduler::run`] uses if the configuration names none.
    #[must_use]
    pub fn kubeconfig(mut self, path: impl AsRef<Path>) -> Self {
        self.kubeconfig = Some(path.as_ref().to_owned());
        self
    }

    /// Sets the feature gates.
    #[must_use]
    pub fn features(mut self, features: Features) -> Self {
        self.choices.features = features;
        self
    }

    /// Sets whether the scheduler orders and samples nodes and breaks ties exactly as kube-scheduler does with
    /// `parallelism: 1`.
    #[must_use]
    pub fn parity(mut self, parity: bool) -> Self {
        self.choices.parity = parity;
        self
    }

    /// Sets the verbosity of the `tracing` events, as `-v` does: 4 adds rejections, 5 adds moves in the queue, and 10
    /// adds scores. The embedding program chooses the subscriber and its level.
    #[must_use]
    pub fn verbosity(mut self, verbosity: i64) -> Self {
        self.verbosity = verbosity;
        self
    }

    /// Reads the configuration and builds all plugins.
    ///
    /// # Errors
    /// All errors in the configuration, with file, line and field.
    pub fn build(self) -> Result<Scheduler, ConfigErrors> {
        let config = self.config.as_ref().map(|source| (source.name.as_str(), source.text.as_str()));
        let mut setup = Setup::read(config, &self.choices)?;
        setup.engine.notes = Notes::at(self.verbosity);
        let election = election(&setup.config, &self.choices.features)?;
        Ok(Scheduler {
            setup,
            #[cfg(any(feature = "sandbox", feature = "simulate"))]
            features: self.choices.features,
            election,
            kubeconfig: self.kubeconfig,
        })
    }
}

impl Scheduler {
    /// Returns a builder with the in-tree plugins and the default configuration.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Returns warnings about the configuration, one line each.
    pub fn warnings(&self) -> &[String] {
        &self.setup.warnings
    }

    /// Schedules the pods of a cluster until `shutdown` resolves. The kubeconfig named by the configuration selects the
    /// cluster; if the configuration names none, the builder's kubeconfig does; without either, the scheduler uses the
    /// cluster in which the process runs. Needs a tokio runtime with time and I/O; the current-thread runtime uses the
    /// least CPU time.
    ///
    /// As in the program, a leader is elected unless the configuration contains `leaderElection: {leaderElect: false}`:
    /// pods are scheduled only while this process holds the lease, which is `kube-system/kube-scheduler` unless the
    /// configuration names another. A second scheduler in the same cluster needs its own lease, or no leader election.
    ///
    /// # Errors
    /// If the kubeconfig is unusable, the lease is lost ([`DriverError::LeaseLost`]: build and run another scheduler),
    /// or something in this process fails. An unreachable API server is not an error, but a leader loses its lease if
    /// the outage lasts.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<ExitReason, DriverError> {
        let config = &self.setup.config;
        let mut connection = connection(config);
        connection.kubeconfig = connection.kubeconfig.or(self.kubeconfig);
        let extenders = extenders(config);
        let driver = DriverConfig { election: self.election, extenders, ..DriverConfig::default() };
        let clients = Clients::new(&connection).await?;
        harbormaster_driver::run(clients, driver, self.setup.engine, shutdown).await
    }

    /// Places the pods of manifests under virtual time, as the `simulate` command does. Calls the configuration's
    /// extenders for everything except binding.
    ///
    /// # Errors
    /// All errors in the manifests, with file, line, object and field.
    #[cfg(feature = "simulate")]
    pub fn simulate(&self, manifests: &[Source]) -> Result<Simulation, ManifestErrors> {
        let mut setup = self.setup.clone();
        let full = !setup.engine.extenders.is_empty();
        let mut cluster = Inventory::from_sources(
            manifests,
            Reading { full, features: self.features, ..Reading::default() },
        )?;
        let mut notices = std::mem::take(&mut cluster.notices);
        notices.extend(cluster.custom_notices(&setup.engine));
        let witness = lend_extenders(&mut setup, &mut cluster).unwrap_or_else(|error| {
            notices.push(error.to_string());
            None
        });
        let report = harbormaster_sim::simulate(setup.engine, cluster, &mut |_, _| {});
        if let Some(witness) = witness {
            notices.extend(witness.failure().into_iter().chain(witness.warnings()));
        }
        Ok(Simulation { report, notices })
    }

    /// Starts a make-believe cluster with this scheduler, of this scheduler's release and feature gates;
    /// `options.scheduler` and `options.features` are ignored. Needs a tokio runtime with time and I/O.
    ///
    /// # Errors
    /// If the manifests are invalid, the port cannot be opened, or the API server or the scheduler fails.
    #[cfg(feature = "sandbox")]
    pub async fn sandbox(&self, options: Options) -> Result<Sandbox, SandboxError> {
        let scheduler = AttachedScheduler::Engine(self.setup.engine.clone());
        let extenders = extenders(&self.setup.config);
        Sandbox::start(Options { scheduler, extenders, features: self.features, ..options }).await
    }
}

/// Returns the settings of the connection to the API server.
pub(crate) fn connection(config: &KubeSchedulerConfiguration) -> ConnectionConfig {
    let client = &config.client_connection;
    ConnectionConfig {
        kubeconfig: Some(&client.kubeconfig).filter(|path| !path.is_empty()).map(Into::into),
        qps: client.qps,
        burst: client.burst,
        encoding: match client.content_type.as_str() {
            "application/json" => Encoding::Json,
            _ => Encoding::Protobuf,
        },
        ..ConnectionConfig::default()
    }
}

/// Returns the extenders of a configuration with their connection settings, in the order in which the engine calls
/// them.
pub(crate) fn extenders(config: &KubeSchedulerConfiguration) -> Vec<ExtenderConfig> {
    let tls = |tls: &harbormaster_config::ExtenderTls| ExtenderTls {
        insecure: tls.insecure,
        server_name: tls.server_name.clone(),
        cert_file: tls.cert_file.clone(),
        key_file: tls.key_file.clone(),
        ca_file: tls.ca_file.clone(),
        cert_data: tls.cert_data.clone(),
        key_data: tls.key_data.clone(),
        ca_data: tls.ca_data.clone(),
    };
    let reached = |extender: &harbormaster_config::Extender| ExtenderConfig {
        extender: harbormaster_setup::extender(extender),
        filter_verb: extender.filter_verb.clone(),
        prioritize_verb: extender.prioritize_verb.clone(),
        preempt_verb: extender.preempt_verb.clone(),
        bind_verb: extender.bind_verb.clone(),
        timeout: extender.http_timeout.to_std(),
        node_cache_capable: extender.node_cache_capable,
        enable_https: extender.enable_https,
        tls: extender.tls_config.as_ref().map(tls),
    };
    config.extenders_in_order().into_iter().map(reached).collect()
}

/// Connects a simulation to the extenders of its configuration, if there are any.
///
/// # Errors
/// If the configuration of an extender is unusable.
#[cfg(feature = "simulate")]
pub(crate) fn lend_extenders(
    setup: &mut Setup,
    cluster: &mut Inventory,
) -> Result<Option<Arc<Witness>>, ExtenderSetupError> {
    if setup.engine.extenders.is_empty() {
        return Ok(None);
    }
    if let Some(host) = HttpExtenders::new(&extenders(&setup.config), Health::default())? {
        for (input, object) in std::mem::take(&mut cluster.full) {
            host.raw().take(&input, object.to_string().as_bytes());
        }
        let witness = Witness::new(setup.engine.extenders.clone(), host);
        setup.engine.extenders = setup.engine.extenders.with_client(witness.clone());
        return Ok(Some(witness));
    }
    Ok(None)
}

/// Returns a configuration's leader election settings.
///
/// # Errors
/// If the configuration requires an unsupported kind of leader election.
pub(crate) fn election(
    config: &KubeSchedulerConfiguration,
    features: &Features,
) -> Result<LeaderElection, ConfigError> {
    const FIELD: &str = "leaderElection.leaderElect";
    let lease = &config.leader_election;
    if !lease.leader_elect {
        return Ok(LeaderElection::Off);
    }
    if features.enabled(Feature::CoordinatedLeaderElection) {
        let message = format!("{FIELD}: coordinated leader election is not supported");
        let help = "leave the feature gate CoordinatedLeaderElection off in all replicas, so that they elect a leader \
                    through the Lease alone, or run one replica without leader election";
        return Err(ConfigError { help: Some(help.to_owned()), ..config.error(FIELD, message) });
    }
    Ok(LeaderElection::Lease(LeaseElection {
        lease_duration: lease.lease_duration.to_std(),
        renew_deadline: lease.renew_deadline.to_std(),
        retry_period: lease.retry_period.to_std(),
        name: lease.resource_name.clone(),
        namespace: lease.resource_namespace.clone(),
        delay_cache: config.delay_cache_until_active,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elected(config: &str, features: &Features) -> Result<LeaderElection, ConfigError> {
        let head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
        election(
            &harbormaster_config::load(&format!("{head}{config}"), "s.yaml", features).unwrap(),
            features,
        )
    }

    #[test]
    fn leader_election_is_on_by_default_and_follows_the_configuration() {
        let features = Features::default();
        assert_eq!(elected("", &features).unwrap(), LeaderElection::Lease(LeaseElection::default()));
        let off = elected("leaderElection: {leaderElect: false}", &features);
        assert_eq!(off.unwrap(), LeaderElection::Off);
        let own = "leaderElection: {resourceName: mine, resourceNamespace: ns, leaseDuration: 1m, renewDeadline: 40s, \
                   retryPeriod: 500ms}\ndelayCacheUntilActive: true";
        let seconds = std::time::Duration::from_secs;
        assert_eq!(
            elected(own, &features).unwrap(),
            LeaderElection::Lease(LeaseElection {
                lease_duration: seconds(60),
                renew_deadline: seconds(40),
                retry_period: seconds(1) / 2,
                name: "mine".to_owned(),
                namespace: "ns".to_owned(),
                delay_cache: true,
            })
        );
    }

    #[test]
    fn coordinated_election_is_rejected_with_advice() {
        let features = Features::default().with(Feature::CoordinatedLeaderElection, true);
        let error = elected("leaderElection: {leaderElect: true}", &features).unwrap_err().to_string();
        assert!(
            error.starts_with(
                "s.yaml:3:18: leaderElection.leaderElect: coordinated leader election is not supported ("
            ) && error.contains("gate CoordinatedLeaderElection off"),
            "{error}"
        );
        let off = elected("leaderElection: {leaderElect: false}", &features);
        assert_eq!(off.unwrap(), LeaderElection::Off);
    }
}
