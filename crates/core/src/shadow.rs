//! Comparison with another scheduler that schedules the cluster.
//!
//! A [`Shadow`] sees the same inputs as an engine, but it has no effects: it binds, evicts and reports nothing. When an
//! input shows what the other scheduler has decided about a pod, the shadow first decides about the pod itself, on the
//! cluster as it was before that input, and compares the two decisions.
//!
//! The shadow sees a decision later than the other scheduler made it, and bindings that are written at the same time
//! may arrive in any order. `hindsight` says how differences that come from this are told from real ones.

mod comparison;
mod hindsight;
mod judge;

use std::sync::Arc;

use harbormaster_api::{Pod, Str, Timestamp, pod::PodCondition, requests::StatusRule};
use harbormaster_framework::{
    attempt::{Attempt, AttemptError},
    pod::PodInfo,
    resource::CustomChange,
};
use rustc_hash::FxHashMap;

pub use comparison::{Comparison, Finding, Gap, Kind};

use crate::{
    EngineConfig, Input, Note, cache::Cache, nominator::Nominator, pods::Pods, shadow::hindsight::Change,
};
use hindsight::{Appearance, Doubt, Hindsight, Turn};
use judge::Judge;

/// Reads the time.
pub type Clock<'a> = &'a mut dyn FnMut() -> Timestamp;

/// Decides about the pods of another scheduler and compares the decisions.
pub struct Shadow {
    /// Every unfinished pod in the API server.
    pods: Pods,
    /// Nodes with the pods that are bound to them.
    cache: Cache,
    nominator: Nominator,
    judge: Judge,
    /// Pods without a node.
    appeared: FxHashMap<Str, Appearance>,
    hindsight: Hindsight,
    /// True if decisions are compared.
    compares: bool,
    comparisons: Vec<Comparison>,
}

impl Shadow {
    /// Creates a shadow without nodes or pods. Its extenders are not called.
    pub fn new(config: &EngineConfig) -> Self {
        let mut cache = Cache::new(StatusRule::of(config.release()));
        cache.prepare_for(&config.profiles);
        Self {
            pods: Pods::default(),
            cache,
            nominator: Nominator::default(),
            judge: Judge::new(&config.profiles),
            appeared: FxHashMap::default(),
            hindsight: Hindsight::default(),
            compares: false,
            comparisons: Vec::new(),
        }
    }

    /// Starts to compare. Call this when all objects are known. Pods that the other scheduler has left without a node
    /// are compared at once.
    pub fn begin(&mut self, clock: Clock<'_>) {
        self.compares = true;
        let left_waiting: Vec<Arc<PodInfo>> =
            self.pods.all().filter(|pod| unschedulable(pod).is_some()).cloned().collect();
        left_waiting.into_iter().for_each(|pod| self.compare(pod, None, clock));
    }

    /// Handles an input.
    pub fn handle(&mut self, input: Input, clock: Clock<'_>) {
        match input {
            Input::Pod(pod) if pod.is_terminal() => self.pod_gone(&pod.uid, clock),
            Input::Pod(pod) => self.pod_changed(pod, clock),
            Input::PodGone(uid) => self.pod_gone(&uid, clock),
            Input::Node(node) => {
                self.cache.set_node(Arc::new(node));
                self.reconsider(None, clock);
            }
            Input::NodeGone(name) => drop(self.cache.remove_node(&name)),
            Input::Object(object) => self.cache.set_object(object),
            Input::ObjectGone(key) => self.cache.remove_object(&key),
            Input::Custom(object) => {
                let changes = self.cache.cluster.set_custom(&object);
                self.groups_changed(changes);
            }
            Input::CustomGone(key) => {
                let changes = self.cache.cluster.remove_custom(&key);
                self.groups_changed(changes);
            }
            // These are about effects, and there are none.
            Input::BindFinished { .. } | Input::EvictFinished { .. } | Input::Answered { .. } => {}
        }
    }

    /// Handles the passing of time. Call this at [`Self::next_wakeup`].
    pub fn tick(&mut self, now: Timestamp) {
        self.comparisons.extend(self.hindsight.take_expired(now));
    }

