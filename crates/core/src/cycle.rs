//! One pod from the queue to a node, or back to the queue with the reasons why.

use std::sync::Arc;

use harbormaster_api::{Str, Timestamp, points::ExtensionPoint};
use harbormaster_framework::{
    attempt::{Attempt, AttemptError, Found, NominatedRow, ScoreSheet, Search, unreserve},
    cycle::{Cycle, DryRun, MAX_PERMIT_WAIT, PostFilterCycle, WhatIf},
    diagnosis::Diagnosis,
    guard::{PointError, Stopped},
    nodeset::NodeIdx,
    objects::Objects,
    outcome::{Fix, Nomination, Permitted, PluginResult, PostFiltered, Reject},
    plugin::SignFragment,
    pod::PodInfo,
    profile::Profile,
    table::NodeTable,
    window::Tie,
};

use crate::{
    binding::{PermitCall, PermitCalls},
    bindings::Chosen,
    effect::{Condition, Effect, PodEvent, StatusPatch, Trouble, cut_note},
    engine::Engine,
    note::Note,
    queue::{EnqueueFailure, QueuedPod},
};

/// What [`Engine::schedule_one`] did.
#[derive(Clone, Debug)]
pub struct Attempted {
    /// The pod.
    pub pod: Arc<PodInfo>,
    /// How it went.
    pub outcome: Outcome,
}

/// How an attempt went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Decided for that node; the binding follows.
    Assumed {
        /// The node.
        node: Str,
        /// How many nodes were looked at.
        evaluated: usize,
        /// How many of them fit.
        feasible: usize,
    },
    /// There are no nodes.
    NoNodes,
    /// No node fits, with the message that the pod's condition gets.
    Unschedulable(String),
    /// The attempt failed with this error.
    Error(String),
    /// The pod is being deleted or was decided for a node already.
    Skipped,
}

impl Outcome {
    /// Why the pod has no node; `None` if it has one or was passed over.
    pub fn message(&self) -> Option<String> {
        match self {
            Self::NoNodes => Some(AttemptError::NoNodes.to_string()),
            Self::Unschedulable(message) | Self::Error(message) => Some(message.clone()),
            Self::Assumed { .. } | Self::Skipped => None,
        }
    }
}

/// Why a pod goes back to the queue.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Plugins rejected it: their events may wake it.
    Unfit(Box<Diagnosis>),
    /// There are no nodes: reported as a rejection, retried as an error.
    NoNodes,
    /// PreBind or Bind said no: reported as a rejection, retried as an error.
    Refused(Reject),
    /// Something failed.
    Error(String),
}

impl Failure {
    /// A rejection after the node was chosen.
    pub(crate) fn unfit_here(plugin: &'static str, reject: &Reject) -> Self {
        Self::Unfit(Box::new(Diagnosis::of_one(plugin, reject)))
    }

    fn message(&self) -> String {
        match self {
            Self::Unfit(diagnosis) => diagnosis.message(),
            Self::NoNodes => AttemptError::NoNodes.to_string(),
            Self::Refused(reject) => reject.message(),
            Self::Error(message) => message.clone(),
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Unfit(_) | Self::NoNodes | Self::Refused(_) => "Unschedulable",
            Self::Error(_) => "SchedulerError",
        }
    }
}

impl From<PointError> for Failure {
    fn from(error: PointError) -> Self {
        Self::Error(error.to_string())
    }
}

impl From<Stopped> for Failure {
    fn from(stopped: Stopped) -> Self {
        match stopped {
            Stopped::Reject(plugin, reject) => Self::unfit_here(plugin, &reject),
            Stopped::Error(error) => error.into(),
        }
    }
}

impl Engine {
    /// Tries the next pod of the queue; `None` if there is none.
    pub fn schedule_one(&mut self, now: Timestamp) -> Option<Attempted> {
        let mut entry = self.queue.pop()?;
        // The queue may hold an older object than the API server's last word.
        if let Some(latest) = self.pods.get(entry.uid()) {
            entry.pod = latest.clone();
        }
        let pod = entry.pod.clone();
        if pod.is_terminating() {
            self.queue.done(&pod.uid);
            let note = format!("skip schedule deleting pod: {}", pod.full_name());
            self.failed_event(&pod, entry.profile, note);
            return Some(Attempted { pod, outcome: Outcome::Skipped });
        }
        if self.cache.is_placed(&pod.uid) {
            self.queue.done(&pod.uid);
            return Some(Attempted { pod, outcome: Outcome::Skipped });
        }
        self.cache.cluster.refresh();
        let outcome = match self.choose(&entry, now) {
            Ok(attempt) => self.commit(entry, &attempt, now),
            Err((failure, nomination)) => self.fail(entry, failure, nomination, now),
        };
        Some(Attempted { pod, outcome })
    }

