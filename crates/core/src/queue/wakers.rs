//! Event registrations of the plugins of all profiles.

use std::{cell::RefCell, sync::Arc};

use harbormaster_framework::{
    events::{Action, ClusterEvent, ErasedHint, ErasedRegistration, Hint, HintCycle},
    extender::EXTENDER,
    guard::{GuardedPlugin, PointError},
    objects::Objects,
    pod::PodInfo,
    profile::{EVERYTHING, Profile},
};

use super::{Entity, OwnedChange};
use crate::meter::{HintResult, Meter};

/// A plugin with event registrations, in one profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Listener {
    pub(super) profile: usize,
    pub(super) plugin: &'static str,
}

struct Waker {
    listener: Listener,
    event: ClusterEvent,
    /// `None`: the event always wakes the pod.
    hint: Option<(GuardedPlugin, ErasedHint)>,
}

/// All registrations of all profiles.
pub(super) struct Wakers {
    wakers: Vec<Waker>,
    panicked: RefCell<Vec<PointError>>,
    meter: Option<Arc<dyn Meter>>,
}

impl Wakers {
    pub(super) fn new(profiles: &[Arc<Profile>]) -> Self {
        let mut wakers = Vec::new();
        for (at, profile) in profiles.iter().enumerate() {
            for (plugin, registrations) in profile.registrations() {
                let plugin = profile.plugin(plugin);
                let listener = Listener { profile: at, plugin: plugin.name() };
                let waker = |registration: ErasedRegistration| Waker {
                    listener,
                    event: registration.event,
                    hint: registration.hint.map(|hint| (plugin.clone(), hint)),
                };
                wakers.extend(registrations.into_iter().map(waker));
            }
        }
        Self { wakers, panicked: RefCell::default(), meter: None }
    }

    /// Registers extenders. They cannot name the events that they wait for, so every event of the resources in
    /// [`EVERYTHING`] wakes the pods that the extenders rejected.
    pub(super) fn add_extenders(&mut self, profiles: usize) {
        for profile in 0..profiles {
            let listener = Listener { profile, plugin: EXTENDER };
            let waker =
                |resource| Waker { listener, event: ClusterEvent::new(resource, Action::ALL), hint: None };
            self.wakers.extend(EVERYTHING.map(waker));
        }
    }

    /// Sets the meter for hints; `None` for no meter.
    pub(super) fn set_meter(&mut self, meter: Option<Arc<dyn Meter>>) {
        self.meter = meter;
    }

    /// Returns true if a hint has panicked since the panics were last taken.
    pub(super) fn has_panics(&self) -> bool {
        !self.panicked.borrow().is_empty()
    }

    /// Takes the panics of hints since the last call.
    pub(super) fn take_panics(&self) -> Vec<PointError> {
        self.panicked.take()
    }

    fn wakers_for(&self, event: ClusterEvent) -> impl Iterator<Item = &Waker> {
        self.wakers.iter().filter(move |w| w.event.matches(event))
    }

    /// Returns the listeners of the event, each with a flag: true if the event wakes every pod that the plugin
    /// rejected, and false if a hint decides.
    pub(super) fn listeners(&self, event: ClusterEvent) -> impl Iterator<Item = (Listener, bool)> {
        self.wakers_for(event).map(|w| (w.listener, w.hint.is_none()))
    }

    /// Returns true if the plugin listens to the event in any profile.
    pub(super) fn has_listener(&self, plugin: &str, event: ClusterEvent) -> bool {
        self.wakers_for(event).any(|w| w.listener.plugin == plugin)
    }

    /// Returns true if the listener is registered for any event.
    pub(super) fn has_any(&self, listener: Listener) -> bool {
        self.wakers.iter().any(|w| w.listener == listener)
    }

    /// Returns true if the listener is registered for the event.
    pub(super) fn listens(&self, listener: Listener, event: ClusterEvent) -> bool {
        self.wakers_for(event).any(|w| w.listener == listener)
    }

    /// Returns true if the listener's registrations let the event wake the pod or group.
    pub(super) fn wakes(
        &self,
        listener: Listener,
        entry: &Entity,
        objects: &Objects,
        event: ClusterEvent,
        change: &OwnedChange,
    ) -> bool {
        let wakes = |w: &Waker| self.should_wake(w, entry, objects, event, change);
        self.wakers_for(event).any(|w| w.listener == listener && wakes(w))
    }

    /// Returns the rejectors whose registrations let the event wake the pod or group.
    pub(super) fn waking_rejectors<'a>(
        &'a self,
        entry: &'a Entity,
        objects: &'a Objects,
        event: ClusterEvent,
        change: &'a OwnedChange,
    ) -> impl Iterator<Item = &'static str> + 'a {
        let concerned = |w: &&Waker| {
            w.listener.profile == entry.profile && entry.all_rejectors().any(|r| r == w.listener.plugin)
        };
        let concerned = self.wakers_for(event).filter(concerned);
        concerned
            .filter(move |w| self.should_wake(w, entry, objects, event, change))
            .map(|w| w.listener.plugin)
    }

    /// Returns true if the event may help the pod, or some member of the group. Members with equal specs and labels get
    /// equal hints, so a template's members are asked once. An event that helps a member that found a node may help the
    /// group, too: the member leaves its node to another one.
    fn should_wake(
        &self,
        waker: &Waker,
        entry: &Entity,
        objects: &Objects,
        event: ClusterEvent,
        change: &OwnedChange,
    ) -> bool {
        if waker.hint.is_none() {
            return true;
        }
        let mut asked: Option<&PodInfo> = None;
        entry.pods().iter().any(|member| {
            let pod = &*member.pod;
            let is_alike = asked.is_some_and(|other| are_alike(other, pod));
            asked = Some(pod);
            !is_alike && self.helps(waker, pod, objects, event, change)
        })
    }

    /// Calls the hint for one pod.
    fn helps(
        &self,
        waker: &Waker,
        pod: &PodInfo,
        objects: &Objects,
        event: ClusterEvent,
        change: &OwnedChange,
    ) -> bool {
        let Some((plugin, hint)) = &waker.hint else { return true };
        let begun = self.meter.as_ref().and_then(|meter| meter.hint_begins());
        let cx = HintCycle { pod, objects };
        let answer = plugin.hint(hint, cx, &change.view());
        if let (Some(meter), Some(begun)) = (&self.meter, begun) {
            meter.hinted(waker.listener.plugin, event, result(&answer), begun);
        }
        // An error is treated as `Queue`, because one attempt too many is better than a forgotten pod.
        match answer {
            Ok(hint) => hint == Hint::Queue,
            Err(error) => {
                self.panicked.borrow_mut().extend(error.is_panic().then_some(error));
                true
            }
        }
    }
}

/// Returns true if hints cannot distinguish the pods: they differ at most in their names. Pods with claims for volumes
/// or devices differ, because the objects that are made for them do.
fn are_alike(a: &PodInfo, b: &PodInfo) -> bool {
    Arc::ptr_eq(&a.derived, &b.derived)
        && a.labels == b.labels
        && a.derived.resource_claims.is_empty()
        && a.derived.volumes.is_empty()
}

fn result(answer: &Result<Hint, PointError>) -> HintResult {
    match answer {
        Ok(Hint::Queue) => HintResult::Queue,
        Ok(_) => HintResult::QueueSkip,
        Err(_) => HintResult::Error,
    }
}

impl std::fmt::Debug for Wakers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.wakers.iter().map(|w| (w.listener.plugin, w.event.to_string()))).finish()
    }
}
