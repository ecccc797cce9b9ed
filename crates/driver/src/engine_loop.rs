//! The engine with everything around it that needs no waiting: takes messages in, tries one pod at a time, and collects
//! the effects. [`engine_host`](crate::engine_host) says where it runs.

use std::{
    sync::mpsc::Receiver,
    time::{Duration, Instant},
};

use harbormaster_api::Timestamp;
use harbormaster_core::{Attempted, Effect, EngineConfig, Input, Outcome, recording::Recorder};
use harbormaster_framework::{pod::PodInfo, resource::ResourceName};
use harbormaster_metrics::{AttemptTimes, Attempts, Metrics};
use tokio::sync::{mpsc::Sender, oneshot};

use crate::{
    clock::Clock,
    extenders::raw::RawObjects,
    health::Health,
    message::EngineMessage,
    notes,
    pace::Pace,
    recording::Pipe,
    slow, status,
    traces::{AttemptSpan, Traces},
};

/// Maximum number of messages that are handled before the next pod is tried: inputs take precedence, but must not
/// starve pods. After a long attempt, for example because of an extender, messages are handled for up to the duration
/// of that attempt, so that the next attempt uses the inputs that arrived in the meantime.
pub(crate) const BATCH: usize = 1024;
/// Maximum number of pods that [`EngineLoop::try_few`] tries.
const FEW: usize = 8;
/// Longest duration of an attempt after which the next one may be made by [`EngineLoop::try_few`].
const QUICK: Duration = Duration::from_millis(1);
/// Minimum interval between updates of the gauges while the thread is busy. The gauges are exact when the thread is
/// idle.
const PUBLISH_EVERY: Duration = Duration::from_secs(1);
/// Outputs of the engine's thread other than effects.
#[derive(Debug)]
pub struct EngineSinks {
    /// Metrics.
    pub metrics: Metrics,
    /// State for health checks.
    pub health: Health,
    /// Notified when all watches have delivered all objects.
    pub synced: oneshot::Sender<()>,
    /// Traces of attempts.
    pub traces: Traces,
    /// Objects in the API server's JSON form, if extenders need them.
    pub raw: Option<RawObjects>,
    /// Receiver of the recording, if there is one.
    pub recording: Option<Pipe>,
    /// Rests of the runtime's thread, which depend on the number of attempts.
    pub pace: Pace,
}

/// The engine, its state in the driver, and its outputs.
pub(crate) struct EngineLoop {
    engine: Recorder<Pipe>,
    clock: Clock,
    /// Messages that arrive while the engine runs on its thread.
    inbox: Receiver<Vec<EngineMessage>>,
    effects: Sender<Vec<Effect>>,
    health: Health,
    raw: Option<RawObjects>,
    /// Number of status patches that have been passed on but not yet reported as written.
    unwritten_statuses: usize,
    unsynced: usize,
    /// Notified when all watches have delivered all objects.
    synced: Option<oneshot::Sender<()>>,
    leads: bool,
    stopping: bool,
    /// True if an attempt may block.
    may_block: bool,
    /// Duration of the last attempt.
    last: Duration,
    /// Duration of the last attempt; zero once the messages that arrived during it have been handled.
    listen_for: Duration,
    pace: Pace,
    /// Metrics; `published` is the time when gauges were last updated.
    metrics: Metrics,
    published: Instant,
    /// Durations of the parts of attempts.
    attempts: Attempts,
    /// Number of slow attempts.
    slow: u32,
    traces: Traces,
}

impl EngineLoop {
    /// Returns the loop of a new engine. `unsynced` is the number of watches. No pod is tried until all of them have
    /// delivered all objects and this instance is the leader.
    pub(crate) fn new(
        config: EngineConfig,
        unsynced: usize,
        inbox: Receiver<Vec<EngineMessage>>,
        effects: Sender<Vec<Effect>>,
        sinks: EngineSinks,
    ) -> Self {
        let EngineSinks { metrics, health, synced, traces, raw, recording, pace } = sinks;
        let (meter, attempts) = metrics.meter_with_attempts();
        let may_block = config.may_block();
        let config = EngineConfig { meter: Some(meter), ..config };
        Self {
            engine: Recorder::new(config, recording),
            clock: Clock::default(),
            inbox,
            effects,
            health,
            raw,
            unwritten_statuses: 0,
            unsynced,
            synced: Some(synced),
            leads: false,
            stopping: false,
            may_block,
            last: Duration::ZERO,
            listen_for: Duration::ZERO,
            pace,
            metrics,
            published: Instant::now(),
            attempts,
            slow: 0,
            traces,
        }
    }