    /// Looks for a node; asks PostFilter when there is none.
    fn choose(&mut self, entry: &QueuedPod, now: Timestamp) -> Result<Attempt, (Failure, NewNomination)> {
        let pod = entry.pod.clone();
        let nominated = self.nominated_rows(&pod);
        let signature = self.sign(entry).map_err(|error| (error.into(), NewNomination::Clear))?;
        let hint = self.hint(entry, signature.as_deref(), now);
        let preferred: Vec<Str> =
            pod.status.nominated_node_name.iter().chain(&hint).take(1).cloned().collect();
        let (window, tie) = self.search;
        let search = Search {
            window,
            tie,
            rotation: &mut self.rotation,
            nominated: &nominated,
            preferred: &preferred,
        };
        let cluster = &mut self.cache.cluster;
        let attempt = match self.runners[entry.profile].find(cluster, &pod, search) {
            Ok(attempt) => attempt,
            Err(AttemptError::NoNodes) => return Err((Failure::NoNodes, NewNomination::Clear)),
            Err(error) => return Err((Failure::Error(error.to_string()), NewNomination::Clear)),
        };
        match attempt.found() {
            Found::Node { row, ranking, .. } => {
                if let Some(batch) = self.batches.get_mut(entry.profile) {
                    let (node, ranking) = (self.cache.cluster.node(*row).name(), ranking.clone());
                    batch.chosen(node, hint.as_ref(), signature, ranking, self.queue.handed_out(), now);
                }
                self.note_scores(entry.profile, &pod, &attempt);
                Ok(attempt)
            }
            Found::Nowhere(_) => Err(match self.post_filter(entry, attempt, now) {
                Ok((diagnosis, nomination)) => (Failure::Unfit(Box::new(diagnosis)), nomination),
                Err(panic) => (panic.into(), NewNomination::Keep),
            }),
        }
    }

    fn note_scores(&mut self, profile: usize, pod: &Arc<PodInfo>, attempt: &Attempt) {
        if !self.wanted.scores {
            return;
        }
        // Plugins that fail here have failed before.
        let scores = self.runners[profile].scores(&mut self.cache.cluster, attempt);
        let Ok(sheets) = scores else { return };
        for (node, sheet) in &sheets {
            let scored = |(plugin, _, _, score): &(&'static str, i64, i64, i64)| {
                let (plugin, score) = (*plugin, *score);
                Note::Scored { pod: pod.clone(), node: node.clone(), plugin, score }
            };
            self.notes.extend(sheet.plugins.iter().map(scored));
        }
        let total =
            |(node, sheet): (Str, ScoreSheet)| Note::Total { pod: pod.clone(), node, score: sheet.total };
        self.notes.extend(sheets.into_iter().map(total));
    }

    fn note_rejections(&mut self, pod: &Arc<PodInfo>, diagnosis: &Diagnosis) {
        if !self.wanted.rejections {
            return;
        }
        let whole = diagnosis.pre_filter.as_ref();
        let whole =
            whole.map(|(plugin, reject)| (plugin.unwrap_or_default(), reject.message(), diagnosis.nodes));
        let single = diagnosis.rejections.iter().map(|((plugin, why), nodes)| (*plugin, why.clone(), *nodes));
        let note = |(plugin, reason, nodes)| Note::Rejected { pod: pod.clone(), plugin, reason, nodes };
        self.notes.extend(whole.into_iter().chain(single).map(note));
    }

    fn sign(&self, entry: &QueuedPod) -> Result<Option<Vec<SignFragment>>, PointError> {
        match self.batches.get(entry.profile) {
            Some(_) => self.runners[entry.profile].profile().sign(&entry.pod),
            None => Ok(None),
        }
    }

    fn hint(&mut self, entry: &QueuedPod, signature: Option<&[SignFragment]>, now: Timestamp) -> Option<Str> {
        let batch = self.batches.get_mut(entry.profile)?;
        let (runner, cluster) = (&mut self.runners[entry.profile], &mut self.cache.cluster);
        let is_full = |node: &Str| {
            let row = cluster.find(node);
            row.is_some_and(|row| runner.rejects(cluster, &entry.pod, row).unwrap_or(false))
        };
        batch.hint(signature, self.queue.handed_out(), now, is_full)
    }

