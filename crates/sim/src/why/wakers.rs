//! Events after which the scheduler tries a pod again.

use std::collections::BTreeSet;

use harbormaster_core::event_words::words;
use harbormaster_framework::profile::Profile;
use serde::Serialize;

use crate::{explanation::PodExplanation, report::Status};

/// A plugin that rejected the pod, and the events after which the pod may fit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Waker {
    /// Name of the plugin.
    pub plugin: String,
    /// The events, for example `a node appears or gets other labels`.
    pub events: Vec<String>,
}

/// Returns the events to which the rejecting plugins listen. `gate` is the verdict of the PreEnqueue plugin that keeps
/// the pod out of the queue.
pub(super) fn wakers(profile: &Profile, said: Option<&PodExplanation>, gate: Option<&Status>) -> Vec<Waker> {
    let rejected = said.into_iter().flat_map(|said| said.rejected.iter().map(|nodes| &nodes.status));
    let pre_filter = said.and_then(|said| said.pre_filter.as_ref());
    let rejecting: BTreeSet<&str> = match gate {
        Some(gate) => [gate.plugin.as_ref()].into(),
        None => rejected.chain(pre_filter).map(|status| status.plugin.as_ref()).collect(),
    };
    let registrations = profile.registrations();
    let of_rejecting = registrations.iter().filter_map(|(plugin, registrations)| {
        let name = profile.plugin(*plugin).name();
        let events = registrations.iter().map(|registration| words(registration.event)).collect();
        rejecting.contains(name).then(|| Waker { plugin: name.to_owned(), events })
    });
    of_rejecting.collect()
}
