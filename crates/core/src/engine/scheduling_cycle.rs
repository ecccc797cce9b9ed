//! The scheduling cycle: takes one pod from the queue to a node, or returns it to the queue with the reasons. The cycle of
//! a group is in `group_cycle`.

use std::sync::Arc;

use harbormaster_api::{Str, Timestamp};
use harbormaster_framework::{
    attempt::{Attempt, Decision, UnreserveOutcome, unreserve},
    cycle::{Cycle, Reservation},
    extender::{Answer, Answers},
    guard::Stopped,
    nodeset::NodeIdx,
    plugin::TurnCycle,
    pod::PodInfo,
    profile::Profile,
};

use super::Engine;
use crate::{
    bindings::ChosenNode,
    effect::AskTask,
    evictions::Victims,
    failure::Failure,
    meter::AttemptResult,
    nominator::NewNomination,
    outcome::{Attempted, Outcome},
    permit::{Permission, permit},
    post_filter::{PostFilterResult, TableWhatIf, post_filter},
    queue::{Entity, QueuedPod},
};

/// Result of a search that found no node.
enum NoNode {
    Failed(FailedSearch),
    /// The search has ended at a question to extenders.
    Asks,
}

/// A failure, and the victims to evict.
struct FailedSearch {
    failure: Failure,
    nomination: NewNomination,
    /// Empty unless a node is nominated.
    victims: Victims,
    /// Time at which the pod is tried again even if no event wakes it.
    retry_at: Option<Timestamp>,
}

impl FailedSearch {
    fn without_victims(failure: Failure, nomination: NewNomination) -> Self {
        Self { failure, nomination, victims: Victims::default(), retry_at: None }
    }
}

/// A node that is occupied for a pod, and the plugins' reservations.
pub(super) struct Held {
    pub(super) reservation: Reservation,
    /// Number of nodes that were evaluated.
    evaluated: usize,
    /// Number of evaluated nodes that fit.
    feasible: usize,
    /// The nomination that the pod had before.
    earlier_nomination: Option<Str>,
}

impl Engine {
    /// Tries to schedule the next pod or group in the queue; the whole attempt happens at `now`. Returns `None` if there
    /// is none.
    pub fn schedule_one(&mut self, now: Timestamp) -> Option<Attempted> {
        self.schedule_one_by(&mut || now)
    }

    /// Like [`Self::schedule_one`], but reads the time from `clock`. The clock is read at the start of the attempt and
    /// again when the outcome is known, because an extender may have taken seconds in between. Backoff starts at the
    /// later time.
    pub fn schedule_one_by(&mut self, clock: &mut dyn FnMut() -> Timestamp) -> Option<Attempted> {
        let attempted = self.try_next(clock);
        self.queue.set_occupied(self.inquiries.occupied());
        if let Some(meter) = &self.meter {
            meter.cycle_ends();
        }
        self.report_plugin_failures();
        attempted
    }

    fn try_next(&mut self, clock: &mut dyn FnMut() -> Timestamp) -> Option<Attempted> {
        let begun = clock();
        if let Some(inquiry) = self.inquiries.take_answered() {
            return Some(self.try_pod(inquiry.entry, Some(inquiry.answers), begun, clock));
        }
        match self.queue.pop(TurnCycle::new(&self.cache.cluster))? {
            Entity::Pod(entry) => Some(self.try_pod(entry, None, begun, clock)),
            Entity::Group(group) => {
                self.cache.cluster.set_group_cycle(Some(self.queue.handed_out()));
                let attempted = self.try_group(group, begun, clock);
                self.cache.cluster.set_group_cycle(None);
                Some(attempted)
            }
        }
    }

    /// Returns the entry with the latest version of its pod, because the queue may hold an older one. Returns `Err` if
    /// the pod needs no node, which ends its attempt.
    pub(super) fn latest(&mut self, mut entry: QueuedPod) -> Result<QueuedPod, Arc<PodInfo>> {
        if let Some(latest) = self.pods.get(entry.uid()) {
            entry.pod = latest.clone();
        }
        let is_terminating = entry.pod.is_terminating();
        if !is_terminating && !self.cache.is_on_node(entry.uid()) {
            return Ok(entry);
        }
        self.queue.done(entry.uid());
        if is_terminating {
            self.reporter.skipped(&entry.pod);
        }
        Err(entry.pod)
    }

