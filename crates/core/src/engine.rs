//! What an input does.

use std::{sync::Arc, time::Duration};

use harbormaster_api::{Node, Pod, Str, Timestamp, changes};
use harbormaster_framework::{
    attempt::Runner,
    events::{Action, ClusterEvent, EventResource},
    pod::PodInfo,
    profile::Profile,
    window::{Rotation, Tie, Window},
};
use rustc_hash::FxHashMap;

use crate::{
    batch::Batch,
    bindings::Bindings,
    cache::Cache,
    effect::{Effect, Trouble},
    eviction::Evictions,
    input::Input,
    nominator::Nominator,
    note::{Note, Notes},
    queue::{Backoff, OwnedChange, Queue, QueueLengths},
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
            stand_in: None,
        }
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

/// The engine.
pub struct Engine {
    pub(crate) cache: Cache,
    pub(crate) queue: Queue,
    pub(crate) nominator: Nominator,
    /// By profile.
    pub(crate) runners: Vec<Runner>,
    /// By profile; empty when batching is off.
    pub(crate) batches: Vec<Batch>,
    pub(crate) bindings: Bindings,
    pub(crate) evictions: Evictions,
    /// Which of the feasible nodes are scored, and which of equally good ones is taken.
    pub(crate) search: (Window, Tie),
    /// Where the next search begins; shared by all profiles.
    pub(crate) rotation: Rotation,
    /// Every pod that the API server has told of and that is not finished.
    pub(crate) pods: FxHashMap<Str, Arc<PodInfo>>,
    pub(crate) effects: Vec<Effect>,
    pub(crate) wanted: Notes,
    pub(crate) notes: Vec<Note>,
    next_flush: Option<Timestamp>,
}

impl Engine {
    /// An engine that knows of no node and no pod.
    pub fn new(config: EngineConfig) -> Self {
        let (profiles, batching) = (config.profiles.len(), config.batching && config.parity);
        let mut cache = Cache::default();
        for (_, kind) in config.profiles.iter().flat_map(|profile| profile.indexed()) {
            cache.cluster.keep(*kind);
        }
        Self {
            search: config.search(),
            runners: config.profiles.iter().cloned().map(Runner::new).collect(),
            queue: Queue::new(config.profiles, config.backoff, config.max_wait).noting(config.notes.moves),
            cache,
            nominator: Nominator::default(),
            batches: if batching { (0..profiles).map(|_| Batch::default()).collect() } else { Vec::new() },
            bindings: Bindings::default(),
            evictions: Evictions::default(),
            rotation: Rotation::default(),
            pods: FxHashMap::default(),
            effects: Vec::new(),
            wanted: config.notes,
            notes: Vec::new(),
            next_flush: None,
        }
    }

