//! Durations and counts of calls to plugins.

use std::sync::{
    Arc, Mutex, OnceLock, PoisonError,
    atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed},
};
use std::time::{Duration, Instant};

use harbormaster_framework::meter::{PluginMeter, Stage, Stamp, Status};
use prometheus::{Histogram, IntCounter};

use crate::{
    attempts::LastAttempt,
    gauges::{POD, POD_GROUP},
    recorder::Families,
};

/// Of this many cycles, one is measured plugin by plugin. The same ratio applies to calls outside a cycle, except that
/// every call at [`Stage::Sign`] is measured. Every preemption is measured, too.
const SAMPLE_EVERY: u64 = 10;
/// The plugin whose PostFilter performs preemption.
const PREEMPTION: &str = "DefaultPreemption";
/// The plugin whose failures are counted as volume errors.
const VOLUMES: &str = "VolumeBinding";

/// All statuses, each at the index that equals its number.
const STATUSES: [Status; Status::COUNT] = [
    Status::Success,
    Status::Skip,
    Status::Wait,
    Status::Pending,
    Status::Unschedulable,
    Status::Unresolvable,
    Status::Error,
];

/// One series per status.
pub(crate) type ByStatus = [OnceLock<Histogram>; Status::COUNT];
/// One value per stage.
pub(crate) type ByStage<T> = [T; Stage::ALL.len()];

/// The clock, and the selection of the cycles that are measured plugin by plugin.
#[derive(Debug)]
pub(crate) struct Sampling {
    epoch: Instant,
    cycles: AtomicU64,
    /// True while the current cycle is measured.
    is_sampled: AtomicBool,
    plugins: Mutex<Vec<Arc<PluginSeries>>>,
    /// The current or last cycle.
    pub(crate) last: LastAttempt,
}

impl Sampling {
    pub(crate) fn new() -> Self {
        let (cycles, is_sampled) = (AtomicU64::new(0), AtomicBool::new(false));
        let (plugins, last) = Default::default();
        Self { epoch: Instant::now(), cycles, is_sampled, plugins, last }
    }