    /// Tries a pod. `known` are the answers of extenders if the attempt has begun before.
    fn try_pod(
        &mut self,
        entry: QueuedPod,
        known: Option<Answers>,
        begun: Timestamp,
        clock: &mut dyn FnMut() -> Timestamp,
    ) -> Attempted {
        let before = entry.pod.clone();
        let mut entry = match self.latest(entry) {
            Ok(entry) => entry,
            Err(pod) => return Attempted::new(pod, Outcome::Skipped),
        };
        let pod = entry.pod.clone();
        self.measure_cycle(&mut entry, known.is_some());
        let mut answers = known.unwrap_or_else(|| self.no_answers(&pod));
        if !Arc::ptr_eq(&before, &pod) {
            answers.forget();
        }
        self.cache.cluster.refresh();
        let outcome = match self.choose(&entry, &mut answers, begun) {
            Ok(attempt) => self.commit(entry, &attempt, clock),
            Err(NoNode::Asks) => self.ask(entry, answers, clock),
            Err(NoNode::Failed(FailedSearch { failure, nomination, victims, retry_at })) => {
                let now = clock();
                entry.retry_at = retry_at;
                if let NewNomination::Set(node) = &nomination {
                    self.begin_eviction(&entry, node, victims, now);
                }
                self.fail(entry, failure, nomination, now)
            }
        };
        Attempted::new(pod, outcome)
    }

    /// Begins to measure an attempt, or goes on after extenders have answered.
    fn measure_cycle(&self, entry: &mut QueuedPod, goes_on: bool) {
        let Some(meter) = &self.meter else { return };
        match entry.attempt_begun.filter(|_| goes_on) {
            Some(begun) => meter.cycle_resumes(begun),
            None => entry.attempt_begun = Some(meter.cycle_begins()),
        }
    }

    /// Returns the answers at the beginning of an attempt.
    fn no_answers(&self, pod: &PodInfo) -> Answers {
        let waits = self.waits_for_extenders || self.finder.extenders().asked_about(pod).is_empty();
        if waits { Answers::waiting() } else { Answers::in_rounds() }
    }

    /// Requests the answer to the question at which an attempt has ended.
    fn ask(&mut self, entry: QueuedPod, answers: Answers, clock: &mut dyn FnMut() -> Timestamp) -> Outcome {
        let (pod, extenders) = (entry.pod.clone(), self.finder.extenders().clone());
        let (Some(question), Some(client)) = (answers.open().cloned(), extenders.client().cloned()) else {
            let failure = Failure::Error("nobody can ask the extenders".to_owned());
            return self.fail(entry, failure, NewNomination::Keep, clock());
        };
        let number = self.inquiries.add(entry, answers, extenders.asked_about(&pod));
        self.reporter.ask(AskTask { number, pod, question, client });
        Outcome::Asking
    }

    /// Takes the answer to a question. The pod is tried again before all others.
    pub(super) fn answered(&mut self, number: u64, answer: Answer) {
        self.inquiries.answered(number, answer, self.finder.extenders());
        self.queue.set_occupied(self.inquiries.occupied());
    }

    /// Finds a node; runs PostFilter if no node fits. Measures the search.
    fn choose(
        &mut self,
        entry: &QueuedPod,
        answers: &mut Answers,
        now: Timestamp,
    ) -> Result<Attempt, NoNode> {
        let chosen = self.search(entry, answers, now);
        if let (Some(meter), Some(begun)) = (&self.meter, entry.attempt_begun)
            && !matches!(chosen, Err(NoNode::Asks))
        {
            meter.searched(begun);
        }
        chosen
    }

    fn search(
        &mut self,
        entry: &QueuedPod,
        answers: &mut Answers,
        now: Timestamp,
    ) -> Result<Attempt, NoNode> {
        self.nominator.show(&self.pods, &mut self.cache.cluster);
        let nominated = self.nominator.of(&self.pods).rows_for(&entry.pod, &self.cache.cluster);
        let (cluster, cycle) = (&mut self.cache.cluster, self.queue.handed_out());
        let attempt = self.finder.find_with(cluster, entry, (&nominated, None), answers, (cycle, now));
        if answers.open().is_some() {
            return Err(NoNode::Asks);
        }
        let failed = |failure| FailedSearch::without_victims(failure, NewNomination::Clear);
        let attempt = attempt.map_err(|failure| NoNode::Failed(failed(failure)))?;
        match attempt.decision() {
            Decision::Node { .. } => {
                self.note_scores(entry, &attempt);
                Ok(attempt)
            }
            Decision::Unschedulable(_) => Err(NoNode::Failed(self.run_post_filter(entry, attempt))),
        }
    }

