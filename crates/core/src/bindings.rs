//! Pods that have a node but are not bound yet: pods that wait on Permit, and pods in the binding cycle.
//!
//! ```text
//! assumed ──Permit: wait──> waiting ──all allow──> binding ──> bound (confirmed by the API server)
//!    └────────allow──────────────────────────────────┘ │
//!                              └──reject, timeout──> failed <──error┘   returned to the queue
//! ```
//!
//! Invariant: a waiting pod is listed in [`Bindings::waiting`] and has one deadline, the earliest of its plugins'
//! deadlines; a pod in the binding cycle is not listed there and has no deadline. Thousands of pods may wait for a
//! quarter of an hour; [`Bindings::waiting`] is the only method that visits all of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use harbormaster_api::{Str, Timestamp};
use harbormaster_framework::{cycle::Reservation, meter::Stamp, profile::Profile};
use rustc_hash::FxHashMap;

use crate::queue::QueuedPod;

/// The node chosen for a pod.
#[derive(Clone, Debug)]
pub(crate) struct ChosenNode {
    /// Profile that the pod keeps until it is bound, even if a newer profile of the same name has been applied since.
    pub(crate) profile: Arc<Profile>,
    /// The node and the plugins' reservations.
    pub(crate) reservation: Reservation,
    /// Number of nodes that were evaluated.
    pub(crate) evaluated: usize,
    /// Number of evaluated nodes that fit.
    pub(crate) feasible: usize,
}

impl ChosenNode {
    pub(crate) fn node(&self) -> &Str {
        self.reservation.node()
    }
}

/// A wait that one plugin imposes on a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) plugin: &'static str,
    /// Maximum duration.
    pub(crate) at_most: Duration,
    /// Deadline.
    pub(crate) until: Timestamp,
}

/// A pod that has a node but is not bound yet.
#[derive(Debug)]
pub(crate) struct Binding {
    pub(crate) entry: QueuedPod,
    pub(crate) chosen: ChosenNode,
    /// The waits that have not ended; empty once the pod is in the binding cycle.
    waits: Vec<Wait>,
    /// Start of the wait, if it is measured.
    pub(crate) held_since: Option<Stamp>,
    /// Position in the order of arrival.
    sequence: u64,
}

impl Binding {
    /// The waits that have not ended.
    pub(crate) fn waits(&self) -> &[Wait] {
        &self.waits
    }

    /// Returns the wait that times out first.
    pub(crate) fn first_wait(&self) -> Option<Wait> {
        self.waits.iter().copied().min_by_key(|wait| wait.until)
    }
}

/// All pods with a node that are not bound yet.
#[derive(Debug, Default)]
pub(crate) struct Bindings {
    by_uid: FxHashMap<Str, Binding>,
    /// UIDs of the waiting pods, in the order in which they began to wait.
    waiting: BTreeMap<u64, Str>,
    /// The deadline of each waiting pod, with the pod's key in `waiting`.
    deadlines: BTreeSet<(Timestamp, u64)>,
    next: u64,
}

impl Bindings {
    /// Number of pods that have a node but are not bound yet.
    pub(crate) fn len(&self) -> usize {
        self.by_uid.len()
    }

    /// Number of pods in the binding cycle.
    pub(crate) fn requested(&self) -> usize {
        self.by_uid.len() - self.waiting.len()
    }

    pub(crate) fn contains(&self, uid: &str) -> bool {
        self.by_uid.contains_key(uid)
    }

    pub(crate) fn get(&self, uid: &str) -> Option<&Binding> {
        self.by_uid.get(uid)
    }

