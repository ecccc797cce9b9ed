//! Another configuration takes over while pods are on their way.
//!
//! Between two attempts every pod is in the queue, waits on Permit or is being bound:
//! - bindings under way finish under the profile that began them, which they hold;
//! - waits on Permit end: plugins that would have ended them may be gone. Such pods return to the queue by the way of all
//!   pods that plugins turn away, so Unreserve of the old profile has its say;
//! - pods in the queue go where the new configuration puts them. What rejected them may count no more, so none is left
//!   to wait for an event of which nobody may be told any more;
//! - pods of profiles that are gone are nobody's here, but for those whose binding is under way; pods that have waited for a
//!   profile of their name come in.
//!
//! What counts on nodes, indexes, and the place where the walk over nodes goes on stay as they are.

use std::sync::Arc;

use harbormaster_api::{Str, Timestamp};
use harbormaster_framework::{outcome::Reject, pod::PodInfo, profile::Profile, resource::ResourceKind};

use super::{Engine, EngineConfig};
use crate::failure::Failure;

/// What pods hear that waited on Permit.
const CHANGED: &str = "the configuration of the scheduler has changed";

impl Engine {
    /// From now on pods go through these profiles, with these delays and this share of nodes, and these extenders are
    /// asked. Who measures and what is noted stays as it was.
    ///
    /// Custom objects of kinds that were not kept so far are kept from now on, so whoever feeds the engine has to feed all of
    /// them again; see [`Self::lacks`].
    pub fn take_over(&mut self, config: EngineConfig, now: Timestamp) {
        self.handling = None;
        self.end_waits(now);
        self.report_troubles();
        let config = EngineConfig { meter: self.meter.clone(), ..config }.metered();
        self.cache.keep_for(&config.profiles);
        let before = self.queue.profile_names();
        let (search, batches) = (config.search(), config.batches());
        let extended = !config.extenders.is_empty();
        self.finder.take_over(&config.profiles, search, batches, config.extenders);
        let at = self.cache.at(now);
        let gone = self.queue.take_over(config.profiles, config.backoff, config.max_wait, extended, at);
        gone.iter().for_each(|pod| self.let_go(pod));
        self.let_in(&before, now);
    }

    /// The kinds of custom objects that those profiles read and that are not kept.
    pub fn lacks(&self, profiles: &[Arc<Profile>]) -> Vec<ResourceKind> {
        self.cache.lacks(profiles)
    }

    fn end_waits(&mut self, now: Timestamp) {
        let waiting: Vec<Str> = self.bindings.waiting().map(|binding| binding.entry.uid().clone()).collect();
        for uid in waiting {
            self.end_wait(&uid, Failure::Refused(Reject::evictable(CHANGED)), now);
        }
    }

    /// The profile of that pod is gone: nobody here looks for its node any more.
    fn let_go(&mut self, pod: &PodInfo) {
        self.nominator.clear(&pod.uid);
        self.evictions.give_up(&pod.uid);
        self.queue.release_from_eviction(&pod.uid);
    }

    /// Pods come in for which there was no profile; in the order of their names, as they have not come one after the other.
    fn let_in(&mut self, before: &[Str], now: Timestamp) {
        let is_new = |pod: &&Arc<PodInfo>| {
            let name = &pod.spec.scheduler_name;
            pod.node_name.is_none() && !before.contains(name) && self.queue.profile_of(name).is_some()
        };
        let is_free =
            |pod: &&Arc<PodInfo>| !self.bindings.contains(&pod.uid) && !self.cache.is_placed(&pod.uid);
        let mut new: Vec<Arc<PodInfo>> = self.pods.all().filter(is_new).filter(is_free).cloned().collect();
        new.sort_by(|a, b| (&a.namespace, &a.name, &a.uid).cmp(&(&b.namespace, &b.name, &b.uid)));
        new.into_iter().for_each(|pod| self.new_pending_pod(pod, now));
    }
}
