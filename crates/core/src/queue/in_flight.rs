//! What happens while pods are being tried or wait on Permit: asked for when such a pod comes back rejected, so that no
//! wake-up is lost.
//!
//! A pod may wait on Permit for a quarter of an hour, and thousands may at once. So what is kept does not grow with
//! what happens: of an event that wakes every pod that its listener rejected only the number is kept, and of events
//! whose objects a hint must see the newest [`MOST`] per listener. An older one counts as if its hint had said yes:
//! better one attempt too many than a pod forgotten.

use std::collections::VecDeque;

use harbormaster_api::Str;
use harbormaster_framework::events::{ClusterEvent, OwnedChange};
use rustc_hash::FxHashMap;

use super::wakers::Listener;

/// How many events are kept for the hints of one plugin.
const MOST: usize = 4096;

/// An event with its number.
type Numbered = (u64, ClusterEvent, OwnedChange);

/// How many events are kept; zero for those that once were.
type Kept = FxHashMap<ClusterEvent, usize>;

fn forget(kept: &mut Kept, event: ClusterEvent) {
    if let Some(kept) = kept.get_mut(&event) {
        *kept -= 1;
    }
}

/// What one listener has heard since the oldest pod in flight was handed out.
#[derive(Debug, Default)]
struct Heard {
    /// The number behind the last event that wakes every pod; 0 if there was none.
    certain: u64,
    /// Events behind `certain` that a hint decides on, oldest first.
    hinted: VecDeque<Numbered>,
}

impl Heard {
    fn hear(&mut self, certain: bool, event: Numbered, most: usize, kept: &mut Kept) {
        if certain {
            self.certain = event.0 + 1;
            self.hinted.drain(..).for_each(|(_, event, _)| forget(kept, event));
            return;
        }
        *kept.entry(event.1).or_default() += 1;
        self.hinted.push_back(event);
        if self.hinted.len() > most
            && let Some((number, event, _)) = self.hinted.pop_front()
        {
            self.certain = number + 1;
            forget(kept, event);
        }
    }

    fn forget_before(&mut self, number: u64, kept: &mut Kept) {
        while self.hinted.front().is_some_and(|(at, ..)| *at < number)
            && let Some((_, event, _)) = self.hinted.pop_front()
        {
            forget(kept, event);
        }
    }
}

/// Pods that were handed out, and what their plugins have heard since.
#[derive(Debug)]
pub(super) struct InFlight {
    /// The number of the first event that each pod may have missed.
    pods: FxHashMap<Str, u64>,
    /// How many pods there are per such number, the lowest first.
    starts: VecDeque<(u64, usize)>,
    heard: FxHashMap<Listener, Heard>,
    /// How many events are kept in `heard`.
    kept: Kept,
    /// The number behind the last event that wakes all rejected pods, whoever rejected them; 0 if there was none.
    wild: u64,
    next: u64,
    most: usize,
}

impl Default for InFlight {
    fn default() -> Self {
        Self::keeping(MOST)
    }
}

impl InFlight {
    /// Keeps that many events for the hints of one plugin.
    fn keeping(most: usize) -> Self {
        let (pods, starts, heard) = (FxHashMap::default(), VecDeque::new(), FxHashMap::default());
        Self { pods, starts, heard, kept: Kept::default(), wild: 0, next: 0, most }
    }

    pub(super) fn begin(&mut self, uid: Str) {
        self.end(&uid);
        self.pods.insert(uid, self.next);
        match self.starts.back_mut() {
            Some((start, pods)) if *start == self.next => *pods += 1,
            _ => self.starts.push_back((self.next, 1)),
        }
    }

    /// How many pods there are.
    pub(super) fn len(&self) -> usize {
        self.pods.len()
    }

