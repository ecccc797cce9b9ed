//! Which plugin of which profile listens to which event.

use std::{cell::RefCell, sync::Arc};

use harbormaster_framework::{
    events::{ClusterEvent, ErasedRegistration, Hint},
    guard::{Guarded, PointError},
    profile::Profile,
};

use super::{OwnedChange, QueuedPod};

struct Waker {
    profile: usize,
    plugin: Guarded,
    registration: ErasedRegistration,
}

/// All registrations of all profiles.
pub(super) struct Wakers {
    wakers: Vec<Waker>,
    panicked: RefCell<Vec<PointError>>,
}

impl Wakers {
    pub(super) fn new(profiles: &[Arc<Profile>]) -> Self {
        let mut wakers = Vec::new();
        for (at, profile) in profiles.iter().enumerate() {
            for (plugin, registrations) in profile.registrations() {
                let plugin = profile.plugin(plugin);
                let waker = |registration| Waker { profile: at, plugin: plugin.clone(), registration };
                wakers.extend(registrations.into_iter().map(waker));
            }
        }
        Self { wakers, panicked: RefCell::default() }
    }

    /// The panics of hints since the last call.
    pub(super) fn take_panics(&self) -> Vec<PointError> {
        self.panicked.take()
    }

    /// The plugins that listen to the event, each once; `None` if nobody does.
    pub(super) fn listeners(&self, event: ClusterEvent) -> Option<Vec<&'static str>> {
        let hearing = self.wakers.iter().filter(|w| w.registration.event.hears(event));
        let mut plugins: Vec<&'static str> = hearing.map(|w| w.plugin.name()).collect();
        plugins.sort_unstable();
        plugins.dedup();
        (!plugins.is_empty()).then_some(plugins)
    }

    /// Whether that plugin of that profile listens to the event.
    pub(super) fn plugin_hears(&self, profile: usize, plugin: &str, event: ClusterEvent) -> bool {
        let of = self.wakers.iter().filter(|w| w.profile == profile && w.plugin.name() == plugin);
        of.into_iter().any(|w| w.registration.event.hears(event))
    }

    /// The rejectors of the pod that want it tried again because of the event.
    pub(super) fn asking<'a>(
        &'a self,
        entry: &'a QueuedPod,
        event: ClusterEvent,
        change: &'a OwnedChange,
    ) -> impl Iterator<Item = &'static str> + 'a {
        let concerned = move |w: &&Waker| {
            w.profile == entry.profile
                && w.registration.event.hears(event)
                && entry.all_rejectors().any(|rejector| rejector == w.plugin.name())
        };
        let wants = move |w: &&Waker| match &w.registration.hint {
            None => true,
            // An error counts as "queue": better one attempt too many than a pod forgotten.
            Some(hint) => match w.plugin.hint(hint, &entry.pod, &change.view()) {
                Ok(hint) => hint == Hint::Queue,
                Err(error) => {
                    self.panicked.borrow_mut().extend(error.is_panic().then_some(error));
                    true
                }
            },
        };
        self.wakers.iter().filter(concerned).filter(wants).map(|w| w.plugin.name())
    }
}

impl std::fmt::Debug for Wakers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.wakers.iter().map(|w| (w.plugin.name(), w.registration.event.to_string())))
            .finish()
    }
}
