//! Events that happen while pods are being tried or wait on Permit: replayed when such a pod comes back rejected, so
//! that no wake-up is lost.

use std::{collections::VecDeque, sync::Arc};

use harbormaster_api::{Node, Pod, Str};
use harbormaster_framework::{
    events::{Change, ClusterEvent},
    resource::AnyCustom,
};
use rustc_hash::FxHashMap;

/// The objects of an event, kept for as long as someone may need them.
#[derive(Clone, Debug, Default)]
pub enum OwnedChange {
    /// A pod before and after.
    Pod(Option<Arc<Pod>>, Option<Arc<Pod>>),
    /// A node before and after.
    Node(Option<Arc<Node>>, Option<Arc<Node>>),
    /// A custom object before and after.
    Custom(Option<AnyCustom>, Option<AnyCustom>),
    /// Another kind, or nothing.
    #[default]
    Other,
}

impl OwnedChange {
    /// As hints see it.
    pub fn view(&self) -> Change<'_> {
        match self {
            Self::Pod(old, new) => Change::Pod { old: old.as_deref(), new: new.as_deref() },
            Self::Node(old, new) => Change::Node { old: old.as_deref(), new: new.as_deref() },
            Self::Custom(old, new) => Change::Custom { old: old.as_deref(), new: new.as_deref() },
            Self::Other => Change::Other,
        }
    }
}

/// Pods that were handed out, and the events since the oldest of them was.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    pods: FxHashMap<Str, u64>,
    events: VecDeque<(ClusterEvent, OwnedChange)>,
    first: u64,
}

impl InFlight {
    pub(super) fn begin(&mut self, uid: Str) {
        self.pods.insert(uid, self.first + self.events.len() as u64);
    }

    pub(super) fn holds(&self, uid: &Str) -> bool {
        self.pods.contains_key(uid)
    }

    pub(super) fn record(&mut self, event: ClusterEvent, change: &OwnedChange) {
        if !self.pods.is_empty() {
            self.events.push_back((event, change.clone()));
        }
    }

    /// The events since that pod was handed out.
    pub(super) fn since(&self, uid: &Str) -> Vec<(ClusterEvent, OwnedChange)> {
        let Some(start) = self.pods.get(uid) else { return Vec::new() };
        self.events.iter().skip((start - self.first) as usize).cloned().collect()
    }

    pub(super) fn end(&mut self, uid: &Str) {
        if self.pods.remove(uid).is_none() {
            return;
        }
        let oldest = self.pods.values().min().copied().unwrap_or(u64::MAX);
        while self.first < oldest && self.events.pop_front().is_some() {
            self.first += 1;
        }
        if self.events.is_empty() && self.pods.is_empty() {
            self.first = 0;
        }
    }
}
