//! Runs watches, the engine, and the tasks that carry out its effects.

use std::{
    future::{Future, pending},
    io,
    pin::pin,
    sync::Arc,
    time::Duration,
};

use harbormaster_api::Str;
use harbormaster_client::{ApiClient, ClientError};
use harbormaster_core::{AskTask, Effect, EngineConfig, Input, PodEvent};
use harbormaster_framework::{fetch::Web, plugin::BoxFuture};
use thiserror::Error;
use tokio::{
    sync::{mpsc as channel, oneshot},
    task::{JoinError, JoinHandle, JoinSet},
    time::{Instant, MissedTickBehavior, interval, timeout_at},
};

use crate::{
    binder::Binder,
    clients::Clients,
    clock::{Clock, system_time},
    console::Console,
    engine_host::{self, EngineEnd},
    engine_loop::EngineSinks,
    events::{EventRecorder, PendingEvents},
    evictor::Evictor,
    extenders::{
        ExtenderConfig, ExtenderSetupError, HttpExtenders, current::CurrentExtenders, raw::RawSelection,
    },
    health::Health,
    leader::{
        LeaderElection, Leadership,
        candidate::{CandidateConfig, Election},
    },
    live_api::{CustomFeed, LiveApi},
    message::{EngineMessage, ToEngine},
    metrics::Metrics,
    pace::Pace,
    recording::{Recording, RecordingConfig},
    reload::Reload,
    served_version::ServedVersion,
    sources::Fetcher,
    status::StatusWriter,
    tasks::Tasks,
    traces::Traces,
    watch::{BUILT_IN, CustomKind, Nodes, Pods, StreamingLists, Watcher},
    web::LiveWeb,
};

/// Time limit for bindings, evictions, patches and events in progress when the process ends.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(10);
/// Part of [`SHUTDOWN_LIMIT`] after which pending events are dropped if none can be written; nothing depends on events.
const EVENTS_LIMIT: Duration = Duration::from_secs(3);
/// Maximum number of attempts whose effects wait to be carried out. Beyond that, the engine waits.
const MAX_EFFECTS: usize = 4096;
/// Interval between calls to [`EventRecorder::tick`].
const EVENTS_TICK: Duration = Duration::from_secs(60);

/// Configuration of a driver.
#[derive(Clone, Debug, Default)]
pub struct DriverConfig {
    /// `leaderElection`.
    pub election: LeaderElection,
    /// Leadership of this instance; see [`Driver::leadership`].
    pub leadership: Leadership,
    /// Name of this instance in events and in the lease; the machine's name if absent.
    pub hostname: Option<String>,
    /// Metrics. The caller keeps a clone to serve the pages that show them.
    pub metrics: Metrics,
    /// State for health checks. The caller keeps a clone for the checks.
    pub health: Health,
    /// Receives requests to the running scheduler. The caller keeps a clone to send them.
    pub console: Console,
    /// Traces, if enabled.
    pub traces: Traces,
    /// The extenders, in the order of [`EngineConfig::extenders`].
    pub extenders: Vec<ExtenderConfig>,
    /// Allows the configuration to be replaced while the scheduler runs. The caller keeps a clone to replace it.
    pub reload: Reload,
    /// True if objects that plugins fetch are read from the API server where it has them, as in a sandbox.
    pub prefers_stored: bool,
    /// Recording of the engine's inputs and decisions, if wanted.
    pub recording: Option<RecordingConfig>,
    /// Rests of the runtime's thread. They take effect if the runtime calls [`Pace::rest`] before its thread waits.
    pub pace: Pace,
}

/// Result of a [`run`] that ended without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitReason {
    /// The scheduler was asked to stop and finished everything in progress, except for events that the API server did
    /// not accept.
    Finished,
    /// The scheduler was asked to stop and abandoned work in progress that took too long.
    Abandoned,
}

