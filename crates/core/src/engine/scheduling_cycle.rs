//! One pod from the queue to a node, or back to the queue with the reasons why.

use std::sync::Arc;

use harbormaster_api::Timestamp;
use harbormaster_framework::{
    attempt::{Attempt, Found, GivenBack, unreserve},
    cycle::Reservation,
    guard::Stopped,
    nodeset::NodeIdx,
    pod::PodInfo,
    profile::Profile,
};

use super::Engine;
use crate::{
    bindings::Chosen,
    failure::Failure,
    meter::AttemptResult,
    nominator::NewNomination,
    outcome::{Attempted, Outcome},
    permit::{Permission, permit},
    post_filter::{Answer, TableWhatIf, post_filter},
    queue::QueuedPod,
};

/// Why a pod gets no node in this attempt, and who makes way for it.
struct Unplaced {
    failure: Failure,
    nomination: NewNomination,
    /// None unless a node is nominated.
    victims: Vec<Arc<PodInfo>>,
}

impl Unplaced {
    fn because(failure: Failure, nomination: NewNomination) -> Self {
        Self { failure, nomination, victims: Vec::new() }
    }
}

impl Engine {
    /// Tries the next pod of the queue; `None` if there is none. No time passes meanwhile.
    pub fn schedule_one(&mut self, now: Timestamp) -> Option<Attempted> {
        self.schedule_one_by(&mut || now)
    }

    /// The same, by a clock that goes on: it is read when the attempt begins, and when it is known how it ends. An
    /// extender may have taken seconds in between, and it is then that a backoff begins.
    pub fn schedule_one_by(&mut self, clock: &mut dyn FnMut() -> Timestamp) -> Option<Attempted> {
        let attempted = self.try_next(clock);
        if let Some(meter) = &self.meter {
            meter.cycle_ends();
        }
        attempted
    }

    fn try_next(&mut self, clock: &mut dyn FnMut() -> Timestamp) -> Option<Attempted> {
        let begun = clock();
        let mut entry = self.queue.pop()?;
        // The queue may hold an older object than the API server's last word.
        if let Some(latest) = self.pods.get(entry.uid()) {
            entry.pod = latest.clone();
        }
        let pod = entry.pod.clone();
        if pod.is_terminating() {
            self.queue.done(&pod.uid);
            self.reporter.skipped(&pod);
            return Some(Attempted { pod, outcome: Outcome::Skipped });
        }
        if self.cache.is_placed(&pod.uid) {
            self.queue.done(&pod.uid);
            return Some(Attempted { pod, outcome: Outcome::Skipped });
        }
        entry.attempt_begun = self.meter.as_ref().map(|meter| meter.cycle_begins());
        self.cache.cluster.refresh();
        let chosen = self.choose(&entry, begun);
        if let (Some(meter), Some(begun)) = (&self.meter, entry.attempt_begun) {
            meter.searched(begun);
        }
        let outcome = match chosen {
            Ok(attempt) => self.commit(entry, &attempt, clock),
            Err(Unplaced { failure, nomination, victims }) => {
                let now = clock();
                if let NewNomination::Set(node) = &nomination {
                    self.begin_eviction(&entry, node, victims, now);
                }
                self.fail(entry, failure, nomination, now)
            }
        };
        Some(Attempted { pod, outcome })
    }

    /// Looks for a node; asks PostFilter when there is none.
    fn choose(&mut self, entry: &QueuedPod, now: Timestamp) -> Result<Attempt, Unplaced> {
        let nominated = self.nominator.of(&self.pods).rows_for(&entry.pod, &self.cache.cluster);
        let (cluster, cycle) = (&mut self.cache.cluster, self.queue.handed_out());
        let attempt = self.finder.find(cluster, entry, &nominated, cycle, now);
        let attempt = attempt.map_err(|failure| Unplaced::because(failure, NewNomination::Clear))?;
        match attempt.found() {
            Found::Node { .. } => {
                self.note_scores(entry, &attempt);
                Ok(attempt)
            }
            Found::Nowhere(_) => Err(self.make_room(entry, attempt)),
        }
    }