    /// Nodes with nominated pods that count for this pod: those of equal or higher priority.
    fn nominated_rows(&self, pod: &PodInfo) -> Vec<NominatedRow> {
        if self.nominator.is_empty() {
            return Vec::new();
        }
        let mut rows: Vec<NominatedRow> = self
            .nominator
            .iter()
            .filter_map(|(node, uids)| {
                let row = self.cache.cluster.find(node)?;
                let pods = self.not_below(pod, uids);
                (!pods.is_empty()).then_some(NominatedRow { row, pods })
            })
            .collect();
        rows.sort_by_key(|r| r.row);
        rows
    }

    /// Those of some nominated pods that count for `pod`.
    fn not_below(&self, pod: &PodInfo, uids: &[Str]) -> Vec<Arc<PodInfo>> {
        let others = uids.iter().filter(|uid| **uid != pod.uid).filter_map(|uid| self.pods.get(uid));
        others.filter(|other| other.priority() >= pod.priority()).cloned().collect()
    }

    fn post_filter(
        &mut self,
        entry: &QueuedPod,
        attempt: Attempt,
        now: Timestamp,
    ) -> Result<(Diagnosis, NewNomination), PointError> {
        let profile = self.runners[entry.profile].profile().clone();
        let plugins = profile.at(ExtensionPoint::PostFilter).to_vec();
        let mut diagnosis = attempt.diagnosis();
        if plugins.is_empty() {
            return Ok((diagnosis, NewNomination::Clear));
        }
        let pre_filter = diagnosis.pre_filter.as_ref().map(|(_, reject)| reject.clone());
        let mut reasons: Vec<String> = Vec::new();
        let mut nomination = NewNomination::Keep;
        for plugin in plugins {
            let mut what_if = TableWhatIf { engine: self, attempt: &attempt, pod: &entry.pod };
            let mut cx =
                PostFilterCycle { pod: &entry.pod, pre_filter: pre_filter.clone(), what_if: &mut what_if };
            match profile.plugin(plugin).post_filter(&mut cx, attempt.state(plugin)) {
                Ok(PostFiltered::Nominate { node, victims }) => {
                    self.begin_eviction(entry, &node, victims, now);
                    return Ok((diagnosis, NewNomination::Set(node)));
                }
                Ok(PostFiltered::NoHelp { reasons: why, nomination: what }) => {
                    reasons.extend(why.into_iter().map(|r| r.into_owned()));
                    if what == Nomination::Clear {
                        nomination = NewNomination::Clear;
                    }
                }
                // The last word: what plugins before said does not count any more.
                Ok(PostFiltered::Unresolvable { reasons, nomination }) => {
                    diagnosis.post_filter = reasons.join(", ");
                    return Ok((diagnosis, nomination.into()));
                }
                Err(panic) if panic.is_panic() => return Err(panic),
                Err(error) => {
                    diagnosis.post_filter = error.source.to_string();
                    return Ok((diagnosis, NewNomination::Keep));
                }
            }
        }
        diagnosis.post_filter = reasons.join(", ");
        Ok((diagnosis, nomination))
    }

    /// Assume, Reserve, Permit.
    fn commit(&mut self, entry: QueuedPod, attempt: &Attempt, now: Timestamp) -> Outcome {
        let Found::Node { row, evaluated, feasible, .. } = *attempt.found() else { return Outcome::Skipped };
        let node = self.cache.cluster.node(row).name().clone();
        let pod = entry.pod.clone();
        if !self.cache.assume(&pod, &node) {
            let text = format!("pod {}({}) is in the cache, so can't be assumed", pod.uid, pod.full_name());
            return self.fail(entry, Failure::Error(text), NewNomination::Clear, now);
        }
        let earlier_nomination = self.nominator.node_of(&pod.uid).cloned();
        self.nominator.clear(&pod.uid);
        let profile = self.runners[entry.profile].profile().clone();
        let counted = self.cache.cluster.take_troubles().into_iter().next().map_or(Ok(()), Err);
        let reserved = counted.map_err(Stopped::from);
        let reserved = reserved.and_then(|()| attempt.reserve(&self.cache.cluster, row));
        match reserved.and_then(|()| self.permit(&profile, &pod, &node)) {
            Ok((waits, calls)) => {
                self.announce_wait(&profile, &entry, &node, !waits.is_empty());
                self.enter_binding(entry, Chosen { node: node.clone(), evaluated, feasible }, waits, now);
                self.carry_out(calls, now);
                Outcome::Assumed { node, evaluated, feasible }
            }
            Err(stopped) => {
                self.unreserve(&profile, &pod, &node);
                self.cache.forget(&pod.uid);
                if let Some(earlier) = earlier_nomination {
                    self.nominator.nominate(&pod.uid, &earlier);
                }
                self.fail(entry, stopped.into(), NewNomination::Clear, now)
            }
        }
    }

