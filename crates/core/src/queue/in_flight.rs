//! Events that arrive while pods are in flight, that is, while the pods are being scheduled or wait on Permit. When a
//! rejected pod returns to the queue, these events are checked, so that no wake-up is lost.
//!
//! A pod may wait on Permit for a quarter of an hour, and thousands may wait at the same time, so the storage must not
//! grow with the number of events. Some events wake every pod that a listener (a plugin in one profile) rejected; for
//! these events, only the sequence number of the latest is stored. For the other events, a hint decides; the latest
//! [`MAX_HINTED_EVENTS`] of them are stored for each listener. An older event is treated as if its hint had returned
//! `Queue`, because one attempt too many is better than a forgotten pod.

use std::collections::VecDeque;

use harbormaster_api::Str;
use harbormaster_framework::events::{ClusterEvent, OwnedChange};
use rustc_hash::FxHashMap;

use super::wakers::Listener;

/// Maximum number of events stored for the hints of one listener.
const MAX_HINTED_EVENTS: usize = 4096;

/// An event with its sequence number.
type Numbered = (u64, ClusterEvent, OwnedChange);

/// Number of stored events of each kind; zero for kinds that are no longer stored.
type EventCounts = FxHashMap<ClusterEvent, usize>;

fn forget(counts: &mut EventCounts, event: ClusterEvent) {
    if let Some(count) = counts.get_mut(&event) {
        *count -= 1;
    }
}

/// Events for one listener since the oldest pod in flight was handed out.
#[derive(Debug, Default)]
struct ListenerLog {
    /// One more than the sequence number of the last event that wakes every pod, or is treated as if it did; 0 if there
    /// was no such event.
    certain: u64,
    /// Events after `certain` for which a hint decides, oldest first.
    hinted: VecDeque<Numbered>,
}

impl ListenerLog {
    fn record(&mut self, certain: bool, event: Numbered, limit: usize, counts: &mut EventCounts) {
        if certain {
            self.certain = event.0 + 1;
            self.hinted.drain(..).for_each(|(_, event, _)| forget(counts, event));
            return;
        }
        *counts.entry(event.1).or_default() += 1;
        self.hinted.push_back(event);
        if self.hinted.len() > limit
            && let Some((number, event, _)) = self.hinted.pop_front()
        {
            self.certain = number + 1;
            forget(counts, event);
        }
    }

    fn forget_before(&mut self, number: u64, counts: &mut EventCounts) {
        while self.hinted.front().is_some_and(|(at, ..)| *at < number)
            && let Some((_, event, _)) = self.hinted.pop_front()
        {
            forget(counts, event);
        }
    }
}

/// Pods in flight, and the events for their plugins.
#[derive(Debug)]
pub(super) struct InFlight {
    /// For each pod, the sequence number of the first event that the pod may have missed.
    pods: FxHashMap<Str, u64>,
    /// For each sequence number in `pods`, the number of pods that have it; lowest sequence number first.
    starts: VecDeque<(u64, usize)>,
    logs: FxHashMap<Listener, ListenerLog>,
    /// Number of events of each kind stored in `logs`.
    counts: EventCounts,
    /// One more than the sequence number of the last event that wakes all rejected pods; 0 if there was no such event.
    wild: u64,
    next: u64,
    limit: usize,
}

impl Default for InFlight {
    fn default() -> Self {
        Self::with_limit(MAX_HINTED_EVENTS)
    }
}

impl InFlight {
    /// Creates storage for at most `limit` hinted events per listener.
    fn with_limit(limit: usize) -> Self {
        let (pods, starts, logs) = (FxHashMap::default(), VecDeque::new(), FxHashMap::default());
        Self { pods, starts, logs, counts: EventCounts::default(), wild: 0, next: 0, limit }
    }

    pub(super) fn begin(&mut self, uid: Str) {
        self.end(&uid);
        self.pods.insert(uid, self.next);
        match self.starts.back_mut() {
            Some((start, pods)) if *start == self.next => *pods += 1,
            _ => self.starts.push_back((self.next, 1)),
        }
    }

    /// Number of pods in flight.
    pub(super) fn len(&self) -> usize {
        self.pods.len()
    }

