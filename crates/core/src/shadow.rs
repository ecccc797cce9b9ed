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
mod preemptions;

use std::sync::Arc;

use harbormaster_api::{Pod, Str, Timestamp, pod::PodCondition, requests::StatusRule};
use harbormaster_framework::{
    attempt::{Attempt, AttemptError, Decision},
    extender::Extenders,
    pod::PodInfo,
    resource::CustomChange,
};
use rustc_hash::FxHashMap;

pub use comparison::{Comparison, Finding, Gap, Kind};
pub use preemptions::{Accord, Plan, Preemption};

use crate::{
    EngineConfig, Input, Note,
    cache::Cache,
    nominator::{NewNomination, Nominator},
    pods::Pods,
    post_filter::{TableWhatIf, post_filter},
    shadow::hindsight::Change,
};
use hindsight::{Appearance, Doubt, Hindsight, Turn};
use judge::Judge;
use preemptions::Preemptions;

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
    preemptions: Preemptions,
    /// In parity: the finding of a repeated decision in which both nodes had the same score.
    tie: Option<Finding>,
    /// True if decisions are compared.
    compares: bool,
    comparisons: Vec<Comparison>,
    /// Results of the comparison of preemptions.
    preempted: Vec<Preemption>,
}

impl Shadow {
    /// Creates a shadow without nodes or pods. Its extenders are not called. With `parity`, another node with the same score
    /// is explained by a race if possible, too.
    pub fn new(config: &EngineConfig) -> Self {
        let mut cache = Cache::new(StatusRule::of(config.release()));
        cache.prepare_for(&config.profiles);
        Self {
            pods: Pods::default(),
            cache,
            nominator: Nominator::default(),
            judge: Judge::new(config),
            appeared: FxHashMap::default(),
            hindsight: Hindsight::default(),
            preemptions: Preemptions::default(),
            tie: None,
            compares: false,
            comparisons: Vec::new(),
            preempted: Vec::new(),
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
        self.preempted.extend(self.preemptions.take_expired(now));
    }

    /// Returns the time at which [`Self::tick`] must be called next if no input arrives.
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        self.hindsight.next_expiry().into_iter().chain(self.preemptions.next_expiry()).min()
    }

    /// Stops to compare. Differences that are still in doubt count.
    pub fn end(&mut self) {
        self.compares = false;
        self.comparisons.extend(self.hindsight.take_all());
        self.preempted.extend(self.preemptions.take_all());
    }

    /// Takes the comparisons since the last call.
    pub fn take_comparisons(&mut self) -> Vec<Comparison> {
        std::mem::take(&mut self.comparisons)
    }

