//! An element of the queue: a pod, or the members of a group that are placed together.

use std::{
    cmp::Reverse,
    ops::{Deref, DerefMut},
    sync::Arc,
};

use harbormaster_api::{Str, Timestamp};
use harbormaster_framework::{
    group::{GroupId, PodGroup},
    meter::Stamp,
    plugin::{Queued, Rank},
    pod::PodInfo,
};

/// The history of a pod or a group in the queue, and the reasons why it waits.
#[derive(Clone, Debug)]
pub struct Standing {
    /// Index of the profile.
    pub profile: usize,
    /// Time at which the pod entered the queue, or returned to the queue after its last failed attempt.
    pub since: Timestamp,
    /// Time at which the pod first became active. Its waiting time is measured from then on, so time spent gated before
    /// that does not count.
    pub first_active: Option<Timestamp>,
    /// Number of times that the queue has handed out the pod.
    pub attempts: u32,
    /// Number of attempts in which plugins rejected the pod. Increases the backoff and is never reset.
    pub rejections: u32,
    /// Number of errors, and of failures that are retried like errors, since the last rejection.
    pub consecutive_errors: u32,
    /// Plugins that rejected the pod in the last attempt, or have gated it since.
    pub rejectors: Vec<&'static str>,
    /// The subset of `rejectors` that waits for an asynchronous step.
    pub pending: Vec<&'static str>,
    /// PreEnqueue plugin that gates the pod.
    pub gated_by: Option<&'static str>,
    /// True if a PreEnqueue plugin or the QueueSort plugin failed on its last call. PreEnqueue is called again when the
    /// backoff ends.
    pub gate_failed: bool,
    /// True if the pod is retried because it has waited too long.
    pub after_timeout: bool,
    /// Time at which the pod was last retried because it had waited too long.
    pub flushed: Option<Timestamp>,
    /// Time at which the pod is tried again even if no event wakes it, because a plugin said so.
    pub retry_at: Option<Timestamp>,
    /// Start of the last attempt, if it is measured.
    pub attempt_begun: Option<Stamp>,
    /// End of the backoff, if the pod has one.
    pub backoff_until: Option<Timestamp>,
    /// Position in the order of arrival, which breaks ties.
    pub(super) sequence: u64,
    /// The QueueSort plugin's rank.
    pub(super) rank: Rank,
}

impl Standing {
    fn new(profile: usize, now: Timestamp, sequence: u64) -> Self {
        Self {
            profile,
            since: now,
            first_active: None,
            attempts: 0,
            rejections: 0,
            consecutive_errors: 0,
            rejectors: Vec::new(),
            pending: Vec::new(),
            gated_by: None,
            gate_failed: false,
            after_timeout: false,
            flushed: None,
            retry_at: None,
            attempt_begun: None,
            backoff_until: None,
            sequence,
            rank: Rank::default(),
        }
    }

    /// Returns true if there are plugins whose events may wake the pod.
    pub fn has_rejectors(&self) -> bool {
        !self.rejectors.is_empty() || !self.pending.is_empty()
    }

    /// All plugins whose events may wake the pod, each once.
    pub fn all_rejectors(&self) -> impl Iterator<Item = &'static str> + '_ {
        let pending = self.pending.iter().filter(|p| !self.rejectors.contains(p));
        self.rejectors.iter().chain(pending).copied()
    }

    /// Records a failed attempt. Without rejectors, it counts as an error.
    pub(crate) fn failed(
        &mut self,
        rejectors: Vec<&'static str>,
        pending: Vec<&'static str>,
        now: Timestamp,
    ) {
        self.since = now;
        self.backoff_until = None;
        if rejectors.is_empty() && pending.is_empty() {
            self.consecutive_errors += 1;
        } else {
            self.rejections += 1;
            self.consecutive_errors = 0;
        }
        (self.rejectors, self.pending) = (rejectors, pending);
        self.after_timeout = false;
    }

    /// Starts an attempt.
    pub(super) fn handed_out(&mut self) {
        self.attempts += 1;
        self.rejectors.clear();
        self.pending.clear();
        self.gated_by = None;
        self.retry_at = None;
    }
}

/// A pod with its standing in the queue, to which it dereferences.
#[derive(Clone, Debug)]
pub struct QueuedPod {
    /// The pod.
    pub pod: Arc<PodInfo>,
    /// Its standing.
    pub standing: Standing,
}

