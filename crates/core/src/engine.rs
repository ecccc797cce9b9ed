//! The engine: parts that own their state, and the routes between them.
//!
//! This file and its submodules contain only the routes: an input goes to the part that it concerns, and the result
//! goes to the next part.

mod binding_cycle;
mod changes;
mod eviction;
mod group_cycle;
mod group_preemption;
mod placements;
mod reconfigure;
mod rescue;
mod room;
mod scheduling_cycle;

use std::{sync::Arc, time::Duration};

use harbormaster_api::{Release, Timestamp, requests::StatusRule};
use harbormaster_framework::{
    events::PodEvents,
    extender::Extenders,
    fetch::Source,
    pod::PodInfo,
    profile::Profile,
    resource::ResourceKind,
    window::{Tie, Window},
};
use serde_json::Value;

use crate::{
    bindings::{Binding, Bindings},
    cache::Cache,
    contradictions::Contradictions,
    effect::Effect,
    evictions::Evictions,
    finder::Finder,
    input::Input,
    inquiries::Inquiries,
    meter::{Meter, Sizes},
    nominator::{NewNomination, Nominator},
    note::{Note, Notes},
    pods::Pods,
    queue::{Backoff, EnqueueFailure, Queue, QueueLengths},
    reporter::Reporter,
    watchdog::Watchdog,
};

pub use room::Room;

/// Settings of the engine.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// The profiles; at least one, with distinct names.
    pub profiles: Vec<Arc<Profile>>,
    /// Delays between the attempts to schedule one pod.
    pub backoff: Backoff,
    /// `percentageOfNodesToScore` for profiles that do not set it themselves. If it is `None`, every feasible node is
    /// scored unless `parity` is true; in parity, the percentage depends on the number of nodes, as in kube-scheduler.
    pub percentage_of_nodes_to_score: Option<i32>,
    /// True if nodes are visited and sampled, and ties are broken, exactly as in kube-scheduler with `parallelism: 1`.
    pub parity: bool,
    /// True if rankings are reused as in kube-scheduler's opportunistic batching. Requires `parity`.
    pub batching: bool,
    /// Time after which a rejected pod is retried even without an event.
    pub max_wait: Duration,
    /// Notes to record for [`Engine::take_notes`].
    pub notes: Notes,
    /// Meter, if the engine is measured.
    pub meter: Option<Arc<dyn Meter>>,
    /// Webhooks that take part in decisions. The host supplies [the client](Extenders::with_client).
    pub extenders: Extenders,
    /// True if other pods are decided while extenders filter or score nodes for a pod. The host must then carry out
    /// [`Effect::Ask`]. In parity, attempts wait, as in kube-scheduler.
    pub concurrent_extenders: bool,
    /// Description from which the host can build this configuration again, in a form of its own. Recordings contain it.
    pub origin: Option<Arc<Value>>,
}

impl EngineConfig {
    /// kube-scheduler's defaults, except that every feasible node is scored.
    pub fn new(profiles: Vec<Arc<Profile>>) -> Self {
        Self {
            profiles,
            backoff: Backoff::default(),
            percentage_of_nodes_to_score: None,
            parity: false,
            batching: false,
            max_wait: Duration::from_secs(5 * 60),
            notes: Notes::default(),
            meter: None,
            extenders: Extenders::default(),
            concurrent_extenders: false,
            origin: None,
        }
    }

    /// The release that applies: that of the profiles, which all have the same.
    pub fn release(&self) -> Release {
        self.profiles[0].release()
    }

    /// Returns true if an attempt may wait for something: for an extender, or in a plugin.
    pub fn may_block(&self) -> bool {
        !self.extenders.is_empty() || self.profiles.iter().any(|profile| profile.may_block())
    }

    /// The custom resources that plugins read, each name once. The host supplies their objects as [`Input::Custom`].
    pub fn resources(&self) -> Vec<ResourceKind> {
        let mut kinds: Vec<ResourceKind> = Vec::new();
        for kind in self.profiles.iter().flat_map(|profile| profile.resources()) {
            match kinds.iter_mut().find(|known| known.name() == kind.name()) {
                Some(known) => known.share_objects_with(&kind),
                None => kinds.push(kind),
            }
        }
        kinds
    }

