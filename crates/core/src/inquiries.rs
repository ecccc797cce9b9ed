//! Pods about which extenders are being asked.
//!
//! An attempt that needs an answer ends and has no effect; the pod stays in flight. It is tried again when the answer is
//! there, and then uses the answers that it has, as far as the nodes have not changed.
//!
//! Invariant: no extender is asked about two pods at a time, so an extender that keeps accounts never sees two
//! undecided pods. It stays occupied until it has answered, even if the pod is deleted before.

use std::sync::Arc;

use harbormaster_framework::{
    extender::{Answer, Answers, ExtenderSet, Extenders},
    pod::PodInfo,
};

use crate::queue::QueuedPod;

/// All pods about which extenders are being asked.
#[derive(Debug, Default)]
pub(crate) struct Inquiries {
    /// At most one per extender.
    all: Vec<Inquiry>,
    /// Number of the last question.
    last: u64,
}

/// A pod whose attempt needs answers.
#[derive(Debug)]
pub(crate) struct Inquiry {
    /// The pod, as of the last attempt.
    pub(crate) entry: QueuedPod,
    /// The answers so far.
    pub(crate) answers: Answers,
    /// Number of the question; `None` once it is answered.
    open: Option<u64>,
    extenders: ExtenderSet,
    /// True if the pod no longer exists.
    is_dropped: bool,
}

impl Inquiries {
    /// Adds a pod whose attempt has ended at a question. Returns the number of the question.
    pub(crate) fn add(&mut self, entry: QueuedPod, answers: Answers, extenders: ExtenderSet) -> u64 {
        self.last += 1;
        self.all.push(Inquiry { entry, answers, open: Some(self.last), extenders, is_dropped: false });
        self.last
    }

    /// Takes an answer. The answer to a question of an earlier configuration is dropped.
    pub(crate) fn answered(&mut self, number: u64, answer: Answer, extenders: &Extenders) {
        let Some(at) = self.all.iter().position(|inquiry| inquiry.open == Some(number)) else { return };
        let inquiry = &mut self.all[at];
        if inquiry.is_dropped {
            self.all.remove(at);
            return;
        }
        inquiry.open = None;
        extenders.answered(&inquiry.entry.pod, answer, &mut inquiry.answers);
    }

    /// Returns true if some pod can be tried again.
    pub(crate) fn has_answered(&self) -> bool {
        self.all.iter().any(|inquiry| inquiry.open.is_none())
    }

    /// Takes a pod that can be tried again.
    pub(crate) fn take_answered(&mut self) -> Option<Inquiry> {
        let at = self.all.iter().position(|inquiry| inquiry.open.is_none())?;
        Some(self.all.remove(at))
    }

    /// Drops a pod that no longer exists. Returns true if it was there.
    pub(crate) fn drop_pod(&mut self, uid: &str) -> bool {
        let is_it = |inquiry: &Inquiry| *inquiry.entry.uid() == uid && !inquiry.is_dropped;
        let Some(at) = self.all.iter().position(is_it) else { return false };
        match self.all[at].open {
            Some(_) => self.all[at].is_dropped = true,
            None => drop(self.all.remove(at)),
        }
        true
    }

    /// Takes a pod that still exists. A later answer about it is dropped, and its extenders count as free.
    pub(crate) fn take(&mut self, uid: &str) -> Option<QueuedPod> {
        let is_it = |inquiry: &Inquiry| *inquiry.entry.uid() == uid && !inquiry.is_dropped;
        let at = self.all.iter().position(is_it)?;
        Some(self.all.remove(at).entry)
    }

    /// Takes all pods, because the extenders have been replaced.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = QueuedPod> + use<> {
        let all = std::mem::take(&mut self.all).into_iter().filter(|inquiry| !inquiry.is_dropped);
        all.map(|inquiry| inquiry.entry)
    }

    /// Returns the extenders that are occupied.
    pub(crate) fn occupied(&self) -> ExtenderSet {
        self.all.iter().fold(ExtenderSet::default(), |set, inquiry| set.union(inquiry.extenders))
    }

    /// Returns a pod about which extenders are being asked.
    pub(crate) fn get(&self, uid: &str) -> Option<&QueuedPod> {
        self.entries().find(|entry| *entry.uid() == uid)
    }

    /// All pods about which extenders are being asked.
    pub(crate) fn pods(&self) -> impl Iterator<Item = &Arc<PodInfo>> {
        self.entries().map(|entry| &entry.pod)
    }

    fn entries(&self) -> impl Iterator<Item = &QueuedPod> {
        self.all.iter().filter(|inquiry| !inquiry.is_dropped).map(|inquiry| &inquiry.entry)
    }
}
