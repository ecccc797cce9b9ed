//! The table of all metrics: what they are called, what they tell, and how they are counted.
//!
//! Names, words of help, labels and buckets are those of kube-scheduler v1.36, so that its dashboards and alerts serve.

/// What kind of number it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Observations in buckets.
    Histogram,
}

impl Kind {
    /// As on a page.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// What Kubernetes promises of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stability {
    /// It stays.
    Stable,
    /// Its labels may become more.
    Beta,
    /// Nothing.
    Alpha,
    /// It is none of Kubernetes' own and says nothing of it.
    Unsaid,
}

impl Stability {
    /// As Kubernetes writes it; empty if nothing is said.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stable => "STABLE",
            Self::Beta => "BETA",
            Self::Alpha => "ALPHA",
            Self::Unsaid => "",
        }
    }
}

/// Upper bounds of a histogram's buckets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Buckets {
    /// There are none.
    None,
    /// The first, the factor from one to the next, how many.
    Exponential(f64, f64, usize),
    /// These.
    Listed(&'static [f64]),
}

impl Buckets {
    /// The bounds, without that of the last bucket, which is infinite.
    pub fn bounds(self) -> Vec<f64> {
        match self {
            Self::None => Vec::new(),
            Self::Listed(bounds) => bounds.to_vec(),
            // One after the other, as Go does: a power would be another float here and there.
            Self::Exponential(first, factor, count) => {
                std::iter::successors(Some(first), |bound| Some(bound * factor)).take(count).collect()
            }
        }
    }
}

/// A metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Family {
    /// Its name.
    pub name: &'static str,
    /// What kind of number it is.
    pub kind: Kind,
    /// What is promised of it.
    pub stability: Stability,
    /// kube-scheduler's words.
    pub help: &'static str,
    /// The names of its labels, in the order of their values.
    pub labels: &'static [&'static str],
    /// Its buckets, if it is a histogram.
    pub buckets: Buckets,
    /// Where the number means something else here than in kube-scheduler; empty if nowhere.
    pub here: &'static str,
}