    /// Returns the sources of objects that plugins fetch from outside the cluster, each once. The host supplies the objects as
    /// [`Input::Custom`].
    pub fn sources(&self) -> Vec<Source> {
        let mut sources: Vec<Source> = Vec::new();
        for source in self.profiles.iter().flat_map(|profile| profile.sources()) {
            if !sources.iter().any(|known| known.is_same(&source)) {
                sources.push(source);
            }
        }
        sources
    }

    /// The kinds of [`Self::resources`] that the host watches: those that no plugin fetches.
    pub fn watched(&self) -> Vec<ResourceKind> {
        let fetched = self.sources();
        let is_fetched =
            |kind: &ResourceKind| fetched.iter().any(|source| source.kind().name() == kind.name());
        self.resources().into_iter().filter(|kind| !is_fetched(kind)).collect()
    }

    /// Adds meters to the profiles if there is a meter.
    fn metered(mut self) -> Self {
        if let Some(meter) = &self.meter {
            for (at, profile) in self.profiles.iter_mut().enumerate() {
                *profile = Arc::new(profile.metered(meter.profile(at, profile.name())));
            }
        }
        self
    }

    /// Returns true if batching is on. Extenders turn it off, because they may distinguish pods that look equal to
    /// plugins.
    fn batches(&self) -> bool {
        self.batching && self.parity && self.extenders.is_empty()
    }

    /// Returns true if attempts wait for extenders.
    fn waits_for_extenders(&self) -> bool {
        !self.concurrent_extenders || self.parity || self.extenders.client().is_none()
    }

    pub(crate) fn search(&self) -> (Window, Tie) {
        let window = match (self.percentage_of_nodes_to_score, self.parity) {
            (None, false) => Window::All,
            (given, _) => Window::Sampled { percentage: given.unwrap_or(0) },
        };
        (window, if self.parity { Tie::FirstOnHeap } else { Tie::Rotate })
    }
}

/// Interval between the checks for pods that have waited too long and must be retried, and for pods that are stuck.
const FLUSH_EVERY: Duration = Duration::from_secs(30);
/// Interval between the removals of unused plugin answers from the cache. An answer is removed after it has been unused
/// for one to two intervals.
const CLEANUP_EVERY: Duration = Duration::from_secs(300);

/// The scheduling engine.
pub struct Engine {
    /// Every unfinished pod in the API server.
    pods: Pods,
    /// Nodes with the pods that occupy them.
    cache: Cache,
    /// Pods to schedule, and pods that wait for an event.
    queue: Queue,
    /// Nominated pods.
    nominator: Nominator,
    /// Finds nodes.
    finder: Finder,
    /// Pods that have a node but are not bound yet.
    bindings: Bindings,
    /// Pods about which extenders are being asked.
    inquiries: Inquiries,
    /// True if attempts wait for extenders.
    waits_for_extenders: bool,
    /// Evictions in progress.
    evictions: Evictions,
    /// Events for changes to pods.
    pod_events: PodEvents,
    /// Contradictions between objects.
    contradictions: Contradictions,
    /// Pods that seem to be stuck.
    watchdog: Watchdog,
    /// Collects effects and notes.
    reporter: Reporter,
    /// Time of the next check for pods that have waited too long.
    next_flush: Option<Timestamp>,
    /// Time at which unused cached answers are next removed.
    next_cleanup: Option<Timestamp>,
    meter: Option<Arc<dyn Meter>>,
}