    pub(super) fn note_scores(&mut self, entry: &QueuedPod, attempt: &Attempt) {
        if self.reporter.wants_scores() {
            let sheets = self.finder.scores(&mut self.cache.cluster, entry.profile, attempt);
            self.reporter.note_scores(&entry.pod, sheets);
        }
    }

    /// Runs PostFilter to find pods that can be evicted.
    fn run_post_filter(&mut self, entry: &QueuedPod, mut attempt: Attempt) -> FailedSearch {
        let diagnosis = attempt.take_diagnosis();
        let offset = self.finder.next_offset();
        let mut what_if = TableWhatIf {
            cluster: &mut self.cache.cluster,
            groups: &self.cache.groups,
            nominated: self.nominator.of(&self.pods),
            attempt: &attempt,
            pod: &entry.pod,
            offset,
            stops_early: self.finder.is_in_parity(),
            extenders: self.finder.extenders(),
        };
        let profile = self.finder.profile(entry.profile);
        match post_filter(profile, &attempt, diagnosis, &entry.pod, &mut what_if) {
            Ok(PostFilterResult { diagnosis, nomination, victims, calls, retry_at, .. }) => {
                self.reporter.call(&entry.pod, calls);
                let failure = Failure::Unschedulable(Box::new(diagnosis));
                FailedSearch { failure, nomination, victims, retry_at }
            }
            Err(panic) => FailedSearch::without_victims(panic.into(), NewNomination::Keep),
        }
    }

    /// Runs Assume, Reserve and Permit.
    fn commit(
        &mut self,
        entry: QueuedPod,
        attempt: &Attempt,
        clock: &mut dyn FnMut() -> Timestamp,
    ) -> Outcome {
        let held = match self.hold(&entry, attempt) {
            Ok(held) => held,
            Err(failure) => return self.fail(entry, failure, NewNomination::Clear, clock()),
        };
        let permission = self.permit(&entry, &held);
        let now = clock();
        match permission {
            Ok(permission) => self.bind(entry, held, permission, now),
            Err(stopped) => {
                self.release(&entry, held);
                self.fail(entry, stopped.into(), NewNomination::Clear, now)
            }
        }
    }

    /// Runs Assume and Reserve: the pod occupies the node that was chosen. If that fails, nothing has changed.
    pub(super) fn hold(&mut self, entry: &QueuedPod, attempt: &Attempt) -> Result<Held, Failure> {
        let pod = &entry.pod;
        let Decision::Node { row, evaluated, feasible, .. } = *attempt.decision() else {
            return Err(Failure::Error(format!("no node was chosen for pod {}", pod.full_name())));
        };
        let node = self.cache.cluster.node(row).name().clone();
        if !self.cache.assume(pod, &node) {
            let text = format!("pod {}({}) is in the cache, so can't be assumed", pod.uid, pod.full_name());
            return Err(Failure::Error(text));
        }
        let earlier_nomination = self.nominator.node_of(&pod.uid).cloned();
        self.nominator.clear(&pod.uid);
        let reservation = Reservation::new(pod.clone(), node);
        let mut held = Held { reservation, evaluated, feasible, earlier_nomination };
        match self.reserve(attempt, row, &mut held.reservation) {
            Ok(()) => Ok(held),
            Err(stopped) => {
                self.release(entry, held);
                Err(stopped.into())
            }
        }
    }

    fn reserve(
        &mut self,
        attempt: &Attempt,
        row: NodeIdx,
        reservation: &mut Reservation,
    ) -> Result<(), Stopped> {
        // An error here means that an index failed to count the pod on its node.
        if let Some(error) = self.cache.cluster.take_errors().into_iter().next() {
            return Err(error.into());
        }
        attempt.reserve(&mut self.cache.cluster, row, reservation)
    }