    pub(crate) fn now(&self) -> Stamp {
        Stamp(u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    pub(crate) fn cycle_begins(&self) -> Stamp {
        let now = self.now();
        self.cycle_resumes(now);
        now
    }

    /// Begins a cycle that counts from an earlier time.
    pub(crate) fn cycle_resumes(&self, begun: Stamp) {
        self.is_sampled.store(self.cycles.fetch_add(1, Relaxed).is_multiple_of(SAMPLE_EVERY), Relaxed);
        self.last.begin(begun);
    }

    /// Observes the plugins' times if the current cycle is measured.
    pub(crate) fn cycle_ends(&self) {
        if self.is_sampled.swap(false, Relaxed) {
            let plugins = self.plugins.lock().unwrap_or_else(PoisonError::into_inner);
            plugins.iter().for_each(|plugin| plugin.observe_cycle());
        }
    }

    /// Removes all plugins. Called when new profiles replace the old ones, because later cycles do not call the old
    /// profiles' plugins.
    pub(crate) fn clear_plugins(&self) {
        self.plugins.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(crate) fn add(&self, plugin: Arc<PluginSeries>) {
        self.plugins.lock().unwrap_or_else(PoisonError::into_inner).push(plugin);
    }
}

/// Returns true if calls at this stage are part of a cycle and are added up over the cycle.
pub(crate) fn is_in_cycle(stage: Stage) -> bool {
    use Stage as S;
    match stage {
        S::PreFilter
        | S::AddPod
        | S::RemovePod
        | S::Filter
        | S::PostFilter
        | S::PodGroupPostFilter
        | S::PlacementGenerate
        | S::PlacementScore
        | S::NormalizePlacements
        | S::PreScore
        | S::Score
        | S::Normalize
        | S::Reserve
        | S::Permit => true,
        S::PreEnqueue | S::Sign | S::Unreserve | S::PreFlight | S::PreBind | S::Bind | S::PostBind => false,
    }
}

/// A plugin's time at one stage of the current cycle.
#[derive(Debug, Default)]
struct CycleTime {
    nanoseconds: AtomicU64,
    /// Number of the status plus one; 0 if there was no call.
    status: AtomicU8,
}

/// The series of one plugin of one profile.
#[derive(Debug)]
pub(crate) struct PluginSeries {
    name: &'static str,
    families: Arc<Families>,
    sampling: Arc<Sampling>,
    durations: ByStage<ByStatus>,
    evaluations: ByStage<Option<IntCounter>>,
    /// Label under which failures are counted; `None` if they are not counted.
    failures: ByStage<Option<&'static str>>,
    /// Number of calls outside a cycle so far.
    calls: ByStage<AtomicU64>,
    spent: ByStage<CycleTime>,
}

impl PluginSeries {
    pub(crate) fn new(
        name: &'static str,
        profile: &str,
        stages: &[Stage],
        families: Arc<Families>,
        sampling: Arc<Sampling>,
    ) -> Self {
        let evaluations = Stage::ALL.map(|stage| match stage {
            Stage::PreFilter | Stage::Filter | Stage::PreScore | Stage::Score if stages.contains(&stage) => {
                let labels = [name, stage.name(), profile];
                Some(families.plugin_evaluations.with_label_values(&labels))
            }
            Stage::PostFilter if name == PREEMPTION => Some(families.preemption_attempts.clone()),
            _ => None,
        });
        let failures = Stage::ALL.map(|stage| match stage {
            Stage::Filter => Some("predicate"),
            Stage::Reserve => Some("assume"),
            Stage::PreBind => Some("bind"),
            _ => None,
        });
        let failures = failures.map(|operation| operation.filter(|_| name == VOLUMES));
        Self {
            name,
            families,
            sampling,
            durations: Default::default(),
            evaluations,
            failures,
            calls: Default::default(),
            spent: Default::default(),
        }
    }

    fn observe(&self, stage: Stage, status: Status, took: Duration) {
        let series = &self.durations[stage as usize][status as usize];
        let find = || {
            let labels = [self.name, stage.name(), status.name()];
            self.families.plugin_duration.with_label_values(&labels)
        };
        series.get_or_init(find).observe(took.as_secs_f64());
    }

    /// Records a call that searched for victims, unless the call did something else.
    fn observe_preemption(&self, stage: Stage, status: Status, took: Duration) {
        if self.name != PREEMPTION {
            return;
        }
        let preemptor = match stage {
            Stage::PostFilter => POD,
            Stage::PodGroupPostFilter => POD_GROUP,
            _ => return,
        };
        let series = self.families.evaluation_duration.with_label_values(&[preemptor, status.name()]);
        series.observe(took.as_secs_f64());
        if stage == Stage::PodGroupPostFilter {
            self.families.workload_preemptions.with_label_values(&[status.name()]).inc();
        }
    }

    fn observe_cycle(&self) {
        for stage in Stage::ALL {
            let CycleTime { nanoseconds, status } = &self.spent[stage as usize];
            let status = usize::from(status.swap(0, Relaxed));
            if let Some(status) = status.checked_sub(1).and_then(|status| STATUSES.get(status)) {
                self.observe(stage, *status, Duration::from_nanos(nanoseconds.swap(0, Relaxed)));
            }
        }
    }
}

impl PluginMeter for PluginSeries {
    fn begin(&self, stage: Stage) -> Option<Stamp> {
        let measured = match stage {
            Stage::Sign => true,
            Stage::PostFilter | Stage::PodGroupPostFilter if self.name == PREEMPTION => true,
            _ if is_in_cycle(stage) => {
                self.sampling.is_sampled.load(Relaxed) || self.sampling.last.is_traced()
            }
            _ => self.calls[stage as usize].fetch_add(1, Relaxed).is_multiple_of(SAMPLE_EVERY),
        };
        measured.then(|| self.sampling.now())
    }

    fn end(&self, stage: Stage, begun: Stamp, status: Status) {
        let now = self.sampling.now();
        let took = now.since(begun);
        if !is_in_cycle(stage) {
            return self.observe(stage, status, took);
        }
        self.observe_preemption(stage, status, took);
        if self.sampling.last.is_traced() {
            self.sampling.last.record_plugin(self.name, stage, (begun, now), status);
        }
        if !self.sampling.is_sampled.load(Relaxed) {
            return;
        }
        // Rejecting nodes is Filter's normal work.
        let is_reported = stage != Stage::Filter || status == Status::Error;
        let status = if is_reported { status } else { Status::Success };
        let spent = &self.spent[stage as usize];
        spent.nanoseconds.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Relaxed);
        spent.status.fetch_max(status as u8 + 1, Relaxed);
    }

    fn failed(&self, stage: Stage) {
        if let Some(operation) = self.failures[stage as usize] {
            self.families.volume_stage_errors.with_label_values(&[operation]).inc();
        }
    }

    fn evaluated(&self, stage: Stage, times: usize) {
        if let Some(evaluations) = &self.evaluations[stage as usize] {
            evaluations.inc_by(times as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_is_at_the_index_of_its_number() {
        assert!(STATUSES.iter().enumerate().all(|(at, status)| *status as usize == at));
    }
}
