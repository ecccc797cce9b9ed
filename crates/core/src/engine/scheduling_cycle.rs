//! The scheduling cycle: takes one pod from the queue to a node, or returns it to the queue with the reasons.

use std::sync::Arc;

use harbormaster_api::Timestamp;
use harbormaster_framework::{
    attempt::{Attempt, Decision, UnreserveOutcome, unreserve},
    cycle::Reservation,
    guard::Stopped,
    nodeset::NodeIdx,
    pod::PodInfo,
    profile::Profile,
};

use super::Engine;
use crate::{
    bindings::ChosenNode,
    failure::Failure,
    meter::AttemptResult,
    nominator::NewNomination,
    outcome::{Attempted, Outcome},
    permit::{Permission, permit},
    post_filter::{PostFilterResult, TableWhatIf, post_filter},
    queue::QueuedPod,
};

/// Result of a search that found no node: the failure, and the victims to evict.
struct FailedSearch {
    failure: Failure,
    nomination: NewNomination,
    /// Empty unless a node is nominated.
    victims: Vec<Arc<PodInfo>>,
}

impl FailedSearch {
    fn without_victims(failure: Failure, nomination: NewNomination) -> Self {
        Self { failure, nomination, victims: Vec::new() }
    }
}

impl Engine {
    /// Tries to schedule the next pod in the queue; the whole attempt happens at `now`. Returns `None` if there is no
    /// pod.
    pub fn schedule_one(&mut self, now: Timestamp) -> Option<Attempted> {
        self.schedule_one_by(&mut || now)
    }

    /// Like [`Self::schedule_one`], but reads the time from `clock`. The clock is read at the start of the attempt and
    /// again when the outcome is known, because an extender may have taken seconds in between. Backoff starts at the
    /// later time.
    pub fn schedule_one_by(&mut self, clock: &mut dyn FnMut() -> Timestamp) -> Option<Attempted> {
        let attempted = self.try_next(clock);
        if let Some(meter) = &self.meter {
            meter.cycle_ends();
        }
        self.report_plugin_failures();
        attempted
    }

    fn try_next(&mut self, clock: &mut dyn FnMut() -> Timestamp) -> Option<Attempted> {
        let begun = clock();
        let mut entry = self.queue.pop()?;
        // The queue may hold an older version of the pod.
        if let Some(latest) = self.pods.get(entry.uid()) {
            entry.pod = latest.clone();
        }
        let pod = entry.pod.clone();
        if pod.is_terminating() {
            self.queue.done(&pod.uid);
            self.reporter.skipped(&pod);
            return Some(Attempted { pod, outcome: Outcome::Skipped });
        }
        if self.cache.is_on_node(&pod.uid) {
            self.queue.done(&pod.uid);
            return Some(Attempted { pod, outcome: Outcome::Skipped });
        }
        entry.attempt_begun = self.meter.as_ref().map(|meter| meter.cycle_begins());
        self.cache.cluster.refresh();
        let outcome = match self.choose(&entry, begun) {
            Ok(attempt) => self.commit(entry, &attempt, clock),
            Err(FailedSearch { failure, nomination, victims }) => {
                let now = clock();
                if let NewNomination::Set(node) = &nomination {
                    self.begin_eviction(&entry, node, victims, now);
                }
                self.fail(entry, failure, nomination, now)
            }
        };
        Some(Attempted { pod, outcome })
    }

    /// Finds a node; runs PostFilter if no node fits. Measures the search.
    fn choose(&mut self, entry: &QueuedPod, now: Timestamp) -> Result<Attempt, FailedSearch> {
        let chosen = self.search(entry, now);
        if let (Some(meter), Some(begun)) = (&self.meter, entry.attempt_begun) {
            meter.searched(begun);
        }
        chosen
    }

    fn search(&mut self, entry: &QueuedPod, now: Timestamp) -> Result<Attempt, FailedSearch> {
        let nominated = self.nominator.of(&self.pods).rows_for(&entry.pod, &self.cache.cluster);
        let (cluster, cycle) = (&mut self.cache.cluster, self.queue.handed_out());
        let attempt = self.finder.find(cluster, entry, &nominated, cycle, now);
        let attempt =
            attempt.map_err(|failure| FailedSearch::without_victims(failure, NewNomination::Clear))?;
        match attempt.decision() {
            Decision::Node { .. } => {
                self.note_scores(entry, &attempt);
                Ok(attempt)
            }
            Decision::Unschedulable(_) => Err(self.run_post_filter(entry, attempt)),
        }
    }

