//! Pods that have a node and are not bound yet: those that wait on Permit, and those whose binding is under way.
//!
//! ```text
//! assumed ──Permit: wait──> waiting ──all allow──> binding ──> bound (confirmed by the API server)
//!    └────────allow──────────────────────────────────┘ │
//!                              └──reject, timeout──> failed <──error┘   given back to the queue
//! ```
//!
//! Invariant: a pod that waits is in [`Bindings::waiting`] and has one deadline, the first of its plugins'; one whose
//! binding is under way has neither. Thousands may wait for a quarter of an hour: nothing looks at all of them but
//! [`Bindings::waiting`].

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use harbormaster_api::{Str, Timestamp};
use harbormaster_framework::{cycle::Reservation, meter::Stamp, profile::Profile};
use rustc_hash::FxHashMap;

use crate::queue::QueuedPod;

/// The node that a pod was decided for.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    /// What the pod goes through until it is bound, whatever profile of that name counts by then.
    pub(crate) profile: Arc<Profile>,
    /// The node, and what plugins have reserved there.
    pub(crate) reservation: Reservation,
    /// How many nodes were looked at.
    pub(crate) evaluated: usize,
    /// How many of them fit.
    pub(crate) feasible: usize,
}

impl Chosen {
    pub(crate) fn node(&self) -> &Str {
        self.reservation.node()
    }
}

/// A plugin that holds a pod back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) plugin: &'static str,
    /// For how long at most.
    pub(crate) at_most: Duration,
    /// When it gives up.
    pub(crate) until: Timestamp,
}

/// A pod that was decided for a node and is not yet bound.
#[derive(Debug)]
pub(crate) struct Binding {
    pub(crate) entry: QueuedPod,
    pub(crate) chosen: Chosen,
    /// Empty once the binding is under way.
    waits: Vec<Wait>,
    /// When they began, if anybody measures.
    pub(crate) held_since: Option<Stamp>,
    /// Order of arrival.
    begun: u64,
}

impl Binding {
    /// The plugin that gives up first.
    fn first_wait(&self) -> Option<Wait> {
        self.waits.iter().copied().min_by_key(|wait| wait.until)
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Bindings {
    by_uid: FxHashMap<Str, Binding>,
    /// UIDs of the pods that wait, in the order in which they began to.
    waiting: BTreeMap<u64, Str>,
    /// When the wait of each of them is over, with its place in that order.
    deadlines: BTreeSet<(Timestamp, u64)>,
    next: u64,
}

impl Bindings {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.by_uid.len()
    }

    pub(crate) fn contains(&self, uid: &str) -> bool {
        self.by_uid.contains_key(uid)
    }

    pub(crate) fn get(&self, uid: &str) -> Option<&Binding> {
        self.by_uid.get(uid)
    }

    /// The pods that wait on Permit, in the order in which they began to.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &Binding> {
        self.waiting.values().filter_map(|uid| self.by_uid.get(uid))
    }

    /// When the first wait is over.
    pub(crate) fn next_timeout(&self) -> Option<Timestamp> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// The pods whose wait is over, in the order in which they began to, with the plugin that gave up.
    pub(crate) fn late(&self, now: Timestamp) -> Vec<(Str, Wait)> {
        let over = self.deadlines.iter().take_while(|(at, _)| *at <= now);
        let mut late: Vec<u64> = over.map(|(_, begun)| *begun).collect();
        late.sort_unstable();
        let wait = |begun: u64| {
            let uid = self.waiting.get(&begun)?;
            Some((uid.clone(), self.by_uid.get(uid)?.first_wait()?))
        };
        late.into_iter().filter_map(wait).collect()
    }

    /// The pod has its node; `waits` hold it back, if there are any.
    pub(crate) fn enter(
        &mut self,
        entry: QueuedPod,
        chosen: Chosen,
        waits: Vec<Wait>,
        held_since: Option<Stamp>,
    ) {
        self.next += 1;
        let (uid, begun) = (entry.pod.uid.clone(), self.next);
        let binding = Binding { entry, chosen, waits, held_since, begun };
        self.note_wait(&uid, &binding);
        self.by_uid.insert(uid, binding);
    }

    /// The plugin no longer holds the pod back; whether that was the last one that did.
    pub(crate) fn allow(&mut self, uid: &Str, plugin: &str) -> bool {
        if !self.waits(uid) {
            return false;
        }
        let Some(mut binding) = self.take(uid) else { return false };
        binding.waits.retain(|wait| wait.plugin != plugin);
        let allowed = binding.waits.is_empty();
        self.note_wait(uid, &binding);
        self.by_uid.insert(uid.clone(), binding);
        allowed
    }

    /// Takes a pod that waits.
    pub(crate) fn take_waiting(&mut self, uid: &str) -> Option<Binding> {
        self.waits(uid).then(|| self.take(uid)).flatten()
    }