    /// Handles messages, and the timers that have expired.
    pub(crate) fn take_all(&mut self, messages: impl IntoIterator<Item = EngineMessage>) {
        self.health.works();
        messages.into_iter().for_each(|message| self.take(message));
        self.engine.tick(self.clock.now());
    }

    /// Handles the messages in the inbox and tries pods until there is nothing left to do. Blocks while the effects of
    /// too many attempts have not been taken.
    pub(crate) fn work(&mut self) {
        loop {
            self.take_inbox();
            self.engine.tick(self.clock.now());
            let is_busy = self.is_to_schedule();
            if is_busy {
                self.schedule_one();
            }
            if let Some(effects) = self.take_effects() {
                // The receiver is gone only when the process ends.
                let _ = self.effects.blocking_send(effects);
            }
            if !is_busy {
                return;
            }
        }
    }

    /// Tries a few pods, as long as that takes little time and cannot block.
    pub(crate) fn try_few(&mut self) {
        for _ in 0..FEW {
            if self.may_block || self.last > QUICK || !self.is_to_schedule() {
                return;
            }
            self.schedule_one();
        }
    }

    /// Returns the next messages in the inbox; empty if there are none.
    pub(crate) fn inbox(&mut self) -> Vec<EngineMessage> {
        self.inbox.try_recv().unwrap_or_default()
    }

    /// Sends the effects on.
    pub(crate) async fn forward(&mut self) {
        if let Some(effects) = self.take_effects() {
            // The receiver is gone only when the process ends.
            let _ = self.effects.send(effects).await;
        }
    }

    /// Returns true if the engine has been asked to stop and nothing is in progress.
    pub(crate) fn is_over(&self) -> bool {
        self.stopping && self.engine.work_in_flight() == 0
    }

    /// Notes that nothing is to be done until a message arrives or the returned time has passed, if any.
    pub(crate) fn rest(&mut self) -> Option<Duration> {
        self.publish();
        self.health.waits();
        self.engine.next_wakeup().map(|at| at.since(self.clock.now()))
    }

    fn schedule_one(&mut self) {
        let span = self.traces.begin_attempt();
        if span.is_some() {
            self.attempts.trace_next();
        }
        let begun = Instant::now();
        let attempted = self.engine.schedule_one_by(&mut || self.clock.now());
        self.last = begun.elapsed();
        self.listen_for = self.last;
        self.pace.note_attempt();
        let times = self.attempts.take();
        if let Some(attempted) = attempted {
            attempted.all().for_each(|(pod, outcome)| self.note(pod, outcome));
            self.report_times(&attempted, times, span);
        }
    }

    /// Writes a log line if the attempt was slow, and ends the attempt's span if there is one.
    fn report_times(
        &mut self,
        attempted: &Attempted,
        times: Option<AttemptTimes>,
        span: Option<AttemptSpan>,
    ) {
        if let Some(times) = &times
            && slow::is_long(times)
        {
            self.slow = self.slow.wrapping_add(1);
            slow::log(&attempted.pod, times, self.slow, self.attempts.wall(times.begun));
        }
        if let Some(span) = span {
            span.end(attempted, times, |stamp| self.attempts.wall(stamp));
        }
    }

    fn may_schedule(&self) -> bool {
        self.unsynced == 0 && self.leads && !self.stopping
    }

    /// Returns true if a pod should be tried now. Pods in backoff are tried early, but only while the status writer
    /// accepts more patches.
    pub(crate) fn is_to_schedule(&self) -> bool {
        let has_room = self.unwritten_statuses < status::AT_ONCE;
        self.may_schedule() && (self.engine.has_due_work() || self.engine.has_work() && has_room)
    }

    /// Reports once that all watches have delivered all objects.
    pub(crate) fn report_synced(&mut self) {
        if self.unsynced == 0
            && let Some(synced) = self.synced.take()
        {
            self.health.synced();
            // The receiver may be gone.
            let _ = synced.send(());
        }
    }

