//! The engine: parts that own their state, and the routes between them.
//!
//! Nothing but routes is here and in the files of this folder: an input goes to the part that it concerns, what that says
//! goes to the next.

mod binding_cycle;
mod changes;
mod eviction;
mod scheduling_cycle;
mod take_over;

use std::{sync::Arc, time::Duration};

use harbormaster_api::Timestamp;
use harbormaster_framework::{
    extender::Extenders,
    meter::Stamp,
    pod::PodInfo,
    profile::Profile,
    resource::ResourceKind,
    window::{Tie, Window},
};

use crate::{
    bindings::Bindings,
    cache::Cache,
    effect::Effect,
    evictions::Evictions,
    finder::Finder,
    input::Input,
    meter::{Meter, Sizes},
    nominator::{NewNomination, Nominator},
    note::{Note, Notes},
    pods::Pods,
    queue::{Backoff, EnqueueFailure, Queue, QueueLengths},
    reporter::Reporter,
};

/// How the engine is set up.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// The profiles; at least one, with distinct names.
    pub profiles: Vec<Arc<Profile>>,
    /// Delays between attempts.
    pub backoff: Backoff,
    /// `percentageOfNodesToScore` for all profiles; `None` scores every feasible node.
    pub percentage_of_nodes_to_score: Option<i32>,
    /// Walks, samples and breaks ties exactly as kube-scheduler with `parallelism: 1`.
    pub parity: bool,
    /// With `parity`: reuse rankings as kube-scheduler's opportunistic batching does.
    pub batching: bool,
    /// After this long without an event a rejected pod is tried again.
    pub max_wait: Duration,
    /// What is told besides, by [`Engine::take_notes`].
    pub notes: Notes,
    /// Who measures, if anybody does.
    pub meter: Option<Arc<dyn Meter>>,
    /// Services that have a say beside plugins. Whoever runs the engine [lends](Extenders::lent) the means to ask them.
    pub extenders: Extenders,
    /// The plugin that rejects pods which need something that is not built: worth a warning when it first happens.
    pub stand_in: Option<&'static str>,
}

impl EngineConfig {
    /// kube-scheduler's defaults, and every feasible node scored.
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
            stand_in: None,
        }
    }

    /// The custom resources that plugins name, as the API server tells them apart: whoever feeds the engine feeds their
    /// objects as [`Input::Custom`].
    pub fn resources(&self) -> Vec<ResourceKind> {
        let mut kinds: Vec<ResourceKind> = Vec::new();
        for kind in self.profiles.iter().flat_map(|profile| profile.resources()) {
            if !kinds.iter().any(|known| known.name() == kind.name()) {
                kinds.push(kind);
            }
        }
        kinds
    }

    /// The same, its profiles measured if anybody measures.
    fn metered(mut self) -> Self {
        if let Some(meter) = &self.meter {
            for (at, profile) in self.profiles.iter_mut().enumerate() {
                *profile = Arc::new(profile.metered(meter.profile(at, profile.name())));
            }
        }
        self
    }

    /// Equal pods need not be equal to an extender.
    fn batches(&self) -> bool {
        self.batching && self.parity && self.extenders.is_empty()
    }

    fn search(&self) -> (Window, Tie) {
        let window = match (self.percentage_of_nodes_to_score, self.parity) {
            (None, false) => Window::All,
            (given, _) => Window::Sampled { percentage: given.unwrap_or(0) },
        };
        (window, if self.parity { Tie::FirstOnHeap } else { Tie::Rotate })
    }
}

/// How often pods that wait for long are looked at.
const FLUSH_EVERY: Duration = Duration::from_secs(30);
/// Least time for which answers of plugins are kept that no attempt needs; at most, they are kept for twice as long.
const UNUSED: Duration = Duration::from_secs(300);

/// The engine.
pub struct Engine {
    /// Every pod that the API server has told of and that is not finished.
    pods: Pods,
    /// Nodes with the pods that count on them.
    cache: Cache,
    /// Pods that are to be tried, or wait for something to change.
    queue: Queue,
    /// Pods for which room is kept.
    nominator: Nominator,
    /// Looks for nodes.
    finder: Finder,
    /// Pods that have a node and are not bound yet.
    bindings: Bindings,
    /// Pods that make way.
    evictions: Evictions,
    /// What is told.
    reporter: Reporter,
    /// When pods that wait for long are looked at next.
    next_flush: Option<Timestamp>,
    /// When answers that no attempt has needed are let go of next.
    next_forgetting: Option<Timestamp>,
    /// Who measures.
    meter: Option<Arc<dyn Meter>>,
    /// While a change in the cluster is being handled: since when.
    handling: Option<Stamp>,
}

impl Engine {
    /// An engine that knows of no node and no pod.
    pub fn new(config: EngineConfig) -> Self {
        let config = config.metered();
        let mut cache = Cache::default();
        cache.keep_for(&config.profiles);
        let mut engine = Self {
            pods: Pods::default(),
            cache,
            nominator: Nominator::default(),
            finder: Finder::new(&config.profiles, config.search(), config.batches())
                .asking(config.extenders.clone())
                .measured_by(config.meter.clone()),
            bindings: Bindings::default(),
            evictions: Evictions::default(),
            reporter: Reporter::new(config.notes),
            queue: Queue::new(config.profiles, config.backoff, config.max_wait)
                .with_extenders(!config.extenders.is_empty())
                .measured_by(config.meter.clone()),
            next_flush: None,
            next_forgetting: None,
            meter: config.meter,
            handling: None,
        };
        engine.queue.note_moves(config.notes.moves);
        engine
    }