    /// Takes the effects since the last call, in order.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        self.report_troubles();
        std::mem::take(&mut self.effects)
    }

    /// What plugins failed with beside any attempt.
    fn report_troubles(&mut self) {
        for failure in self.queue.take_failed() {
            self.enqueue_failed(failure);
        }
        let troubles = self.cache.cluster.take_troubles().into_iter().chain(self.queue.take_panics());
        self.effects
            .extend(troubles.map(|error| Effect::Trouble(Trouble { pod: None, error: error.to_string() })));
    }

    /// Takes the notes since the last call: what was said of nodes, then moves in the queue.
    pub fn take_notes(&mut self) -> Vec<Note> {
        let mut notes = std::mem::take(&mut self.notes);
        notes.extend(self.queue.take_moves());
        notes
    }

    /// Something happened.
    pub fn handle(&mut self, input: Input, now: Timestamp) {
        match input {
            Input::Pod(pod) if pod.is_terminal() => self.pod_gone(&pod.uid, now),
            Input::Pod(pod) => self.pod_changed(pod, now),
            Input::PodGone(uid) => self.pod_gone(&uid, now),
            Input::Node(node) => self.node_changed(node, now),
            Input::NodeGone(name) => self.node_gone(&name, now),
            // Kept for plugins to look up; no plugin's pods are woken by them.
            Input::Object(object) => self.cache.set_object(object),
            Input::ObjectGone(key) => self.cache.remove_object(&key),
            Input::Other(event) => self.queue.on_event(event, &OwnedChange::Other, now),
            Input::BindFinished { uid, outcome } => self.bind_finished(&uid, outcome, now),
            Input::EvictFinished { task, outcome } => self.evict_finished(&task, &outcome, now),
        }
    }

    /// Time passed: call at [`Self::next_wakeup`] or at any time.
    pub fn tick(&mut self, now: Timestamp) {
        self.queue.flush_backoff(now);
        self.permit_timeouts(now);
        let due = *self.next_flush.get_or_insert(now + FLUSH_EVERY);
        if due <= now {
            self.queue.flush_unschedulable(now);
            self.next_flush = Some(now + FLUSH_EVERY);
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

    /// How many pods are where in the queue.
    pub fn queue_lengths(&self) -> QueueLengths {
        self.queue.lengths()
    }

    /// The queue, for those who want to look.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// The cache, for those who want to look.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Bindings on their way, pods waiting on Permit included.
    pub fn bindings_in_progress(&self) -> usize {
        self.bindings.len()
    }

    // --- pods ---

    fn pod_changed(&mut self, pod: Pod, now: Timestamp) {
        let info = self.cache.info(pod);
        if info.is_terminating() {
            self.victim_is_going(&info.uid);
        }
        let old = self.pods.insert(info.uid.clone(), info.clone());
        let was_bound = old.as_ref().is_some_and(|o| o.node_name.is_some());
        match (old, info.node_name.clone()) {
            (old, Some(node)) => self.bound_pod(old.filter(|_| was_bound), info, &node, now),
            (None, None) => self.new_pending_pod(info, now),
            (Some(old), None) => self.pending_pod_changed(&old, info, now),
        }
    }

    fn bound_pod(&mut self, old: Option<Arc<PodInfo>>, new: Arc<PodInfo>, node: &Str, now: Timestamp) {
        self.cache.set_pod(new.clone(), node);
        self.nominator.clear(&new.uid);
        let (before, after) = (old.as_ref().map(|o| o.pod.clone()), Some(new.pod.clone()));
        let change = OwnedChange::Pod(before, after);
        match old {
            None => {
                self.queue.delete(&new);
                let added = ClusterEvent::new(EventResource::AssignedPod, Action::ADD);
                self.queue.on_event(added, &change, now);
            }
            Some(old) => {
                for event in pod_events(EventResource::AssignedPod, &old.pod, &new.pod) {
                    self.queue.on_event(event, &change, now);
                }
            }
        }
    }

    fn new_pending_pod(&mut self, pod: Arc<PodInfo>, now: Timestamp) {
        let Some(profile) = self.queue.profile_of(&pod.spec.scheduler_name) else { return };
        if let Some(node) = &pod.status.nominated_node_name {
            self.nominator.nominate(&pod.uid, node);
        }
        self.queue.add(pod, profile, now);
    }

    fn pending_pod_changed(&mut self, old: &Arc<PodInfo>, new: Arc<PodInfo>, now: Timestamp) {
        let Some(profile) = self.queue.profile_of(&new.spec.scheduler_name) else { return };
        if old.resource_version == new.resource_version && !new.resource_version.is_empty() {
            return;
        }
        if self.bindings.contains(&new.uid) {
            if !old.is_terminating() && new.is_terminating() {
                self.assumed_pod_deleted(&new, now);
            }
            return;
        }
        self.update_nomination(old, &new);
        let events: Vec<ClusterEvent> =
            pod_events(EventResource::UnschedulablePod, &old.pod, &new.pod).collect();
        let change = OwnedChange::Pod(Some(old.pod.clone()), Some(new.pod.clone()));
        self.queue.update(new.clone(), profile, &events, &change, now);
        let nominated = &old.status.nominated_node_name;
        if nominated.is_some() && *nominated != new.status.nominated_node_name {
            self.room_given_up(old, now);
        }
    }

    /// A nomination of the engine's own outlives updates that do not carry it yet; any other follows the object.
    fn update_nomination(&mut self, old: &PodInfo, new: &PodInfo) {
        match (&old.status.nominated_node_name, &new.status.nominated_node_name) {
            (None, None) => {}
            (_, Some(node)) => self.nominator.nominate(&new.uid, node),
            (Some(_), None) => self.nominator.clear(&new.uid),
        }
    }

    /// A pod no longer claims its nominated node: pods of no higher priority may fit now.
    fn room_given_up(&mut self, pod: &Arc<PodInfo>, now: Timestamp) {
        let priority = pod.priority();
        self.pod_left_its_node_for(pod, now, |other| other.priority() <= priority);
    }

    fn pod_gone(&mut self, uid: &Str, now: Timestamp) {
        let Some(old) = self.pods.remove(uid) else { return };
        self.victim_is_going(uid);
        let nominated = self.nominator.node_of(uid).is_some() || old.status.nominated_node_name.is_some();
        self.nominator.clear(uid);
        if old.node_name.is_some() {
            self.cache.remove(uid);
            self.pod_left_its_node(&old, now);
            return;
        }
        self.queue.delete(&old);
        if self.cache.is_assumed(uid) {
            self.assumed_pod_deleted(&old, now);
        } else if nominated {
            self.room_given_up(&old, now);
        }
    }

    /// The pod was decided for a node but is deleted before it is bound.
    fn assumed_pod_deleted(&mut self, pod: &Arc<PodInfo>, now: Timestamp) {
        if !self.reject_waiting(&pod.uid, "", "removed", now) {
            self.cache.forget(&pod.uid);
        }
        self.pod_left_its_node(pod, now);
    }

    pub(crate) fn pod_left_its_node(&mut self, pod: &Arc<PodInfo>, now: Timestamp) {
        self.pod_left_its_node_for(pod, now, |_| true);
    }

    /// A node has more room: wakes those of the pods that `concerns` picks.
    pub(crate) fn pod_left_its_node_for(
        &mut self,
        pod: &Arc<PodInfo>,
        now: Timestamp,
        concerns: impl Fn(&PodInfo) -> bool,
    ) {
        let event = ClusterEvent::new(EventResource::AssignedPod, Action::DELETE);
        let change = OwnedChange::Pod(Some(pod.pod.clone()), None);
        self.queue.on_event_for(event, &change, now, concerns);
    }

    // --- nodes ---

    fn node_changed(&mut self, node: Node, now: Timestamp) {
        let new = Arc::new(node);
        let old = self.cache.set_node(new.clone());
        let change = OwnedChange::Node(old.clone(), Some(new.clone()));
        match old {
            None => {
                let added = ClusterEvent::new(EventResource::Node, Action::ADD);
                self.queue.on_event(added, &change, now);
            }
            Some(old) => {
                for event in node_events(&old, &new) {
                    self.queue.on_event(event, &change, now);
                }
            }
        }
    }

    fn node_gone(&mut self, name: &str, now: Timestamp) {
        let Some(old) = self.cache.node(name).cloned() else { return };
        let gone = ClusterEvent::new(EventResource::Node, Action::DELETE);
        self.queue.on_event(gone, &OwnedChange::Node(Some(old), None), now);
        self.cache.remove_node(name);
    }
}

/// The events that a pod's change amounts to; a change in no known respect is a generic update.
fn pod_events(resource: EventResource, old: &Pod, new: &Pod) -> impl Iterator<Item = ClusterEvent> {
    use changes::PodChanges as C;
    let changed = changes::pod_changes(old, new);
    let known = [
        (C::LABELS, Action::UPDATE_POD_LABEL),
        (C::SCALE_DOWN, Action::UPDATE_POD_SCALE_DOWN),
        (C::GATES_ELIMINATED, Action::UPDATE_POD_GATES_ELIMINATED),
        (C::TOLERATIONS, Action::UPDATE_POD_TOLERATION),
        (C::GENERATED_CLAIMS, Action::UPDATE_POD_GENERATED_RESOURCE_CLAIM),
    ];
    let mut actions: Vec<Action> =
        known.into_iter().filter(|(what, _)| changed.contains(*what)).map(|(_, action)| action).collect();
    if actions.is_empty() {
        actions.push(Action::UPDATE);
    }
    actions.into_iter().map(move |action| ClusterEvent::new(resource, action))
}

/// The events that a node's change amounts to; a change in no known respect is none.
fn node_events(old: &Node, new: &Node) -> impl Iterator<Item = ClusterEvent> {
    use changes::NodeChanges as C;
    let changed = changes::node_changes(old, new);
    let known = [
        (C::UNSCHEDULABLE_CLEARED, Action::UPDATE_NODE_TAINT),
        (C::ALLOCATABLE, Action::UPDATE_NODE_ALLOCATABLE),
        (C::LABELS, Action::UPDATE_NODE_LABEL),
        (C::TAINTS, Action::UPDATE_NODE_TAINT),
        (C::CONDITIONS, Action::UPDATE_NODE_CONDITION),
        (C::ANNOTATIONS, Action::UPDATE_NODE_ANNOTATION),
        (C::DECLARED_FEATURES, Action::UPDATE_NODE_DECLARED_FEATURE),
    ];
    known
        .into_iter()
        .filter(move |(what, _)| changed.contains(*what))
        .map(|(_, action)| ClusterEvent::new(EventResource::Node, action))
}