    /// Takes the compared preemptions since the last call.
    pub fn take_preemptions(&mut self) -> Vec<Preemption> {
        std::mem::take(&mut self.preempted)
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
            (Some(old), Some(node)) => self.changed_on_node(old, new, &node, clock),
            (None, Some(node)) => self.join(new, &node, clock),
            (None, None) => self.appears(&new, clock),
            (Some(old), None) => self.still_waits(&old, &new, clock),
        }
    }

    fn changed_on_node(&mut self, old: Arc<PodInfo>, new: Arc<PodInfo>, node: &Str, clock: Clock<'_>) {
        if self.compares && is_preempted(&new) && !is_preempted(&old) {
            self.preemptions.evicted(old, node, clock());
        }
        self.cache.set_pod(new, node);
    }

    /// Handles a pod that did not have a node before.
    fn bound(&mut self, old: &Arc<PodInfo>, new: Arc<PodInfo>, node: &Str, clock: Clock<'_>) {
        self.comparisons.extend(self.hindsight.waits_no_more(&new.uid));
        self.preempted.extend(self.preemptions.close(&new.uid));
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
        let words = |pod| unschedulable(pod).map(|condition: &PodCondition| &condition.message);
        let nominated = |pod: &Arc<PodInfo>| pod.status.nominated_node_name.clone();
        let has_new_words = words(new) != words(old);
        let is_nominated = nominated(new).is_some() && nominated(new) != nominated(old);
        if self.compares && words(new).is_some() && (has_new_words || is_nominated) {
            self.left_waiting(old, new, has_new_words, clock);
        }
        self.nominator.follow(old, new);
    }

    /// Handles an attempt of the other scheduler that found no node. Pods that it may have evicted for this one are back
    /// on their nodes while the shadow decides. Without `has_new_words`, only preemptions are compared.
    fn left_waiting(
        &mut self,
        old: &Arc<PodInfo>,
        new: &Arc<PodInfo>,
        has_new_words: bool,
        clock: Clock<'_>,
    ) {
        let now = clock();
        let evicted = self.preemptions.unclaimed(now);
        evicted.iter().for_each(|(pod, node)| self.cache.set_pod(pod.clone(), node));
        if has_new_words {
            self.compare(old.clone(), None, clock);
        }
        let ours = self.plan(old, now);
        for (pod, _) in evicted {
            let latest = self.pods.get(&pod.uid).and_then(|pod| Some((pod.clone(), pod.node_name.clone()?)));
            match latest {
                Some((latest, node)) => self.cache.set_pod(latest, &node),
                None => self.cache.remove(&pod.uid),
            }
        }
        self.preempted.extend(self.preemptions.decided(old, new, ours, now));
    }

    /// Returns the pods that the shadow would evict for a pod, with their node. Members of groups evict pods only
    /// together, which is not compared.
    fn plan(&mut self, pod: &Arc<PodInfo>, now: Timestamp) -> Option<Plan> {
        let profile = self.judge.profile_of(pod).filter(|_| pod.group().is_none())?;
        let rotation = self.judge.rotation();
        let found = self.decide(profile, pod, now);
        self.judge.turn_back(rotation);
        let mut attempt =
            found.ok().filter(|found| matches!(found.decision(), Decision::Unschedulable(_)))?;
        let diagnosis = attempt.take_diagnosis();
        let mut what_if = TableWhatIf {
            cluster: &mut self.cache.cluster,
            groups: &self.cache.groups,
            nominated: self.nominator.of(&self.pods),
            attempt: &attempt,
            pod,
            offset: 0,
            stops_early: self.judge.is_in_parity(),
            extenders: &Extenders::default(),
        };
        // A plugin that fails evicts nothing; the attempt itself has told of the failure.
        let result = post_filter(self.judge.profile(profile), &attempt, diagnosis, pod, &mut what_if).ok()?;
        let NewNomination::Set(node) = result.nomination else { return None };
        // Nobody sees whether the other scheduler counts on pods that leave anyway.
        let evicted = result.victims.pods.iter().filter(|victim| !victim.is_terminating());
        let mut victims: Vec<String> = evicted.map(|victim| victim.full_name()).collect();
        victims.sort();
        Some(Plan { node, victims })
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
            self.preempted.extend(self.preemptions.close(uid));
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
        if !self.judge.objects_to(&compared.finding) {
            self.comparisons.push(compared);
        } else if self.agreed_earlier(&pod, turn, compared.theirs.as_ref(), begun) {
            compared.has_raced = true;
            self.comparisons.push(compared);
            self.tie = None;
        } else {
            compared.finding = self.tie.take().unwrap_or(compared.finding);
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
            if let Some(tie) = self.tie.take() {
                doubt.ends_in(tie);
            }
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
        let rotation = self.judge.rotation();
        let found = self.decide(profile, pod, now);
        self.judge.turn_back(rotation);
        let finding = self.judge.weigh(&mut self.cache.cluster, profile, pod, found, theirs);
        let agrees = !self.judge.objects_to(&finding);
        if let (false, Finding::Equal { .. }) = (agrees, &finding) {
            self.tie = Some(finding);
        }
        agrees
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

/// Returns true if a scheduler has evicted the pod to make room for another one.
fn is_preempted(pod: &PodInfo) -> bool {
    let mut conditions = pod.status.conditions.iter();
    conditions.any(|condition| {
        condition.type_ == "DisruptionTarget"
            && condition.status == "True"
            && condition.reason == "PreemptionByScheduler"
    })
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
