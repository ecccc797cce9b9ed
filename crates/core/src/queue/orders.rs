//! Orders in which pods leave the queue's heaps.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use harbormaster_framework::{
    guard::PointError,
    objects::Objects,
    plugin::{Rank, Turn, TurnCycle},
    profile::Profile,
};

use super::Entity;
use crate::heap::Order;

/// Order of the QueueSort plugin; ties are broken by order of arrival.
#[derive(Debug)]
pub(super) struct BySort {
    /// All profiles have the same QueueSort plugin.
    profile: Arc<Profile>,
    panicked: Mutex<Option<PointError>>,
}

impl BySort {
    pub(super) fn new(profile: Arc<Profile>) -> Self {
        Self { profile, panicked: Mutex::new(None) }
    }

    /// Nobody panics while the lock is held.
    fn panicked(&self) -> MutexGuard<'_, Option<PointError>> {
        self.panicked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if the plugin has panicked since its panic was last taken.
    pub(super) fn has_panic(&self) -> bool {
        self.panicked().is_some()
    }

    /// Takes the plugin's latest panic, if there was one since the last call. Pods that the plugin cannot compare
    /// without a panic are ordered by arrival.
    pub(super) fn take_panic(&self) -> Option<PointError> {
        self.panicked().take()
    }

    /// Sets the element's rank. An element that the plugin cannot rank without a panic gets the default.
    pub(super) fn rank(&self, entity: &mut Entity, objects: &Objects) {
        let Some(queued) = entity.queued() else { return };
        let rank = self.profile.rank(queued, objects).unwrap_or_else(|panic| {
            self.panicked().replace(panic);
            Rank::default()
        });
        entity.rank = rank;
    }

    /// Returns true if namespaces take turns.
    pub(super) fn takes_turns(&self) -> bool {
        self.profile.takes_turns()
    }

    /// Returns when a namespace has its turn.
    pub(super) fn turn(&self, namespace: &str, cx: TurnCycle<'_>) -> Result<Turn, PointError> {
        self.profile.turn(namespace, cx)
    }

    fn less(&self, a: &Entity, b: &Entity) -> bool {
        let (Some(x), Some(y)) = (a.queued(), b.queued()) else { return false };
        self.profile.less(x, y).unwrap_or_else(|panic| {
            self.panicked().replace(panic);
            false
        })
    }
}

impl Order<Entity> for BySort {
    fn before(&self, a: &Entity, b: &Entity) -> bool {
        self.less(a, b) || (!self.less(b, a) && a.sequence < b.sequence)
    }
}

/// Order by the end of the backoff, then by `O`.
#[derive(Debug)]
pub(super) struct ByExpiry<O>(pub(super) O);

impl<O: Order<Entity>> Order<Entity> for ByExpiry<O> {
    fn before(&self, a: &Entity, b: &Entity) -> bool {
        match a.backoff_until.cmp(&b.backoff_until) {
            std::cmp::Ordering::Equal => self.0.before(a, b),
            unequal => unequal.is_lt(),
        }
    }
}

/// Order of arrival.
#[derive(Debug)]
pub(super) struct ByArrival;

impl Order<Entity> for ByArrival {
    fn before(&self, a: &Entity, b: &Entity) -> bool {
        a.sequence < b.sequence
    }
}
