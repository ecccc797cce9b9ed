//! Which plugin of which profile listens to which event.

use std::{cell::RefCell, sync::Arc};

use harbormaster_framework::{
    events::{Action, ClusterEvent, ErasedHint, ErasedRegistration, Hint},
    extender::EXTENDER,
    guard::{Guarded, PointError},
    profile::{EVERYTHING, Profile},
};

use super::{OwnedChange, QueuedPod};
use crate::meter::{HintResult, Meter};

/// A plugin of a profile that has registered for events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Listener {
    pub(super) profile: usize,
    pub(super) plugin: &'static str,
}

struct Waker {
    listener: Listener,
    event: ClusterEvent,
    /// `None`: the event always wakes.
    hint: Option<(Guarded, ErasedHint)>,
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

    /// Extenders cannot say what they wait for: any event wakes.
    pub(super) fn add_extenders(&mut self, profiles: usize) {
        for profile in 0..profiles {
            let listener = Listener { profile, plugin: EXTENDER };
            let waker =
                |resource| Waker { listener, event: ClusterEvent::new(resource, Action::ALL), hint: None };
            self.wakers.extend(EVERYTHING.map(waker));
        }
    }

    /// Hints are measured from now on.
    pub(super) fn measured_by(&mut self, meter: Option<Arc<dyn Meter>>) {
        self.meter = meter;
    }

    /// The panics of hints since the last call.
    pub(super) fn take_panics(&self) -> Vec<PointError> {
        self.panicked.take()
    }

    fn hearing(&self, event: ClusterEvent) -> impl Iterator<Item = &Waker> {
        self.wakers.iter().filter(move |w| w.event.hears(event))
    }

    /// Who listens to the event, and whether it wakes whatever that plugin rejected; else hints decide.
    pub(super) fn listeners(&self, event: ClusterEvent) -> impl Iterator<Item = (Listener, bool)> {
        self.hearing(event).map(|w| (w.listener, w.hint.is_none()))
    }

    /// Whether that plugin listens to the event in any profile.
    pub(super) fn is_heard_by(&self, plugin: &str, event: ClusterEvent) -> bool {
        self.hearing(event).any(|w| w.listener.plugin == plugin)
    }

    /// Whether that plugin of that profile listens to the event.
    pub(super) fn hears(&self, listener: Listener, event: ClusterEvent) -> bool {
        self.hearing(event).any(|w| w.listener == listener)
    }

    /// Whether that listener wants the pod tried again because of the event.
    pub(super) fn asks(
        &self,
        listener: Listener,
        entry: &QueuedPod,
        event: ClusterEvent,
        change: &OwnedChange,
    ) -> bool {
        self.hearing(event).any(|w| w.listener == listener && self.wants(w, entry, event, change))
    }

    /// The rejectors of the pod that want it tried again because of the event.
    pub(super) fn asking<'a>(
        &'a self,
        entry: &'a QueuedPod,
        event: ClusterEvent,
        change: &'a OwnedChange,
    ) -> impl Iterator<Item = &'static str> + 'a {
        let concerned = |w: &&Waker| {
            w.listener.profile == entry.profile && entry.all_rejectors().any(|r| r == w.listener.plugin)
        };
        let concerned = self.hearing(event).filter(concerned);
        concerned.filter(move |w| self.wants(w, entry, event, change)).map(|w| w.listener.plugin)
    }

    fn wants(&self, waker: &Waker, entry: &QueuedPod, event: ClusterEvent, change: &OwnedChange) -> bool {
        let Some((plugin, hint)) = &waker.hint else { return true };
        let begun = self.meter.as_ref().and_then(|meter| meter.hint_begins());
        let said = plugin.hint(hint, &entry.pod, &change.view());
        if let (Some(meter), Some(begun)) = (&self.meter, begun) {
            meter.hinted(waker.listener.plugin, event, result(&said), begun);
        }
        // An error counts as "queue": better one attempt too many than a pod forgotten.
        match said {
            Ok(hint) => hint == Hint::Queue,
            Err(error) => {
                self.panicked.borrow_mut().extend(error.is_panic().then_some(error));
                true
            }
        }
    }
}

fn result(said: &Result<Hint, PointError>) -> HintResult {
    match said {
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
