//! Interfaces for measuring plugins and extension points.
//!
//! Nothing here reads a clock. The host gives a profile a [`ProfileMeter`] that knows the time and stores numbers;
//! meters cannot influence decisions. Without one, which is the default, the only cost is a branch.

use std::{fmt, sync::Arc, time::Duration};

use harbormaster_api::points::ExtensionPoint as P;

use crate::{guard::Call, outcome::Fix};

/// A point in time: nanoseconds since an origin that the meter chooses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp(pub u64);

impl Stamp {
    /// Time elapsed since `earlier`.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Defines the stages from one table: their labels, and the calls that are measured as them.
macro_rules! stages {
    (measured: { $($(#[$doc:meta])* $stage:ident = $label:literal, $call:pat,)* } unmeasured: $unmeasured:pat) => {
        /// Measured kind of call; prints as kube-scheduler's label `extension_point`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Stage {
            $($(#[$doc])* $stage,)*
        }

        impl Stage {
            /// All stages; each is at the index of its discriminant.
            pub const ALL: [Self; [$($label),*].len()] = [$(Self::$stage),*];

            /// Returns the stage that a call is measured as; `None` for calls that are not measured.
            pub fn of(call: Call) -> Option<Self> {
                match call {
                    $($call => Some(Self::$stage),)*
                    $unmeasured => None,
                }
            }

            /// kube-scheduler's label.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$stage => $label,)*
                }
            }
        }
    };
}

stages! {
    measured: {
        /// PreEnqueue.
        PreEnqueue = "PreEnqueue", Call::Point(P::PreEnqueue),
        /// A signature for opportunistic batching.
        Sign = "Sign", Call::Sign,
        /// PreFilter, including the preparation of indexes.
        PreFilter = "PreFilter", Call::Point(P::PreFilter) | Call::Index,
        /// A pod joins a node in a dry run.
        AddPod = "PreFilterExtensionAddPod", Call::AddPod,
        /// A pod leaves a node in a dry run.
        RemovePod = "PreFilterExtensionRemovePod", Call::RemovePod,
        /// Filter.
        Filter = "Filter", Call::Point(P::Filter),
        /// PostFilter.
        PostFilter = "PostFilter", Call::Point(P::PostFilter),
        /// PreScore.
        PreScore = "PreScore", Call::Point(P::PreScore),
        /// Score.
        Score = "Score", Call::Point(P::Score),
        /// NormalizeScore.
        Normalize = "ScoreExtensionNormalize", Call::Normalize,
        /// Reserve.
        Reserve = "Reserve", Call::Point(P::Reserve),
        /// Unreserve.
        Unreserve = "Unreserve", Call::Unreserve,
        /// Permit.
        Permit = "Permit", Call::Point(P::Permit),
        /// PreBind's pre-flight.
        PreFlight = "PreBindPreFlight", Call::PreFlight,
        /// PreBind.
        PreBind = "PreBind", Call::Point(P::PreBind),
        /// Bind.
        Bind = "Bind", Call::Point(P::Bind),
        /// PostBind.
        PostBind = "PostBind", Call::Point(P::PostBind),
    }
    // QueueSort runs for each comparison in a heap; hints are measured separately; kube-scheduler has no label for the
    // others.
    unmeasured: Call::Point(P::QueueSort | P::PlacementGenerate | P::PlacementScore) | Call::Assume | Call::Hint
}

/// Outcome of a call; prints as kube-scheduler's name of the status code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Status {
    /// It succeeded.
    Success,
    /// The plugin has nothing to do with the pod.
    Skip,
    /// The pod is held back.
    Wait,
    /// An asynchronous step must finish first.
    Pending,
    /// Rejected, but eviction may help.
    Unschedulable,
    /// Rejected, and eviction cannot help.
    Unresolvable,
    /// The plugin failed.
    Error,
}

impl Status {
    /// Number of statuses.
    pub const COUNT: usize = 7;

    /// kube-scheduler's label.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Success => "Success",
            Self::Skip => "Skip",
            Self::Wait => "Wait",
            Self::Pending => "Pending",
            Self::Unschedulable => "Unschedulable",
            Self::Unresolvable => "UnschedulableAndUnresolvable",
            Self::Error => "Error",
        }
    }
}

