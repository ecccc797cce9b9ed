//! Orders in which pods leave the queue's heaps.

use std::{cell::RefCell, sync::Arc};

use harbormaster_framework::{guard::PointError, plugin::Queued, profile::Profile};

use super::QueuedPod;
use crate::heap::Order;

/// Order of the QueueSort plugin; ties are broken by order of arrival.
#[derive(Debug)]
pub(super) struct BySort {
    /// All profiles have the same QueueSort plugin.
    profile: Arc<Profile>,
    panicked: RefCell<Option<PointError>>,
}

impl BySort {
    pub(super) fn new(profile: Arc<Profile>) -> Self {
        Self { profile, panicked: RefCell::new(None) }
    }

    /// Returns true if the plugin has panicked since its panic was last taken.
    pub(super) fn has_panic(&self) -> bool {
        self.panicked.borrow().is_some()
    }

    /// Takes the plugin's latest panic, if there was one since the last call. If the plugin panics while it compares
    /// two pods, they are in order of arrival.
    pub(super) fn take_panic(&self) -> Option<PointError> {
        self.panicked.take()
    }

    fn less(&self, a: &QueuedPod, b: &QueuedPod) -> bool {
        let (x, y) = (Queued { pod: &a.pod, since: a.since }, Queued { pod: &b.pod, since: b.since });
        self.profile.less(x, y).unwrap_or_else(|panic| {
            self.panicked.replace(Some(panic));
            false
        })
    }
}

impl Order<QueuedPod> for BySort {
    fn before(&self, a: &QueuedPod, b: &QueuedPod) -> bool {
        self.less(a, b) || (!self.less(b, a) && a.sequence < b.sequence)
    }
}

/// Order by the end of the backoff, then by `O`.
#[derive(Debug)]
pub(super) struct ByExpiry<O>(pub(super) O);

impl<O: Order<QueuedPod>> Order<QueuedPod> for ByExpiry<O> {
    fn before(&self, a: &QueuedPod, b: &QueuedPod) -> bool {
        match a.backoff_until.cmp(&b.backoff_until) {
            std::cmp::Ordering::Equal => self.0.before(a, b),
            unequal => unequal.is_lt(),
        }
    }
}

/// Order of arrival.
#[derive(Debug)]
pub(super) struct ByArrival;

impl Order<QueuedPod> for ByArrival {
    fn before(&self, a: &QueuedPod, b: &QueuedPod) -> bool {
        a.sequence < b.sequence
    }
}
