//! A scheduler inside another program.

use std::path::{Path, PathBuf};

use harbormaster_api::features::Features;
use harbormaster_config::{ConfigErrors, KubeSchedulerConfiguration};
use harbormaster_core::Notes;
use harbormaster_driver::{ConnectionConfig, DriverConfig, DriverError, ExitReason};
use harbormaster_framework::registry::{Build, Registry};
use harbormaster_sandbox::{Options, Sandbox, SandboxError};
use harbormaster_setup::{Choices, Setup};
use harbormaster_sim::{Inventory, ManifestErrors, Reading, Report, Source};

/// Profiles with their plugins, ready to run against a cluster, to simulate or to be tried in a sandbox.
#[derive(Clone, Debug)]
pub struct Scheduler {
    setup: Setup,
    kubeconfig: Option<PathBuf>,
}

/// What a scheduler is made from.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    choices: Choices,
    config: Option<Source>,
    kubeconfig: Option<PathBuf>,
    verbosity: i64,
}

/// What came of [`Scheduler::simulate`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Simulation {
    /// What became of every pod.
    pub report: Report,
    /// What the reader of the report should know besides; one line each.
    pub notices: Vec<String>,
}

impl Builder {
    /// Adds a plugin that the configuration may name. One of a known name replaces that.
    #[must_use]
    pub fn plugin<P: Build>(self) -> Self {
        self.plugins(|registry| {
            registry.register::<P>();
        })
    }

    /// Adds plugins as [`crate::main`] does.
    #[must_use]
    pub fn plugins(mut self, register: impl FnOnce(&mut Registry)) -> Self {
        register(&mut self.choices.plugins);
        self
    }

    /// The KubeSchedulerConfiguration, YAML or JSON; `file` only names it in errors. Without one the scheduler has the
    /// default profile.
    #[must_use]
    pub fn config(mut self, file: impl Into<String>, text: impl Into<String>) -> Self {
        self.config = Some(Source { name: file.into(), text: text.into() });
        self
    }

    /// A kubeconfig file for [`Scheduler::run`], which counts if the configuration names none.
    #[must_use]
    pub fn kubeconfig(mut self, path: impl AsRef<Path>) -> Self {
        self.kubeconfig = Some(path.as_ref().to_owned());
        self
    }

    /// Feature gates.
    #[must_use]
    pub fn features(mut self, features: Features) -> Self {
        self.choices.features = features;
        self
    }

    /// Walks nodes, samples them and breaks ties exactly as kube-scheduler does with `parallelism: 1`.
    #[must_use]
    pub fn parity(mut self, parity: bool) -> Self {
        self.choices.parity = parity;
        self
    }

    /// What is told through `tracing`, as with `-v`: 4 adds rejections, 5 moves in the queue, 10 scores. Who listens,
    /// and at which level, is the program's choice.
    #[must_use]
    pub fn verbosity(mut self, verbosity: i64) -> Self {
        self.verbosity = verbosity;
        self
    }

    /// Reads the configuration and makes all plugins.
    ///
    /// # Errors
    /// Everything that is wrong with the configuration, with file, line and field.
    pub fn build(self) -> Result<Scheduler, ConfigErrors> {
        let config = self.config.as_ref().map(|source| (source.name.as_str(), source.text.as_str()));
        let mut setup = Setup::read(config, &self.choices)?;
        setup.engine.notes = Notes::at(self.verbosity);
        Ok(Scheduler { setup, kubeconfig: self.kubeconfig })
    }
}

impl Scheduler {
    /// Begins with the plugins of this repository and the default configuration.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// What the user should know of the configuration; one line each.
    pub fn warnings(&self) -> &[String] {
        &self.setup.warnings
    }

    /// Schedules the pods of a cluster until `shutdown` resolves. The cluster is that of the configuration's kubeconfig,
    /// or of the builder's, or the one in which the process runs. Needs a tokio runtime with time and I/O; one of the
    /// current-thread flavour takes the least processor time.
    ///
    /// # Errors
    /// When the kubeconfig is of no use, or something in this process fails. An API server that is away is waited for.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<ExitReason, DriverError> {
        let config = &self.setup.config;
        let mut connection = connection(config);
        connection.kubeconfig = connection.kubeconfig.or(self.kubeconfig);
        let driver = DriverConfig { connection, leader_elect: elects(config), ..DriverConfig::default() };
        harbormaster_driver::run(driver, self.setup.engine, shutdown).await
    }

    /// Places the pods of manifests under virtual time, as the command `simulate` does.
    ///
    /// # Errors
    /// What a real API server would refuse, with file, line, object and field.
    pub fn simulate(&self, manifests: &[Source]) -> Result<Simulation, ManifestErrors> {
        let mut cluster = Inventory::from_sources(manifests, Reading::default())?;
        let mut notices = std::mem::take(&mut cluster.notices);
        notices.extend(cluster.custom_notices(&self.setup.engine));
        let report = harbormaster_sim::simulate(self.setup.engine.clone(), cluster, &mut |_, _| {});
        Ok(Simulation { report, notices })
    }

    /// Starts a make-believe cluster whose scheduler is this one, whatever `options.scheduler` says. Needs a tokio
    /// runtime with time and I/O.
    ///
    /// # Errors
    /// When manifests or the port are of no use.
    pub async fn sandbox(&self, options: Options) -> Result<Sandbox, SandboxError> {
        let scheduler = harbormaster_sandbox::Scheduler::Engine(self.setup.engine.clone());
        Sandbox::start(Options { scheduler, ..options }).await
    }
}

/// How a configuration reaches the API server.
pub(crate) fn connection(config: &KubeSchedulerConfiguration) -> ConnectionConfig {
    let client = &config.client_connection;
    ConnectionConfig {
        kubeconfig: Some(&client.kubeconfig).filter(|path| !path.is_empty()).map(Into::into),
        master: None,
        qps: client.qps,
        burst: client.burst,
    }
}

/// Whether a configuration asks for a leader to be elected, as opposed to having kube-scheduler's default.
pub(crate) fn elects(config: &KubeSchedulerConfiguration) -> bool {
    config.is_written("leaderElection.leaderElect") && config.leader_election.leader_elect
}