    /// Returns the time at which [`Self::tick`] must be called next if no input arrives.
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        self.hindsight.next_expiry()
    }

    /// Stops to compare. Differences that are still in doubt count.
    pub fn end(&mut self) {
        self.compares = false;
        self.comparisons.extend(self.hindsight.take_all());
    }

    /// Takes the comparisons since the last call.
    pub fn take_comparisons(&mut self) -> Vec<Comparison> {
        std::mem::take(&mut self.comparisons)
    }

    /// Takes the failures of plugins since the last call.
    pub fn take_notes(&mut self) -> Vec<Note> {
        let errors = self.cache.cluster.take_errors().into_iter().chain(self.cache.groups.take_errors());
        let failed = errors.map(|error| Note::PluginFailed { pod: None, error: error.to_string() });
        let mut notes: Vec<Note> = failed.collect();
        notes.extend(self.cache.cluster.take_undecodable().into_iter().map(Note::Undecodable));
        notes
    }

    /// Removes cached answers that no decision has used since the last call.
    pub fn forget_unused(&mut self) {
        self.judge.forget_unused();
    }

    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.cache.cluster.node_count()
    }

    fn groups_changed(&mut self, changes: Vec<CustomChange>) {
        for CustomChange { resource, old, new } in changes {
            let Some(object) = new.as_ref().or(old.as_ref()) else { continue };
            let Some(group) = self.cache.groups.describe(resource, object) else { continue };
            match new {
                Some(_) => self.cache.groups.set(Arc::new(group)),
                None => self.cache.groups.remove(&group.id),
            }
        }
    }

    fn pod_changed(&mut self, pod: Pod, clock: Clock<'_>) {
        let new = self.cache.info(pod);
        let old = self.pods.set(new.clone());
        if let (None, Some(group)) = (&old, new.group()) {
            self.cache.groups.count_member(group, true);
        }
        match (old, new.node_name.clone()) {
            (Some(old), Some(node)) if old.node_name.is_none() => self.bound(&old, new, &node, clock),
            (Some(_), Some(node)) => self.cache.set_pod(new, &node),
            (None, Some(node)) => self.join(new, &node, clock),
            (None, None) => self.appears(&new, clock),
            (Some(old), None) => self.still_waits(&old, &new, clock),
        }
    }

    /// Handles a pod that did not have a node before.
    fn bound(&mut self, old: &Arc<PodInfo>, new: Arc<PodInfo>, node: &Str, clock: Clock<'_>) {
        self.comparisons.extend(self.hindsight.waits_no_more(&new.uid));
        self.compare(old.clone(), Some(node), clock);
        self.join(new, node, clock);
    }

    fn join(&mut self, pod: Arc<PodInfo>, node: &Str, clock: Clock<'_>) {
        let uid = pod.uid.clone();
        let turn = self.turn_of(&pod);
        self.nominator.clear(&uid);
        self.appeared.remove(&uid);
        self.cache.set_pod(pod, node);
        self.changed(Change::Joined { uid, node: node.clone(), turn }, clock);
    }

    fn appears(&mut self, pod: &Arc<PodInfo>, clock: Clock<'_>) {
        if let Some(node) = &pod.status.nominated_node_name {
            self.nominator.nominate(&pod.uid, node);
        }
        if self.judge.profile_of(pod).is_some() {
            let time = self.compares.then(clock);
            self.appeared.insert(pod.uid.clone(), self.hindsight.appears(time));
        }
    }

    /// Returns the turn of a pod that waits.
    fn turn_of(&self, pod: &PodInfo) -> Option<Turn> {
        self.appeared.get(&pod.uid).map(|appearance| Turn::of(pod, *appearance))
    }

    fn still_waits(&mut self, old: &Arc<PodInfo>, new: &Arc<PodInfo>, clock: Clock<'_>) {
        self.nominator.follow(old, new);
        let words = |pod| unschedulable(pod).map(|condition: &PodCondition| &condition.message);
        if words(new).is_some() && words(new) != words(old) {
            self.compare(new.clone(), None, clock);
        }
    }

    fn pod_gone(&mut self, uid: &Str, clock: Clock<'_>) {
        let Some(old) = self.pods.remove(uid) else { return };
        if let Some(group) = old.group() {
            self.cache.groups.count_member(group, false);
        }
        self.nominator.clear(uid);
        self.appeared.remove(uid);
        if let Some(node) = old.node_name.clone() {
            self.cache.remove(uid);
            self.changed(Change::Left(old, node), clock);
        } else {
            self.comparisons.extend(self.hindsight.waits_no_more(uid));
        }
    }

    /// Notes a change to the pods on nodes.
    fn changed(&mut self, change: Change, clock: Clock<'_>) {
        if self.compares {
            self.hindsight.remember(change.clone(), clock());
            self.reconsider(Some(&change), clock);
        }
    }

    /// Decides about a pod and compares the decision with that of the other scheduler, which chose `theirs` or no node.
    fn compare(&mut self, pod: Arc<PodInfo>, theirs: Option<&Str>, clock: Clock<'_>) {
        let Some(profile) = self.judge.profile_of(&pod).filter(|_| self.compares) else { return };
        let begun = clock();
        let found = self.decide(profile, &pod, begun);
        let took = clock().since(begun);
        let finding = self.judge.weigh(&mut self.cache.cluster, profile, &pod, found, theirs);
        let appeared = self.appeared.get(&pod.uid).and_then(|appearance| appearance.time);
        let (waited, turn) = (appeared.map(|appeared| begun.since(appeared)), self.turn_of(&pod));
        let scheduler = pod.spec.scheduler_name.clone();
        let (name, theirs) = (pod.full_name(), theirs.cloned());
        let mut compared =
            Comparison { pod: name, scheduler, theirs, finding, has_raced: false, waited, took };
        if !compared.finding.is_difference() {
            self.comparisons.push(compared);
        } else if self.agreed_earlier(&pod, turn, compared.theirs.as_ref(), begun) {
            compared.has_raced = true;
            self.comparisons.push(compared);
        } else {
            let seen = (begun, self.hindsight.appearances());
            self.comparisons.extend(self.hindsight.doubt(Doubt::new(pod, turn, compared, seen)));
        }
    }

    /// Returns true if both schedulers decide alike on the cluster as it may have been before.
    fn agreed_earlier(
        &mut self,
        pod: &Arc<PodInfo>,
        turn: Option<Turn>,
        theirs: Option<&Str>,
        now: Timestamp,
    ) -> bool {
        self.agreed_in_turn(pod, turn, theirs, now) || self.agreed_before_changes(pod, theirs, now)
    }

    /// Returns true if both schedulers decide alike without the pods whose turn is after this one's.
    fn agreed_in_turn(
        &mut self,
        pod: &Arc<PodInfo>,
        turn: Option<Turn>,
        theirs: Option<&Str>,
        now: Timestamp,
    ) -> bool {
        let later = self.hindsight.later_turns(turn, now);
        later.iter().for_each(|change| change.undo(&mut self.cache));
        let agrees = self.agree(pod, theirs, now);
        later.iter().rev().for_each(|change| change.redo(&mut self.cache, &self.pods));
        agrees
    }

    /// Returns true if both schedulers decide alike without some of the latest changes.
    fn agreed_before_changes(&mut self, pod: &Arc<PodInfo>, theirs: Option<&Str>, now: Timestamp) -> bool {
        let Some(appearance) = self.appeared.get(&pod.uid) else { return false };
        let latest = self.hindsight.latest(*appearance, now);
        let mut undone = 0;
        let agrees = latest.iter().any(|change| {
            change.undo(&mut self.cache);
            undone += 1;
            self.agree(pod, theirs, now)
        });
        for change in latest[..undone].iter().rev() {
            change.redo(&mut self.cache, &self.pods);
        }
        agrees
    }

    /// Decides again about pods whose decisions differ, now that something has changed: the pods on nodes by `change`,
    /// or a node.
    fn reconsider(&mut self, change: Option<&Change>, clock: Clock<'_>) {
        if !self.hindsight.has_doubts() {
            return;
        }
        let now = clock();
        self.tick(now);
        for mut doubt in self.hindsight.take_doubts() {
            let agrees = self.agrees_now(&mut doubt, change, now);
            self.comparisons.extend(self.hindsight.reconsidered(doubt, agrees));
        }
    }

    /// Returns true if both schedulers decide alike about a pod after a change.
    fn agrees_now(&mut self, doubt: &mut Doubt, change: Option<&Change>, now: Timestamp) -> bool {
        let (follows, comes_after) = (doubt.may_follow(change), doubt.comes_after(change));
        if !follows && !comes_after {
            return false;
        }
        if follows {
            doubt.count();
        }
        let (pod, theirs) = (doubt.pod(), doubt.theirs());
        let is_there = self.cache.is_on_node(&pod.uid);
        self.cache.remove(&pod.uid);
        let agrees = follows && self.agree(pod, theirs, now)
            || comes_after && self.agreed_in_turn(pod, doubt.turn(), theirs, now);
        if let (true, Some(latest), Some(node)) = (is_there, self.pods.get(&pod.uid), theirs) {
            self.cache.set_pod(latest.clone(), node);
        }
        agrees
    }

    /// Returns true if both schedulers decide alike about a pod that is on no node.
    fn agree(&mut self, pod: &Arc<PodInfo>, theirs: Option<&Str>, now: Timestamp) -> bool {
        let Some(profile) = self.judge.profile_of(pod) else { return false };
        let found = self.decide(profile, pod, now);
        let finding = self.judge.weigh(&mut self.cache.cluster, profile, pod, found, theirs);
        !finding.is_difference()
    }

    /// Finds a node for a pod on the cluster as it is.
    fn decide(
        &mut self,
        profile: usize,
        pod: &Arc<PodInfo>,
        now: Timestamp,
    ) -> Result<Attempt, AttemptError> {
        self.cache.cluster.refresh();
        self.cache.cluster.set_now(now);
        self.nominator.show(&self.pods, &mut self.cache.cluster);
        let nominated = self.nominator.of(&self.pods).rows_for(pod, &self.cache.cluster);
        self.judge.find(&mut self.cache.cluster, profile, pod, &nominated)
    }
}

/// Returns the condition with which the other scheduler has left a pod without a node.
fn unschedulable(pod: &Arc<PodInfo>) -> Option<&PodCondition> {
    let mut conditions = pod.status.conditions.iter();
    conditions.find(|condition| {
        condition.type_ == "PodScheduled"
            && condition.status == "False"
            && condition.reason == "Unschedulable"
    })
}
