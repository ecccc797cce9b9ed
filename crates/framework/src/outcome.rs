//! What a plugin may answer, one type per extension point: what a point may not say does not compile. But one thing:
//! [`Fix::Pending`] has no meaning in PreFilter, and is an error there.

use std::{borrow::Cow, error::Error, sync::Arc, time::Duration};

use harbormaster_api::Str;

use crate::{nodeset::NodeSet, pod::PodInfo};

/// An unexpected failure of a plugin (kube-scheduler's code `Error`): the attempt ends and the pod retries after a
/// backoff that grows with consecutive errors.
pub type PluginError = Box<dyn Error + Send + Sync>;

/// The answer of a plugin that may fail unexpectedly.
pub type PluginResult<T> = Result<T, PluginError>;

/// Why a pod does not pass a point. Both kinds convert into it, so that `?` and `.into()` work for either.
#[derive(Debug)]
pub enum Stop {
    /// The plugin says no, and why.
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

/// The pod passes, or why it does not.
pub type Verdict = Result<(), Stop>;

/// Could anything that the scheduler does make the pod fit?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fix {
    /// Evicting pods may help (`Unschedulable`).
    EvictionMayHelp,
    /// Evicting pods cannot help (`UnschedulableAndUnresolvable`).
    NothingHelps,
    /// An asynchronous step must finish first (`Pending`): when it does, the pod retries without backoff.
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

/// A rejection with its reasons, each of which is counted by itself in the pod's message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reject {
    /// Whether eviction could help.
    pub fix: Fix,
    /// At least one reason for people.
    pub reasons: Vec<Cow<'static, str>>,
}

impl Reject {
    /// A rejection that evicting pods may resolve.
    pub fn evictable(reason: impl Into<Cow<'static, str>>) -> Self {
        Self { fix: Fix::EvictionMayHelp, reasons: vec![reason.into()] }
    }

    /// A rejection that no eviction resolves.
    pub fn unresolvable(reason: impl Into<Cow<'static, str>>) -> Self {
        Self { fix: Fix::NothingHelps, reasons: vec![reason.into()] }
    }

    /// The reasons joined as kube-scheduler prints a status.
    pub fn message(&self) -> String {
        self.reasons.join(", ")
    }
}

/// The answer of PreFilter, unless no node can fit.
#[derive(Debug)]
pub enum PreFiltered<S> {
    /// The plugin's Filter has nothing to check for this pod.
    Skip,
    /// Go on, with this state for Filter and, if `only` is set, no node outside of it.
    Continue {
        /// Lent to the plugin's Filter.
        state: S,
        /// The only nodes that can fit.
        only: Option<NodeSet>,
    },
}

impl<S> PreFiltered<S> {
    /// Go on with `state` and all nodes.
    pub fn state(state: S) -> Self {
        Self::Continue { state, only: None }
    }
}

/// The answer of PreScore.
#[derive(Debug)]
pub enum PreScored<S> {
    /// The plugin does not score this pod.
    Skip,
    /// Score with this state.
    Continue(S),
}

/// How a plugin's raw scores become 0..=100.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Normalize {
    /// They are 0..=100 already.
    AsIs,
    /// Proportionally to the largest raw score among the candidates, `100 * score / max`. With `reverse`, 100 minus
    /// that. When the largest is zero: all zero, or all 100 with `reverse`. Raw scores must not be negative.
    Proportional {
        /// The smallest raw score becomes the best.
        reverse: bool,
    },
    /// The plugin's own [`crate::plugin::Score::normalize`].
    Custom,
}

/// The answer of PostFilter, called when no node fits.
#[derive(Clone, Debug)]
pub enum PostFiltered {
    /// The pod is expected to fit on that node once `victims` are gone: room there is kept for it, and they are evicted.
    Nominate {
        /// The node.
        node: Str,
        /// Pods to evict, in order; perhaps none. While they are, PreEnqueue sees
        /// [`crate::cycle::EnqueueCycle::awaits_eviction`].
        victims: Vec<Arc<PodInfo>>,
    },
    /// No help from here; the next PostFilter plugin is asked.
    NoHelp {
        /// Reasons for people; may be empty.
        reasons: Vec<Cow<'static, str>>,
        /// What becomes of an earlier nomination.
        nomination: Nomination,
    },
    /// No help, and no other PostFilter plugin is to be asked.
    Unresolvable {
        /// Reasons for people; may be empty.
        reasons: Vec<Cow<'static, str>>,
        /// What becomes of an earlier nomination.
        nomination: Nomination,
    },
}

/// What a failed attempt does to the pod's nominated node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Nomination {
    /// It stays as it is.
    #[default]
    Keep,
    /// It is cleared.
    Clear,
}

/// The answer of Permit, unless the node is to be given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permitted {
    /// Go on.
    Allow,
    /// Hold the pod until every waiting plugin allowed it, at most this long (capped at 15 minutes).
    Wait(Duration),
}

/// The answer of Bind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The pod is bound.
    Done,
    /// Not this plugin's pod (`Skip`); the next Bind plugin is asked.
    NotMine,
}

/// The answer of PreBind's pre-flight: is there anything to do for this pod?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreFlight {
    /// PreBind need not run.
    NothingToDo,
    /// PreBind has work to do; it may run beside others that also said so with `parallel`.
    Work {
        /// May run beside other parallel PreBind plugins.
        parallel: bool,
    },
}