    pub(super) fn permit(&mut self, entry: &QueuedPod, held: &Held) -> Result<Permission, Stopped> {
        let profile = self.finder.profile(entry.profile);
        let group = entry.pod.group().and_then(|group| self.cache.groups.view(group));
        let cx = Cycle::new(&self.cache.cluster, &entry.pod).with_group(group);
        permit(profile, &cx, &self.bindings, held.reservation.node())
    }

    /// Sends a pod that has passed Permit to its binding.
    pub(super) fn bind(
        &mut self,
        entry: QueuedPod,
        held: Held,
        permission: Permission,
        now: Timestamp,
    ) -> Outcome {
        let Held { reservation, evaluated, feasible, .. } = held;
        let node = reservation.node().clone();
        let profile = self.finder.profile(entry.profile).clone();
        let chosen = ChosenNode { profile, reservation, evaluated, feasible };
        self.enter_binding(entry, chosen, permission, now);
        Outcome::Assumed { node, evaluated, feasible }
    }

    /// Undoes [`Self::hold`].
    pub(super) fn release(&mut self, entry: &QueuedPod, held: Held) {
        let profile = self.finder.profile(entry.profile).clone();
        self.unreserve(&profile, &held.reservation);
        self.cache.forget(entry.uid());
        if let Some(earlier) = held.earlier_nomination {
            self.nominator.nominate(entry.uid(), &earlier);
        }
    }

    /// Undoes Reserve.
    pub(super) fn unreserve(&mut self, profile: &Profile, reservation: &Reservation) {
        let UnreserveOutcome { calls, errors } = unreserve(profile, &mut self.cache.cluster, reservation);
        for error in errors {
            self.reporter.note_plugin_failure(Some(reservation.pod().clone()), error.to_string());
        }
        self.reporter.call(reservation.pod(), calls);
    }

    /// Reports a finished attempt, including its binding, to the meter. Attempts for pods of removed profiles are not
    /// counted.
    pub(super) fn attempt_ended(&self, entry: &QueuedPod, result: AttemptResult) {
        if let (Some(meter), Some(begun)) = (&self.meter, entry.attempt_begun)
            && let Some(profile) = self.queue.profile_of(&entry.pod.spec.scheduler_name)
        {
            meter.attempted(profile, result, begun);
        }
    }

    /// Handles a failed attempt or binding: returns the pod to the queue if it still needs a node, and reports the
    /// failure.
    pub(super) fn fail(
        &mut self,
        entry: QueuedPod,
        failure: Failure,
        nomination: NewNomination,
        now: Timestamp,
    ) -> Outcome {
        let outcome = failure.outcome();
        self.attempt_failed(&entry, &failure);
        let reason_and_message = (failure.reason(), failure.message());
        let latest = match self.waiting(entry) {
            Ok(entry) => {
                let (latest, (rejectors, pending)) = (entry.pod.clone(), failure.rejectors());
                self.queue.give_back(entry, rejectors, pending, self.cache.at(now));
                latest
            }
            Err(Some(bound)) => bound,
            Err(None) => return outcome,
        };
        self.nominator.renominate(&latest, &nomination);
        self.reporter.failed(&latest, reason_and_message, nomination, now);
        outcome
    }

    /// Reports a failure to the meter and in notes.
    pub(super) fn attempt_failed(&mut self, entry: &QueuedPod, failure: &Failure) {
        self.attempt_ended(entry, failure.result());
        if let Failure::Unschedulable(diagnosis) = failure {
            self.reporter.note_rejections(&entry.pod, diagnosis);
        }
    }

    /// Returns the entry if its pod still needs a node. Otherwise the pod is done; returns it if it is bound already.
    pub(super) fn waiting(&mut self, mut entry: QueuedPod) -> Result<QueuedPod, Option<Arc<PodInfo>>> {
        let latest = self.pods.get(entry.uid()).cloned();
        // A new configuration may have been applied since the attempt.
        let profile = latest.as_ref().and_then(|pod| self.queue.profile_of(&pod.spec.scheduler_name));
        let (Some(latest), Some(profile)) = (latest, profile) else {
            self.queue.done(entry.uid());
            return Err(None);
        };
        if latest.node_name.is_some() {
            self.queue.done(&latest.uid);
            return Err(Some(latest));
        }
        (entry.pod, entry.profile) = (latest, profile);
        Ok(entry)
    }
}
