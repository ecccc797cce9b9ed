//! The engine's meter, which records measurements as metrics.

use std::{
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicI64, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use harbormaster_api::Str;
use harbormaster_core::{
    Stuck,
    meter::{AttemptResult, BatchResult, HintResult, Meter, VictimCounts},
    note::{Cause, QueueState},
};
use harbormaster_framework::{
    events::{Action, ClusterEvent, EventResource},
    meter::{Measurement, PluginMeter, ProfileMeter, Stage, Stamp, Status},
};
use prometheus::{Gauge, GaugeVec, Histogram, HistogramVec, IntCounter, IntCounterVec, core::Collector as _};

use crate::{
    attempts::Attempts,
    families as table,
    gauges::{POD, POD_GROUP},
    plugins::{ByStage, ByStatus, PluginSeries, Sampling, is_in_cycle},
    series::{Registry, Series},
};

/// Maximum number of hint calls measured per second. A single change may cause one call for each waiting pod.
const HINTS_PER_SECOND: i64 = 1000;
/// Pods with at least this number of attempts share a series.
const MANY_ATTEMPTS: usize = 15;

/// The metric families in which the engine's work is recorded.
#[derive(Debug)]
pub(crate) struct Families {
    schedule_attempts: IntCounterVec,
    attempt_duration: HistogramVec,
    algorithm_duration: Histogram,
    sli_duration: HistogramVec,
    scheduling_attempts: Histogram,
    scheduled_after_flush: IntCounter,
    point_duration: HistogramVec,
    pub(crate) plugin_duration: HistogramVec,
    pub(crate) plugin_evaluations: IntCounterVec,
    incoming_pods: IntCounterVec,
    incoming_entities: IntCounterVec,
    unschedulable_pods: GaugeVec,
    event_duration: HistogramVec,
    hint_duration: HistogramVec,
    pub(crate) preemption_attempts: IntCounter,
    preemption_victims: Histogram,
    preemption_duration: HistogramVec,
    preemption_executions: IntCounterVec,
    group_attempts: IntCounterVec,
    group_attempt_duration: HistogramVec,
    group_algorithm_duration: Histogram,
    pub(crate) workload_preemptions: IntCounterVec,
    workload_victims: Histogram,
    workload_disruptions: HistogramVec,
    budget_violations: IntCounterVec,
    generated_placements: IntCounterVec,
    placement_evaluations: IntCounterVec,
    placement_duration: HistogramVec,
    pub(crate) evaluation_duration: HistogramVec,
    execution_duration: HistogramVec,
    permit_duration: HistogramVec,
    batch_attempts: IntCounterVec,
    batch_flushes: IntCounterVec,
    hint_node_duration: HistogramVec,
    store_results_duration: HistogramVec,
    pub(crate) volume_stage_errors: IntCounterVec,
    claim_creations: IntCounterVec,
    owned_claim_creations: IntCounterVec,
    device_waits: IntCounterVec,
    device_wait_duration: HistogramVec,
    stuck_pods: IntCounterVec,
}

impl Families {
    /// Returns the number of pods that got a node, and the sum of the times that they waited, in seconds.
    pub(crate) fn placed(&self) -> (u64, f64) {
        let families = self.sli_duration.collect();
        let histograms =
            families.iter().flat_map(|family| family.get_metric()).map(|metric| metric.get_histogram());
        histograms
            .fold((0, 0.0), |(count, sum), one| (count + one.get_sample_count(), sum + one.get_sample_sum()))
    }

    pub(crate) fn new(registry: &Registry) -> Self {
        let counters = |family| registry.counters(family);
        let histograms = |family| registry.histograms(family);
        let one = |family| histograms(family).with_label_values::<&str>(&[]);
        let count = |family| counters(family).with_label_values::<&str>(&[]);
        Self {
            schedule_attempts: counters(&table::SCHEDULE_ATTEMPTS),
            attempt_duration: histograms(&table::ATTEMPT_DURATION),
            algorithm_duration: one(&table::ALGORITHM_DURATION),
            sli_duration: histograms(&table::SLI_DURATION),
            scheduling_attempts: one(&table::SCHEDULING_ATTEMPTS),
            scheduled_after_flush: count(&table::SCHEDULED_AFTER_FLUSH),
            point_duration: histograms(&table::POINT_DURATION),
            plugin_duration: histograms(&table::PLUGIN_DURATION),
            plugin_evaluations: counters(&table::PLUGIN_EVALUATIONS),
            incoming_pods: counters(&table::INCOMING_PODS),
            incoming_entities: counters(&table::INCOMING_ENTITIES),
            unschedulable_pods: registry.gauges(&table::UNSCHEDULABLE_PODS),
            event_duration: histograms(&table::EVENT_DURATION),
            hint_duration: histograms(&table::HINT_DURATION),
            preemption_attempts: count(&table::PREEMPTION_ATTEMPTS),
            preemption_victims: one(&table::PREEMPTION_VICTIMS),
            preemption_duration: histograms(&table::PREEMPTION_DURATION),
            preemption_executions: counters(&table::PREEMPTION_EXECUTIONS),
            group_attempts: counters(&table::GROUP_ATTEMPTS),
            group_attempt_duration: histograms(&table::GROUP_ATTEMPT_DURATION),
            group_algorithm_duration: one(&table::GROUP_ALGORITHM_DURATION),
            workload_preemptions: counters(&table::WORKLOAD_PREEMPTIONS),
            workload_victims: one(&table::WORKLOAD_VICTIMS),
            workload_disruptions: histograms(&table::WORKLOAD_DISRUPTIONS),
            budget_violations: counters(&table::BUDGET_VIOLATIONS),
            generated_placements: counters(&table::GENERATED_PLACEMENTS),
            placement_evaluations: counters(&table::PLACEMENT_EVALUATIONS),
            placement_duration: histograms(&table::PLACEMENT_DURATION),
            evaluation_duration: histograms(&table::EVALUATION_DURATION),
            execution_duration: histograms(&table::EXECUTION_DURATION),
            permit_duration: histograms(&table::PERMIT_DURATION),
            batch_attempts: counters(&table::BATCH_ATTEMPTS),
            batch_flushes: counters(&table::BATCH_FLUSHES),
            hint_node_duration: histograms(&table::HINT_NODE_DURATION),
            store_results_duration: histograms(&table::STORE_RESULTS_DURATION),
            volume_stage_errors: counters(&table::VOLUME_STAGE_ERRORS),
            claim_creations: counters(&table::CLAIM_CREATIONS),
            owned_claim_creations: counters(&table::OWNED_CLAIM_CREATIONS),
            device_waits: counters(&table::DEVICE_WAITS),
            device_wait_duration: histograms(&table::DEVICE_WAIT_DURATION),
            stuck_pods: counters(&table::STUCK_PODS),
        }
    }
}

/// The series of one part of the queue and one cause, for pods on their own or for groups.
#[derive(Debug)]
struct IncomingSeries {
    pods: IntCounter,
    entities: Option<IntCounter>,
}

impl IncomingSeries {
    fn inc(&self, pods: usize) {
        self.pods.inc_by(pods as u64);
        if let Some(entities) = &self.entities {
            entities.inc();
        }
    }
}

/// Returns true if a move is counted as an entity that enters a part of the queue. kube-scheduler compares the part
/// with the one that the outcome of the attempt, or the hint about the event, prescribes, and counts only if they
/// differ.
fn is_new_entity(place: QueueState, cause: Cause) -> bool {
    match cause {
        Cause::BackoffComplete | Cause::PoppedFromBackoff | Cause::Activated => true,
        // The pod was created.
        Cause::Event(ClusterEvent {
            resource: EventResource::UnscheduledPod | EventResource::UnschedulablePod,
            action: Action::ADD,
        }) => true,
        Cause::AttemptFailed | Cause::Timeout | Cause::Due | Cause::ConfigChanged | Cause::Event(_) => {
            place == QueueState::Active
        }
    }
}

/// Records the measurements of one engine.
#[derive(Debug)]
pub(crate) struct Recorder {
    families: Arc<Families>,
    sampling: Arc<Sampling>,
    profiles: Mutex<Vec<Arc<ProfileSeries>>>,
    sli_durations: [OnceLock<Histogram>; MANY_ATTEMPTS],
    incoming: Series<(QueueState, Cause, bool), IncomingSeries>,
    rejections: Series<(Str, &'static str), Gauge>,
    events: Series<ClusterEvent, Histogram>,
    hints: Series<(&'static str, ClusterEvent, HintResult), Histogram>,
    /// Number of hints that may still be measured in the current second.
    hints_left: AtomicI64,
    /// Start of the current second.
    hints_since: AtomicU64,
}

impl Recorder {
    pub(crate) fn new(families: Arc<Families>) -> Self {
        Self {
            families,
            sampling: Arc::new(Sampling::new()),
            profiles: Mutex::default(),
            sli_durations: Default::default(),
            incoming: Series::default(),
            rejections: Series::default(),
            events: Series::default(),
            hints: Series::default(),
            hints_left: AtomicI64::new(HINTS_PER_SECOND),
            hints_since: AtomicU64::new(0),
        }
    }

    /// Returns a reader of the attempts' timings.
    pub(crate) fn attempts(&self) -> Attempts {
        Attempts::of(self.sampling.clone())
    }

    fn profile_at(&self, at: usize) -> Option<Arc<ProfileSeries>> {
        self.profiles.lock().unwrap_or_else(PoisonError::into_inner).get(at).cloned()
    }

    /// Calls `count` with the series of a part of the queue that pods enter.
    fn enters(&self, place: QueueState, cause: Cause, is_group: bool, count: impl FnOnce(&IncomingSeries)) {
        let queue = match place {
            QueueState::Active => "active",
            QueueState::Backoff => "backoff",
            QueueState::Unschedulable => "unschedulable",
            QueueState::New | QueueState::InFlight => return,
        };
        let kind = if is_group { POD_GROUP } else { POD };
        let find = |(_, cause, _): &(QueueState, Cause, bool)| {
            let event = cause.to_string();
            let Families { incoming_pods, incoming_entities, .. } = &*self.families;
            let entities = || incoming_entities.with_label_values(&[queue, event.as_str(), kind]);
            IncomingSeries {
                pods: incoming_pods.with_label_values(&[queue, event.as_str()]),
                entities: is_new_entity(place, *cause).then(entities),
            }
        };
        self.incoming.with((place, cause, is_group), find, count);
    }

    /// Starts a new second, and resets the number of hints that may be measured, if the current second has passed.
    fn renew_hints(&self, now: Stamp) {
        let since = Stamp(self.hints_since.load(Relaxed));
        if now.since(since) >= Duration::from_secs(1) {
            self.hints_since.store(now.0, Relaxed);
            self.hints_left.store(HINTS_PER_SECOND, Relaxed);
        }
    }
}

impl Meter for Recorder {
    fn now(&self) -> Stamp {
        self.sampling.now()
    }

    fn profile(&self, at: usize, name: &str) -> Arc<dyn ProfileMeter> {
        let (families, sampling) = (self.families.clone(), self.sampling.clone());
        let profile = Arc::new(ProfileSeries::new(name, families, sampling));
        let mut profiles = self.profiles.lock().unwrap_or_else(PoisonError::into_inner);
        if at == 0 {
            self.sampling.clear_plugins();
        }
        profiles.truncate(at);
        profiles.push(profile.clone());
        profile
    }

    fn cycle_begins(&self) -> Stamp {
        self.sampling.cycle_begins()
    }

    fn cycle_resumes(&self, begun: Stamp) {
        self.sampling.cycle_resumes(begun);
    }

    fn cycle_ends(&self) {
        self.sampling.cycle_ends();
    }

    fn searched(&self, begun: Stamp) {
        let took = self.now().since(begun);
        self.sampling.last.record_search(took);
        self.families.algorithm_duration.observe(took.as_secs_f64());
    }

    fn attempted(&self, profile: usize, result: AttemptResult, begun: Stamp) {
        if let Some(profile) = self.profile_at(profile) {
            let (durations, attempts) = profile.attempts(result);
            durations.observe(self.now().since(begun).as_secs_f64());
            attempts.inc();
        }
    }

    fn searched_group(&self, begun: Stamp) {
        let took = self.now().since(begun);
        self.sampling.last.record_search(took);
        self.families.group_algorithm_duration.observe(took.as_secs_f64());
    }

    fn attempted_group(&self, profile: usize, result: AttemptResult, begun: Stamp) {
        if let Some(profile) = self.profile_at(profile) {
            let labels = [result.name(), profile.name.as_str()];
            let duration = self.families.group_attempt_duration.with_label_values(&labels);
            duration.observe(self.now().since(begun).as_secs_f64());
            self.families.group_attempts.with_label_values(&labels).inc();
        }
    }

    fn scheduled(&self, attempts: u32, waited: Option<Duration>, after_timeout: bool) {
        self.families.scheduling_attempts.observe(f64::from(attempts));
        if after_timeout {
            self.families.scheduled_after_flush.inc();
        }
        let Some(waited) = waited else { return };
        let at = (attempts as usize).clamp(1, MANY_ATTEMPTS);
        let find = || {
            let label = if at == MANY_ATTEMPTS { format!("{at}+") } else { at.to_string() };
            self.families.sli_duration.with_label_values(&[label.as_str()])
        };
        self.sli_durations[at - 1].get_or_init(find).observe(waited.as_secs_f64());
    }

    fn queued(&self, place: QueueState, cause: Cause, members: Option<usize>) {
        self.enters(place, cause, members.is_some(), |series| series.inc(members.unwrap_or(1)));
    }

    fn joined(&self, place: QueueState, cause: Cause) {
        self.enters(place, cause, true, |series| series.pods.inc());
    }

    fn rejects(&self, profile: &Str, plugin: &'static str, more: bool) {
        let find = |_: &(Str, &'static str)| {
            self.families.unschedulable_pods.with_label_values(&[plugin, profile.as_str()])
        };
        let change = |gauge: &Gauge| if more { gauge.inc() } else { gauge.dec() };
        self.rejections.with((profile.clone(), plugin), find, change);
    }

    fn stuck(&self, why: Stuck) {
        self.families.stuck_pods.with_label_values(&[why.name()]).inc();
    }

    fn handled(&self, event: ClusterEvent, begun: Stamp) {
        let now = self.now();
        self.renew_hints(now);
        let find = |event: &ClusterEvent| {
            self.families.event_duration.with_label_values(&[event.to_string().as_str()])
        };
        self.events.with(event, find, |series| series.observe(now.since(begun).as_secs_f64()));
    }

    fn hint_begins(&self) -> Option<Stamp> {
        (self.hints_left.fetch_sub(1, Relaxed) > 0).then(|| self.now())
    }

    fn hinted(&self, plugin: &'static str, event: ClusterEvent, hint: HintResult, begun: Stamp) {
        let took = self.now().since(begun).as_secs_f64();
        let find = |_: &(&'static str, ClusterEvent, HintResult)| {
            let labels = [plugin, &event.to_string(), hint.name()];
            self.families.hint_duration.with_label_values(&labels)
        };
        self.hints.with((plugin, event, hint), find, |series| series.observe(took));
    }

    fn permitted(&self, status: Status, begun: Stamp) {
        let series = self.families.permit_duration.with_label_values(&[status.name()]);
        series.observe(self.now().since(begun).as_secs_f64());
    }

    fn placements_generated(&self, profile: usize, count: usize) {
        if let Some(profile) = self.profile_at(profile) {
            let series = self.families.generated_placements.with_label_values(&[profile.name.as_str()]);
            series.inc_by(count as u64);
        }
    }

    fn placement_tried(&self, profile: usize, feasible: bool, begun: Stamp) {
        if let Some(profile) = self.profile_at(profile) {
            let result = if feasible { "feasible" } else { "infeasible" };
            let labels = [result, profile.name.as_str()];
            let took = self.now().since(begun).as_secs_f64();
            self.families.placement_evaluations.with_label_values(&labels).inc();
            self.families.placement_duration.with_label_values(&labels).observe(took);
        }
    }

    fn victims(&self, preemptor: &'static str, victims: VictimCounts) {
        let VictimCounts { pods, disrupted, violations } = victims;
        let Families { preemption_victims, workload_victims, .. } = &*self.families;
        let family = if preemptor == POD { preemption_victims } else { workload_victims };
        family.observe(pods as f64);
        if disrupted > 0 {
            let series = self.families.workload_disruptions.with_label_values(&[preemptor]);
            series.observe(disrupted as f64);
        }
        if violations > 0 {
            self.families.budget_violations.with_label_values(&[preemptor]).inc_by(violations as u64);
        }
    }

    fn evicted(&self, preemptor: &'static str, failed: bool, begun: Stamp) {
        let result = if failed { "error" } else { "success" };
        let took = self.now().since(begun).as_secs_f64();
        self.families.preemption_duration.with_label_values(&[result]).observe(took);
        self.families.execution_duration.with_label_values(&[preemptor, result]).observe(took);
        self.families.preemption_executions.with_label_values(&[result]).inc();
    }

    fn batch_lookup(&self, profile: usize, hinted: bool, begun: Stamp) {
        if let Some(profile) = self.profile_at(profile) {
            let labels = [if hinted { "hint" } else { "no_hint" }, &profile.name];
            let series = self.families.hint_node_duration.with_label_values(&labels);
            series.observe(self.now().since(begun).as_secs_f64());
        }
    }

    fn batch_update(&self, profile: usize, begun: Stamp) {
        if let Some(profile) = self.profile_at(profile) {
            let series = self.families.store_results_duration.with_label_values(&[&profile.name]);
            series.observe(self.now().since(begun).as_secs_f64());
        }
    }

    fn batched(&self, profile: usize, result: BatchResult) {
        if let Some(profile) = self.profile_at(profile) {
            self.families.batch_attempts.with_label_values(&[profile.name.as_str(), result.name()]).inc();
        }
    }

    fn batch_flushed(&self, profile: usize, reason: &'static str) {
        if let Some(profile) = self.profile_at(profile) {
            self.families.batch_flushes.with_label_values(&[profile.name.as_str(), reason]).inc();
        }
    }
}

/// The series of one profile.
#[derive(Debug)]
struct ProfileSeries {
    name: String,
    families: Arc<Families>,
    sampling: Arc<Sampling>,
    attempts: [OnceLock<(Histogram, IntCounter)>; AttemptResult::COUNT],
    points: ByStage<ByStatus>,
}

impl ProfileSeries {
    fn new(name: &str, families: Arc<Families>, sampling: Arc<Sampling>) -> Self {
        let (attempts, points) = Default::default();
        Self { name: name.to_owned(), families, sampling, attempts, points }
    }

    fn attempts(&self, result: AttemptResult) -> &(Histogram, IntCounter) {
        self.attempts[result as usize].get_or_init(|| {
            let labels = [result.name(), &self.name];
            let Families { attempt_duration, schedule_attempts, .. } = &*self.families;
            (attempt_duration.with_label_values(&labels), schedule_attempts.with_label_values(&labels))
        })
    }
}

impl ProfileMeter for ProfileSeries {
    fn now(&self) -> Stamp {
        self.sampling.now()
    }

    fn point(&self, stage: Stage, status: Status, spent: Duration) {
        if is_in_cycle(stage) {
            self.sampling.last.record_point(stage, status, spent, || self.now());
        }
        let find = || {
            let labels = [stage.name(), status.name(), &self.name];
            self.families.point_duration.with_label_values(&labels)
        };
        self.points[stage as usize][status as usize].get_or_init(find).observe(spent.as_secs_f64());
    }

    fn plugin(&self, name: &'static str, stages: &[Stage]) -> Arc<dyn PluginMeter> {
        let (families, sampling) = (self.families.clone(), self.sampling.clone());
        let plugin = Arc::new(PluginSeries::new(name, &self.name, stages, families, sampling));
        self.sampling.add(plugin.clone());
        plugin
    }

    fn measured(&self, measurement: &Measurement) {
        match measurement {
            Measurement::ClaimCreation { succeeded } => {
                let status = if *succeeded { "success" } else { "failure" };
                self.families.claim_creations.with_label_values(&[status]).inc();
                // No claim is created for admin access or for a group of pods.
                let labels = [status, "false", "", "Pod"];
                self.families.owned_claim_creations.with_label_values(&labels).inc();
            }
            Measurement::DeviceWait { driver, has_conditions, end, waited } => {
                let labels = [self.name.as_str(), driver, end.name()];
                let duration = self.families.device_wait_duration.with_label_values(&labels);
                duration.observe(waited.as_secs_f64());
                if *has_conditions {
                    self.families.device_waits.with_label_values(&labels).inc();
                }
            }
        }
    }
}
