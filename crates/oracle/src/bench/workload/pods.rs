//! Objects of the workloads, without names.

use serde_json::{Value, json};

pub(super) const ZONE: &str = "topology.kubernetes.io/zone";

pub(super) const REGION: &str = "topology.kubernetes.io/region";

/// Label of nodes with a number.
pub(super) const RANK: &str = "example.com/rank";

pub(super) const HOSTNAME: &str = "kubernetes.io/hostname";

const HIGH_PRIORITY: &str = "high";

/// Priority class of victims that tolerate preemption by some pods.
const TOLERANT: &str = "tolerant";

/// Name of the AppGroup.
pub(super) const APPLICATION: &str = "shop";

/// Number of seccomp profiles among which pods are distributed in turn.
pub(super) const PROFILES: usize = 50;

/// A pod without requests.
pub(super) fn without_requests() -> Value {
    let container = json!({"name": "pause", "image": "registry.k8s.io/pause:3.10"});
    json!({"metadata": {}, "spec": {"containers": [container]}})
}

/// A pod that requests 100m and 500 MiB.
pub(super) fn plain() -> Value {
    requesting("100m")
}

/// A pod that must be in a zone with similar pods.
pub(super) fn affine() -> Value {
    let mut pod = labelled("blue");
    let mut term = same_colour("blue", ZONE);
    term["namespaces"] = namespaces();
    pod["spec"]["affinity"] =
        json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    pod
}

/// A pod that must be on a node without similar pods from two namespaces.
pub(super) fn anti_affine() -> Value {
    let mut term = same_colour("green", HOSTNAME);
    term["namespaces"] = namespaces();
    with_anti_affinity(&term)
}

/// A pod that must be on a node without similar pods from any namespace with a certain label, which all namespaces
/// have.
pub(super) fn anti_affine_by_namespace_labels() -> Value {
    let mut term = same_colour("green", HOSTNAME);
    term["namespaceSelector"] = json!({"matchLabels": namespace_labels()});
    with_anti_affinity(&term)
}

/// A pod that must be on a node without pods of its group.
pub(super) fn anti_affine_in_group(group: usize) -> Value {
    let mut pod = plain();
    let labels = json!({"group": format!("group-{group}")});
    let term = json!({"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": labels}});
    pod["metadata"]["labels"] = labels;
    pod["spec"]["affinity"] =
        json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    pod
}