impl QueuedPod {
    pub(crate) fn new(pod: Arc<PodInfo>, profile: usize, now: Timestamp, sequence: u64) -> Self {
        Self { pod, standing: Standing::new(profile, now, sequence) }
    }

    /// The pod's UID.
    pub fn uid(&self) -> &Str {
        &self.pod.uid
    }
}

impl Deref for QueuedPod {
    type Target = Standing;
    fn deref(&self) -> &Standing {
        &self.standing
    }
}

impl DerefMut for QueuedPod {
    fn deref_mut(&mut self) -> &mut Standing {
        &mut self.standing
    }
}

/// The queued members of a group.
#[derive(Clone, Debug)]
pub struct QueuedGroup {
    /// The group.
    pub group: Arc<PodGroup>,
    /// At least one member, each with its own standing.
    pub members: Vec<QueuedPod>,
    /// Standing of the group.
    pub standing: Standing,
    key: Str,
}

impl QueuedGroup {
    /// Creates an element from the first members of a group. The group stands where the first of them stands.
    pub(super) fn new(group: Arc<PodGroup>, members: Vec<QueuedPod>, standing: Standing) -> Self {
        let key = key_of(&group.id);
        Self { group, members, standing, key }
    }

    /// Puts members into the order in which they are tried: important ones first, then those that were tried more
    /// often, then those that have waited longer, then older ones.
    pub(crate) fn sort(members: &mut [QueuedPod]) {
        members.sort_by_key(|QueuedPod { pod, standing }| {
            (Reverse(pod.priority()), Reverse(standing.attempts), standing.since, standing.sequence)
        });
    }
}

/// Key of a group in the queue. No UID looks like it.
pub(crate) fn key_of(id: &GroupId) -> Str {
    format!("group {id}").into()
}

/// An element of the queue, which dereferences to its standing.
#[derive(Clone, Debug)]
pub enum Entity {
    /// A pod on its own.
    Pod(QueuedPod),
    /// Members of a group.
    Group(QueuedGroup),
}

impl Entity {
    /// The pod's UID, or the group's key.
    pub(super) fn key(&self) -> &Str {
        match self {
            Self::Pod(entry) => entry.uid(),
            Self::Group(group) => &group.key,
        }
    }

    /// The pod, or the members.
    pub fn pods(&self) -> &[QueuedPod] {
        match self {
            Self::Pod(entry) => std::slice::from_ref(entry),
            Self::Group(group) => &group.members,
        }
    }

    pub(super) fn pods_mut(&mut self) -> &mut [QueuedPod] {
        match self {
            Self::Pod(entry) => std::slice::from_mut(entry),
            Self::Group(group) => &mut group.members,
        }
    }

    /// Returns the pod with this UID.
    pub(super) fn pod(&self, uid: &str) -> Option<&QueuedPod> {
        self.pods().iter().find(|entry| *entry.uid() == uid)
    }

    /// The group, unless this is a pod on its own.
    pub(super) fn group(&self) -> Option<&Arc<PodGroup>> {
        match self {
            Self::Pod(_) => None,
            Self::Group(group) => Some(&group.group),
        }
    }

    /// Number of members; `None` for a pod on its own.
    pub(super) fn members(&self) -> Option<usize> {
        self.group().map(|_| self.pods().len())
    }

    /// Replaces a pod by its newer version.
    pub(super) fn replace(&mut self, pod: Arc<PodInfo>) {
        if let Some(entry) = self.pods_mut().iter_mut().find(|entry| *entry.uid() == pod.uid) {
            entry.pod = pod;
        }
    }

    /// The element as QueueSort plugins see it.
    pub(super) fn queued(&self) -> Option<Queued<'_>> {
        let pod = &self.pods().first()?.pod;
        Some(Queued { pod, group: self.group().map(|group| &**group), since: self.since, rank: self.rank })
    }
}

impl Deref for Entity {
    type Target = Standing;
    fn deref(&self) -> &Standing {
        match self {
            Self::Pod(entry) => &entry.standing,
            Self::Group(group) => &group.standing,
        }
    }
}

impl DerefMut for Entity {
    fn deref_mut(&mut self) -> &mut Standing {
        match self {
            Self::Pod(entry) => &mut entry.standing,
            Self::Group(group) => &mut group.standing,
        }
    }
}