    /// How many events are kept, once for each listener; also those of which none is any more.
    pub(super) fn events(&self) -> impl Iterator<Item = (ClusterEvent, usize)> + '_ {
        self.kept.iter().map(|(event, kept)| (*event, *kept))
    }

    pub(super) fn holds(&self, uid: &Str) -> bool {
        self.pods.contains_key(uid)
    }

    /// Something happened; `listeners` hear it, and it is certain to wake what they rejected or their hints decide.
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
            let heard = self.heard.entry(listener).or_default();
            heard.hear(certain, (number, event, change.clone()), self.most, &mut self.kept);
            self.next = number + 1;
        }
        if event.is_wild_card() {
            self.wild = self.next;
        }
    }

    /// Whether something has happened since the pod was handed out that wakes every rejected pod.
    pub(super) fn missed_wild_card(&self, uid: &Str) -> bool {
        self.pods.get(uid).is_some_and(|start| *start < self.wild)
    }

    /// Whether `listener` has heard something since the pod was handed out that wakes it, by what its hint says.
    pub(super) fn missed(
        &self,
        uid: &Str,
        listener: Listener,
        hint: impl Fn(ClusterEvent, &OwnedChange) -> bool,
    ) -> bool {
        let (Some(start), Some(heard)) = (self.pods.get(uid), self.heard.get(&listener)) else {
            return false;
        };
        let first = heard.hinted.partition_point(|(at, ..)| at < start);
        *start < heard.certain || heard.hinted.range(first..).any(|(_, event, change)| hint(*event, change))
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
                let kept = &mut self.kept;
                self.heard.values_mut().for_each(|heard| heard.forget_before(oldest, kept));
            }
            Some(_) => {}
        }
    }

    /// Nobody is in flight: nothing needs to be known.
    fn forget(&mut self) {
        self.heard.clear();
        self.kept.values_mut().for_each(|kept| *kept = 0);
        (self.wild, self.next) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use harbormaster_framework::events::{Action, EventResource};
    use proptest::prelude::*;

    use super::*;

    const KEPT: usize = 6;
    const LISTENERS: u8 = 3;

    /// Events in full since each pod was handed out: (listener, certain, number) per event.
    type Naive = BTreeMap<u8, Vec<(u8, bool, u32)>>;

    fn listener(which: u8) -> Listener {
        Listener { profile: 0, plugin: ["a", "b", "c"][which as usize] }
    }

    /// What the hints of the pods say of the event of that number.
    fn hint(pod: u8, number: u32) -> bool {
        number.is_multiple_of(u32::from(pod) + 7)
    }

    fn uid(pod: u8) -> Str {
        format!("p{pod}").into()
    }

    fn check(in_flight: &InFlight, naive: &Naive) -> Result<(), TestCaseError> {
        for (pod, log) in naive {
            for which in 0..LISTENERS {
                let heard: Vec<_> = log.iter().filter(|(by, ..)| *by == which).collect();
                let expected = heard.iter().any(|(_, certain, number)| *certain || hint(*pod, *number));
                let missed =
                    in_flight.missed(&uid(*pod), listener(which), |event, _| hint(*pod, event.action.0));
                prop_assert!(missed || !expected, "a wake-up of p{pod} by {which} is lost");
                prop_assert!(expected || !missed || heard.len() > KEPT, "p{pod} wakes for nothing");
            }
        }
        prop_assert!(in_flight.heard.values().all(|heard| heard.hinted.len() <= KEPT));
        let kept: usize = in_flight.heard.values().map(|heard| heard.hinted.len()).sum();
        prop_assert_eq!(in_flight.events().map(|(_, kept)| kept).sum::<usize>(), kept);
        prop_assert_eq!(in_flight.starts.iter().map(|(_, pods)| pods).sum::<usize>(), naive.len());
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn no_wake_up_is_lost_and_none_is_made_up_while_all_events_are_kept(
            steps in prop::collection::vec((0u8..6, 0u8..5, 0u8..LISTENERS, prop::bool::weighted(0.1)), 1..120)
        ) {
            let (mut in_flight, mut naive) = (InFlight::keeping(KEPT), Naive::new());
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
    fn nothing_is_kept_when_nobody_is_out() {
        let mut in_flight = InFlight::default();
        let event = ClusterEvent::new(EventResource::Node, Action::ADD);
        in_flight.record(event, &OwnedChange::Other, [(listener(0), false)]);
        assert!(in_flight.heard.is_empty());
        in_flight.begin(uid(1));
        in_flight.record(event, &OwnedChange::Other, [(listener(0), false)]);
        in_flight.end(&uid(1));
        assert!(in_flight.heard.is_empty());
    }
}