    fn note_scores(&mut self, entry: &QueuedPod, attempt: &Attempt) {
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
            nominated: self.nominator.of(&self.pods),
            attempt: &attempt,
            pod: &entry.pod,
            offset,
            stops_early: self.finder.is_in_parity(),
            extenders: self.finder.extenders(),
        };
        let profile = self.finder.profile(entry.profile);
        match post_filter(profile, &attempt, diagnosis, &entry.pod, &mut what_if) {
            Ok(PostFilterResult { diagnosis, nomination, victims, calls, .. }) => {
                self.reporter.call(&entry.pod, calls);
                FailedSearch { failure: Failure::Unschedulable(Box::new(diagnosis)), nomination, victims }
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
        let Decision::Node { row, evaluated, feasible, .. } = *attempt.decision() else {
            return Outcome::Skipped;
        };
        let node = self.cache.cluster.node(row).name().clone();
        let pod = entry.pod.clone();
        if !self.cache.assume(&pod, &node) {
            let text = format!("pod {}({}) is in the cache, so can't be assumed", pod.uid, pod.full_name());
            return self.fail(entry, Failure::Error(text), NewNomination::Clear, clock());
        }
        let earlier_nomination = self.nominator.node_of(&pod.uid).cloned();
        self.nominator.clear(&pod.uid);
        let mut reservation = Reservation::new(pod.clone(), node.clone());
        let permission = self.reserve_and_permit(&entry, attempt, row, &mut reservation);
        let now = clock();
        match permission {
            Ok(permission) => {
                let chosen = ChosenNode {
                    profile: self.finder.profile(entry.profile).clone(),
                    reservation,
                    evaluated,
                    feasible,
                };
                self.enter_binding(entry, chosen, permission, now);
                Outcome::Assumed { node, evaluated, feasible }
            }
            Err(stopped) => {
                let profile = self.finder.profile(entry.profile).clone();
                self.unreserve(&profile, &reservation);
                self.cache.forget(&pod.uid);
                if let Some(earlier) = earlier_nomination {
                    self.nominator.nominate(&pod.uid, &earlier);
                }
                self.fail(entry, stopped.into(), NewNomination::Clear, now)
            }
        }
    }

    fn reserve_and_permit(
        &mut self,
        entry: &QueuedPod,
        attempt: &Attempt,
        row: NodeIdx,
        reservation: &mut Reservation,
    ) -> Result<Permission, Stopped> {
        // An error here means that an index failed to count the pod on its node.
        if let Some(error) = self.cache.cluster.take_errors().into_iter().next() {
            return Err(error.into());
        }
        attempt.reserve(&mut self.cache.cluster, row, reservation)?;
        let profile = self.finder.profile(entry.profile);
        permit(profile, &self.cache.cluster, &self.bindings, &entry.pod, reservation.node())
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
        mut entry: QueuedPod,
        failure: Failure,
        nomination: NewNomination,
        now: Timestamp,
    ) -> Outcome {
        let outcome = failure.outcome();
        self.attempt_ended(&entry, failure.result());
        if let Failure::Unschedulable(diagnosis) = &failure {
            self.reporter.note_rejections(&entry.pod, diagnosis);
        }
        let Some(latest) = self.pods.get(entry.uid()).cloned() else {
            self.queue.done(entry.uid());
            return outcome;
        };
        // A new configuration may have been applied since the attempt.
        let Some(profile) = self.queue.profile_of(&latest.spec.scheduler_name) else {
            self.queue.done(&latest.uid);
            return outcome;
        };
        let reason_and_message = (failure.reason(), failure.message());
        if latest.node_name.is_some() {
            self.queue.done(&latest.uid);
        } else {
            (entry.pod, entry.profile) = (latest.clone(), profile);
            let (rejectors, pending) = failure.into_rejectors();
            self.queue.give_back(entry, rejectors, pending, self.cache.at(now));
        }
        self.nominator.renominate(&latest, &nomination);
        self.reporter.failed(&latest, reason_and_message, nomination, now);
        outcome
    }
}