    /// Number of stored events of each kind; an event counts once for each listener. Includes kinds whose count has
    /// dropped to zero.
    pub(super) fn events(&self) -> impl Iterator<Item = (ClusterEvent, usize)> + '_ {
        self.counts.iter().map(|(event, count)| (*event, *count))
    }

    pub(super) fn holds(&self, uid: &Str) -> bool {
        self.pods.contains_key(uid)
    }

    /// Records an event for its listeners. The flag of a listener is true if the event wakes every pod that the
    /// listener rejected, and false if a hint decides.
    pub(super) fn record(
        &mut self,
        event: ClusterEvent,
        change: &OwnedChange,
        listeners: impl IntoIterator<Item = (Listener, bool)>,
    ) {
        if self.pods.is_empty() {
            return;
        }
        let number = self.next;
        for (listener, certain) in listeners {
            let log = self.logs.entry(listener).or_default();
            log.record(certain, (number, event, change.clone()), self.limit, &mut self.counts);
            self.next = number + 1;
        }
        if event.is_wild_card() {
            self.wild = self.next;
        }
    }

    /// Returns true if an event that wakes every rejected pod has occurred since the pod was handed out.
    pub(super) fn missed_wild_card(&self, uid: &Str) -> bool {
        self.pods.get(uid).is_some_and(|start| *start < self.wild)
    }

    /// Returns true if an event for `listener` that wakes the pod has occurred since the pod was handed out. `hint`
    /// decides for the events that need a hint.
    pub(super) fn missed(
        &self,
        uid: &Str,
        listener: Listener,
        hint: impl Fn(ClusterEvent, &OwnedChange) -> bool,
    ) -> bool {
        let (Some(start), Some(log)) = (self.pods.get(uid), self.logs.get(&listener)) else {
            return false;
        };
        let first = log.hinted.partition_point(|(at, ..)| at < start);
        *start < log.certain || log.hinted.range(first..).any(|(_, event, change)| hint(*event, change))
    }

    pub(super) fn end(&mut self, uid: &Str) {
        let Some(start) = self.pods.remove(uid) else { return };
        if let Ok(at) = self.starts.binary_search_by_key(&start, |(start, _)| *start) {
            self.starts[at].1 -= 1;
        }
        while self.starts.front().is_some_and(|(_, pods)| *pods == 0) {
            self.starts.pop_front();
        }
        match self.starts.front() {
            None => self.forget(),
            Some((oldest, _)) if *oldest > start => {
                let oldest = *oldest;
                let counts = &mut self.counts;
                self.logs.values_mut().for_each(|log| log.forget_before(oldest, counts));
            }
            Some(_) => {}
        }
    }

    /// Drops everything because no pod is in flight.
    fn forget(&mut self) {
        self.logs.clear();
        self.counts.values_mut().for_each(|count| *count = 0);
        (self.wild, self.next) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use harbormaster_framework::events::{Action, EventResource};
    use proptest::prelude::*;

    use super::*;

    const LIMIT: usize = 6;
    const LISTENERS: u8 = 3;

    /// For each pod, all events since it was handed out, as (listener, certain, number).
    type Naive = BTreeMap<u8, Vec<(u8, bool, u32)>>;

    fn listener(which: u8) -> Listener {
        Listener { profile: 0, plugin: ["a", "b", "c"][which as usize] }
    }

    /// Returns true if the hint wakes the pod at the event with the given number.
    fn hint(pod: u8, number: u32) -> bool {
        number.is_multiple_of(u32::from(pod) + 7)
    }

    fn uid(pod: u8) -> Str {
        format!("p{pod}").into()
    }

    fn check(in_flight: &InFlight, naive: &Naive) -> Result<(), TestCaseError> {
        for (pod, log) in naive {
            for which in 0..LISTENERS {
                let events: Vec<_> = log.iter().filter(|(by, ..)| *by == which).collect();
                let expected = events.iter().any(|(_, certain, number)| *certain || hint(*pod, *number));
                let missed =
                    in_flight.missed(&uid(*pod), listener(which), |event, _| hint(*pod, event.action.0));
                prop_assert!(missed || !expected, "a wake-up of p{pod} by {which} is lost");
                prop_assert!(expected || !missed || events.len() > LIMIT, "p{pod} wakes for nothing");
            }
        }
        prop_assert!(in_flight.logs.values().all(|log| log.hinted.len() <= LIMIT));
        let stored: usize = in_flight.logs.values().map(|log| log.hinted.len()).sum();
        prop_assert_eq!(in_flight.events().map(|(_, count)| count).sum::<usize>(), stored);
        prop_assert_eq!(in_flight.starts.iter().map(|(_, pods)| pods).sum::<usize>(), naive.len());
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn no_wake_up_is_lost_and_none_is_spurious_while_all_events_are_kept(
            steps in prop::collection::vec((0u8..6, 0u8..5, 0u8..LISTENERS, prop::bool::weighted(0.1)), 1..120)
        ) {
            let (mut in_flight, mut naive) = (InFlight::with_limit(LIMIT), Naive::new());
            for (number, (what, pod, which, certain)) in (1u32..).zip(steps) {
                match what {
                    0 => {
                        in_flight.begin(uid(pod));
                        naive.insert(pod, Vec::new());
                    }
                    1 => {
                        in_flight.end(&uid(pod));
                        naive.remove(&pod);
                    }
                    _ => {
                        let event = ClusterEvent::new(EventResource::Node, Action(number));
                        in_flight.record(event, &OwnedChange::Other, [(listener(which), certain)]);
                        naive.values_mut().for_each(|log| log.push((which, certain, number)));
                    }
                }
                check(&in_flight, &naive)?;
            }
        }
    }

    #[test]
    fn nothing_is_kept_when_no_pod_is_in_flight() {
        let mut in_flight = InFlight::default();
        let event = ClusterEvent::new(EventResource::Node, Action::ADD);
        in_flight.record(event, &OwnedChange::Other, [(listener(0), false)]);
        assert!(in_flight.logs.is_empty());
        in_flight.begin(uid(1));
        in_flight.record(event, &OwnedChange::Other, [(listener(0), false)]);
        in_flight.end(&uid(1));
        assert!(in_flight.logs.is_empty());
    }
}
