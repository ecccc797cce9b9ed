//! One pod from the queue to a node, or back to the queue with the reasons why.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use harbormaster_api::{Str, Timestamp, points::ExtensionPoint};
use harbormaster_framework::{
    attempt::{AttemptError, Found, NominatedRow, ScoreSheet, unreserve},
    cycle::{Cycle, DryRun, MAX_PERMIT_WAIT, PostFilterCycle, WhatIf},
    diagnosis::Diagnosis,
    nodeset::NodeIdx,
    objects::Objects,
    outcome::{Fix, Nomination, Permitted, PluginResult, PostFiltered, Reject},
    plugin::SignFragment,
    pod::PodInfo,
    profile::Profile,
    table::NodeTable,
};

use crate::{
    binding::{PermitCall, PermitCalls},
    effect::{Condition, Effect, PodEvent, StatusPatch, cut_note},
    engine::Engine,
    note::Note,
    queue::QueuedPod,
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
    /// No node fits, with the message that the pod's condition gets.
    Unschedulable(String),
    /// The attempt failed with this error.
    Error(String),
    /// The pod is being deleted or was decided for a node already.
    Skipped,
}

/// Why a pod goes back to the queue.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Plugins rejected it: their events may wake it.
    Unfit(Box<Diagnosis>),
    /// There are no nodes, or PreBind or Bind said no: reported as a rejection, retried as an error.
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
            Self::Refused(reject) => reject.message(),
            Self::Error(message) => message.clone(),
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Unfit(_) | Self::Refused(_) => "Unschedulable",
            Self::Error(_) => "SchedulerError",
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
            Ok((row, evaluated, feasible)) => self.commit(entry, row, evaluated, feasible, now),
            Err((failure, nomination)) => self.fail(entry, failure, nomination, now),
        };
        Some(Attempted { pod, outcome })
    }

    /// Looks for a node; asks PostFilter when there is none.
    fn choose(
        &mut self,
        entry: &QueuedPod,
        now: Timestamp,
    ) -> Result<(NodeIdx, usize, usize), (Failure, NewNomination)> {
        let pod = entry.pod.clone();
        let nominated = self.nominated_rows(&pod);
        let signature = self.sign(entry);
        let hint = self.hint(entry, signature.as_deref(), now);
        let preferred: Vec<Str> =
            pod.status.nominated_node_name.iter().chain(&hint).take(1).cloned().collect();
        let attempt = &mut self.attempts[entry.profile];
        let (cluster, start) = (&mut self.cache.cluster, &mut self.walk_start);
        // A plugin that panics must not take the scheduler down with it: its pod fails, all others go on. What was
        // half done is thrown away: tables of classes are marked unusable while they are being brought up to date.
        let find =
            AssertUnwindSafe(|| attempt.find(cluster, &pod, self.search, start, &nominated, &preferred));
        let found = match catch_unwind(find) {
            Ok(found) => found,
            Err(panic) => return Err((panicked(&*panic), NewNomination::Clear)),
        };
        match found {
            Ok(Found::Node { row, evaluated, feasible, ranking }) => {
                if let Some(batch) = self.batches.get_mut(entry.profile) {
                    let node = self.cache.cluster.node(row).name();
                    batch.chosen(node, hint.as_ref(), signature, ranking, self.queue.handed_out(), now);
                }
                self.note_scores(entry.profile, &pod);
                Ok((row, evaluated, feasible))
            }
            Ok(Found::Nowhere(diagnosis)) => {
                let ask = AssertUnwindSafe(|| self.post_filter(entry, diagnosis, now));
                Err(match catch_unwind(ask) {
                    Ok((diagnosis, nomination)) => (Failure::Unfit(Box::new(diagnosis)), nomination),
                    Err(panic) => (panicked(&*panic), NewNomination::Keep),
                })
            }
            Err(AttemptError::NoNodes) => {
                let reject = Reject::unresolvable(AttemptError::NoNodes.to_string());
                Err((Failure::Refused(reject), NewNomination::Clear))
            }
            Err(error) => Err((Failure::Error(error.to_string()), NewNomination::Clear)),
        }
    }

    fn note_scores(&mut self, profile: usize, pod: &Arc<PodInfo>) {
        if !self.wanted.scores {
            return;
        }
        let (attempt, cluster) = (&mut self.attempts[profile], &self.cache.cluster);
        // Plugins that fail or panic here have failed before.
        let ask = AssertUnwindSafe(|| attempt.scores(cluster, pod));
        let Ok(Ok(sheets)) = catch_unwind(ask) else { return };
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

    fn sign(&self, entry: &QueuedPod) -> Option<Vec<SignFragment>> {
        self.batches.get(entry.profile)?;
        self.attempts[entry.profile].profile().sign(&entry.pod)
    }

    fn hint(&mut self, entry: &QueuedPod, signature: Option<&[SignFragment]>, now: Timestamp) -> Option<Str> {
        let batch = self.batches.get_mut(entry.profile)?;
        let (attempt, cluster) = (&mut self.attempts[entry.profile], &mut self.cache.cluster);
        let is_full = |node: &Str| {
            let row = cluster.find(node);
            row.is_some_and(|row| attempt.rejects(cluster, &entry.pod, row).unwrap_or(false))
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
        mut diagnosis: Diagnosis,
        now: Timestamp,
    ) -> (Diagnosis, NewNomination) {
        let profile = self.attempts[entry.profile].profile().clone();
        let plugins = profile.at(ExtensionPoint::PostFilter).to_vec();
        if plugins.is_empty() {
            return (diagnosis, NewNomination::Clear);
        }
        let pre_filter = diagnosis.pre_filter.as_ref().map(|(_, reject)| reject.clone());
        let mut reasons: Vec<String> = Vec::new();
        let mut nomination = NewNomination::Keep;
        for plugin in plugins {
            let mut what_if = TableWhatIf { engine: self, entry };
            let mut cx =
                PostFilterCycle { pod: &entry.pod, pre_filter: pre_filter.clone(), what_if: &mut what_if };
            match profile.plugin(plugin).post_filter(&mut cx) {
                Ok(PostFiltered::Nominate { node, victims }) => {
                    self.begin_eviction(entry, &node, victims, now);
                    return (diagnosis, NewNomination::Set(node));
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
                    return (diagnosis, nomination.into());
                }
                Err(error) => {
                    diagnosis.post_filter = error.to_string();
                    return (diagnosis, NewNomination::Keep);
                }
            }
        }
        diagnosis.post_filter = reasons.join(", ");
        (diagnosis, nomination)
    }

    /// Assume, Reserve, Permit.
    fn commit(
        &mut self,
        entry: QueuedPod,
        row: NodeIdx,
        evaluated: usize,
        feasible: usize,
        now: Timestamp,
    ) -> Outcome {
        let node = self.cache.cluster.node(row).name().clone();
        let pod = entry.pod.clone();
        if !self.cache.assume(&pod, &node) {
            let text = format!("pod {}({}) is in the cache, so can't be assumed", pod.uid, pod.full_name());
            return self.fail(entry, Failure::Error(text), NewNomination::Clear, now);
        }
        let earlier_nomination = self.nominator.node_of(&pod.uid).cloned();
        self.nominator.clear(&pod.uid);
        let attempt = &mut self.attempts[entry.profile];
        let profile = attempt.profile().clone();
        let reserved = attempt.reserve(&self.cache.cluster, &pod, row);
        let refused = match reserved {
            Ok(Ok(())) => None,
            Ok(Err((plugin, reject))) => Some(Failure::unfit_here(plugin, &reject)),
            Err(e) => Some(Failure::Error(format!("running Reserve plugin {:?}: {}", e.plugin, e.source))),
        };
        let permitted = match refused {
            Some(failure) => Err(failure),
            None => self.permit(&profile, &pod, &node),
        };
        match permitted {
            Ok((waits, calls)) => {
                self.announce_wait(&profile, &entry, &node, !waits.is_empty());
                self.enter_binding(entry, node.clone(), waits, now);
                self.carry_out(calls, now);
                Outcome::Assumed { node, evaluated, feasible }
            }
            Err(failure) => {
                unreserve(&profile, &pod, &node);
                self.cache.forget(&pod.uid);
                if let Some(earlier) = earlier_nomination {
                    self.nominator.nominate(&pod.uid, &earlier);
                }
                self.fail(entry, failure, NewNomination::Clear, now)
            }
        }
    }

    #[allow(clippy::type_complexity)] // plugin and how long it waits, and the calls about other pods
    fn permit(
        &mut self,
        profile: &Profile,
        pod: &PodInfo,
        node: &Str,
    ) -> Result<(Vec<(&'static str, std::time::Duration)>, Vec<PermitCall>), Failure> {
        let mut room = PermitCalls::new(&self.bindings);
        let cx = Cycle::new(&self.cache.cluster, pod);
        let mut waits = Vec::new();
        for plugin in profile.at(ExtensionPoint::Permit) {
            let erased = profile.plugin(*plugin);
            match erased.permit(&cx, node, &mut room) {
                Ok(Permitted::Allow) => {}
                Ok(Permitted::Wait(at_most)) => waits.push((erased.name(), at_most.min(MAX_PERMIT_WAIT))),
                Ok(Permitted::Reject(reject)) => {
                    return Err(Failure::unfit_here(erased.name(), &reject));
                }
                Err(e) => {
                    return Err(Failure::Error(format!("running Permit plugin {:?}: {e}", erased.name())));
                }
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
                Failure::Refused(_) | Failure::Error(_) => (Vec::new(), Vec::new()),
            };
            self.queue.give_back(entry, rejectors, pending, now);
        }
        self.renominate(&latest, &nomination);
        self.failed_event(&latest, profile, message.clone());
        self.patch_condition(&latest, reason, message, nomination, now);
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
            reporter: self.attempts[profile].profile().name().clone(),
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

/// What a panic said.
pub fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("unknown panic")
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
    entry: &'a QueuedPod,
}

impl WhatIf for TableWhatIf<'_> {
    fn nodes(&self) -> &NodeTable {
        self.engine.cache.cluster.nodes()
    }

    fn objects(&self) -> &Objects {
        self.engine.cache.cluster.objects()
    }

    fn rejection(&self, row: NodeIdx) -> Option<Reject> {
        self.engine.attempts[self.entry.profile].rejection_of(&self.entry.pod, row)
    }

    fn evictable_rows(&self) -> Vec<NodeIdx> {
        let attempt = &self.engine.attempts[self.entry.profile];
        attempt.rows_rejected_with(&self.entry.pod, self.engine.cache.cluster.order(), Fix::EvictionMayHelp)
    }

    fn offset(&self) -> usize {
        self.engine.walk_start
    }

    fn dry_run(
        &mut self,
        row: NodeIdx,
        ask: &mut dyn FnMut(&mut dyn DryRun) -> PluginResult<()>,
    ) -> PluginResult<()> {
        let pod = &*self.entry.pod;
        let node = self.engine.cache.cluster.node(row).name();
        let nominated = self.engine.nominator.pods_on(node);
        let nominated = self.engine.not_below(pod, nominated);
        let attempt = &self.engine.attempts[self.entry.profile];
        match attempt.dry_run(&mut self.engine.cache.cluster, pod, row, &nominated) {
            Some(mut dry_run) => ask(&mut dry_run),
            None => Ok(()),
        }
    }
}

fn panicked(panic: &(dyn Any + Send)) -> Failure {
    Failure::Error(format!("a plugin panicked: {}", panic_text(panic)))
}