    /// The pods that wait on Permit, in the order in which they began to wait.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &Binding> {
        self.waiting.values().filter_map(|uid| self.by_uid.get(uid))
    }

    /// Earliest deadline of all waiting pods.
    pub(crate) fn next_timeout(&self) -> Option<Timestamp> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Returns the pods whose wait has timed out, in the order in which they began to wait, each with the wait that
    /// timed out.
    pub(crate) fn timed_out(&self, now: Timestamp) -> Vec<(Str, Wait)> {
        let over = self.deadlines.iter().take_while(|(at, _)| *at <= now);
        let mut timed_out: Vec<u64> = over.map(|(_, sequence)| *sequence).collect();
        timed_out.sort_unstable();
        let wait = |sequence: u64| {
            let uid = self.waiting.get(&sequence)?;
            Some((uid.clone(), self.by_uid.get(uid)?.first_wait()?))
        };
        timed_out.into_iter().filter_map(wait).collect()
    }

    /// Adds a pod with its node. The pod waits if `waits` is not empty.
    pub(crate) fn enter(
        &mut self,
        entry: QueuedPod,
        chosen: ChosenNode,
        waits: Vec<Wait>,
        held_since: Option<Stamp>,
    ) {
        self.next += 1;
        let (uid, sequence) = (entry.pod.uid.clone(), self.next);
        let binding = Binding { entry, chosen, waits, held_since, sequence };
        self.register_wait(&uid, &binding);
        self.by_uid.insert(uid, binding);
    }

    /// Ends a pod's wait for one plugin. Returns true if that was the pod's last wait.
    pub(crate) fn allow(&mut self, uid: &Str, plugin: &str) -> bool {
        if !self.waits(uid) {
            return false;
        }
        let Some(mut binding) = self.take(uid) else { return false };
        binding.waits.retain(|wait| wait.plugin != plugin);
        let allowed = binding.waits.is_empty();
        self.register_wait(uid, &binding);
        self.by_uid.insert(uid.clone(), binding);
        allowed
    }

    /// Takes a waiting pod.
    pub(crate) fn take_waiting(&mut self, uid: &str) -> Option<Binding> {
        self.waits(uid).then(|| self.take(uid)).flatten()
    }

    /// Takes a pod in any state.
    pub(crate) fn take(&mut self, uid: &str) -> Option<Binding> {
        let binding = self.by_uid.remove(uid)?;
        if let Some(first) = binding.first_wait() {
            self.waiting.remove(&binding.sequence);
            self.deadlines.remove(&(first.until, binding.sequence));
        }
        Some(binding)
    }

    fn waits(&self, uid: &str) -> bool {
        self.by_uid.get(uid).is_some_and(|binding| !binding.waits.is_empty())
    }

    fn register_wait(&mut self, uid: &Str, binding: &Binding) {
        if let Some(first) = binding.first_wait() {
            self.waiting.insert(binding.sequence, uid.clone());
            self.deadlines.insert((first.until, binding.sequence));
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

    /// The waits of each pod, in order of arrival; empty for a pod in the binding cycle.
    type Naive = Vec<(Str, Vec<Wait>)>;

    fn entry(uid: &Str) -> QueuedPod {
        let pod = Pod { uid: uid.clone(), ..Pod::default() };
        QueuedPod::new(PodInfo::standalone(pod), 0, Timestamp::default(), 0)
    }

    fn chosen() -> ChosenNode {
        let reservation = Reservation::new(PodInfo::standalone(Pod::default()), "n".into());
        let profile =
            Profile::build(&ProfileSpec::default(), &Registry::default(), &BuildCycle::default()).unwrap();
        ChosenNode { profile: Arc::new(profile), reservation, evaluated: 1, feasible: 1 }
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
        prop_assert_eq!(bindings.timed_out(now), late);
        prop_assert_eq!(bindings.len(), naive.len());
        prop_assert_eq!(bindings.requested(), naive.len() - waiting().count());
        prop_assert!(naive.iter().all(|(uid, _)| bindings.contains(uid)));
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn bindings_behave_like_a_plain_list(
            steps in prop::collection::vec((0u8..5, 0u8..6, 0usize..3, 0i64..40), 1..100)
        ) {
            let (mut bindings, mut naive) = (Bindings::default(), Naive::new());
            for (at, (what, pod, plugin, time)) in steps.into_iter().enumerate() {
                let uid: Str = format!("p{pod}").into();
                let position = naive.iter().position(|(known, _)| *known == uid);
                match (what, position) {
                    (0 | 1, None) => {
                        let wait = |plugin: usize| {
                            let until = Timestamp(time * (plugin as i64 + 1) % 37);
                            Wait { plugin: PLUGINS[plugin], at_most: Duration::ZERO, until }
                        };
                        let waits: Vec<Wait> = (0..plugin).map(wait).collect();
                        bindings.enter(entry(&uid), chosen(), waits.clone(), None);
                        naive.push((uid, waits));
                    }
                    (0..=2, Some(position)) => {
                        let waits = &mut naive[position].1;
                        let waited = !waits.is_empty();
                        waits.retain(|wait| wait.plugin != PLUGINS[plugin]);
                        let allowed = waited && waits.is_empty();
                        prop_assert_eq!(bindings.allow(&uid, PLUGINS[plugin]), allowed);
                    }
                    (3, position) => {
                        let position = position.filter(|position| !naive[*position].1.is_empty());
                        prop_assert_eq!(bindings.take_waiting(&uid).is_some(), position.is_some());
                        position.map(|position| naive.remove(position));
                    }
                    (_, position) => {
                        prop_assert_eq!(bindings.take(&uid).is_some(), position.is_some());
                        position.map(|position| naive.remove(position));
                    }
                }
                check(&bindings, &naive, Timestamp(at as i64 % 40))?;
            }
        }
    }
}
