//! New profiles for a queue that has pods.

use std::{sync::Arc, time::Duration};

use harbormaster_framework::{extender::Extenders, pod::PodInfo, profile::Profile};

use super::{
    Backoff, Cause, Entity, Moment, Origin, Parts, Queue, QueueState, QueuedPod, Requeue, wakers::Wakers,
};

impl Queue {
    /// Replaces the profiles. All pods are retried when their backoff allows, because their reasons for waiting may no
    /// longer apply. Removes and returns the pods whose profile no longer exists.
    pub(crate) fn reconfigure(
        &mut self,
        profiles: Vec<Arc<Profile>>,
        backoff: Backoff,
        max_wait: Duration,
        extenders: Extenders,
        at: Moment<'_>,
    ) -> Vec<Arc<PodInfo>> {
        let mut gone = Vec::new();
        let entries = std::mem::replace(&mut self.parts, Parts::new(&profiles[0])).into_all();
        entries.iter().for_each(|(_, entity)| self.count_rejectors(entity, false));
        self.wakers = Wakers::new(&profiles);
        if !extenders.is_empty() {
            self.wakers.add_extenders(profiles.len());
        }
        self.wakers.set_meter(self.meter.clone());
        (self.profiles, self.backoff, self.max_wait) = (profiles, backoff, max_wait);
        self.extenders = extenders;
        for (state, entity) in entries {
            let (rest, without_profile) = self.with_profiles(entity, at);
            gone.extend(without_profile);
            let Some(mut entity) = rest else { continue };
            entity.profile = entity.pods()[0].profile;
            self.count_rejectors(&entity, true);
            let origin = Origin { from: state, cause: Cause::ConfigChanged };
            match state {
                QueueState::Active => self.enter_active(entity, origin, at),
                _ => self.insert(entity, Requeue::AfterBackoff, origin, at),
            }
        }
        gone.extend(self.update_incomplete());
        gone
    }

    /// Updates the profiles of incomplete members. Removes and returns those whose profile no longer exists.
    fn update_incomplete(&mut self) -> Vec<Arc<PodInfo>> {
        let mut gone = Vec::new();
        for mut entry in std::mem::take(&mut self.incomplete).into_all() {
            match self.profile_of(&entry.pod.spec.scheduler_name) {
                Some(profile) => {
                    entry.profile = profile;
                    self.incomplete.add(entry);
                }
                None => gone.push(entry.pod),
            }
        }
        gone
    }

    /// Updates the profiles of an element's pods. Returns the element without the pods whose profile no longer exists,
    /// and these pods.
    fn with_profiles(&mut self, mut entity: Entity, at: Moment<'_>) -> (Option<Entity>, Vec<Arc<PodInfo>>) {
        let mut gone = Vec::new();
        for entry in entity.pods_mut() {
            match self.profile_of(&entry.pod.spec.scheduler_name) {
                Some(profile) => entry.profile = profile,
                None => gone.push(entry.pod.clone()),
            }
        }
        gone.iter().for_each(|pod| self.delete(pod, at));
        let is_gone = |entry: &QueuedPod| gone.iter().any(|pod| pod.uid == *entry.uid());
        let rest = match entity {
            Entity::Pod(entry) => Some(Entity::Pod(entry)).filter(|_| gone.is_empty()),
            Entity::Group(mut group) => {
                group.members.retain(|member| !is_gone(member));
                Some(Entity::Group(group)).filter(|group| !group.pods().is_empty())
            }
        };
        (rest, gone)
    }
}
