//! The table of all metrics.
//!
//! Metrics that kube-scheduler also has keep its names, help texts, labels and buckets, so that dashboards and alerts
//! written for kube-scheduler keep working. Where its releases differ, so do the metrics.

use harbormaster_api::{
    Release,
    features::{Feature, Features},
};

/// Type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number that only increases.
    Counter,
    /// A number that goes up and down.
    Gauge,
    /// Observations in buckets.
    Histogram,
}

impl Kind {
    /// Name of the type on a metrics page.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// Stability level that Kubernetes declares for a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stability {
    /// The metric and its labels do not change.
    Stable,
    /// Labels may be added.
    Beta,
    /// No guarantee.
    Alpha,
    /// None declared: the metric is not one of Kubernetes' own.
    Undeclared,
}

impl Stability {
    /// Kubernetes' spelling; empty if none is declared.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stable => "STABLE",
            Self::Beta => "BETA",
            Self::Alpha => "ALPHA",
            Self::Undeclared => "",
        }
    }
}

/// Upper bounds of a histogram's buckets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Buckets {
    /// No buckets.
    None,
    /// The first bound, the factor between adjacent bounds, and the number of bounds.
    Exponential(f64, f64, usize),
    /// Explicit bounds.
    Listed(&'static [f64]),
}

impl Buckets {
    /// The bounds, without the infinite bound of the last bucket.
    pub fn bounds(self) -> Vec<f64> {
        match self {
            Self::None => Vec::new(),
            Self::Listed(bounds) => bounds.to_vec(),
            // Multiplied step by step, as in Go, because powers would be rounded differently for some bounds.
            Self::Exponential(first, factor, count) => {
                std::iter::successors(Some(first), |bound| Some(bound * factor)).take(count).collect()
            }
        }
    }
}

/// A value that may change once, from some release on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versioned<T> {
    first: T,
    later: Option<(Release, T)>,
}

impl<T: Copy> Versioned<T> {
    const fn new(first: T) -> Self {
        Self { first, later: None }
    }

    /// Returns the value in a release.
    pub fn at(self, release: Release) -> T {
        self.later.filter(|(since, _)| release >= *since).map_or(self.first, |(_, later)| later)
    }
}

/// A metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Family {
    /// Name.
    pub name: &'static str,
    /// Type.
    pub kind: Kind,
    /// Stability level.
    pub stability: Versioned<Stability>,
    /// Help text: kube-scheduler's, word for word, if kube-scheduler has the metric.
    pub help: Versioned<&'static str>,
    /// Names of the labels, in the order in which their values are passed.
    pub labels: &'static [&'static str],
    /// Buckets of a histogram.
    pub buckets: Buckets,
    /// The first release that has the metric; `None` if the oldest has it.
    pub since: Option<Release>,
    /// The first release that has the metric no more; `None` if the newest has it.
    pub removed: Option<Release>,
    /// The first release that deprecates the metric; `None` if no release does.
    pub deprecated: Option<Release>,
    /// The feature without which the metric does not exist, if there is one.
    pub gate: Option<Feature>,
    /// Difference in meaning from kube-scheduler's metric; empty if there is none.
    pub difference: &'static str,
}

impl Family {
    const fn new(kind: Kind, stability: Stability, name: &'static str, help: &'static str) -> Self {
        Self {
            name,
            kind,
            stability: Versioned::new(stability),
            help: Versioned::new(help),
            labels: &[],
            buckets: Buckets::None,
            since: None,
            removed: None,
            deprecated: None,
            gate: None,
            difference: "",
        }
    }

