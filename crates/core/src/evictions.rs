//! Evictions under way to make room for other pods (KEP-4832).
//!
//! ```text
//! all victims but the last ──all evicted──> the last one ──evicted──> over
//!            └────────────some eviction failed─────────────┴──> the preemptor is tried again at once
//! ```
//!
//! Until the end the preemptor is kept out of the queue. It is let in a moment earlier, when the last victim is seen to
//! go: the event of its going is what wakes the preemptor.
//!
//! This part says whose turn it is; who asks it carries that out.

use std::sync::Arc;

use harbormaster_api::Str;
use harbormaster_framework::{meter::Stamp, pod::PodInfo};
use rustc_hash::FxHashMap;

use crate::{effect::EvictTask, pods::Pods};

/// For whom, and where.
#[derive(Clone, Debug)]
pub(crate) struct Purpose {
    pub(crate) preemptor: Arc<PodInfo>,
    pub(crate) node: Str,
}

/// The victims of one attempt.
#[derive(Debug)]
struct Eviction {
    purpose: Purpose,
    /// How many calls are on their way.
    in_flight: usize,
    /// The victim that waits until all others are gone.
    last: Option<Arc<PodInfo>>,
    /// The UID of that victim, once it is its turn.
    waits_for: Option<Str>,
    /// Nothing that is still to come may wake the preemptor: it is tried again at the end.
    retry: bool,
    /// When it began, if anybody measures.
    begun: Option<Stamp>,
    /// A call has failed.
    failed: bool,
}

/// What comes next in a round.
#[derive(Debug)]
pub(crate) enum Next {
    /// Nothing before more calls have ended.
    Wait,
    /// It is the last victim's turn.
    Evict(Arc<PodInfo>),
    /// The round is over.
    Over {
        /// The UID of the preemptor that was kept out of the queue by this round.
        held: Option<Str>,
        /// The UID of the preemptor, if it is to be tried at once.
        retry: Option<Str>,
        /// When it began, if anybody measures.
        begun: Option<Stamp>,
        /// Whether a call failed.
        failed: bool,
    },
}

/// All evictions on their way. A preemptor that was tried in between may have several rounds of them; only the newest
/// keeps it out of the queue.
#[derive(Debug, Default)]
pub(crate) struct Evictions {
    by_round: FxHashMap<u64, Eviction>,
    /// By the preemptor's UID.
    newest: FxHashMap<Str, u64>,
    /// Rounds that wait for just this victim, by the victim's UID.
    last_ones: FxHashMap<Str, Vec<u64>>,
    rounds: u64,
}

impl Evictions {
    /// The round of a new eviction: `others` calls come first, then `last` has its turn. What an older round of the
    /// same preemptor has not asked for yet is not wanted any more.
    pub(crate) fn begin(
        &mut self,
        purpose: Purpose,
        others: usize,
        last: Arc<PodInfo>,
        begun: Option<Stamp>,
    ) -> u64 {
        self.rounds += 1;
        let older = self.newest.insert(purpose.preemptor.uid.clone(), self.rounds);
        if let Some(older) = older.and_then(|older| self.by_round.get_mut(&older)) {
            older.last = None;
        }
        let last = Some(last);
        let (in_flight, waits_for) = (others, None);
        let eviction = Eviction { purpose, in_flight, last, waits_for, retry: false, begun, failed: false };
        self.by_round.insert(self.rounds, eviction);
        self.rounds
    }

    /// What a round is for, while it lasts.
    pub(crate) fn purpose(&self, round: u64) -> Option<&Purpose> {
        self.by_round.get(&round).map(|eviction| &eviction.purpose)
    }

    /// The call that evicts one pod.
    pub(crate) fn task(&self, round: u64, victim: Arc<PodInfo>) -> Option<EvictTask> {
        let preemptor = &self.purpose(round)?.preemptor;
        Some(EvictTask {
            preemptor: preemptor.uid.clone(),
            round,
            message: format!(
                "{}: preempting to accommodate a higher priority pod",
                preemptor.spec.scheduler_name
            ),
            victim,
        })
    }

    /// Nobody schedules that preemptor any more: the victim that waits until all others are gone may stay.
    pub(crate) fn give_up(&mut self, preemptor: &str) {
        let round = self.newest.get(preemptor);
        if let Some(eviction) = round.and_then(|round| self.by_round.get_mut(round)) {
            eviction.last = None;
        }
    }

    /// A call has ended, `well` or not.
    pub(crate) fn ended(&mut self, round: u64, well: bool) {
        if let Some(eviction) = self.by_round.get_mut(&round) {
            eviction.in_flight = eviction.in_flight.saturating_sub(1);
            eviction.retry |= !well;
            eviction.failed |= !well;
        }
    }

    /// A victim gave way without a call.
    pub(crate) fn ended_in_memory(&mut self, round: u64) {
        if let Some(eviction) = self.by_round.get_mut(&round) {
            // Of the last victim nothing more will be heard.
            eviction.retry |= eviction.waits_for.is_some();
        }
        self.ended(round, true);
    }

    /// When all calls have ended: the last victim's turn if it is still wanted, else the end.
    pub(crate) fn next(&mut self, round: u64, pods: &Pods) -> Next {
        let Some(eviction) = self.by_round.get_mut(&round) else { return Next::Wait };
        if eviction.in_flight > 0 {
            return Next::Wait;
        }
        let wanted = !eviction.retry && pods.get(&eviction.purpose.preemptor.uid).is_some();
        let Some(last) = eviction.last.take().filter(|_| wanted) else { return self.end(round) };
        if pods.get(&last.uid).is_none() {
            // It went while the preemptor was kept out, and could not wake it.
            eviction.retry = true;
            return self.end(round);
        }
        eviction.in_flight = 1;
        eviction.waits_for = Some(last.uid.clone());
        self.last_ones.entry(last.uid.clone()).or_default().push(round);
        Next::Evict(last)
    }

    /// A pod is gone or on its way out: the UIDs of those who wait for just this one, and need not be kept out of the
    /// queue any more.
    pub(crate) fn going(&mut self, uid: &str) -> Vec<Str> {
        let rounds = self.last_ones.remove(uid).into_iter().flatten();
        rounds.filter_map(|round| self.held_by(round)).collect()
    }

    fn end(&mut self, round: u64) -> Next {
        let held = self.held_by(round);
        let Some(eviction) = self.by_round.remove(&round) else { return Next::Wait };
        if let Some(victim) = &eviction.waits_for
            && let Some(rounds) = self.last_ones.get_mut(victim)
        {
            rounds.retain(|r| *r != round);
            if rounds.is_empty() {
                self.last_ones.remove(victim);
            }
        }
        if let Some(preemptor) = &held {
            self.newest.remove(preemptor);
        }
        let Eviction { purpose, retry, begun, failed, .. } = eviction;
        Next::Over { held, retry: retry.then(|| purpose.preemptor.uid.clone()), begun, failed }
    }

    /// The preemptor that a round keeps out of the queue.
    fn held_by(&self, round: u64) -> Option<Str> {
        let preemptor = &self.by_round.get(&round)?.purpose.preemptor.uid;
        (self.newest.get(preemptor) == Some(&round)).then(|| preemptor.clone())
    }
}