    /// Takes the effects since the last call, in order.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        self.report_troubles();
        self.reporter.take_effects()
    }

    /// What plugins failed with beside any attempt.
    fn report_troubles(&mut self) {
        // Reported as a failed attempt would be; such a pod has its place in the queue already.
        for EnqueueFailure { pod, error, since } in self.queue.take_failed() {
            let said = ("SchedulerError", error.to_string());
            self.reporter.failed(&pod, said, NewNomination::Keep, since);
        }
        let troubles = self.cache.cluster.take_troubles().into_iter().chain(self.queue.take_panics());
        troubles.for_each(|error| self.reporter.trouble(None, error.to_string()));
        for undecodable in self.cache.cluster.take_undecodable() {
            self.reporter.undecodable(undecodable);
        }
    }

    /// Takes the notes since the last call: what was said of nodes, then moves in the queue.
    pub fn take_notes(&mut self) -> Vec<Note> {
        let mut notes = self.reporter.take_notes();
        notes.extend(self.queue.take_moves());
        notes
    }

    /// From now on these notes are taken.
    pub fn set_notes(&mut self, notes: Notes) {
        self.reporter.set_notes(notes);
        self.queue.note_moves(notes.moves);
    }

    /// Something happened.
    pub fn handle(&mut self, input: Input, now: Timestamp) {
        let is_change = !matches!(input, Input::BindFinished { .. } | Input::EvictFinished { .. });
        self.handling = self.meter.as_ref().filter(|_| is_change).map(|meter| meter.now());
        match input {
            Input::Pod(pod) if pod.is_terminal() => self.pod_gone(&pod.uid, now),
            Input::Pod(pod) => self.pod_changed(pod, now),
            Input::PodGone(uid) => self.pod_gone(&uid, now),
            Input::Node(node) => self.node_changed(node, now),
            Input::NodeGone(name) => self.node_gone(&name, now),
            // Kept for plugins to look up; no plugin's pods are woken by them.
            Input::Object(object) => self.cache.set_object(object),
            Input::ObjectGone(key) => self.cache.remove_object(&key),
            Input::Custom(object) => {
                let changes = self.cache.cluster.set_custom(&object);
                self.custom_changed(changes, now);
            }
            Input::CustomGone(key) => {
                let changes = self.cache.cluster.remove_custom(&key);
                self.custom_changed(changes, now);
            }
            Input::BindFinished { uid, outcome } => self.bind_finished(&uid, outcome, now),
            Input::EvictFinished { task, outcome } => self.evict_finished(&task, &outcome, now),
        }
    }

    /// Time passed: call at [`Self::next_wakeup`] or at any time.
    pub fn tick(&mut self, now: Timestamp) {
        self.queue.flush_backoff(self.cache.at(now));
        self.permit_timeouts(now);
        let due = *self.next_flush.get_or_insert(now + FLUSH_EVERY);
        if due <= now {
            self.queue.flush_unschedulable(self.cache.at(now));
            self.next_flush = Some(now + FLUSH_EVERY);
        }
        if *self.next_forgetting.get_or_insert(now + UNUSED) <= now {
            self.finder.forget_unused();
            self.next_forgetting = Some(now + UNUSED);
        }
    }

    /// When [`Self::tick`] next has something to do, if no input comes.
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        let flush = self.next_flush.filter(|_| self.queue.anyone_waits());
        [self.queue.next_backoff_end(), self.bindings.next_timeout(), flush].into_iter().flatten().min()
    }

    /// Whether [`Self::schedule_one`] would try a pod.
    pub fn has_work(&self) -> bool {
        self.queue.has_work()
    }

    /// Whether that pod would not have to wait any longer. [`Self::schedule_one`] tries others before their backoff is over
    /// when there is none.
    pub fn has_due_work(&self) -> bool {
        self.queue.has_due_work()
    }

    /// How many pods are where in the queue.
    pub fn queue_lengths(&self) -> QueueLengths {
        self.queue.lengths()
    }

    /// How much there is of what is kept beside the queue.
    pub fn sizes(&self) -> Sizes {
        let (pods, assumed) = self.cache.pod_counts();
        Sizes {
            nodes: self.cache.cluster.node_count(),
            pods,
            assumed,
            bindings: self.bindings.len(),
            in_flight: self.queue.in_flight(),
        }
    }

    /// Every pod that the API server has told of and that is not finished, whoever schedules it.
    pub fn pods(&self) -> impl Iterator<Item = &Arc<PodInfo>> {
        self.pods.all()
    }

    /// The queue, for those who want to look.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// The cache, for those who want to look.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    pub(crate) fn nominator(&self) -> &Nominator {
        &self.nominator
    }

    pub(crate) fn known(&self) -> &Pods {
        &self.pods
    }

    /// Bindings on their way, pods waiting on Permit included.
    pub fn bindings_in_progress(&self) -> usize {
        self.bindings.len()
    }
}