    fn take_inbox(&mut self) {
        self.health.works();
        if self.published.elapsed() >= PUBLISH_EVERY {
            self.publish();
        }
        let (begun, listen_for) = (Instant::now(), std::mem::take(&mut self.listen_for));
        let (mut next, mut taken) = (self.inbox(), 0);
        while !next.is_empty() {
            taken += next.len();
            next.into_iter().for_each(|message| self.take(message));
            let goes_on = taken < BATCH || begun.elapsed() < listen_for;
            next = if goes_on { self.inbox() } else { Vec::new() };
        }
    }

    fn publish(&mut self) {
        self.metrics.publish(&self.engine);
        self.published = Instant::now();
    }

    fn take(&mut self, message: EngineMessage) {
        match message {
            EngineMessage::Raw(objects) => {
                if let Some(raw) = &self.raw {
                    objects.into_iter().for_each(|object| raw.keep(object));
                }
            }
            EngineMessage::Inputs(inputs) => {
                let now = self.clock.now();
                for input in inputs {
                    self.handle(input, now);
                }
            }
            EngineMessage::StatusesWritten(patches) => {
                self.unwritten_statuses = self.unwritten_statuses.saturating_sub(patches);
            }
            EngineMessage::Synced => {
                self.unsynced = self.unsynced.saturating_sub(1);
                self.report_synced();
            }
            EngineMessage::Lead => self.leads = true,
            EngineMessage::ListPods(answer) => {
                let pods = if self.leads { self.engine.pods().cloned().collect() } else { Vec::new() };
                // The receiver may be gone.
                let _ = answer.send(pods);
            }
            // The receiver may be gone.
            EngineMessage::Dump(answer) => drop(answer.send(self.engine.dump())),
            EngineMessage::PodState(namespace, name, answer) => {
                // The receiver may be gone.
                let _ = answer.send(self.engine.pod_state(&namespace, &name).map(Box::new));
            }
            // The receiver may be gone.
            EngineMessage::Room(pod, answer) => drop(answer.send(self.engine.room_for(*pod).map(Box::new))),
            EngineMessage::TakeNotes(notes) => self.engine.set_notes(notes),
            // The receiver may be gone.
            EngineMessage::TakeOver(config, answer) => drop(answer.send(self.take_over(*config))),
            EngineMessage::Stop => self.stopping = true,
        }
    }

    fn take_over(&mut self, config: EngineConfig) -> Result<(), Vec<ResourceName>> {
        let lacks = self.engine.missing_resources(&config.profiles);
        if !lacks.is_empty() {
            return Err(lacks.iter().map(|kind| kind.name()).collect());
        }
        self.may_block = config.may_block();
        self.engine.reconfigure(config, self.clock.now());
        Ok(())
    }

    fn handle(&mut self, input: Input, now: Timestamp) {
        if let Some(raw) = &self.raw {
            raw.apply(&input);
        }
        self.engine.handle(input, now);
    }

    fn note(&self, pod: &PodInfo, outcome: &Outcome) {
        let pod = pod.full_name();
        if *outcome == Outcome::Asking {
            tracing::trace!(v = 5, pod, "Asking extenders about pod");
            return;
        }
        tracing::trace!(v = 3, pod, "Attempting to schedule pod");
        match outcome {
            Outcome::Assumed { .. } | Outcome::Asking => {}
            Outcome::NoNodes => tracing::debug!(
                v = 2,
                pod,
                err = "no nodes available to schedule pods",
                "Unable to schedule pod; no nodes are registered to the cluster; waiting"
            ),
            Outcome::Unschedulable(why) => {
                tracing::debug!(v = 2, pod, err = why, "Unable to schedule pod; no fit; waiting");
            }
            Outcome::Error(why) => tracing::error!(pod, err = why, "Error scheduling pod; retrying"),
            Outcome::Skipped => tracing::trace!(v = 3, pod, "Skip schedule deleting pod"),
        }
    }

    /// Writes the engine's notes to the log. Returns its effects, if there are any and this instance is the leader; an
    /// instance that is not the leader reports nothing about pods.
    fn take_effects(&mut self) -> Option<Vec<Effect>> {
        self.engine.take_notes().iter().for_each(notes::log);
        let effects = self.engine.take_effects();
        if effects.is_empty() || !self.leads {
            return None;
        }
        let patches = effects.iter().filter(|effect| matches!(effect, Effect::PatchStatus(_)));
        self.unwritten_statuses += patches.count();
        Some(effects)
    }
}