    const fn by(self, labels: &'static [&'static str]) -> Self {
        Self { labels, ..self }
    }

    const fn exponential(self, first: f64, factor: f64, count: usize) -> Self {
        Self { buckets: Buckets::Exponential(first, factor, count), ..self }
    }

    const fn in_buckets(self, bounds: &'static [f64]) -> Self {
        Self { buckets: Buckets::Listed(bounds), ..self }
    }

    const fn since(self, release: Release) -> Self {
        Self { since: Some(release), ..self }
    }

    const fn with(self, gate: Feature) -> Self {
        Self { gate: Some(gate), ..self }
    }

    const fn removed_in(self, release: Release) -> Self {
        Self { removed: Some(release), ..self }
    }

    const fn deprecated_in(self, release: Release) -> Self {
        Self { deprecated: Some(release), ..self }
    }

    const fn stability_since(self, release: Release, stability: Stability) -> Self {
        let stability = Versioned { first: self.stability.first, later: Some((release, stability)) };
        Self { stability, ..self }
    }

    const fn help_since(self, release: Release, help: &'static str) -> Self {
        let help = Versioned { first: self.help.first, later: Some((release, help)) };
        Self { help, ..self }
    }

    const fn differs(self, difference: &'static str) -> Self {
        Self { difference, ..self }
    }

    /// Returns true if the metric exists with these features.
    pub fn exists_with(&self, features: Features) -> bool {
        self.exists_in(features.release()) && self.gate.is_none_or(|gate| features.enabled(gate))
    }

    /// Returns true if the release has the metric.
    pub fn exists_in(&self, release: Release) -> bool {
        self.since.is_none_or(|since| release >= since)
            && self.removed.is_none_or(|removed| release < removed)
    }

    /// Returns true if the release deprecates the metric.
    fn is_deprecated_in(&self, release: Release) -> bool {
        self.deprecated.is_some_and(|deprecated| release >= deprecated)
    }

    /// Returns true if the release hides the metric unless `--show-hidden-metrics-for-version` is given. Alpha metrics
    /// are hidden as soon as they are deprecated. No other metric is deprecated.
    pub fn is_hidden_in(&self, release: Release) -> bool {
        self.is_deprecated_in(release) && self.stability.at(release) == Stability::Alpha
    }

    /// Text of the `HELP` line in a release: the stability level and the help text.
    pub fn full_help(&self, release: Release) -> String {
        let mut text = match self.stability.at(release) {
            Stability::Undeclared => String::new(),
            declared => format!("[{}] ", declared.name()),
        };
        if let Some(deprecated) = self.deprecated.filter(|_| self.is_deprecated_in(release)) {
            text.push_str(&format!("(Deprecated since {deprecated}.0) "));
        }
        text + self.help.at(release)
    }
}

const fn counter(stability: Stability, name: &'static str, help: &'static str) -> Family {
    Family::new(Kind::Counter, stability, name, help)
}

const fn gauge(stability: Stability, name: &'static str, help: &'static str) -> Family {
    Family::new(Kind::Gauge, stability, name, help)
}

const fn histogram(stability: Stability, name: &'static str, help: &'static str) -> Family {
    Family::new(Kind::Histogram, stability, name, help)
}

/// Bounds for request durations, in seconds.
const REQUESTS: &[f64] = &[0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];
/// Bounds for request and response sizes, in bytes.
const SIZES: &[f64] = &[
    64.0,
    256.0,
    512.0,
    1024.0,
    4096.0,
    16384.0,
    65536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
];

/// Defines a static for each family and a list of all families.
macro_rules! families {
    ($list:ident, $($id:ident = $family:expr;)*) => {
        $(pub(crate) static $id: Family = $family;)*
        /// All families of the page.
        pub static $list: &[&Family] = &[$(&$id),*];
    };
}

use Release::V1_37;
use Stability::{Alpha, Beta, Stable, Undeclared};