/// Error returned by [`run`].
#[derive(Debug, Error)]
pub enum DriverError {
    /// The configuration of the client for the API server cannot be used.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The configuration of an extender cannot be used.
    #[error(transparent)]
    Extender(#[from] ExtenderSetupError),
    /// The recording cannot be written.
    #[error("starting the recording: {0}")]
    Recording(io::Error),
    /// The engine's thread could not be started.
    #[error("starting the engine: {0}")]
    Thread(#[from] io::Error),
    /// The configuration of leader election is invalid.
    #[error("couldn't create leader elector: {0}")]
    Election(&'static str),
    /// This instance was the leader but could not renew its lease in time, or another instance acquired the lease.
    #[error("lost lease: another instance may schedule now")]
    LeaseLost,
    /// The engine panicked.
    #[error("the engine failed: {0}")]
    Engine(String),
    /// A task of the driver panicked or ended unexpectedly.
    #[error("{0} failed: {1}")]
    Task(&'static str, String),
}

/// Schedules pods of a cluster until `shutdown` resolves or the lease is lost. Works on a tokio runtime of either
/// flavor, with time and I/O enabled; a current-thread runtime uses the least processor time.
///
/// # Errors
/// If the configuration is invalid, the lease is lost, or something in this process fails. An unreachable API server is
/// not an error; a leader waits for it as long as its lease is valid.
pub async fn run(
    clients: Clients,
    config: DriverConfig,
    engine: EngineConfig,
    shutdown: impl Future<Output = ()>,
) -> Result<ExitReason, DriverError> {
    let extenders = HttpExtenders::new(&config.extenders, config.health.clone())?;
    let DriverConfig {
        election,
        leadership,
        hostname,
        metrics,
        health,
        console,
        traces,
        reload,
        prefers_stored,
        recording,
        pace,
        ..
    } = config;
    let hostname = hostname.unwrap_or_else(machine_name);
    let driver = Driver {
        clients,
        election,
        leadership,
        hostname,
        metrics,
        health,
        console,
        traces,
        extenders,
        reload,
        prefers_stored,
        recording,
        pace,
    };
    driver.run(engine, shutdown).await
}

/// A scheduler with its clients.
#[derive(Clone, Debug)]
pub struct Driver {
    /// Clients for the API server.
    pub clients: Clients,
    /// Leader election.
    pub election: LeaderElection,
    /// Leadership of this instance; each run needs a new value. The `leader_election_master_status` metric shows the
    /// leadership.
    pub leadership: Leadership,
    /// Name of this instance in events and in the lease.
    pub hostname: String,
    /// Metrics.
    pub metrics: Metrics,
    /// State for health checks.
    pub health: Health,
    /// Receives requests to the running scheduler.
    pub console: Console,
    /// Traces, if enabled.
    pub traces: Traces,
    /// The extenders, in the order of [`EngineConfig::extenders`].
    pub extenders: Option<Arc<HttpExtenders>>,
    /// Allows the configuration to be replaced while the scheduler runs.
    pub reload: Reload,
    /// True if objects that plugins fetch are read from the API server where it has them.
    pub prefers_stored: bool,
    /// Recording of the engine's inputs and decisions, if wanted.
    pub recording: Option<RecordingConfig>,
    /// Rests of the runtime's thread. They take effect if the runtime calls [`Pace::rest`] before its thread waits.
    pub pace: Pace,
}

impl Driver {
    /// Schedules pods until `shutdown` resolves or the lease is lost.
    ///
    /// # Errors
    /// If the lease is lost, or something in this process fails.
    pub async fn run(
        self,
        mut engine: EngineConfig,
        shutdown: impl Future<Output = ()>,
    ) -> Result<ExitReason, DriverError> {
        self.election.check().map_err(DriverError::Election)?;
        let clients =
            self.clients.observed(self.metrics.numbers()).gated_by(Arc::new(self.leadership.clone()));
        let (to_engine, messages) = channel::unbounded_channel();
        let (effects_out, effects) = channel::channel(MAX_EFFECTS);
        let (tasks, all_done) = Tasks::new();
        let (watched, sources) = (engine.watched(), engine.sources());
        let custom_feed = CustomFeed::of(watched.iter().map(|kind| kind.name().to_string().into()));
        let served: Arc<[ServedVersion]> = watched.iter().map(ServedVersion::of).collect();
        let api = LiveApi::new(clients.main.clone(), custom_feed.clone()).in_versions(served.clone());
        let extenders = CurrentExtenders::new(self.extenders.clone(), self.health.clone());
        let (emitted_out, emitted) = channel::unbounded_channel();
        let binder = Binder::new(Arc::new(api), tasks.clone(), to_engine.clone(), emitted_out)
            .traced_by(&self.traces)
            .with_extenders(&extenders, &self.leadership);
        if let Some(extenders) = &self.extenders {
            extenders.serve(&mut engine);
        }
        let (events, event_writer) =
            EventRecorder::new(clients.events.clone(), self.hostname.as_str().into(), binder.activity());
        let unwritten = events.unwritten();
        let outbox = Outbox {
            binder,
            evictor: Evictor::new(clients.main.clone(), tasks.clone(), to_engine.clone()),
            status: StatusWriter::new(clients.main.clone(), tasks, to_engine.clone()),
            events,
            emitted,
            to_engine: to_engine.clone(),
            clock: Clock::default(),
        };
        let reporter = engine.profiles.first().map(|profile| profile.name().clone()).unwrap_or_default();
        let mut watches = self.watch_all(&clients, (&served, &custom_feed), extenders.wanted(), &to_engine);
        let (synced, all_synced) = oneshot::channel();
        let recording = self.recording.clone().map(|config| Recording::start(config, system_time()));
        let (pipe, recording) = recording.transpose().map_err(DriverError::Recording)?.unzip();
        let sinks = EngineSinks {
            metrics: self.metrics.numbers().clone(),
            health: self.health.clone(),
            synced,
            traces: self.traces.clone(),
            raw: extenders.raw().cloned(),
            recording: pipe,
            pace: self.pace.clone(),
        };
        let unsynced = watches.len() + sources.len();
        let mut engine = engine_host::spawn(engine, unsynced, messages, effects_out, sinks)?;
        let web = Web::new(Arc::new(LiveWeb::new(clients.main.clone())));
        let delay = self.election.delays_cache().then(|| self.leadership.clone());
        let fetcher = Fetcher::start(sources, web, to_engine.clone(), delay, self.prefers_stored);
        let reached = self.reload.reaches(to_engine.clone(), extenders, fetcher.clone());
        let scheduling = self.metrics.schedules(to_engine.clone());
        let mut election = self.start_election(&clients, reporter, all_synced, &to_engine);
        let mut carrier = tokio::spawn(outbox.carry_out(effects));
        let mut event_writer = tokio::spawn(event_writer.run());
        // The console is aborted when this run ends.
        let mut console = JoinSet::new();
        console.spawn(self.console.clone().serve(clients.main.clone(), to_engine.clone()));

        tokio::select! {
            () = shutdown => {}
            end = &mut engine => return Err(engine_failed(end)),
            // Unless they panic, the carrier (the task that carries out effects), the event writer and the watches end
            // only after the engine has ended.
            end = &mut carrier => return Err(carrier_failed(end, engine).await),
            end = &mut event_writer => return Err(match end {
                Ok(()) => carrier_failed(carrier.await, engine).await,
                end => task_failed("writing events", end),
            }),
            Some(end) = watches.join_next() => return Err(match end {
                Ok(()) => engine_failed(engine.await),
                end => task_failed("watching", end),
            }),
            end = election.ends() => {
                // Writes in progress have been canceled.
                let _ = to_engine.send(EngineMessage::Stop);
                return Err(lease_lost(end));
            }
        }
        tracing::info!(
            v = 0,
            "Stopping: no more pods are tried; bindings and evictions in progress will be completed"
        );
        // If this fails, the engine has ended and has nothing to finish.
        let _ = to_engine.send(EngineMessage::Stop);
        drop((scheduling, reached));
        let finish = pin!(async {
            let engine = engine.await;
            // The engine has dropped its end of the effects channel, so the carrier returns once it has started all
            // remaining effects.
            let carrier = carrier.await;
            all_done.wait().await;
            (engine, carrier)
        });
        let deadline = Instant::now() + SHUTDOWN_LIMIT;
        let finished = timeout_at(deadline, finish).await;
        watches.abort_all();
        drop(fetcher);
        let reason = match finished {
            Ok((Ok(Ok(())), Ok(()))) => {
                finish_events(event_writer, &unwritten, deadline).await;
                recording.into_iter().for_each(Recording::finish);
                Ok(ExitReason::Finished)
            }
            Ok((Ok(Ok(())), Err(end))) => Err(task_failed("carrying out decisions", Err(end))),
            Ok((end, _)) => Err(engine_failed(end)),
            Err(_) => {
                tracing::error!("Stopping took too long: work in progress is abandoned");
                Ok(ExitReason::Abandoned)
            }
        };
        election.stop().await;
        reason
    }

    /// Starts the election when all objects are known, or immediately if nothing is watched before this instance is the
    /// leader. The engine starts scheduling when this instance becomes the leader.
    fn start_election(
        &self,
        clients: &Clients,
        reporter: Str,
        all_synced: oneshot::Receiver<()>,
        engine: &ToEngine,
    ) -> Election {
        let (engine, delays_cache) = (engine.clone(), self.election.delays_cache());
        let ready = async move {
            if !delays_cache && all_synced.await.is_err() {
                // The engine has ended, so this instance never becomes a candidate.
                pending::<()>().await;
            }
        };
        let (metrics, lease) = (self.metrics.clone(), self.election.lease().map(str::to_owned));
        if let Some(lease) = &lease {
            metrics.set_leader(lease, false);
        }
        let lead = move || {
            if let Some(lease) = &lease {
                metrics.set_leader(lease, true);
            }
            // The engine may be ending.
            let _ = engine.send(EngineMessage::Lead);
        };
        let Self { leadership, hostname, .. } = self;
        let stand = CandidateConfig { clients, leadership: leadership.clone(), hostname, reporter };
        Election::begin(self.election.clone(), stand, ready, lead)
    }

    /// Starts one watch per kind. Scheduling does not begin before every watch has delivered all its objects.
    fn watch_all(
        &self,
        clients: &Clients,
        (custom, custom_feed): (&[ServedVersion], &CustomFeed),
        wanted: RawSelection,
        engine: &ToEngine,
    ) -> JoinSet<()> {
        let mut watches = JoinSet::new();
        for watch in watches_of_all(&clients.main, (custom, custom_feed), wanted, engine, &self.pace) {
            watches.spawn(self.when_due(watch));
        }
        watches
    }

    /// Delays a watch until this instance is the leader, if the election configuration requires the delay.
    fn when_due<W: Future<Output = ()>>(&self, watch: W) -> impl Future<Output = ()> + use<W> {
        let leadership = self.election.delays_cache().then(|| self.leadership.clone());
        async move {
            if let Some(leadership) = leadership {
                leadership.begins().await;
            }
            watch.await;
        }
    }
}

/// Returns one watch per kind.
pub(crate) fn watches_of_all(
    client: &ApiClient,
    (custom, custom_feed): (&[ServedVersion], &CustomFeed),
    wanted: RawSelection,
    engine: &ToEngine,
    pace: &Pace,
) -> Vec<BoxFuture<'static, ()>> {
    let streaming = StreamingLists::default();
    let mut watches: Vec<BoxFuture<'static, ()>> = Vec::new();
    for objects in BUILT_IN {
        let watcher = Watcher::new(objects, client.clone(), streaming.clone(), engine.clone());
        watches.push(Box::pin(watcher.paced_by(pace).run()));
    }
    for kind in custom {
        let objects = CustomKind::new(kind.clone());
        let watcher = Watcher::new(objects, client.clone(), streaming.clone(), engine.clone());
        watches.push(Box::pin(watcher.paced_by(pace).publishing_to(custom_feed.clone()).run()));
    }
    let nodes = Watcher::new(Nodes, client.clone(), streaming.clone(), engine.clone());
    watches.push(Box::pin(nodes.paced_by(pace).handing_on(wanted).run()));
    let pods = Watcher::new(Pods, client.clone(), streaming, engine.clone());
    watches.push(Box::pin(pods.paced_by(pace).handing_on(wanted).run()));
    watches
}

/// Waits for pending events for as long as some of them are being written.
async fn finish_events(mut writer: JoinHandle<()>, unwritten: &PendingEvents, deadline: Instant) {
    loop {
        let before = unwritten.count();
        let limit = deadline.min(Instant::now() + EVENTS_LIMIT);
        if timeout_at(limit, &mut writer).await.is_ok() {
            return;
        }
        let events = unwritten.count();
        if events >= before || Instant::now() >= deadline {
            writer.abort();
            tracing::warn!(events, "Stopping: some events could not be written and are dropped");
            return;
        }
    }
}

/// Carries out the engine's effects.
struct Outbox {
    binder: Binder,
    evictor: Evictor,
    status: StatusWriter,
    events: EventRecorder,
    /// Events that plugins emit during bindings.
    emitted: channel::UnboundedReceiver<PodEvent>,
    to_engine: ToEngine,
    clock: Clock,
}

impl Outbox {
    /// Runs until the engine has ended and all its effects have been started.
    async fn carry_out(mut self, mut effects: channel::Receiver<Vec<Effect>>) {
        let mut tick = interval(EVENTS_TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                some = effects.recv() => match some {
                    Some(some) => self.begin(some),
                    None => return,
                },
                Some(event) = self.emitted.recv() => self.events.record(event, self.clock.now()),
                _ = tick.tick() => self.events.tick(self.clock.now()),
            }
        }
    }

    fn begin(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Bind(task) => self.binder.run(task),
                Effect::Call(task) => self.binder.call(task),
                Effect::Group(call) => self.binder.call_about_group(call),
                Effect::CallOff(task) => {
                    self.binder.call_off(&task.pod, task.why);
                }
                Effect::Evict(task) => {
                    if let Err(task) = self.binder.preempt(task) {
                        self.evictor.evict(task, self.clock.now());
                    }
                }
                Effect::PatchStatus(patch) => self.status.patch(patch),
                Effect::Ask(AskTask { number, pod, question, client }) => {
                    let to_engine = self.to_engine.clone();
                    let answered = move |answer| {
                        // The engine may have ended.
                        let _ =
                            to_engine.send(EngineMessage::Inputs(vec![Input::Answered { number, answer }]));
                    };
                    client.begin(&pod, question, Box::new(answered));
                }
                Effect::Event(event) => self.events.record(event, self.clock.now()),
            }
        }
    }
}

