//! Return types of the extension points. Each point has its own type, so an answer that is invalid at a point does not
//! compile. The only exception is [`Fix::Pending`], which compiles in PreFilter but is an error there.

use std::{borrow::Cow, error::Error, sync::Arc, time::Duration};

use harbormaster_api::Str;

use crate::{nodeset::NodeSet, normalize::Formula, pod::PodInfo};

/// An unexpected failure of a plugin (kube-scheduler's code `Error`): the attempt ends, and the pod is retried after a
/// backoff that grows with consecutive errors.
pub type PluginError = Box<dyn Error + Send + Sync>;

/// Result of a plugin call that may fail unexpectedly.
pub type PluginResult<T> = Result<T, PluginError>;

/// The reason why a pod does not pass a point. Rejections and errors both convert into this type, so `?` and `.into()`
/// work for both.
#[derive(Debug)]
pub enum Stop {
    /// The plugin rejects the pod or node.
    Reject(Reject),
    /// The plugin failed unexpectedly.
    Error(PluginError),
}

impl From<Reject> for Stop {
    fn from(reject: Reject) -> Self {
        Self::Reject(reject)
    }
}

impl<E: Into<PluginError>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Error(error.into())
    }
}

/// Success, or the reason why the pod does not pass.
pub type Verdict = Result<(), Stop>;

/// Remedy that could make the pod fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fix {
    /// Evicting pods may help (`Unschedulable`).
    EvictionMayHelp,
    /// Evicting pods cannot help (`UnschedulableAndUnresolvable`).
    NothingHelps,
    /// An asynchronous step must finish first (`Pending`): when it does, the pod is retried without backoff.
    Pending,
}

impl Fix {
    /// kube-scheduler's name for the status code.
    pub fn code(self) -> &'static str {
        match self {
            Fix::EvictionMayHelp => "Unschedulable",
            Fix::NothingHelps => "UnschedulableAndUnresolvable",
            Fix::Pending => "Pending",
        }
    }
}

/// A rejection with its reasons. The message in the pod's condition counts the nodes for each reason separately.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reject {
    /// Remedy that may resolve the rejection.
    pub fix: Fix,
    /// Human-readable reasons; empty only if an extender gave no reason.
    pub reasons: Vec<Cow<'static, str>>,
}

impl Reject {
    /// A rejection that evicting pods may resolve.
    pub fn evictable(reason: impl Into<Cow<'static, str>>) -> Self {
        Self { fix: Fix::EvictionMayHelp, reasons: vec![reason.into()] }
    }

    /// A rejection that no eviction can resolve.
    pub fn unresolvable(reason: impl Into<Cow<'static, str>>) -> Self {
        Self { fix: Fix::NothingHelps, reasons: vec![reason.into()] }
    }

    /// The reasons, joined as in kube-scheduler's statuses.
    pub fn message(&self) -> String {
        self.reasons.join(", ")
    }
}

/// Result of PreFilter, unless the plugin rejects the pod.
#[derive(Clone, Debug)]
pub enum PreFiltered<S> {
    /// The plugin's Filter has nothing to check for this pod.
    Skip,
    /// Continue with this state. If `only` is set, no node outside this set can fit.
    Continue {
        /// Passed to the plugin's Filter, PostFilter, PreScore and Reserve.
        state: S,
        /// The only nodes that can fit.
        only: Option<NodeSet>,
    },
}

impl<S> PreFiltered<S> {
    /// Continues with `state` and all nodes.
    pub fn state(state: S) -> Self {
        Self::Continue { state, only: None }
    }
}

/// Result of PreScore.
#[derive(Debug)]
pub enum PreScored<S> {
    /// The plugin does not score this pod.
    Skip,
    /// Score with this state.
    Continue(S),
}

/// Conversion of a plugin's raw scores to scores in 0..=100.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Normalize {
    /// The raw scores are already in 0..=100.
    AsIs,
    /// Proportional to the largest raw score among the candidates: `100 * score / max`, or 100 minus this value with
    /// `reverse`. If the largest raw score is zero, all scores are zero, or 100 with `reverse`. Raw scores must not be
    /// negative.
    Proportional {
        /// The smallest raw score becomes the best.
        reverse: bool,
    },
    /// Linear between the extremes among the candidates: the smallest raw score becomes 0 and the largest 100. If all
    /// raw scores are equal, all scores are 0.
    MinMax,
    /// The plugin's own function of the raw score and of the extremes among the candidates.
    Formula(Formula),
    /// The plugin's own [`crate::plugin::Score::normalize`], which sees all raw scores at once.
    Custom,
}

/// Result of PostFilter, which is called when no node fits.
#[derive(Clone, Debug)]
pub enum PostFiltered {
    /// The pod is expected to fit the node once the `victims` are gone: they are evicted, and their resources are
    /// reserved for the pod.
    Nominate {
        /// The node.
        node: Str,
        /// Pods to evict, in order; may be empty. Until they are gone,
        /// [`crate::cycle::EnqueueCycle::awaits_eviction`] is true for the pod.
        victims: Vec<Arc<PodInfo>>,
        /// Number of victims whose eviction violates a disruption budget, for measurements.
        violations: usize,
        /// Human-readable additions to the pod's message; may be empty.
        reasons: Vec<Cow<'static, str>>,
    },
    /// This plugin found no way to make the pod fit; the next PostFilter plugin is called.
    NoHelp {
        /// Human-readable reasons; may be empty.
        reasons: Vec<Cow<'static, str>>,
        /// Effect on an earlier nomination.
        nomination: Nomination,
    },
    /// This plugin found no way to make the pod fit, and no other PostFilter plugin is called.
    Unresolvable {
        /// Human-readable reasons; may be empty.
        reasons: Vec<Cow<'static, str>>,
        /// Effect on an earlier nomination.
        nomination: Nomination,
    },
}

/// Effect of a failed attempt on the pod's nominated node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Nomination {
    /// The nomination stays as it is.
    #[default]
    Keep,
    /// The nomination is cleared.
    Clear,
}

/// Result of Permit, unless the plugin rejects the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permitted {
    /// Continue with the binding.
    Allow,
    /// Delay the pod until every plugin that made it wait has allowed it, but for at most this duration (capped at 15
    /// minutes).
    Wait(Duration),
}

/// Result of Bind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The pod is bound.
    Done,
    /// The plugin does not bind this pod (`Skip`); the next Bind plugin is called.
    NotMine,
}

/// Result of PreBind's pre-flight: the work that PreBind has for this pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreFlight {
    /// PreBind need not run.
    NothingToDo,
    /// PreBind has work to do.
    Work {
        /// May run in parallel with other PreBind plugins that also set this.
        parallel: bool,
    },
}