families! { METRICS,
    // --- attempts ---
    SCHEDULE_ATTEMPTS = counter(Stable, "scheduler_schedule_attempts_total",
        "Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could not be scheduled, while 'error' means an internal scheduler problem.")
        .by(&["result", "profile"]);
    ATTEMPT_DURATION = histogram(Stable, "scheduler_scheduling_attempt_duration_seconds",
        "Scheduling attempt latency in seconds (scheduling algorithm + binding)")
        .by(&["result", "profile"]).exponential(0.001, 2.0, 15)
        .differs("For a bound pod, ends when the engine learns that the pod is bound.");
    ALGORITHM_DURATION = histogram(Alpha, "scheduler_scheduling_algorithm_duration_seconds",
        "Scheduling algorithm latency in seconds").exponential(0.001, 2.0, 15).stability_since(V1_37, Beta);
    SLI_DURATION = histogram(Beta, "scheduler_pod_scheduling_sli_duration_seconds",
        "E2e latency for a pod being scheduled, from the time the pod enters the scheduling queue and might involve multiple scheduling attempts.")
        .by(&["attempts"]).exponential(0.01, 2.0, 20);
    SCHEDULING_ATTEMPTS = histogram(Stable, "scheduler_pod_scheduling_attempts",
        "Number of attempts to successfully schedule a pod.").exponential(1.0, 2.0, 5);
    SCHEDULED_AFTER_FLUSH = counter(Alpha, "scheduler_pod_scheduled_after_flush_total",
        "Number of pods that were successfully scheduled after being flushed from unschedulablePods due to timeout. This metric helps detect potential queueing hint misconfigurations or event handling issues.")
        .help_since(V1_37, "Number of pods that were successfully scheduled after being flushed from unschedulableEntities due to timeout. This metric helps detect potential queueing hint misconfigurations or event handling issues.")
        .differs("Counted as described; in kube-scheduler it stays at 0.");

    // --- extension points and plugins ---
    POINT_DURATION = histogram(Stable, "scheduler_framework_extension_point_duration_seconds",
        "Latency for running all plugins of a specific extension point.")
        .by(&["extension_point", "status", "profile"]).exponential(0.0001, 2.0, 12)
        .differs("Filter, PreScore and Score: total time of a cycle at the point, observed once per cycle. Cached answers are reused, so most values are far smaller. PreScore and Score are observed only if more than one node was feasible. Sign exists only with `--parity`.");
    PLUGIN_DURATION = histogram(Alpha, "scheduler_plugin_execution_duration_seconds",
        "Duration for running a plugin at a specific extension point.")
        .by(&["plugin", "extension_point", "status"]).exponential(0.00001, 1.5, 20).stability_since(V1_37, Beta)
        .differs("Every tenth cycle is measured rather than a random tenth, and every tenth call outside a cycle (PreEnqueue, Unreserve, PreBindPreFlight, PreBind, Bind, PostBind). For Filter, Score and their extensions, one observation is the plugin's total time in the cycle, not its time for one node; rejecting nodes has status Success.");
    PLUGIN_EVALUATIONS = counter(Beta, "scheduler_plugin_evaluation_total",
        "Number of attempts to schedule pods by each plugin and the extension point (available only in PreFilter, Filter, PreScore, and Score).")
        .by(&["plugin", "extension_point", "profile"])
        .differs("PreFilter and PreScore: as in kube-scheduler. Filter and Score: number of nodes that the plugin evaluated; cached answers are not counted, so values are smaller.");

    // --- the queue ---
    PENDING_PODS = gauge(Stable, "scheduler_pending_pods",
        "Number of pending pods, by the queue type. 'active' means number of pods in activeQ; 'backoff' means number of pods in backoffQ; 'unschedulable' means number of pods in unschedulablePods that the scheduler attempted to schedule and failed; 'gated' is the number of unschedulable pods that the scheduler never attempted to schedule because they are gated.")
        .by(&["queue"])
        .help_since(V1_37, "Number of pending pods, by the queue type. 'active' means number of pods in activeQ; 'backoff' means number of pods in backoffQ; 'unschedulable' means number of pods in unschedulableEntities that the scheduler attempted to schedule and failed; 'gated' is the number of unschedulable pods that the scheduler never attempted to schedule because they are gated; 'incomplete' means number of pods in incompletePodGroupPods; 'pending' means number of pods in pendingPodGroupPods.")
        .differs("Up to one second old while pods are being scheduled; exact when idle.");
    QUEUED_ENTITIES = gauge(Alpha, "scheduler_queued_entities",
        "Number of queued scheduling entities ('pod' or 'podgroup'; 'pod' stands for individual pods that are not members of any podgroup) by the queue type. 'active' means number of entities in activeQ; 'backoff' means number of entities in backoffQ; 'unschedulable' means number of entities in unschedulableEntities that the scheduler attempted to schedule and failed; 'gated' is the number of unschedulable entities that the scheduler never attempted to schedule because they are gated.")
        .by(&["queue", "type"]).since(V1_37)
        .differs("Up to one second old while pods are being scheduled; exact when idle.");
    INCOMING_PODS = counter(Stable, "scheduler_queue_incoming_pods_total",
        "Number of pods added to scheduling queues by event and queue type.").by(&["queue", "event"])
        .differs("When a pod joins or leaves the queued members of its group, kube-scheduler counts all of them again. Here, only a pod that joins is counted.");
    INCOMING_ENTITIES = counter(Alpha, "scheduler_queue_incoming_entities_total",
        "Number of scheduling entities added to scheduling queues by event, queue type, and entity type. Entity types are either 'pod' (for individual pods that are not members of any podgroup) or 'podgroup'.")
        .by(&["queue", "event", "type"]).since(V1_37)
        .differs("As in kube-scheduler, moves to backoffQ or unschedulablePods after an attempt or an event are not counted. Of the other moves after an attempt or an event, kube-scheduler leaves out those that skip the backoff, but counts pods that become gated.");
    UNSCHEDULABLE_PODS = gauge(Beta, "scheduler_unschedulable_pods",
        "The number of unschedulable pods broken down by plugin name. A pod will increment the gauge for all plugins that caused it to not schedule and so this metric have meaning only when broken down by plugin.")
        .by(&["plugin", "profile"])
        .differs("Also decreases when a rejected pod is deleted while it is in backoffQ or activeQ, as in kube-scheduler 1.37.");
    EVENT_DURATION = histogram(Alpha, "scheduler_event_handling_duration_seconds",
        "Event handling latency in seconds.").by(&["event"]).exponential(0.0001, 2.0, 12)
        .differs("Each event is observed once, measured from the start of the change that caused it. A pod that becomes bound is observed only as AssignedPodAdd. Updates of bound pods that change nothing the scheduler reads are not observed.");
    HINT_DURATION = histogram(Alpha, "scheduler_queueing_hint_execution_duration_seconds",
        "Duration for running a queueing hint function of a plugin.")
        .by(&["plugin", "event", "hint"]).exponential(0.00001, 1.5, 20)
        .differs("At most 1,000 calls per second are measured, as in kube-scheduler.");
    PRE_HINTS = counter(Alpha, "scheduler_pre_queueing_hint_evaluations_total",
        "Number of PreQueueingHint evaluations, labeled by plugin and result (all_pods or narrowed).")
        .by(&["plugin", "result"]).since(V1_37)
        .differs("Always empty, as in kube-scheduler without the feature gate SchedulerPreQueueingHints.");
    INFLIGHT_EVENTS = gauge(Alpha, "scheduler_inflight_events",
        "Number of events currently tracked in the scheduling queue.").by(&["event"])
        .differs("An event is counted once for each plugin whose queueing hint must see it, and not for plugins without a hint. Up to one second old.");

    // --- preemption ---
    PREEMPTION_ATTEMPTS = counter(Stable, "scheduler_preemption_attempts_total",
        "Total preemption attempts in the cluster till now");
    PREEMPTION_VICTIMS = histogram(Stable, "scheduler_preemption_victims",
        "Number of selected preemption victims").exponential(1.0, 2.0, 7)
        .help_since(V1_37, "Number of selected preemption victims for preemption initiated by a single pod");
    PREEMPTION_DURATION = histogram(Alpha, "scheduler_preemption_goroutines_duration_seconds",
        "Duration in seconds for running goroutines for the preemption.")
        .by(&["result"]).exponential(0.01, 2.0, 20).deprecated_in(V1_37)
        .differs("From the first request for a victim to the last response; kube-scheduler 1.36 always reports success and about 0.");
    PREEMPTION_EXECUTIONS = counter(Alpha, "scheduler_preemption_goroutines_execution_total",
        "Number of preemption goroutines executed.").by(&["result"])
        .differs("One per round of evictions, by its result; kube-scheduler 1.36 always reports success.");

    // --- groups, and preemption by pods and groups ---
    GROUP_ATTEMPTS = counter(Alpha, "scheduler_podgroup_schedule_attempts_total",
        "Number of attempts to schedule pod group, by the result. 'unschedulable' means a pod group could not be scheduled, while 'error' means an internal scheduler problem.")
        .by(&["result", "profile"]).since(V1_37).with(Feature::GenericWorkload);
    GROUP_ATTEMPT_DURATION = histogram(Alpha, "scheduler_podgroup_scheduling_attempt_duration_seconds",
        "Pod group scheduling attempt latency in seconds")
        .by(&["result", "profile"]).exponential(0.001, 2.0, 15).since(V1_37).with(Feature::GenericWorkload);
    GROUP_ALGORITHM_DURATION = histogram(Alpha, "scheduler_podgroup_scheduling_algorithm_duration_seconds",
        "Pod group scheduling algorithm latency in seconds")
        .exponential(0.001, 2.0, 15).since(V1_37).with(Feature::GenericWorkload);
    WORKLOAD_PREEMPTIONS = counter(Alpha, "scheduler_workload_preemption_attempts_total",
        "Total preemption attempts initiated by workload (including pod groups) in the cluster till now.")
        .by(&["result"]).since(V1_37).with(Feature::GenericWorkload);
    WORKLOAD_VICTIMS = histogram(Alpha, "scheduler_workload_preemption_victims",
        "Number of pod preemption victims caused by workload preemption.")
        .exponential(1.0, 2.0, 11).since(V1_37).with(Feature::GenericWorkload);
    WORKLOAD_DISRUPTIONS = histogram(Alpha, "scheduler_preemption_workload_disruptions",
        "Number of workload preemption units being preempted. A single preemption unit can be all pods in a pod group (in case of DisruptionMode=all), or a single pod (in case of DisruptionMode=single).")
        .by(&["preemptor"]).exponential(1.0, 2.0, 11).since(V1_37).with(Feature::GenericWorkload);
    BUDGET_VIOLATIONS = counter(Alpha, "scheduler_preemption_pdb_violations_total",
        "Total number of pod disruption budget violations caused by preemption.")
        .by(&["preemptor"]).since(V1_37).with(Feature::GenericWorkload);
    EVALUATION_DURATION = histogram(Alpha, "scheduler_preemption_evaluation_duration_seconds",
        "Duration in seconds for identifying the target preemption victims.")
        .by(&["preemptor", "result"]).exponential(0.001, 2.0, 16).since(V1_37).with(Feature::GenericWorkload)
        .differs("Observed for each call of DefaultPreemption, also for groups that may not preempt or whose victims are still terminating.");
    EXECUTION_DURATION = histogram(Alpha, "scheduler_preemption_execution_duration_seconds",
        "Duration in seconds for preempting the target preemption victims. With async preemption enabled, preemption execution does not block the scheduling of other pods.")
        .by(&["preemptor", "result"]).exponential(0.001, 2.0, 16).since(V1_37).with(Feature::GenericWorkload)
        .differs("From the first request for a victim to the last response.");

    GENERATED_PLACEMENTS = counter(Alpha, "scheduler_generated_placements_total",
        "Number of candidate placements generated when scheduling pod groups.")
        .by(&["profile"]).since(V1_37).with(Feature::TopologyAwareWorkloadScheduling);
    PLACEMENT_EVALUATIONS = counter(Alpha, "scheduler_placement_evaluations_total",
        "Number of candidate placements evaluated when scheduling pod groups, by result. 'feasible' means the pod group fit into the placement, while 'infeasible' means it did not.")
        .by(&["result", "profile"]).since(V1_37).with(Feature::TopologyAwareWorkloadScheduling);
    PLACEMENT_DURATION = histogram(Alpha, "scheduler_placement_evaluation_duration_seconds",
        "Latency in seconds of evaluating a single candidate placement when scheduling pod groups, by result. 'feasible' means the pod group fit into the placement, while 'infeasible' means it did not.")
        .by(&["result", "profile"]).exponential(0.001, 2.0, 15).since(V1_37)
        .with(Feature::TopologyAwareWorkloadScheduling);

    // --- from decision to binding ---
    PERMIT_DURATION = histogram(Beta, "scheduler_permit_wait_duration_seconds",
        "Duration of waiting on permit.").by(&["result"]).exponential(0.001, 2.0, 15);
    GOROUTINES = gauge(Beta, "scheduler_goroutines",
        "Number of running goroutines split by the work they do such as binding.").by(&["operation"])
        .differs("Only 'binding': nothing else runs concurrently. Up to one second old.");
    CACHE_SIZE = gauge(Alpha, "scheduler_cache_size",
        "Number of nodes, pods, and assumed (bound) pods in the scheduler cache.").by(&["type"]);

    // --- opportunistic batching ---
    BATCH_ATTEMPTS = counter(Alpha, "scheduler_batch_attempts_total",
        "Counts of results when we attempt to use batching.").by(&["profile", "result"])
        .differs("With `--parity` only: otherwise batching would gain nothing.");
    BATCH_FLUSHES = counter(Alpha, "scheduler_batch_cache_flushed_total",
        "Counts of cache flushes by reason.").by(&["profile", "reason"])
        .differs("With `--parity` only.");
    RESCORE_ATTEMPTS = counter(Alpha, "scheduler_batch_rescore_attempts_total",
        "Counts of rescore attempts during opportunistic batching.").by(&["profile"]).since(V1_37)
        .differs("Always empty: the last chosen node is not scored again.");
    RESCORE_DURATION = histogram(Alpha, "scheduler_batch_rescore_duration_seconds",
        "Latency for rescoring a node during opportunistic batching.")
        .by(&["profile"]).exponential(0.00001, 2.0, 12).since(V1_37)
        .differs("Always empty.");
    HINT_NODE_DURATION = histogram(Alpha, "scheduler_get_node_hint_duration_seconds",
        "Latency for getting a node hint.").by(&["hinted", "profile"]).exponential(0.00001, 2.0, 12)
        .differs("With `--parity` only.");
    STORE_RESULTS_DURATION = histogram(Alpha, "scheduler_store_schedule_results_duration_seconds",
        "Latency for getting a no.").by(&["profile"]).exponential(0.00001, 2.0, 12)
        .help_since(V1_37, "Latency for storing scheduling results.")
        .differs("With `--parity` only.");

    // --- volumes ---
    VOLUME_STAGE_ERRORS = counter(Alpha, "scheduler_volume_scheduling_stage_error_total",
        "Volume scheduling stage error count").by(&["operation"]);

    // --- devices ---
    CLAIM_CREATIONS = counter(Alpha, "scheduler_resourceclaim_creates_total",
        "Number of ResourceClaims creation requests within scheduler").by(&["status"]).removed_in(V1_37);
    OWNED_CLAIM_CREATIONS = counter(Alpha, "dynamic_resource_allocation_resourceclaim_creates_total",
        "Number of ResourceClaims creation requests, categorized by creation status, admin access, and owning API group and kind (either Pod or scheduling.k8s.io/PodGroup)")
        .by(&["status", "admin_access", "owner_api_group", "owner_api_kind"]).since(V1_37);
    DEVICE_WAITS = counter(Alpha, "scheduler_dra_bindingconditions_allocations_total",
        "Number of allocations using devices with BindingConditions, counted per driver per scheduling attempt")
        .by(&["profile", "driver", "status"])
        .differs("A wait that a preemption ends is not counted.");
    DEVICE_WAIT_DURATION = histogram(Alpha, "scheduler_dra_bindingconditions_wait_duration_seconds",
        "Time in seconds spent waiting for BindingConditions to be satisfied during PreBind.")
        .by(&["profile", "driver", "status"]).exponential(0.1, 2.0, 14)
        .differs("Ends with the event that makes the conditions true; kube-scheduler looks every 5 seconds. A wait that a preemption ends is not observed.");

    // --- requests ---
    REQUEST_DURATION = histogram(Alpha, "rest_client_request_duration_seconds",
        "Request latency in seconds. Broken down by verb, and host.").by(&["verb", "host"]).in_buckets(REQUESTS);
    REQUEST_SIZE = histogram(Alpha, "rest_client_request_size_bytes",
        "Request size in bytes. Broken down by verb and host.").by(&["verb", "host"]).in_buckets(SIZES);
    RESPONSE_SIZE = histogram(Alpha, "rest_client_response_size_bytes",
        "Response size in bytes. Broken down by verb and host.").by(&["verb", "host"]).in_buckets(SIZES);
    RATE_LIMITER_DURATION = histogram(Alpha, "rest_client_rate_limiter_duration_seconds",
        "Client side rate limiter latency in seconds. Broken down by verb, and host.")
        .by(&["verb", "host"]).in_buckets(REQUESTS);
    REQUESTS_TOTAL = counter(Alpha, "rest_client_requests_total",
        "Number of HTTP requests, partitioned by status code, method, and host.").by(&["code", "method", "host"]);

    // --- the configuration file ---
    CONFIG_INFO = gauge(Undeclared, "harbormaster_config_info",
        "A constant '1' labeled by the SHA-256 of the configuration file that is in effect.")
        .by(&["sha256"])
        .differs("Only in Harbormaster, which applies a changed file without a restart. This and the next two are absent without `--config`.");
    CONFIG_SUCCESSFUL = gauge(Undeclared, "harbormaster_config_last_reload_successful",
        "1 if the last change of the configuration file was applied, 0 if it was rejected and the previous configuration is still in effect.");
    CONFIG_TIME = gauge(Undeclared, "harbormaster_config_last_reload_timestamp_seconds",
        "Time at which a configuration file was last applied, in seconds since the Unix epoch.");

    // --- the state of the cluster ---
    CONTRADICTIONS = gauge(Undeclared, "harbormaster_contradictions",
        "Number of contradictions between objects, such as a device that two claims have. Each is logged as `Objects contradict each other`.")
        .differs("Only in Harbormaster.");

    STUCK_PODS = counter(Undeclared, "harbormaster_stuck_pods_total",
        "Number of times that a pod was found that would wait for ever, by reason: lost, unheard, overdue, unanswered, unreported or unconfirmed. Each is logged as `A pod would wait for ever`.")
        .by(&["reason"])
        .differs("Only in Harbormaster.");

    // --- the command `shadow` ---
    SHADOW_PODS = counter(Undeclared, "harbormaster_shadow_pods_total",
        "Number of decisions of the cluster's scheduler that were compared, by result: same, equal, both_waiting, raced, elsewhere, rejected, waiting, placed or failed.")
        .by(&["result"])
        .differs("Only in Harbormaster, and only with the command `shadow`.");

    // --- the process ---
    BUILD_INFO = gauge(Beta, "kubernetes_build_info",
        "A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree state, build date, Go version, and compiler from which Kubernetes was built, and platform on which it is running.")
        .by(&["major", "minor", "git_version", "git_commit", "git_tree_state", "build_date", "go_version", "compiler", "platform"])
        .differs("major and minor: the Kubernetes release whose behavior is implemented; git_version and git_commit: Harbormaster's own; compiler: rustc; git_tree_state, build_date and go_version are empty.");
    FEATURE_ENABLED = gauge(Beta, "kubernetes_feature_enabled",
        "This metric records the data about the stage and enablement of a k8s feature.").by(&["name", "stage"]);
    DISABLED_METRICS = counter(Beta, "disabled_metrics_total", "The count of disabled metrics.");
    MASTER_STATUS = gauge(Alpha, "leader_election_master_status",
        "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master. 'name' is the string used to identify the lease. Please make sure to group by name.")
        .by(&["name"]);
    VERSION_INFO = gauge(Alpha, "version_info",
        "Provides the compatibility version info of the component. The component label is the name of the component, usually kube, but is relevant for aggregated-apiservers.")
        .by(&["component", "binary", "emulation", "min_compat"]);
    CPU_SECONDS = counter(Undeclared, "process_cpu_seconds_total", "Total user and system CPU time spent in seconds.");
    OPEN_FDS = gauge(Undeclared, "process_open_fds", "Number of open file descriptors.");
    MAX_FDS = gauge(Undeclared, "process_max_fds", "Maximum number of open file descriptors.");
    VIRTUAL_MEMORY = gauge(Undeclared, "process_virtual_memory_bytes", "Virtual memory size in bytes.");
    MAX_VIRTUAL_MEMORY = gauge(Undeclared, "process_virtual_memory_max_bytes",
        "Maximum amount of virtual memory available in bytes.");
    RESIDENT_MEMORY = gauge(Undeclared, "process_resident_memory_bytes", "Resident memory size in bytes.");
    START_TIME = gauge(Undeclared, "process_start_time_seconds",
        "Start time of the process since unix epoch in seconds.");
    RECEIVED_BYTES = counter(Undeclared, "process_network_receive_bytes_total",
        "Number of bytes received by the process over the network.")
        .differs("As counted by the kernel for the network namespace of the process, also in kube-scheduler.");
    SENT_BYTES = counter(Undeclared, "process_network_transmit_bytes_total",
        "Number of bytes sent by the process over the network.")
        .differs("As counted by the kernel for the network namespace of the process, also in kube-scheduler.");
}