    /// Takes back what Reserve plugins did for the pod.
    pub(crate) fn unreserve(&mut self, profile: &Profile, pod: &Arc<PodInfo>, node: &Str) {
        if let Err(error) = unreserve(profile, pod, node) {
            let trouble = Trouble { pod: Some(pod.clone()), error: error.to_string() };
            self.effects.push(Effect::Trouble(trouble));
        }
    }

    #[allow(clippy::type_complexity)] // plugin and how long it waits, and the calls about other pods
    fn permit(
        &mut self,
        profile: &Profile,
        pod: &PodInfo,
        node: &Str,
    ) -> Result<(Vec<(&'static str, std::time::Duration)>, Vec<PermitCall>), Stopped> {
        let mut room = PermitCalls::new(&self.bindings);
        let cx = Cycle::new(&self.cache.cluster, pod);
        let mut waits = Vec::new();
        for plugin in profile.at(ExtensionPoint::Permit) {
            let erased = profile.plugin(*plugin);
            match erased.permit(&cx, node, &mut room)? {
                Permitted::Allow => {}
                Permitted::Wait(at_most) => waits.push((erased.name(), at_most.min(MAX_PERMIT_WAIT))),
            }
        }
        Ok((waits, room.calls))
    }

    /// Others should know where a pod will go if it takes a while until it is bound (KEP-5278).
    fn announce_wait(&mut self, profile: &Profile, entry: &QueuedPod, node: &Str, waits: bool) {
        let work = || crate::binding::pre_bind_groups(profile, &entry.pod, node).is_ok_and(|g| !g.is_empty());
        if (waits || work()) && entry.pod.status.nominated_node_name.as_ref() != Some(node) {
            self.effects.push(Effect::PatchStatus(StatusPatch {
                pod: entry.pod.clone(),
                condition: None,
                nominated_node: Some(Some(node.clone())),
            }));
        }
    }

    // --- failure ---

    fn fail(
        &mut self,
        entry: QueuedPod,
        failure: Failure,
        nomination: NewNomination,
        now: Timestamp,
    ) -> Outcome {
        let message = failure.message();
        let outcome = match failure {
            Failure::Error(_) => Outcome::Error(message),
            Failure::NoNodes => Outcome::NoNodes,
            Failure::Unfit(_) | Failure::Refused(_) => Outcome::Unschedulable(message),
        };
        self.report_and_requeue(entry, failure, nomination, now);
        outcome
    }

    /// A binding failed.
    pub(crate) fn attempt_failed(&mut self, entry: QueuedPod, failure: Failure, now: Timestamp) {
        self.report_and_requeue(entry, failure, NewNomination::Clear, now);
    }

    fn report_and_requeue(
        &mut self,
        mut entry: QueuedPod,
        failure: Failure,
        nomination: NewNomination,
        now: Timestamp,
    ) {
        let uid = entry.pod.uid.clone();
        let profile = entry.profile;
        if let Failure::Unfit(diagnosis) = &failure {
            self.note_rejections(&entry.pod, diagnosis);
        }
        let Some(latest) = self.pods.get(&uid).cloned() else {
            self.queue.done(&uid);
            return;
        };
        let message = failure.message();
        let reason = failure.reason();
        if latest.node_name.is_some() {
            self.queue.done(&uid);
        } else {
            entry.pod = latest.clone();
            let (rejectors, pending) = match failure {
                Failure::Unfit(diagnosis) => (diagnosis.rejectors, diagnosis.pending),
                Failure::NoNodes | Failure::Refused(_) | Failure::Error(_) => (Vec::new(), Vec::new()),
            };
            self.queue.give_back(entry, rejectors, pending, now);
        }
        self.renominate(&latest, &nomination);
        self.failed_event(&latest, profile, message.clone());
        self.patch_condition(&latest, reason, message, nomination, now);
    }

    /// A pod could not enter the queue: reported as a failed attempt would be; it has its place already.
    pub(crate) fn enqueue_failed(&mut self, failure: EnqueueFailure) {
        let message = failure.error.to_string();
        self.failed_event(&failure.pod, failure.profile, message.clone());
        let EnqueueFailure { pod, since, .. } = failure;
        self.patch_condition(&pod, "SchedulerError", message, NewNomination::Keep, since);
    }

    fn renominate(&mut self, pod: &PodInfo, nomination: &NewNomination) {
        match nomination {
            NewNomination::Keep => {
                if let Some(node) = &pod.status.nominated_node_name {
                    self.nominator.nominate(&pod.uid, node);
                }
            }
            NewNomination::Clear => self.nominator.clear(&pod.uid),
            NewNomination::Set(node) => self.nominator.nominate(&pod.uid, node),
        }
    }

    fn failed_event(&mut self, pod: &Arc<PodInfo>, profile: usize, note: String) {
        self.effects.push(Effect::Event(PodEvent {
            pod: pod.clone(),
            warning: true,
            reason: "FailedScheduling",
            action: "Scheduling",
            note: cut_note(&note),
            reporter: self.runners[profile].profile().name().clone(),
        }));
    }

    /// Patches only what differs from the pod as it is known.
    fn patch_condition(
        &mut self,
        pod: &Arc<PodInfo>,
        reason: &'static str,
        message: String,
        nomination: NewNomination,
        now: Timestamp,
    ) {
        let current = pod.condition("PodScheduled");
        let same = current
            .is_some_and(|c| c.status == "False" && c.reason == reason && c.message == message.as_str());
        let moved = current.filter(|c| c.status == "False").and_then(|c| c.last_transition);
        let condition = (!same).then(|| Condition { reason, message, last_transition: moved.unwrap_or(now) });
        let nominated = &pod.status.nominated_node_name;
        let nominated_node = match nomination {
            NewNomination::Keep => None,
            NewNomination::Clear => nominated.is_some().then_some(None),
            NewNomination::Set(node) => (nominated.as_ref() != Some(&node)).then_some(Some(node)),
        };
        if condition.is_some() || nominated_node.is_some() {
            let pod = pod.clone();
            self.effects.push(Effect::PatchStatus(StatusPatch { pod, condition, nominated_node }));
        }
    }
}

/// What a failed attempt makes of the nominated node.
#[derive(Debug)]
enum NewNomination {
    Keep,
    Clear,
    Set(Str),
}

impl From<Nomination> for NewNomination {
    fn from(nomination: Nomination) -> Self {
        match nomination {
            Nomination::Keep => Self::Keep,
            Nomination::Clear => Self::Clear,
        }
    }
}

/// "What if" on the node table of the engine.
struct TableWhatIf<'a> {
    engine: &'a mut Engine,
    attempt: &'a Attempt,
    pod: &'a PodInfo,
}

