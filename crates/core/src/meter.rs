//! What is measured of the engine's work, and by whom.
//!
//! The engine reads no clock: the host lends it a [`Meter`], by [`crate::EngineConfig::meter`], which knows the time and keeps
//! the numbers. Nothing that a meter says has any influence on what the engine does, so a recording says the same with and
//! without one.

use std::{fmt, sync::Arc, time::Duration};

use harbormaster_api::Str;
use harbormaster_framework::{
    events::ClusterEvent,
    meter::{ProfileMeter, Stamp, Status},
};

use crate::note::{Cause, Place};

/// How an attempt ended; prints as kube-scheduler's label `result`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttemptResult {
    /// The pod is bound.
    Scheduled,
    /// It was rejected.
    Unschedulable,
    /// Something failed.
    Error,
}

impl AttemptResult {
    /// kube-scheduler's label.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Unschedulable => "unschedulable",
            Self::Error => "error",
        }
    }
}

/// What a hint said; prints as kube-scheduler's label `hint`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HintResult {
    /// The pod may fit now.
    Queue,
    /// It will not.
    QueueSkip,
    /// The hint failed, which counts as [`Self::Queue`].
    Error,
}

impl HintResult {
    /// kube-scheduler's label.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queue => "Queue",
            Self::QueueSkip => "QueueSkip",
            Self::Error => "Error",
        }
    }
}

/// What opportunistic batching had for a pod; prints as kube-scheduler's label `result`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BatchResult {
    /// Nothing.
    NoHint,
    /// A node, which was taken.
    HintUsed,
    /// A node, which was not taken.
    HintNotUsed,
}

impl BatchResult {
    /// kube-scheduler's label.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoHint => "no_hint",
            Self::HintUsed => "hint_used",
            Self::HintNotUsed => "hint_not_used",
        }
    }
}

/// Takes measurements. Whoever implements this is called from the thread of the engine.
pub trait Meter: fmt::Debug + Send + Sync {
    /// The time.
    fn now(&self) -> Stamp;

    /// Takes the measurements of the profile of that name, which is number `at` below. Number 0 begins a new list: what
    /// was lent for the old one still counts for whoever holds it.
    fn profile(&self, at: usize, name: &str) -> Arc<dyn ProfileMeter>;

    /// A scheduling cycle begins; no other one begins before it ends.
    fn cycle_begins(&self) -> Stamp;

    /// It has ended.
    fn cycle_ends(&self);

    /// A node was looked for, PostFilter included.
    fn searched(&self, begun: Stamp);

    /// An attempt has ended, its binding included.
    fn attempted(&self, profile: usize, result: AttemptResult, begun: Stamp);

    /// A pod is bound after so many attempts. `waited` is since it was to be tried first; `after_timeout`: its last attempt was
    /// made because it had waited for very long.
    fn scheduled(&self, attempts: u32, waited: Option<Duration>, after_timeout: bool);

    /// A pod came into that part of the queue.
    fn queued(&self, place: Place, cause: Cause);

    /// There is one pod more, or one less, of that profile that this plugin has rejected or holds back.
    fn rejects(&self, profile: &Str, plugin: &'static str, more: bool);

    /// A change in the cluster was handled that amounts to this event.
    fn handled(&self, event: ClusterEvent, begun: Stamp);

    /// A hint is asked; `None` if that is not measured.
    fn hint_begins(&self) -> Option<Stamp>;

    /// It has answered.
    fn hinted(&self, plugin: &'static str, event: ClusterEvent, hint: HintResult, begun: Stamp);

    /// A pod no longer waits on Permit.
    fn permitted(&self, status: Status, begun: Stamp);

    /// So many pods are to make way for one.
    fn victims(&self, victims: usize);

    /// They have, or eviction failed.
    fn evicted(&self, failed: bool, begun: Stamp);

    /// Opportunistic batching was asked for a node.
    fn batch_asked(&self, profile: usize, hinted: bool, begun: Stamp);

    /// It was told of the choice.
    fn batch_told(&self, profile: usize, begun: Stamp);

    /// How that went.
    fn batched(&self, profile: usize, result: BatchResult);

    /// What was kept for batching is of no use, for this reason in kube-scheduler's words.
    fn batch_flushed(&self, profile: usize, reason: &'static str);
}

/// How much there is of what the engine keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Nodes.
    pub nodes: usize,
    /// Pods on nodes, decided ones included.
    pub pods: usize,
    /// Those of them that the API server does not yet say are there.
    pub assumed: usize,
    /// Pods on their way to a node, those that wait on Permit included.
    pub bindings: usize,
    /// Pods that were handed out by the queue and have not come to an end.
    pub in_flight: usize,
}