/// A pod that prefers a node with similar pods.
pub(super) fn preferring_similar() -> Value {
    let mut pod = labelled("red");
    let mut term = same_colour("red", HOSTNAME);
    term["namespaces"] = namespaces();
    let term = json!({"weight": 1, "podAffinityTerm": term});
    pod["spec"]["affinity"] =
        json!({"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}});
    pod
}

/// A pod that is spread evenly over zones together with similar pods.
pub(super) fn spread(when_unsatisfiable: &str) -> Value {
    let mut pod = labelled("blue");
    pod["spec"]["topologySpreadConstraints"] = json!([{
        "maxSkew": 5,
        "topologyKey": ZONE,
        "whenUnsatisfiable": when_unsatisfiable,
        "labelSelector": {"matchLabels": {"color": "blue"}},
    }]);
    pod
}

/// A pod that [`service`] selects.
pub(super) fn of_service() -> Value {
    let mut pod = without_requests();
    pod["metadata"]["labels"] = json!({"app": "measured"});
    pod
}

/// A headless Service, used only for its selector.
pub(super) fn service() -> Value {
    json!({
        "metadata": {"name": "measured"},
        "spec": {"clusterIP": "None", "selector": {"app": "measured"}, "ports": [{"port": 80}]},
    })
}

/// A pod that requests 900m, so four of them leave 400m of a node free. It has no grace period, because there is no
/// kubelet.
pub(super) fn victim() -> Value {
    let mut pod = requesting("900m");
    pod["spec"]["terminationGracePeriodSeconds"] = 0.into();
    pod
}

/// A pod that needs the resources of three [victims](victim).
pub(super) fn preemptor() -> Value {
    let mut pod = requesting("3");
    pod["spec"]["priorityClassName"] = HIGH_PRIORITY.into();
    pod
}

/// Priority class of preemptors. A real API server accepts a priority in a pod only if it comes from a priority class.
pub(super) fn priority_class() -> Value {
    json!({"metadata": {"name": HIGH_PRIORITY}, "value": 10})
}

/// A pod whose limits equal its requests.
pub(super) fn guaranteed() -> Value {
    let mut pod = plain();
    let resources = &mut pod["spec"]["containers"][0]["resources"];
    resources["limits"] = resources["requests"].clone();
    pod
}

/// A pod that may use more CPU than it requests.
pub(super) fn limited() -> Value {
    let mut pod = plain();
    pod["spec"]["containers"][0]["resources"]["limits"] = json!({"cpu": "200m"});
    pod
}

/// A pod of the AppGroup.
pub(super) fn of_application(workload: &str) -> Value {
    let mut pod = plain();
    pod["metadata"]["labels"] = json!({
        "appgroup.diktyo.x-k8s.io": APPLICATION,
        "appgroup.diktyo.x-k8s.io.workload": workload,
    });
    pod
}

/// A pod of a PodGroup.
pub(super) fn of_pod_group(name: &str) -> Value {
    let mut pod = plain();
    pod["metadata"]["labels"] = json!({"scheduling.x-k8s.io/pod-group": name});
    pod
}

/// A pod with a seccomp profile.
pub(super) fn confined(index: usize) -> Value {
    let mut pod = plain();
    let path = format!("operator/default/profile-{}.json", index % PROFILES);
    pod["spec"]["securityContext"] =
        json!({"seccompProfile": {"type": "Localhost", "localhostProfile": path}});
    pod
}

/// A [victim] that tolerates preemption by pods with a priority below that of [preemptors](preemptor).
pub(super) fn tolerant_victim() -> Value {
    let mut pod = victim();
    pod["spec"]["priorityClassName"] = TOLERANT.into();
    pod
}

/// Priority class of [`tolerant_victim`].
pub(super) fn tolerant_class() -> Value {
    let prefix = "preemption-toleration.scheduling.x-k8s.io";
    let annotations = json!({
        format!("{prefix}/minimum-preemptable-priority"): "10",
        format!("{prefix}/toleration-seconds"): "3600",
    });
    json!({"metadata": {"name": TOLERANT, "annotations": annotations}, "value": 1})
}

pub(super) fn namespace(name: String) -> Value {
    json!({"metadata": {"name": name, "labels": namespace_labels()}})
}

fn namespace_labels() -> Value {
    json!({"team": "benchmark"})
}

/// Namespaces of the pods in workloads whose init pods share one namespace.
fn namespaces() -> Value {
    json!([super::init_namespace(0), super::MEASURED])
}

/// A pod whose requests only pods of the same template have. No pod requests more than a plain one.
pub(super) fn of_template(template: usize) -> Value {
    let mut pod = requesting(&format!("{}m", 100 - template % 50));
    let memory = format!("{}Mi", 500 - template / 50);
    pod["spec"]["containers"][0]["resources"]["requests"]["memory"] = memory.into();
    pod
}

fn requesting(cpu: &str) -> Value {
    let mut pod = without_requests();
    pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": cpu, "memory": "500Mi"}});
    pod
}

fn labelled(colour: &str) -> Value {
    let mut pod = plain();
    pod["metadata"]["labels"] = json!({"color": colour});
    pod
}

fn with_anti_affinity(term: &Value) -> Value {
    let mut pod = labelled("green");
    pod["spec"]["affinity"] =
        json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    pod
}

fn same_colour(colour: &str, topology_key: &str) -> Value {
    json!({"topologyKey": topology_key, "labelSelector": {"matchLabels": {"color": colour}}})
}