    /// Takes a pod, whether it waits or not.
    pub(crate) fn take(&mut self, uid: &str) -> Option<Binding> {
        let binding = self.by_uid.remove(uid)?;
        if let Some(first) = binding.first_wait() {
            self.waiting.remove(&binding.begun);
            self.deadlines.remove(&(first.until, binding.begun));
        }
        Some(binding)
    }

    fn waits(&self, uid: &str) -> bool {
        self.by_uid.get(uid).is_some_and(|binding| !binding.waits.is_empty())
    }

    fn note_wait(&mut self, uid: &Str, binding: &Binding) {
        if let Some(first) = binding.first_wait() {
            self.waiting.insert(binding.begun, uid.clone());
            self.deadlines.insert((first.until, binding.begun));
        }
    }
}

#[cfg(test)]
mod tests {
    use harbormaster_api::Pod;
    use harbormaster_framework::{
        pod::PodInfo,
        profile::ProfileSpec,
        registry::{BuildCycle, Registry},
    };
    use proptest::prelude::*;

    use super::*;

    const PLUGINS: [&str; 3] = ["a", "b", "c"];

    /// Waits of each pod in the order of arrival; none: the binding is under way.
    type Naive = Vec<(Str, Vec<Wait>)>;

    fn entry(uid: &Str) -> QueuedPod {
        let pod = Pod { uid: uid.clone(), ..Pod::default() };
        QueuedPod::new(PodInfo::standalone(pod), 0, Timestamp::default(), 0)
    }

    fn chosen() -> Chosen {
        let reservation = Reservation::new(PodInfo::standalone(Pod::default()), "n".into());
        let profile =
            Profile::build(&ProfileSpec::default(), &Registry::default(), &BuildCycle::default()).unwrap();
        Chosen { profile: Arc::new(profile), reservation, evaluated: 1, feasible: 1 }
    }

    fn check(bindings: &Bindings, naive: &Naive, now: Timestamp) -> Result<(), TestCaseError> {
        let waiting = || naive.iter().filter(|(_, waits)| !waits.is_empty());
        let listed: Vec<&Str> = bindings.waiting().map(|b| b.entry.uid()).collect();
        prop_assert_eq!(listed, waiting().map(|(uid, _)| uid).collect::<Vec<_>>());
        let first = waiting().flat_map(|(_, waits)| waits).map(|wait| wait.until).min();
        prop_assert_eq!(bindings.next_timeout(), first);
        let late: Vec<(Str, Wait)> = waiting()
            .filter_map(|(uid, waits)| Some((uid.clone(), *waits.iter().min_by_key(|w| w.until)?)))
            .filter(|(_, wait)| wait.until <= now)
            .collect();
        prop_assert_eq!(bindings.late(now), late);
        prop_assert_eq!(bindings.len(), naive.len());
        prop_assert!(naive.iter().all(|(uid, _)| bindings.contains(uid)));
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn it_behaves_like_a_list_that_is_searched(
            steps in prop::collection::vec((0u8..5, 0u8..6, 0usize..3, 0i64..40), 1..100)
        ) {
            let (mut bindings, mut naive) = (Bindings::default(), Naive::new());
            for (at, (what, pod, plugin, time)) in steps.into_iter().enumerate() {
                let uid: Str = format!("p{pod}").into();
                let place = naive.iter().position(|(known, _)| *known == uid);
                match (what, place) {
                    (0 | 1, None) => {
                        let wait = |plugin: usize| {
                            let until = Timestamp(time * (plugin as i64 + 1) % 37);
                            Wait { plugin: PLUGINS[plugin], at_most: Duration::ZERO, until }
                        };
                        let waits: Vec<Wait> = (0..plugin).map(wait).collect();
                        bindings.enter(entry(&uid), chosen(), waits.clone(), None);
                        naive.push((uid, waits));
                    }
                    (0..=2, Some(place)) => {
                        let waits = &mut naive[place].1;
                        let waited = !waits.is_empty();
                        waits.retain(|wait| wait.plugin != PLUGINS[plugin]);
                        let allowed = waited && waits.is_empty();
                        prop_assert_eq!(bindings.allow(&uid, PLUGINS[plugin]), allowed);
                    }
                    (3, place) => {
                        let place = place.filter(|place| !naive[*place].1.is_empty());
                        prop_assert_eq!(bindings.take_waiting(&uid).is_some(), place.is_some());
                        place.map(|place| naive.remove(place));
                    }
                    (_, place) => {
                        prop_assert_eq!(bindings.take(&uid).is_some(), place.is_some());
                        place.map(|place| naive.remove(place));
                    }
                }
                check(&bindings, &naive, Timestamp(at as i64 % 40))?;
            }
        }
    }
}
