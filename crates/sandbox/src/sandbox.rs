//! The sandbox: the API server, the scheduler and the stand-ins.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use harbormaster_apiserver::{ApiServer, Certificate, Failure, Running, Store, kubeconfig_yaml};
use harbormaster_config::ConfigErrors;
use harbormaster_core::EngineConfig;
use harbormaster_driver::{
    Clients, ConnectionConfig, Console, DriverConfig, DriverError, ExitReason, Metrics,
};
use harbormaster_manifests::ManifestErrors;
use harbormaster_setup::{Choices, Setup};
use tokio::{
    net::TcpListener,
    sync::oneshot,
    task::{JoinHandle, JoinSet},
    time::timeout,
};

use crate::{
    AttachedScheduler, Options,
    board::{Board, Update},
    controllers::Controllers,
    inert::Inert,
    kubelet::Kubelet,
    manifests,
};

/// Error message for requests for logs, a shell or port forwarding.
const NO_CONTAINERS: &str = "there are no containers in the sandbox: pods only appear to run";

/// The reason why a sandbox could not start or has ended.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// Manifests are invalid.
    #[error(transparent)]
    Manifests(#[from] ManifestErrors),
    /// The API server refuses some objects from manifests. One line per object.
    #[error("{0}")]
    Manifest(String),
    /// The scheduler's configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    /// The sandbox cannot listen on the port.
    #[error("listening on 127.0.0.1:{port}: {error}")]
    Listen {
        /// The port.
        port: u16,
        /// The underlying error.
        error: io::Error,
    },
    /// The API server refuses a request that it should accept.
    #[error("the API server failed: {0}")]
    Store(String),
    /// The scheduler failed.
    #[error("the scheduler failed: {0}")]
    AttachedScheduler(#[from] DriverError),
    /// The scheduler ended unexpectedly.
    #[error("the scheduler ended unexpectedly: {0}")]
    Ended(String),
}

/// A make-believe cluster, which runs until it is stopped or dropped. Needs a tokio runtime with time and I/O.
#[derive(Debug)]
pub struct Sandbox {
    /// State of all pods since the beginning.
    pub board: Board,
    store: Store,
    server: Running,
    authority: String,
    /// The API server's second listener, without TLS, for the scheduler.
    inner: Option<Running>,
    scheduler: Option<RunningScheduler>,
    /// Requests to the attached scheduler, and its metrics.
    console: Console,
    metrics: Metrics,
    stand_ins: JoinSet<()>,
    inert: Inert,
    schedulers: Vec<String>,
    notices: Vec<String>,
}

#[derive(Debug)]
struct RunningScheduler {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<ExitReason, DriverError>>,
}

impl Sandbox {
    /// Loads the manifests, then starts everything.
    ///
    /// # Errors
    /// If manifests are invalid or the port cannot be used.
    pub async fn start(mut options: Options) -> Result<Self, SandboxError> {
        let mut notices = Vec::new();
        let engine = match std::mem::take(&mut options.scheduler) {
            AttachedScheduler::None => None,
            AttachedScheduler::Engine(engine) => Some(engine),
            AttachedScheduler::Default => {
                let choices = Choices { features: options.features, ..Choices::default() };
                let setup = Setup::read(None, &choices)?;
                notices.extend(setup.warnings);
                Some(setup.engine)
            }
        };
        let schedulers: Vec<String> = engine
            .iter()
            .flat_map(|engine| engine.profiles.iter().map(|profile| profile.name().to_string()))
            .collect();
        let api = ApiServer::new(harbormaster_apiserver::Options {
            no_containers: Some(NO_CONTAINERS.to_owned()),
            minor_version: options.features.release().minor(),
            features: options.features,
            ..harbormaster_apiserver::Options::default()
        });
        let store = api.store();
        notices.extend(manifests::load(&store, &options)?);
        let certificate = Certificate::self_signed(&[]).map_err(|e| SandboxError::Store(e.to_string()))?;
        let server = listen(&api, options.port, Some(&certificate)).await?;
        let board = Board::new(&store, schedulers.clone())?;
        let inert = Inert::new(&store)?;
        let mut stand_ins = JoinSet::new();
        stand_ins.spawn(Kubelet::new(&store, options.pace, options.clock.clone())?.run());
        let controllers = Controllers::new(&store)?.with_provisioners().with_clock(options.clock);
        stand_ins.spawn(controllers.run());
        let (mut inner, mut scheduler) = (None, None);
        let (console, metrics) = (Console::default(), Metrics::with(options.features));
        if let Some(engine) = engine {
            let plain = listen(&api, 0, None).await?;
            let driver = DriverConfig {
                hostname: Some("sandbox".to_owned()),
                extenders: options.extenders,
                prefers_stored: true,
                console: console.clone(),
                metrics: metrics.clone(),
                ..DriverConfig::default()
            };
            scheduler = Some(attach(engine, driver, plain.address()));
            inner = Some(plain);
        }
        let authority = certificate.authority_pem();
        Ok(Self {
            board,
            store,
            server,
            authority,
            inner,
            scheduler,
            console,
            metrics,
            stand_ins,
            inert,
            schedulers,
            notices,
        })
    }

    /// Returns the store with all objects. Clients see everything that is written to the store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the address of the server, which serves HTTPS.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Returns a kubeconfig with which kubectl or another scheduler connects to the server.
    pub fn kubeconfig(&self) -> String {
        kubeconfig_yaml(self.address(), Some(&self.authority), None)
    }

    /// Returns the console of the attached scheduler, for questions to it. Without an attached scheduler, nobody answers.
    pub fn console(&self) -> &Console {
        &self.console
    }

    /// Returns the metrics of the attached scheduler.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Returns the scheduler names of the attached scheduler's profiles.
    pub fn schedulers(&self) -> &[String] {
        &self.schedulers
    }

    /// Returns lines that the user should see.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Waits until the board is settled. Returns false if that takes longer than `limit`.
    pub async fn settled(&mut self, limit: Duration) -> bool {
        let settled = async { while self.board.next().await != Update::Settled {} };
        timeout(limit, settled).await.is_ok()
    }

    /// Waits until `is_wanted` returns true for the board. Returns false if that takes longer than `limit`.
    pub async fn shows(&mut self, limit: Duration, is_wanted: impl Fn(&Board) -> bool) -> bool {
        let shown = async {
            while !is_wanted(&self.board) {
                self.board.next().await;
            }
        };
        timeout(limit, shown).await.is_ok()
    }

    /// Waits for the next update, or for the end of the scheduler.
    ///
    /// # Errors
    /// If the scheduler has ended.
    pub async fn next(&mut self) -> Result<Update, SandboxError> {
        let scheduler = &mut self.scheduler;
        let ended = async {
            match scheduler {
                Some(scheduler) => (&mut scheduler.task).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            update = self.board.next() => Ok(update),
            notice = self.inert.next() => Ok(Update::Notice(notice)),
            ended = ended => {
                self.scheduler = None;
                match ended {
                    Ok(Ok(reason)) => Err(SandboxError::Ended(format!("{reason:?}"))),
                    Ok(Err(error)) => Err(error.into()),
                    Err(error) => Err(SandboxError::Ended(error.to_string())),
                }
            }
        }
    }

    /// Stops the scheduler, then everything else.
    ///
    /// # Errors
    /// If the scheduler failed.
    pub async fn stop(mut self) -> Result<(), SandboxError> {
        let mut ended = Ok(());
        if let Some(RunningScheduler { stop, task }) = self.scheduler.take() {
            // Sending fails if the scheduler has already ended.
            let _ = stop.send(());
            ended = match task.await {
                Ok(Ok(_)) => Ok(()),
                Ok(Err(error)) => Err(error.into()),
                Err(error) => Err(SandboxError::Ended(error.to_string())),
            };
        }
        self.stand_ins.shutdown().await;
        if let Some(inner) = self.inner.take() {
            inner.stop().await;
        }
        self.server.stop().await;
        ended
    }
}

async fn listen(
    api: &ApiServer,
    port: u16,
    certificate: Option<&Certificate>,
) -> Result<Running, SandboxError> {
    let failed = |error| SandboxError::Listen { port, error };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(failed)?;
    api.serve(listener, certificate).map_err(failed)
}

/// Runs the scheduler as it would run against a cluster.
fn attach(engine: EngineConfig, config: DriverConfig, server: SocketAddr) -> RunningScheduler {
    let connection = ConnectionConfig {
        master: Some(format!("http://{server}")),
        // The server has no other load, so requests need no rate limit.
        qps: -1.0,
        ..ConnectionConfig::default()
    };
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(async move {
        let shutdown = async {
            if stopped.await.is_err() {
                // The sandbox was dropped, and its runtime or its server is going away too.
                tracing::debug!(v = 2, "The sandbox is gone");
            }
        };
        let clients = Clients::new(&connection).await?;
        harbormaster_driver::run(clients, config, engine, shutdown).await
    });
    RunningScheduler { stop, task }
}

/// Returns true if a request failed only because of a concurrent change. The next reconciliation handles that change.
pub(crate) fn is_passing(failure: &Failure) -> bool {
    matches!(failure.code, 404 | 409)
}

/// Logs the failure of a stand-in's request. The stand-in continues.
pub(crate) fn carry_on(who: &str, done: Result<(), Failure>) {
    if let Err(failure) = done
        && !is_passing(&failure)
    {
        tracing::warn!(err = %failure, "{who}: the API server refused a request");
    }
}