impl Family {
    const fn new(kind: Kind, stability: Stability, name: &'static str, help: &'static str) -> Self {
        Self { name, kind, stability, help, labels: &[], buckets: Buckets::None, here: "" }
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

    const fn here(self, here: &'static str) -> Self {
        Self { here, ..self }
    }

    /// The line `HELP` of a page.
    pub fn full_help(&self) -> String {
        match self.stability {
            Stability::Unsaid => self.help.to_owned(),
            promised => format!("[{}] {}", promised.name(), self.help),
        }
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

/// Bounds of durations of requests, in seconds.
const REQUESTS: &[f64] = &[0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];
/// Bounds of sizes of requests, in bytes.
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

/// One table: each line names a family, and the list has all of them.
macro_rules! families {
    ($list:ident, $($id:ident = $family:expr;)*) => {
        $(pub(crate) static $id: Family = $family;)*
        /// All of them.
        pub static $list: &[&Family] = &[$(&$id),*];
    };
}

use Stability::{Alpha, Beta, Stable, Unsaid};

families! { METRICS,
    // --- attempts ---
    SCHEDULE_ATTEMPTS = counter(Stable, "scheduler_schedule_attempts_total",
        "Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could not be scheduled, while 'error' means an internal scheduler problem.")
        .by(&["result", "profile"]);
    ATTEMPT_DURATION = histogram(Stable, "scheduler_scheduling_attempt_duration_seconds",
        "Scheduling attempt latency in seconds (scheduling algorithm + binding)")
        .by(&["result", "profile"]).exponential(0.001, 2.0, 15)
        .here("Of a bound pod: until the engine has heard that it is bound.");
    ALGORITHM_DURATION = histogram(Alpha, "scheduler_scheduling_algorithm_duration_seconds",
        "Scheduling algorithm latency in seconds").exponential(0.001, 2.0, 15);
    SLI_DURATION = histogram(Beta, "scheduler_pod_scheduling_sli_duration_seconds",
        "E2e latency for a pod being scheduled, from the time the pod enters the scheduling queue and might involve multiple scheduling attempts.")
        .by(&["attempts"]).exponential(0.01, 2.0, 20);
    SCHEDULING_ATTEMPTS = histogram(Stable, "scheduler_pod_scheduling_attempts",
        "Number of attempts to successfully schedule a pod.").exponential(1.0, 2.0, 5);
    SCHEDULED_AFTER_FLUSH = counter(Alpha, "scheduler_pod_scheduled_after_flush_total",
        "Number of pods that were successfully scheduled after being flushed from unschedulablePods due to timeout. This metric helps detect potential queueing hint misconfigurations or event handling issues.")
        .here("Counts what it says; in kube-scheduler it stays at 0.");

    // --- points and plugins ---
    POINT_DURATION = histogram(Stable, "scheduler_framework_extension_point_duration_seconds",
        "Latency for running all plugins of a specific extension point.")
        .by(&["extension_point", "status", "profile"]).exponential(0.0001, 2.0, 12)
        .here("Filter, PreScore and Score: what a cycle spent there, once per cycle. What has not changed since an earlier cycle is not asked again, so most are far shorter. PreScore and Score are observed when there was a choice. Sign exists with `--parity`.");
    PLUGIN_DURATION = histogram(Alpha, "scheduler_plugin_execution_duration_seconds",
        "Duration for running a plugin at a specific extension point.")
        .by(&["plugin", "extension_point", "status"]).exponential(0.00001, 1.5, 20)
        .here("Every tenth cycle is measured, instead of one in ten by chance, and of calls beside a cycle (PreEnqueue, Unreserve, PreBindPreFlight, PreBind, Bind, PostBind) every tenth. At Filter, Score and their extensions one observation is what the plugin took in the whole cycle, not for one node, and rejecting nodes is Success.");
    PLUGIN_EVALUATIONS = counter(Beta, "scheduler_plugin_evaluation_total",
        "Number of attempts to schedule pods by each plugin and the extension point (available only in PreFilter, Filter, PreScore, and Score).")
        .by(&["plugin", "extension_point", "profile"])
        .here("PreFilter and PreScore: as in kube-scheduler. Filter and Score: nodes about which the plugin was asked anew; answers that are kept do not count, so there are fewer.");

    // --- the queue ---
    PENDING_PODS = gauge(Stable, "scheduler_pending_pods",
        "Number of pending pods, by the queue type. 'active' means number of pods in activeQ; 'backoff' means number of pods in backoffQ; 'unschedulable' means number of pods in unschedulablePods that the scheduler attempted to schedule and failed; 'gated' is the number of unschedulable pods that the scheduler never attempted to schedule because they are gated.")
        .by(&["queue"])
        .here("At most one second old while pods are being tried; exact when there is nothing to do.");
    INCOMING_PODS = counter(Stable, "scheduler_queue_incoming_pods_total",
        "Number of pods added to scheduling queues by event and queue type.").by(&["queue", "event"]);
    UNSCHEDULABLE_PODS = gauge(Beta, "scheduler_unschedulable_pods",
        "The number of unschedulable pods broken down by plugin name. A pod will increment the gauge for all plugins that caused it to not schedule and so this metric have meaning only when broken down by plugin.")
        .by(&["plugin", "profile"])
        .here("Also goes down for a rejected pod that is deleted while it backs off or is about to be tried.");
    EVENT_DURATION = histogram(Alpha, "scheduler_event_handling_duration_seconds",
        "Event handling latency in seconds.").by(&["event"]).exponential(0.0001, 2.0, 12)
        .here("Each event once, from the beginning of the change that it belongs to. A pod that becomes bound is AssignedPodAdd alone.");
    HINT_DURATION = histogram(Alpha, "scheduler_queueing_hint_execution_duration_seconds",
        "Duration for running a queueing hint function of a plugin.")
        .by(&["plugin", "event", "hint"]).exponential(0.00001, 1.5, 20)
        .here("At most 1,000 per second are measured; kube-scheduler keeps as many at most.");
    INFLIGHT_EVENTS = gauge(Alpha, "scheduler_inflight_events",
        "Number of events currently tracked in the scheduling queue.").by(&["event"])
        .here("Events are kept once per plugin whose hint must see them, and not at all where a plugin has no hint. At most one second old.");

    // --- preemption ---
    PREEMPTION_ATTEMPTS = counter(Stable, "scheduler_preemption_attempts_total",
        "Total preemption attempts in the cluster till now");
    PREEMPTION_VICTIMS = histogram(Stable, "scheduler_preemption_victims",
        "Number of selected preemption victims").exponential(1.0, 2.0, 7);
    PREEMPTION_DURATION = histogram(Alpha, "scheduler_preemption_goroutines_duration_seconds",
        "Duration in seconds for running goroutines for the preemption.")
        .by(&["result"]).exponential(0.01, 2.0, 20)
        .here("From the first call for a victim to the last answer; kube-scheduler always says success and about 0.");
    PREEMPTION_EXECUTIONS = counter(Alpha, "scheduler_preemption_goroutines_execution_total",
        "Number of preemption goroutines executed.").by(&["result"])
        .here("One per round of evictions, with how it went; kube-scheduler always says success.");

    // --- from the decision to the binding ---
    PERMIT_DURATION = histogram(Beta, "scheduler_permit_wait_duration_seconds",
        "Duration of waiting on permit.").by(&["result"]).exponential(0.001, 2.0, 15);
    GOROUTINES = gauge(Beta, "scheduler_goroutines",
        "Number of running goroutines split by the work they do such as binding.").by(&["operation"])
        .here("Only binding: nothing else runs side by side. At most one second old.");
    CACHE_SIZE = gauge(Alpha, "scheduler_cache_size",
        "Number of nodes, pods, and assumed (bound) pods in the scheduler cache.").by(&["type"]);

    // --- opportunistic batching ---
    BATCH_ATTEMPTS = counter(Alpha, "scheduler_batch_attempts_total",
        "Counts of results when we attempt to use batching.").by(&["profile", "result"])
        .here("With `--parity` only: without it nothing is won by batching.");
    BATCH_FLUSHES = counter(Alpha, "scheduler_batch_cache_flushed_total",
        "Counts of cache flushes by reason.").by(&["profile", "reason"])
        .here("With `--parity` only.");
    HINT_NODE_DURATION = histogram(Alpha, "scheduler_get_node_hint_duration_seconds",
        "Latency for getting a node hint.").by(&["hinted", "profile"]).exponential(0.00001, 2.0, 12)
        .here("With `--parity` only.");
    STORE_RESULTS_DURATION = histogram(Alpha, "scheduler_store_schedule_results_duration_seconds",
        "Latency for getting a no.").by(&["profile"]).exponential(0.00001, 2.0, 12)
        .here("With `--parity` only.");

    // --- volumes ---
    VOLUME_STAGE_ERRORS = counter(Alpha, "scheduler_volume_scheduling_stage_error_total",
        "Volume scheduling stage error count").by(&["operation"]);

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
    CONFIG_INFO = gauge(Unsaid, "harbormaster_config_info",
        "Which configuration file counts: a constant '1' labeled by the SHA-256 of its content.")
        .by(&["sha256"])
        .here("Harbormaster's own, as it takes a changed file over while it runs. Absent without `--config`, as the next two.");
    CONFIG_SUCCESSFUL = gauge(Unsaid, "harbormaster_config_last_reload_successful",
        "Whether the configuration file was taken over when it was last looked at because of a change: 1, or 0 if an older content counts.");
    CONFIG_TIME = gauge(Unsaid, "harbormaster_config_last_reload_timestamp_seconds",
        "When the configuration file was last taken over, in seconds since the epoch.");

    // --- the process ---
    BUILD_INFO = gauge(Beta, "kubernetes_build_info",
        "A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree state, build date, Go version, and compiler from which Kubernetes was built, and platform on which it is running.")
        .by(&["major", "minor", "git_version", "git_commit", "git_tree_state", "build_date", "go_version", "compiler", "platform"])
        .here("major and minor are those of the Kubernetes release whose behaviour this is, git_version is this program's, compiler is rustc; the rest is empty.");
    FEATURE_ENABLED = gauge(Beta, "kubernetes_feature_enabled",
        "This metric records the data about the stage and enablement of a k8s feature.").by(&["name", "stage"]);
    DISABLED_METRICS = counter(Beta, "disabled_metrics_total", "The count of disabled metrics.");
    MASTER_STATUS = gauge(Alpha, "leader_election_master_status",
        "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master. 'name' is the string used to identify the lease. Please make sure to group by name.")
        .by(&["name"]);
    VERSION_INFO = gauge(Alpha, "version_info",
        "Provides the compatibility version info of the component. The component label is the name of the component, usually kube, but is relevant for aggregated-apiservers.")
        .by(&["component", "binary", "emulation", "min_compat"]);
    CPU_SECONDS = counter(Unsaid, "process_cpu_seconds_total", "Total user and system CPU time spent in seconds.");
    OPEN_FDS = gauge(Unsaid, "process_open_fds", "Number of open file descriptors.");
    MAX_FDS = gauge(Unsaid, "process_max_fds", "Maximum number of open file descriptors.");
    VIRTUAL_MEMORY = gauge(Unsaid, "process_virtual_memory_bytes", "Virtual memory size in bytes.");
    MAX_VIRTUAL_MEMORY = gauge(Unsaid, "process_virtual_memory_max_bytes",
        "Maximum amount of virtual memory available in bytes.");
    RESIDENT_MEMORY = gauge(Unsaid, "process_resident_memory_bytes", "Resident memory size in bytes.");
    START_TIME = gauge(Unsaid, "process_start_time_seconds",
        "Start time of the process since unix epoch in seconds.");
    RECEIVED_BYTES = counter(Unsaid, "process_network_receive_bytes_total",
        "Number of bytes received by the process over the network.")
        .here("As the kernel counts for the network namespace of the process; kube-scheduler as well.");
    SENT_BYTES = counter(Unsaid, "process_network_transmit_bytes_total",
        "Number of bytes sent by the process over the network.")
        .here("As the kernel counts for the network namespace of the process; kube-scheduler as well.");
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
    fn names_are_distinct_and_say_what_they_count() {
        let names: BTreeSet<&str> = all().map(|family| family.name).collect();
        assert_eq!(names.len(), all().count());
        for family in all() {
            let is_counter = family.kind == Kind::Counter;
            assert_eq!(family.name.ends_with("_total"), is_counter, "{}", family.name);
            assert!(!family.help.is_empty() && !family.help.contains('\n'), "{}", family.name);
        }
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
    fn histograms_and_only_they_have_buckets_that_grow() {
        for family in all() {
            let bounds = family.buckets.bounds();
            assert_eq!(bounds.is_empty(), family.kind != Kind::Histogram, "{}", family.name);
            assert!(bounds.is_sorted_by(|a, b| a < b), "{}", family.name);
        }
    }

    #[test]
    fn bounds_are_multiplied_one_after_the_other_as_in_go() {
        let bounds = Buckets::Exponential(0.00001, 1.5, 20).bounds();
        assert_eq!((bounds.len(), bounds[1]), (20, 1.500_000_000_000_000_2e-5));
        assert_eq!(Buckets::Exponential(0.001, 2.0, 3).bounds(), [0.001, 0.002, 0.004]);
    }
}