fn engine_failed(end: Result<EngineEnd, oneshot::error::RecvError>) -> DriverError {
    DriverError::Engine(match end {
        Ok(Err(panic)) => panic,
        Ok(Ok(())) => "it ended unexpectedly".to_owned(),
        Err(_) => "its thread disappeared".to_owned(),
    })
}

/// Returns the error of a run whose carrier ended too early. A carrier that did not panic ends only after the engine;
/// the error is then the engine's.
async fn carrier_failed(end: Result<(), JoinError>, engine: oneshot::Receiver<EngineEnd>) -> DriverError {
    match end {
        Ok(()) => engine_failed(engine.await),
        end => task_failed("carrying out decisions", end),
    }
}

fn lease_lost(end: Result<(), JoinError>) -> DriverError {
    match end {
        Ok(()) => {
            tracing::error!("Leaderelection lost");
            DriverError::LeaseLost
        }
        end => task_failed("electing a leader", end),
    }
}

pub(crate) fn task_failed(what: &'static str, end: Result<(), JoinError>) -> DriverError {
    DriverError::Task(what, end.map_or_else(|e| e.to_string(), |()| "it ended unexpectedly".to_owned()))
}

fn machine_name() -> String {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let environment = || std::env::var("HOSTNAME").unwrap_or_default();
    let names = [kernel, environment()];
    names.iter().map(|n| n.trim()).find(|n| !n.is_empty()).unwrap_or("localhost").to_owned()
}

#[cfg(test)]
pub(crate) mod tests;