impl Engine {
    /// Creates an engine without nodes or pods.
    pub fn new(config: EngineConfig) -> Self {
        let config = config.metered();
        let mut cache = Cache::new(StatusRule::of(config.release()));
        cache.prepare_for(&config.profiles);
        let mut engine = Self {
            pods: Pods::default(),
            cache,
            nominator: Nominator::default(),
            finder: Finder::new(&config.profiles, config.search(), config.batches())
                .with_extenders(config.extenders.clone())
                .with_meter(config.meter.clone()),
            bindings: Bindings::default(),
            inquiries: Inquiries::default(),
            waits_for_extenders: config.waits_for_extenders(),
            evictions: Evictions::default(),
            pod_events: PodEvents::of(config.release()),
            contradictions: Contradictions::default(),
            watchdog: Watchdog::default(),
            reporter: Reporter::new(config.notes),
            queue: Queue::new(config.profiles, config.backoff, config.max_wait)
                .with_extenders(config.extenders)
                .retrying_groups(config.parity)
                .with_meter(config.meter.clone()),
            next_flush: None,
            next_cleanup: None,
            meter: config.meter,
        };
        engine.queue.note_moves(config.notes.moves);
        engine
    }

    /// Takes the effects since the last call, in order.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        self.reporter.take_effects()
    }

    /// Reports plugin failures that belong to no attempt. Every call that can cause such a failure ends with this
    /// report, so that the next attempt does not report it.
    fn report_plugin_failures(&mut self) {
        // Called for every input and every attempt, so the usual case (no failure) must cost no more than these checks.
        let has_failures =
            self.queue.has_failures() || self.cache.cluster.has_failures() || self.cache.groups.has_errors();
        if !has_failures {
            return;
        }
        // Reported like a failed attempt, except that the pod is already in the queue.
        for EnqueueFailure { pod, error, since } in self.queue.take_failed() {
            let reason_and_message = ("SchedulerError", error.to_string());
            self.reporter.failed(&pod, reason_and_message, NewNomination::Keep, since);
        }
        let failures = self.cache.cluster.take_errors().into_iter().chain(self.queue.take_panics());
        let failures = failures.chain(self.cache.groups.take_errors());
        failures.for_each(|error| self.reporter.note_plugin_failure(None, error.to_string()));
        let undecodable = self.cache.cluster.take_undecodable();
        undecodable.into_iter().for_each(|object| self.reporter.note_undecodable(object));
    }

    /// Reports contradictions between objects that have lasted for some time.
    fn report_contradictions(&mut self, now: Timestamp) {
        let lasting = self.contradictions.check(self.cache.cluster.indexes().contradictions(), now);
        lasting.into_iter().for_each(|found| self.reporter.note_contradiction(found));
    }

    /// Takes the notes since the last call; moves between parts of the queue come last. Failures are noted even if no
    /// notes are requested, so every host must call this method.
    pub fn take_notes(&mut self) -> Vec<Note> {
        let mut notes = self.reporter.take_notes();
        notes.extend(self.queue.take_moves());
        notes
    }

    /// Selects the notes to record.
    pub fn set_notes(&mut self, notes: Notes) {
        self.reporter.set_notes(notes);
        self.queue.note_moves(notes.moves);
    }

    /// Handles an input.
    pub fn handle(&mut self, input: Input, now: Timestamp) {
        match input {
            Input::Pod(pod) if pod.is_terminal() => self.pod_gone(&pod.uid, self.begin(now)),
            Input::Pod(pod) => self.pod_changed(pod, self.begin(now)),
            Input::PodGone(uid) => self.pod_gone(&uid, self.begin(now)),
            Input::Node(node) => self.node_changed(node, self.begin(now)),
            Input::NodeGone(name) => self.node_gone(&name, self.begin(now)),
            // Stored for plugins; these objects wake no pods.
            Input::Object(object) => self.cache.set_object(object),
            Input::ObjectGone(key) => self.cache.remove_object(&key),
            Input::Custom(object) => {
                let at = self.begin(now);
                let changes = self.cache.cluster.set_custom(&object);
                self.custom_changed(changes, at);
                self.report_contradictions(now);
            }
            Input::CustomGone(key) => {
                let at = self.begin(now);
                let changes = self.cache.cluster.remove_custom(&key);
                self.custom_changed(changes, at);
                self.report_contradictions(now);
            }
            Input::BindFinished { uid, outcome } => self.bind_finished(&uid, outcome, now),
            Input::EvictFinished { task, outcome } => self.evict_finished(&task, &outcome, now),
            Input::Answered { number, answer } => self.answered(number, answer),
        }
        self.report_plugin_failures();
    }

    /// Handles the passing of time. Call this at [`Self::next_wakeup`]; calls at other times are harmless.
    pub fn tick(&mut self, now: Timestamp) {
        self.queue.flush_backoff(self.cache.at(now));
        self.queue.retry_due(self.cache.at(now));
        self.permit_timeouts(now);
        let due = *self.next_flush.get_or_insert(now + FLUSH_EVERY);
        if due <= now {
            self.queue.flush_unschedulable(self.cache.at(now));
            self.check_waiting_pods(now);
            self.next_flush = Some(now + FLUSH_EVERY);
        }
        if *self.next_cleanup.get_or_insert(now + CLEANUP_EVERY) <= now {
            self.finder.forget_unused();
            self.next_cleanup = Some(now + CLEANUP_EVERY);
        }
        self.report_contradictions(now);
        self.report_plugin_failures();
    }

    /// Returns the time at which [`Self::tick`] must be called next if no input arrives.
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        let flush = self.next_flush.filter(|_| self.queue.anyone_waits() || !self.pods.all_have_nodes());
        let times = [
            self.queue.next_backoff_end(),
            self.queue.next_retry(),
            self.bindings.next_timeout(),
            flush,
            self.contradictions.next_report(),
        ];
        times.into_iter().flatten().min()
    }

    /// Returns true if [`Self::schedule_one`] would try a pod.
    pub fn has_work(&self) -> bool {
        self.inquiries.has_answered() || self.queue.has_work()
    }

    /// Returns true if some pod is ready. Otherwise, [`Self::schedule_one`] tries a rejected pod, if there is one,
    /// before the pod's backoff ends.
    pub fn has_due_work(&self) -> bool {
        self.inquiries.has_answered() || self.queue.has_due_work()
    }

    /// Number of pods in each part of the queue.
    pub fn queue_lengths(&self) -> QueueLengths {
        self.queue.lengths()
    }

    /// Sizes of the parts other than the queue, and the number of pods in flight.
    pub fn sizes(&self) -> Sizes {
        let (pods, assumed) = self.cache.pod_counts();
        Sizes {
            nodes: self.cache.cluster.node_count(),
            pods,
            assumed,
            bindings: self.bindings.len(),
            in_flight: self.queue.in_flight(),
            contradictions: self.contradictions.reported(),
        }
    }

    /// Every unfinished pod in the API server, whichever scheduler it names.
    pub fn pods(&self) -> impl Iterator<Item = &Arc<PodInfo>> {
        self.pods.all()
    }

    /// The queue, for inspection.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// The cache, for inspection.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Returns the cache by value, for questions about the cluster after the last input.
    pub fn into_cache(self) -> Cache {
        self.cache
    }

    pub(crate) fn nominator(&self) -> &Nominator {
        &self.nominator
    }

    /// Returns the binding of a pod that has a node but is not bound yet.
    pub(crate) fn binding(&self, uid: &str) -> Option<&Binding> {
        self.bindings.get(uid)
    }

    /// Pods about which extenders are being asked.
    pub(crate) fn inquiries(&self) -> &Inquiries {
        &self.inquiries
    }

    /// Returns the pod `name` (`namespace/name`) if it has no node in the API server. Visits all such pods.
    pub fn pod_without_node(&self, name: &str) -> Option<Arc<PodInfo>> {
        self.pods.without_node().find(|pod| pod.full_name() == name).cloned()
    }

    pub(crate) fn known(&self) -> &Pods {
        &self.pods
    }

    /// Number of bindings in progress, including pods that wait on Permit.
    pub fn bindings_in_progress(&self) -> usize {
        self.bindings.len()
    }

    /// Number of requested bindings and evictions whose outcome the host has not reported yet.
    pub fn work_in_flight(&self) -> usize {
        self.bindings.requested() + self.evictions.requested()
    }
}
