//! Applies a new configuration to an engine that has pods.
//!
//! Between two attempts, every pod to be scheduled is in the queue, waits for extenders or on Permit, or is being bound. A new
//! configuration affects these pods as follows:
//! - Bindings finish under the profile that started them, because each binding holds its profile.
//! - Pods stop waiting on Permit, because the plugins that would release them may be gone. They return to the queue
//!   as after a rejected binding, so the old profile's Unreserve plugins run.
//! - Pods about which extenders are being asked return to the queue, because the extenders may be gone.
//! - Pods in the queue are retried as soon as their backoff allows, because the plugins that rejected them may be gone
//!   or may decide differently now.
//! - Pods of removed profiles are dropped unless they are being bound. Pods that had no profile before are added.
//!
//! Indexes, pods that are already on nodes, and the positions where the next searches start are kept.

use std::sync::Arc;

use harbormaster_api::{Str, Timestamp};
use harbormaster_framework::{outcome::Reject, pod::PodInfo, profile::Profile, resource::ResourceKind};

use super::{Engine, EngineConfig, changes::ChangeTime};
use crate::failure::Failure;

/// Message for pods that waited on Permit.
const CHANGED: &str = "the configuration of the scheduler has changed";

impl Engine {
    /// Applies new profiles, delays, extenders and search limits. The meter and the notes stay unchanged.
    ///
    /// Custom objects of a kind that only the new profiles read were ignored before this call, so the host must supply
    /// all of them again afterwards; see [`Self::missing_resources`].
    pub fn reconfigure(&mut self, config: EngineConfig, now: Timestamp) {
        self.end_waits(now);
        self.end_inquiries(now);
        self.report_plugin_failures();
        let config = EngineConfig { meter: self.meter.clone(), ..config }.metered();
        self.cache.prepare_for(&config.profiles);
        let before = self.queue.profile_names();
        let (search, batches) = (config.search(), config.batches());
        self.waits_for_extenders = config.waits_for_extenders();
        self.finder.reconfigure(&config.profiles, search, batches, config.extenders.clone());
        let (extenders, at) = (config.extenders, self.cache.at(now));
        let gone = self.queue.reconfigure(config.profiles, config.backoff, config.max_wait, extenders, at);
        gone.iter().for_each(|pod| self.drop_pod(pod));
        self.add_new_pods(&before, now);
        self.report_plugin_failures();
    }

    /// Returns the kinds of custom objects that these profiles read but that are not stored yet.
    pub fn missing_resources(&self, profiles: &[Arc<Profile>]) -> Vec<ResourceKind> {
        self.cache.missing_resources(profiles)
    }

    fn end_waits(&mut self, now: Timestamp) {
        let waiting: Vec<Str> = self.bindings.waiting().map(|binding| binding.entry.uid().clone()).collect();
        for uid in waiting {
            self.end_wait(&uid, Failure::BindRejected(Reject::evictable(CHANGED)), now);
        }
    }

    /// Returns the pods to the queue about which extenders are being asked. Their answers will be ignored.
    fn end_inquiries(&mut self, now: Timestamp) {
        for entry in self.inquiries.take_all() {
            if let Ok(entry) = self.waiting(entry) {
                self.queue.take_back(entry, self.cache.at(now));
            }
        }
        self.queue.set_occupied(self.inquiries.occupied());
    }

    /// Drops a pod whose profile was removed.
    fn drop_pod(&mut self, pod: &PodInfo) {
        self.nominator.clear(&pod.uid);
        self.evictions.give_up(&pod.uid);
        self.queue.release_from_eviction(&pod.uid);
    }

    /// Adds the pods that had no profile before, ordered by name because their order of arrival is unknown.
    fn add_new_pods(&mut self, before: &[Str], now: Timestamp) {
        let is_new = |pod: &&Arc<PodInfo>| {
            let name = &pod.spec.scheduler_name;
            pod.node_name.is_none() && !before.contains(name) && self.queue.profile_of(name).is_some()
        };
        let is_free =
            |pod: &&Arc<PodInfo>| !self.bindings.contains(&pod.uid) && !self.cache.is_on_node(&pod.uid);
        let mut new: Vec<Arc<PodInfo>> = self.pods.all().filter(is_new).filter(is_free).cloned().collect();
        new.sort_by(|a, b| (&a.namespace, &a.name, &a.uid).cmp(&(&b.namespace, &b.name, &b.uid)));
        new.into_iter().for_each(|pod| self.new_pending_pod(pod, ChangeTime::unmeasured(now)));
    }
}