    fn note_scores(&mut self, entry: &QueuedPod, attempt: &Attempt) {
        if self.reporter.wants_scores() {
            let sheets = self.finder.scores(&mut self.cache.cluster, entry.profile, attempt);
            self.reporter.note_scores(&entry.pod, sheets);
        }
    }

    /// Asks PostFilter plugins who may make way.
    fn make_room(&mut self, entry: &QueuedPod, mut attempt: Attempt) -> Unplaced {
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
            Ok(Answer { diagnosis, nomination, victims, .. }) => {
                Unplaced { failure: Failure::Unfit(Box::new(diagnosis)), nomination, victims }
            }
            Err(panic) => Unplaced::because(panic.into(), NewNomination::Keep),
        }
    }

    /// Assume, Reserve, Permit.
    fn commit(
        &mut self,
        entry: QueuedPod,
        attempt: &Attempt,
        clock: &mut dyn FnMut() -> Timestamp,
    ) -> Outcome {
        let Found::Node { row, evaluated, feasible, .. } = *attempt.found() else { return Outcome::Skipped };
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
                let chosen = Chosen {
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
        // An index that failed to count the pod on its node.
        if let Some(trouble) = self.cache.cluster.take_troubles().into_iter().next() {
            return Err(trouble.into());
        }
        attempt.reserve(&mut self.cache.cluster, row, reservation)?;
        let profile = self.finder.profile(entry.profile);
        permit(profile, &self.cache.cluster, &self.bindings, &entry.pod, reservation.node())
    }

    /// Takes back what Reserve plugins did for the pod.
    pub(super) fn unreserve(&mut self, profile: &Profile, reservation: &Reservation) {
        let GivenBack { calls, troubles } = unreserve(profile, &mut self.cache.cluster, reservation);
        for error in troubles {
            self.reporter.trouble(Some(reservation.pod().clone()), error.to_string());
        }
        self.reporter.call(reservation.pod(), calls);
    }

    /// An attempt has ended, its binding included. Those of a profile that is gone do not count.
    pub(super) fn attempt_ended(&self, entry: &QueuedPod, result: AttemptResult) {
        if let (Some(meter), Some(begun)) = (&self.meter, entry.attempt_begun)
            && let Some(profile) = self.queue.profile_of(&entry.pod.spec.scheduler_name)
        {
            meter.attempted(profile, result, begun);
        }
    }

    /// An attempt or a binding failed: the pod goes back to the queue if it is still to be scheduled, and this is told.
    pub(super) fn fail(
        &mut self,
        mut entry: QueuedPod,
        failure: Failure,
        nomination: NewNomination,
        now: Timestamp,
    ) -> Outcome {
        let outcome = failure.outcome();
        self.attempt_ended(&entry, failure.result());
        if let Failure::Unfit(diagnosis) = &failure {
            self.reporter.note_rejections(&entry.pod, diagnosis);
        }
        let Some(latest) = self.pods.get(entry.uid()).cloned() else {
            self.queue.done(entry.uid());
            return outcome;
        };
        // Another configuration may have taken over since the attempt.
        let Some(profile) = self.queue.profile_of(&latest.spec.scheduler_name) else {
            self.queue.done(&latest.uid);
            return outcome;
        };
        let said = (failure.reason(), failure.message());
        if latest.node_name.is_some() {
            self.queue.done(&latest.uid);
        } else {
            (entry.pod, entry.profile) = (latest.clone(), profile);
            let (rejectors, pending) = failure.into_rejectors();
            self.queue.give_back(entry, rejectors, pending, self.cache.at(now));
        }
        self.nominator.renominate(&latest, &nomination);
        self.reporter.failed(&latest, said, nomination, now);
        outcome
    }
}
