//! Interface for measuring the engine's work.
//!
//! The engine reads no clock. The host sets [`crate::EngineConfig::meter`] to a [`Meter`], which reads the time and
//! stores the measurements. A meter cannot influence the engine, so recordings are the same with and without a meter.

use std::{fmt, sync::Arc, time::Duration};

use harbormaster_api::Str;
use harbormaster_framework::{
    events::ClusterEvent,
    meter::{ProfileMeter, Stamp, Status},
};

use crate::{
    note::{Cause, QueueState},
    watchdog::Stuck,
};

/// Result of an attempt for a pod or a group: kube-scheduler's `result` label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttemptResult {
    /// The pod is bound, or enough members of the group have nodes.
    Scheduled,
    /// The pod was rejected, or there are no nodes.
    Unschedulable,
    /// The group was rejected, and room is being made for it.
    WaitingOnPreemption,
    /// The attempt failed with an error.
    Error,
}

impl AttemptResult {
    /// Number of results.
    pub const COUNT: usize = 4;

    /// Value of kube-scheduler's label.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Unschedulable => "unschedulable",
            Self::WaitingOnPreemption => "waiting_on_preemption",
            Self::Error => "error",
        }
    }
}

/// Result of a queueing hint: kube-scheduler's `hint` label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HintResult {
    /// The event may make the pod schedulable.
    Queue,
    /// The event cannot make the pod schedulable.
    QueueSkip,
    /// The hint failed, which has the same effect as [`Self::Queue`].
    Error,
}

impl HintResult {
    /// Value of kube-scheduler's label.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queue => "Queue",
            Self::QueueSkip => "QueueSkip",
            Self::Error => "Error",
        }
    }
}

/// Result of opportunistic batching for a pod: kube-scheduler's `result` label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BatchResult {
    /// There was no cached node.
    NoHint,
    /// The cached node was chosen.
    HintUsed,
    /// Another node was chosen.
    HintNotUsed,
}

impl BatchResult {
    /// Value of kube-scheduler's label.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoHint => "no_hint",
            Self::HintUsed => "hint_used",
            Self::HintNotUsed => "hint_not_used",
        }
    }
}

/// Numbers of pods to evict for one preemptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VictimCounts {
    /// All of them.
    pub pods: usize,
    /// Groups, and single members of groups, among them.
    pub disrupted: usize,
    /// Those whose eviction violates a disruption budget.
    pub violations: usize,
}

/// Records measurements. The methods are called by whoever runs the engine, one at a time.
pub trait Meter: fmt::Debug + Send + Sync {
    /// Current time.
    fn now(&self) -> Stamp;

    /// Returns the meter for the profile with index `at`. Index 0 starts a new list of meters; meters from the old list
    /// remain usable.
    fn profile(&self, at: usize, name: &str) -> Arc<dyn ProfileMeter>;

    /// Starts a scheduling cycle. Cycles overlap only while they are interrupted.
    fn cycle_begins(&self) -> Stamp;

    /// Goes on with a scheduling cycle that began at `begun` and was interrupted, because extenders had to be asked.
    fn cycle_resumes(&self, begun: Stamp);

    /// Ends the scheduling cycle.
    fn cycle_ends(&self);

    /// Records the search for a node, including PostFilter.
    fn searched(&self, begun: Stamp);

    /// Records an attempt, including its binding.
    fn attempted(&self, profile: usize, result: AttemptResult, begun: Stamp);

    /// Records the search for nodes for all members of a group, without PodGroupPostFilter.
    fn searched_group(&self, begun: Stamp);

    /// Records an attempt for a group, without the bindings of its members.
    fn attempted_group(&self, profile: usize, result: AttemptResult, begun: Stamp);

    /// Records a bound pod and its number of attempts. `waited` is the time since the pod was first active;
    /// `after_timeout` is true if the last attempt was made because the pod had waited too long.
    fn scheduled(&self, attempts: u32, waited: Option<Duration>, after_timeout: bool);

    /// Records that a pod, or a group with this number of members, enters the given part of the queue.
    fn queued(&self, state: QueueState, cause: Cause, members: Option<usize>);

    /// Records that a pod joins its group, which is in the given part of the queue and stays there.
    fn joined(&self, state: QueueState, cause: Cause);

    /// Increments (or decrements, if `more` is false) the number of the profile's pods that the plugin rejects or
    /// gates.
    fn rejects(&self, profile: &Str, plugin: &'static str, more: bool);

    /// Records a pod that would wait for ever.
    fn stuck(&self, why: Stuck);

    /// Records that a change in the cluster was handled as the given event.
    fn handled(&self, event: ClusterEvent, begun: Stamp);

    /// Starts measuring a hint; `None` if this hint is not measured.
    fn hint_begins(&self) -> Option<Stamp>;

    /// Ends a measured hint.
    fn hinted(&self, plugin: &'static str, event: ClusterEvent, hint: HintResult, begun: Stamp);

    /// Records the end of a pod's wait on Permit.
    fn permitted(&self, status: Status, begun: Stamp);

    /// Records the number of placements that were generated for a group.
    fn placements_generated(&self, profile: usize, count: usize);

    /// Records that the members of a group were tried in a placement; `feasible` is true if enough of them found nodes.
    fn placement_tried(&self, profile: usize, feasible: bool, begun: Stamp);

    /// Records the pods to evict for one preemptor, which is a `pod` or a `podgroup`.
    fn victims(&self, preemptor: &'static str, victims: VictimCounts);

    /// Records the end of the evictions for one preemptor.
    fn evicted(&self, preemptor: &'static str, failed: bool, begun: Stamp);

    /// Records a lookup by opportunistic batching; `hinted` is true if the lookup found a node.
    fn batch_lookup(&self, profile: usize, hinted: bool, begun: Stamp);

    /// Records an update by opportunistic batching after a node was chosen.
    fn batch_update(&self, profile: usize, begun: Stamp);

    /// Records the result of opportunistic batching for a pod.
    fn batched(&self, profile: usize, result: BatchResult);

    /// Records that opportunistic batching discarded its ranking of nodes, with the reason in kube-scheduler's words.
    fn batch_flushed(&self, profile: usize, reason: &'static str);
}

/// Sizes of the engine's parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Nodes.
    pub nodes: usize,
    /// Pods on nodes, including assumed ones.
    pub pods: usize,
    /// Assumed pods.
    pub assumed: usize,
    /// Pods with a node that are not bound yet, including those that wait on Permit.
    pub bindings: usize,
    /// Pods in flight: being scheduled or waiting on Permit.
    pub in_flight: usize,
    /// Contradictions between objects that were reported and still exist.
    pub contradictions: usize,
}