families! { POD_RESOURCES,
    POD_REQUEST = gauge(Stable, "kube_pod_resource_request",
        "Resources requested by workloads on the cluster, broken down by pod. This shows the resource usage the scheduler and kubelet expect per pod for resources along with the unit for the resource if any.")
        .by(&["namespace", "pod", "node", "scheduler", "priority", "resource", "unit"]);
    POD_LIMIT = gauge(Stable, "kube_pod_resource_limit",
        "Resources limit for workloads on the cluster, broken down by pod. This shows the resource usage the scheduler and kubelet expect per pod for resources along with the unit for the resource if any.")
        .by(&["namespace", "pod", "node", "scheduler", "priority", "resource", "unit"]);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn all() -> impl Iterator<Item = &'static Family> {
        METRICS.iter().chain(POD_RESOURCES).copied()
    }

    #[test]
    fn names_are_distinct_and_counters_end_with_total() {
        let names: BTreeSet<&str> = all().map(|family| family.name).collect();
        assert_eq!(names.len(), all().count());
        for family in all() {
            let is_counter = family.kind == Kind::Counter;
            assert_eq!(family.name.ends_with("_total"), is_counter, "{}", family.name);
            for &release in Release::ALL {
                let help = family.help.at(release);
                assert!(!help.is_empty() && !help.contains('\n'), "{}", family.name);
            }
        }
    }

    #[test]
    fn a_family_exists_from_its_first_release_until_it_is_removed() {
        let family = |name: &str| all().find(|family| family.name == name).unwrap();
        for (name, expected) in [
            ("scheduler_pending_pods", [true, true]),
            ("scheduler_queued_entities", [false, true]),
            ("scheduler_resourceclaim_creates_total", [true, false]),
        ] {
            let exists: Vec<bool> = Release::ALL.iter().map(|r| family(name).exists_in(*r)).collect();
            assert_eq!(exists, expected, "{name}");
        }
        assert!(Release::ALL.iter().all(|release| all().any(|family| family.exists_in(*release))));
    }

    #[test]
    fn a_help_line_starts_with_the_stability_and_the_deprecation_in_the_release() {
        let help = |name: &str, release| all().find(|f| f.name == name).unwrap().full_help(release);
        for (name, old, new) in [
            ("scheduler_plugin_execution_duration_seconds", "[ALPHA] Duration", "[BETA] Duration"),
            (
                "scheduler_preemption_goroutines_duration_seconds",
                "[ALPHA] Duration",
                "[ALPHA] (Deprecated since 1.37.0) Duration",
            ),
            ("process_open_fds", "Number of", "Number of"),
        ] {
            let (before, after) = (help(name, Release::V1_36), help(name, V1_37));
            assert!(before.starts_with(old) && after.starts_with(new), "{name}: {before}; {after}");
        }
        let hidden = |release| all().filter(move |family| family.is_hidden_in(release)).count();
        assert_eq!((hidden(Release::V1_36), hidden(V1_37)), (0, 1));
    }

    #[test]
    fn labels_are_distinct_and_none_is_reserved() {
        for family in all() {
            let labels: BTreeSet<&&str> = family.labels.iter().collect();
            assert_eq!(labels.len(), family.labels.len(), "{}", family.name);
            assert!(!labels.contains(&"le") && !labels.contains(&"quantile"), "{}", family.name);
        }
    }

    #[test]
    fn only_histograms_have_buckets_and_their_bounds_increase() {
        for family in all() {
            let bounds = family.buckets.bounds();
            assert_eq!(bounds.is_empty(), family.kind != Kind::Histogram, "{}", family.name);
            assert!(bounds.is_sorted_by(|a, b| a < b), "{}", family.name);
        }
    }

    #[test]
    fn bounds_are_multiplied_step_by_step_as_in_go() {
        let bounds = Buckets::Exponential(0.00001, 1.5, 20).bounds();
        assert_eq!((bounds.len(), bounds[1]), (20, 1.500_000_000_000_000_2e-5));
        assert_eq!(Buckets::Exponential(0.001, 2.0, 3).bounds(), [0.001, 0.002, 0.004]);
    }
}