impl WhatIf for TableWhatIf<'_> {
    fn nodes(&self) -> &NodeTable {
        self.engine.cache.cluster.nodes()
    }

    fn objects(&self) -> &Objects {
        self.engine.cache.cluster.objects()
    }

    fn rejection(&self, row: NodeIdx) -> Option<Reject> {
        self.attempt.rejection_of(row).cloned()
    }

    fn evictable_rows(&self) -> Vec<NodeIdx> {
        self.attempt.rows_rejected_with(self.engine.cache.cluster.order(), Fix::EvictionMayHelp)
    }

    fn offset(&self) -> usize {
        let rotation = self.engine.rotation;
        match self.engine.search {
            (_, Tie::FirstOnHeap) => rotation.position,
            (_, Tie::Rotate) => rotation.row,
        }
    }

    fn dry_run(
        &mut self,
        row: NodeIdx,
        ask: &mut dyn FnMut(&mut dyn DryRun) -> PluginResult<()>,
    ) -> PluginResult<()> {
        let node = self.engine.cache.cluster.node(row).name();
        let nominated = self.engine.nominator.pods_on(node);
        let nominated = self.engine.not_below(self.pod, nominated);
        ask(&mut self.attempt.dry_run(&mut self.engine.cache.cluster, row, &nominated))
    }
}