impl From<Fix> for Status {
    fn from(fix: Fix) -> Self {
        match fix {
            Fix::EvictionMayHelp => Self::Unschedulable,
            Fix::NothingHelps => Self::Unresolvable,
            Fix::Pending => Self::Pending,
        }
    }
}

/// Records the measurements of one profile.
pub trait ProfileMeter: fmt::Debug + Send + Sync {
    /// Current time.
    fn now(&self) -> Stamp;

    /// Records that all plugins of a point were called for a pod.
    fn point(&self, stage: Stage, status: Status, spent: Duration);

    /// Returns the meter of one plugin of the profile; `stages` are those at which the profile calls it.
    fn plugin(&self, name: &'static str, stages: &[Stage]) -> Arc<dyn PluginMeter>;
}

/// Records the measurements of one plugin of one profile.
pub trait PluginMeter: fmt::Debug + Send + Sync {
    /// Starts a call. Returns `None` if it is not measured.
    fn begin(&self, stage: Stage) -> Option<Stamp>;

    /// Ends a measured call.
    fn end(&self, stage: Stage, begun: Stamp, status: Status);

    /// Records a failed call, measured or not.
    fn failed(&self, stage: Stage);

    /// Records that the plugin judged a pod once, or `times` nodes.
    fn evaluated(&self, stage: Stage, times: usize);
}

/// Divides the time of an attempt among its stages.
#[derive(Debug)]
pub(crate) struct StageTimer {
    meter: Option<Arc<dyn ProfileMeter>>,
    spent: [Duration; Stage::ALL.len()],
    since: Stamp,
    at: Stage,
}

impl StageTimer {
    pub(crate) fn new(meter: Option<Arc<dyn ProfileMeter>>) -> Self {
        let spent = [Duration::ZERO; Stage::ALL.len()];
        Self { meter, spent, since: Stamp::default(), at: Stage::PreFilter }
    }

    /// Starts an attempt with that stage.
    pub(crate) fn start(&mut self, at: Stage) {
        if let Some(meter) = &self.meter {
            self.spent = [Duration::ZERO; Stage::ALL.len()];
            self.since = meter.now();
            self.at = at;
        }
    }

    /// Ends the current stage and starts another one.
    pub(crate) fn switch_to(&mut self, to: Stage) {
        if let Some(meter) = &self.meter {
            let now = meter.now();
            self.spent[self.at as usize] += now.since(self.since);
            self.since = now;
            self.at = to;
        }
    }

    /// Reports the time spent in a stage.
    pub(crate) fn report(&mut self, stage: Stage, status: Status) {
        if let Some(meter) = &self.meter {
            meter.point(stage, status, std::mem::take(&mut self.spent[stage as usize]));
        }
    }

    /// Returns true if there is a meter.
    pub(crate) fn is_enabled(&self) -> bool {
        self.meter.is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    };

    use super::*;

    #[derive(Debug, Default)]
    struct Ticking {
        time: AtomicU64,
        seen: Mutex<Vec<(Stage, u128)>>,
    }

    impl ProfileMeter for Ticking {
        fn now(&self) -> Stamp {
            Stamp(self.time.fetch_add(10, Ordering::Relaxed))
        }

        fn point(&self, stage: Stage, _: Status, spent: Duration) {
            self.seen.lock().unwrap().push((stage, spent.as_nanos()));
        }

        fn plugin(&self, _: &'static str, _: &[Stage]) -> Arc<dyn PluginMeter> {
            unreachable!("no plugin is measured here")
        }
    }

    #[test]
    fn every_stage_is_at_the_place_of_its_number() {
        assert!(Stage::ALL.iter().enumerate().all(|(at, stage)| *stage as usize == at));
    }

    #[test]
    fn time_is_shared_out_among_the_points_that_take_turns() {
        let meter = Arc::new(Ticking::default());
        let mut timer = StageTimer::new(Some(meter.clone()));
        timer.start(Stage::PreFilter);
        timer.switch_to(Stage::Filter);
        timer.switch_to(Stage::Score);
        timer.switch_to(Stage::Filter);
        timer.switch_to(Stage::Reserve);
        for stage in [Stage::PreFilter, Stage::Filter, Stage::Score, Stage::Score] {
            timer.report(stage, Status::Success);
        }
        let expected = [(Stage::PreFilter, 10), (Stage::Filter, 20), (Stage::Score, 10), (Stage::Score, 0)];
        assert_eq!(*meter.seen.lock().unwrap(), expected);
    }
}
