//! Which plugin of which profile listens to which event.

use std::sync::Arc;

use harbormaster_framework::{
    events::{ClusterEvent, Hint},
    plugin::ErasedRegistration,
    profile::Profile,
};

use super::{OwnedChange, QueuedPod};

struct Waker {
    profile: usize,
    plugin: &'static str,
    registration: ErasedRegistration,
}

/// All registrations of all profiles.
pub(super) struct Wakers(Vec<Waker>);

impl Wakers {
    pub(super) fn new(profiles: &[Arc<Profile>]) -> Self {
        let mut wakers = Vec::new();
        for (at, profile) in profiles.iter().enumerate() {
            for (plugin, registrations) in profile.registrations() {
                let plugin = profile.plugin(plugin).name();
                let waker = |registration| Waker { profile: at, plugin, registration };
                wakers.extend(registrations.into_iter().map(waker));
            }
        }
        Self(wakers)
    }

    /// The plugins that listen to the event, each once; `None` if nobody does.
    pub(super) fn listeners(&self, event: ClusterEvent) -> Option<Vec<&'static str>> {
        let mut plugins: Vec<&'static str> =
            self.0.iter().filter(|w| w.registration.event.hears(event)).map(|w| w.plugin).collect();
        plugins.sort_unstable();
        plugins.dedup();
        (!plugins.is_empty()).then_some(plugins)
    }

    /// Whether that plugin of that profile listens to the event.
    pub(super) fn plugin_hears(&self, profile: usize, plugin: &str, event: ClusterEvent) -> bool {
        self.0.iter().any(|w| w.profile == profile && w.plugin == plugin && w.registration.event.hears(event))
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
                && (entry.rejectors.contains(&w.plugin) || entry.pending.contains(&w.plugin))
        };
        let wants = move |w: &&Waker| match &w.registration.hint {
            None => true,
            // An error counts as "queue": better one attempt too many than a pod forgotten.
            Some(hint) => !matches!(hint(&entry.pod, &change.view()), Ok(Hint::Skip)),
        };
        self.0.iter().filter(concerned).filter(wants).map(|w| w.plugin)
    }
}

impl std::fmt::Debug for Wakers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|w| (w.plugin, w.registration.event.to_string()))).finish()
    }
}
