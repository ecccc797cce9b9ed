//! Interfaces for measuring plugins and extension points.
//!
//! This crate reads no clock. The host gives a profile a [`ProfileMeter`] that reads the time and stores the
//! measurements; meters cannot influence decisions. Without a meter, which is the default, the only cost is a branch.

use std::{fmt, sync::Arc, time::Duration};

use harbormaster_api::{Str, points::ExtensionPoint as P};

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

/// Defines the stages from one table: the label of each stage, and the calls that are measured as part of it.
macro_rules! stages {
    (measured: { $($(#[$doc:meta])* $stage:ident = $label:literal, $call:pat,)* } unmeasured: $unmeasured:pat) => {
        /// Kind of measured call, named as in kube-scheduler's `extension_point` label.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Stage {
            $($(#[$doc])* $stage,)*
        }

        impl Stage {
            /// All stages, each at the index of its discriminant.
            pub const ALL: [Self; [$($label),*].len()] = [$(Self::$stage),*];

            /// Returns the stage to which a call belongs; `None` for calls that are not measured.
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
        /// PodGroupPostFilter.
        PodGroupPostFilter = "PodGroupPostFilter", Call::Point(P::PodGroupPostFilter),
        /// PlacementGenerate.
        PlacementGenerate = "PlacementGenerate", Call::Point(P::PlacementGenerate),
        /// PlacementScore.
        PlacementScore = "PlacementScore", Call::Point(P::PlacementScore),
        /// Normalization of the scores of placements.
        NormalizePlacements = "PlacementScoreExtensionNormalize", Call::NormalizePlacements,
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
    // remaining calls.
    unmeasured: Call::Point(P::QueueSort) | Call::Assume | Call::Hint | Call::Groups | Call::Fetch
}

/// Outcome of a call, named like kube-scheduler's status code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Status {
    /// The call succeeded.
    Success,
    /// The plugin has nothing to do for the pod.
    Skip,
    /// The pod must wait, because a Permit plugin delays it.
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

/// A measurement that a plugin takes itself while a pod is being bound. The framework takes all other measurements, for
/// every plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Measurement {
    /// A request to create a resource claim succeeded or failed.
    ClaimCreation {
        /// True if the claim was created.
        succeeded: bool,
    },
    /// A wait for binding conditions (KEP-5007) ended. There is one measurement for each device of the pod.
    DeviceWait {
        /// Driver of the device.
        driver: Str,
        /// True if the device itself has binding conditions.
        has_conditions: bool,
        /// End of the wait.
        end: DeviceWaitEnd,
        /// Duration of the wait.
        waited: Duration,
    },
}

/// End of a wait for binding conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeviceWaitEnd {
    /// All conditions are true.
    Ready,
    /// A device has failed.
    Failed,
    /// The conditions did not become true in time.
    TimedOut,
    /// A claim could not be read.
    Error,
}

impl DeviceWaitEnd {
    /// kube-scheduler's label.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ready => "success",
            Self::Failed => "failure",
            Self::TimedOut => "timeout",
            Self::Error => "error",
        }
    }
}

/// Records the measurements of one profile.
pub trait ProfileMeter: fmt::Debug + Send + Sync {
    /// Current time.
    fn now(&self) -> Stamp;

    /// Records that the plugins of a point were called for a pod.
    fn point(&self, stage: Stage, status: Status, spent: Duration);

    /// Returns the meter of one plugin of the profile; `stages` are the stages at which the profile calls the plugin.
    fn plugin(&self, name: &'static str, stages: &[Stage]) -> Arc<dyn PluginMeter>;

    /// Records a measurement that a plugin took itself.
    fn measured(&self, measurement: &Measurement);
}

/// Records the measurements of one plugin of one profile.
pub trait PluginMeter: fmt::Debug + Send + Sync {
    /// Starts a call. Returns `None` if the call is not measured.
    fn begin(&self, stage: Stage) -> Option<Stamp>;

    /// Ends a measured call.
    fn end(&self, stage: Stage, begun: Stamp, status: Status);

    /// Records a failed call, measured or not.
    fn failed(&self, stage: Stage);

    /// Records that the plugin evaluated either a pod (`times` is 1) or `times` nodes.
    fn evaluated(&self, stage: Stage, times: usize);
}

/// Time that an attempt spends in each stage. A stage may enclose other stages, whose time is not counted toward it.
#[derive(Debug)]
pub(crate) struct StageTimer {
    meter: Option<Arc<dyn ProfileMeter>>,
    spent: [Duration; Stage::ALL.len()],
    /// The current stage, if any.
    current: Option<Stage>,
    /// Point in time up to which all time has been counted.
    counted: Stamp,
    /// Reports that are held back; `None` if reports are sent at once.
    held: Option<Vec<(Stage, Status, Duration)>>,
}

impl StageTimer {
    pub(crate) fn new(meter: Option<Arc<dyn ProfileMeter>>) -> Self {
        let spent = [Duration::ZERO; Stage::ALL.len()];
        Self { meter, spent, current: None, counted: Stamp::default(), held: None }
    }

    /// Starts an attempt.
    pub(crate) fn start(&mut self) {
        if let Some(meter) = &self.meter {
            self.spent = [Duration::ZERO; Stage::ALL.len()];
            self.counted = meter.now();
        }
    }

    /// Reports the time spent in a stage.
    pub(crate) fn report(&mut self, stage: Stage, status: Status) {
        let Some(meter) = &self.meter else { return };
        let spent = std::mem::take(&mut self.spent[stage as usize]);
        match &mut self.held {
            Some(held) => held.push((stage, status, spent)),
            None => meter.point(stage, status, spent),
        }
    }

    /// Holds reports back, because the attempt may end as if it had not been made.
    pub(crate) fn hold_reports(&mut self) {
        self.held = self.meter.as_ref().map(|_| Vec::new());
    }

    /// Sends the reports that were held back, or drops them.
    pub(crate) fn release_reports(&mut self, are_sent: bool) {
        let held = self.held.take().unwrap_or_default();
        if let Some(meter) = self.meter.as_ref().filter(|_| are_sent) {
            held.into_iter().for_each(|(stage, status, spent)| meter.point(stage, status, spent));
        }
    }

    /// Returns true if there is a meter.
    pub(crate) fn is_enabled(&self) -> bool {
        self.meter.is_some()
    }

    /// Enters a stage; with `None`, time is not counted. Returns the enclosing stage.
    fn enter(&mut self, stage: Option<Stage>) -> Option<Stage> {
        // A stage begins where the previous stage ended, which saves a clock read.
        if self.current.is_some() {
            self.count();
        }
        std::mem::replace(&mut self.current, stage)
    }

    /// Returns to the enclosing stage.
    fn leave(&mut self, outer: Option<Stage>) {
        self.count();
        self.current = outer;
    }

    fn count(&mut self) {
        if let Some(meter) = &self.meter {
            let now = meter.now();
            if let Some(stage) = self.current {
                self.spent[stage as usize] += now.since(self.counted);
            }
            self.counted = now;
        }
    }
}

/// A type whose work is measured by stage.
pub(crate) trait Staged {
    fn timer(&mut self) -> &mut StageTimer;

    /// Counts the time of `work` toward `stage` and not toward the enclosing stage.
    fn staged<T>(&mut self, stage: Stage, work: impl FnOnce(&mut Self) -> T) -> T {
        self.within(Some(stage), work)
    }

    /// Does `work` without counting its time.
    fn unstaged<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        self.within(None, work)
    }

    /// Same as [`Self::staged`], but also reports the stage. `status` returns the outcome of the stage.
    fn reported<T>(
        &mut self,
        stage: Stage,
        status: impl FnOnce(&T) -> Status,
        work: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let done = self.staged(stage, work);
        self.timer().report(stage, status(&done));
        done
    }

    fn within<T>(&mut self, stage: Option<Stage>, work: impl FnOnce(&mut Self) -> T) -> T {
        let outer = self.timer().enter(stage);
        let done = work(self);
        self.timer().leave(outer);
        done
    }
}

impl Staged for StageTimer {
    fn timer(&mut self) -> &mut StageTimer {
        self
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

        fn measured(&self, _: &Measurement) {}
    }

    #[test]
    fn every_stage_is_at_the_index_of_its_discriminant() {
        assert!(Stage::ALL.iter().enumerate().all(|(at, stage)| *stage as usize == at));
    }

    #[test]
    fn time_in_an_enclosed_stage_does_not_count_toward_the_enclosing_one() {
        let meter = Arc::new(Ticking::default());
        let mut timer = StageTimer::new(Some(meter.clone()));
        timer.start();
        timer.reported(Stage::PreFilter, |()| Status::Success, |_| {});
        timer.staged(Stage::Filter, |timer| timer.staged(Stage::Score, |_| {}));
        timer.staged(Stage::Filter, |timer| timer.unstaged(|_| {}));
        for stage in [Stage::Filter, Stage::Score, Stage::Score] {
            timer.report(stage, Status::Success);
        }
        // The clock advances by ten whenever it is read.
        let expected = [(Stage::PreFilter, 10), (Stage::Filter, 40), (Stage::Score, 10), (Stage::Score, 0)];
        assert_eq!(*meter.seen.lock().unwrap(), expected);
    }

    #[test]
    fn an_attempt_inherits_no_time_from_the_previous_one() {
        let meter = Arc::new(Ticking::default());
        let mut timer = StageTimer::new(Some(meter.clone()));
        timer.staged(Stage::Score, |_| {});
        timer.start();
        timer.report(Stage::Score, Status::Success);
        assert_eq!(*meter.seen.lock().unwrap(), [(Stage::Score, 0)]);
    }
}
