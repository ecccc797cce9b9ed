//! Defaults for fields that are not set, with one table for each kind.

use serde_json::{Value, json};

use crate::value::{default, list_mut, map};

/// Default value of a field.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Default {
    Text(&'static str),
    Number(i64),
    True,
    False,
    /// An object without fields.
    Empty,
    /// A list with one string.
    Listed(&'static str),
}

use self::Default::{Empty, False, Listed, Number, Text, True};

/// Paths and values. A path whose parents are missing has no effect. In a path, the step `*` leads to every element of
/// a list, `x+` leads to `x` and creates it if it is missing, and `?x=y` continues only if `x` is `y`.
pub(crate) type Defaults = &'static [(&'static str, Default)];

/// Defaults for the fields of every pod spec, including those in templates.
const POD_SPEC: Defaults = &[
    ("dnsPolicy", Text("ClusterFirst")),
    ("restartPolicy", Text("Always")),
    ("schedulerName", Text("default-scheduler")),
    ("securityContext", Empty),
    ("terminationGracePeriodSeconds", Number(30)),
    ("volumes/*/configMap/defaultMode", Number(0o644)),
    ("volumes/*/secret/defaultMode", Number(0o644)),
    ("volumes/*/downwardAPI/defaultMode", Number(0o644)),
    ("volumes/*/projected/defaultMode", Number(0o644)),
    ("volumes/*/hostPath/type", Text("")),
];
/// Fields of a pod spec that hold containers.
pub(super) const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];
const CONTAINER: Defaults = &[
    ("terminationMessagePath", Text("/dev/termination-log")),
    ("terminationMessagePolicy", Text("File")),
    ("ports/*/protocol", Text("TCP")),
    ("env/*/valueFrom/fieldRef/apiVersion", Text("v1")),
];
const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];
const PROBE: Defaults = &[
    ("failureThreshold", Number(3)),
    ("periodSeconds", Number(10)),
    ("successThreshold", Number(1)),
    ("timeoutSeconds", Number(1)),
    ("httpGet/path", Text("/")),
    ("httpGet/scheme", Text("HTTP")),
];
/// Paths of the pod spec in workloads.
const TEMPLATES: [&str; 3] =
    ["/spec/template/spec", "/spec/jobTemplate/spec/template/spec", "/template/spec"];

pub(crate) const REPLICATION_CONTROLLER: Defaults = &[("spec/replicas", Number(1))];
pub(crate) const DEPLOYMENT: Defaults = &[
    ("spec/replicas", Number(1)),
    ("spec/revisionHistoryLimit", Number(10)),
    ("spec/progressDeadlineSeconds", Number(600)),
    ("spec/strategy+/type", Text("RollingUpdate")),
    ("spec/strategy/?type=RollingUpdate/rollingUpdate+/maxSurge", Text("25%")),
    ("spec/strategy/?type=RollingUpdate/rollingUpdate+/maxUnavailable", Text("25%")),
];
pub(crate) const STATEFUL_SET_OF_1_37: Defaults =
    &[("spec/updateStrategy/?type=RollingUpdate/rollingUpdate+/maxUnavailable", Number(1))];
pub(crate) const STATEFUL_SET: Defaults = &[
    ("spec/replicas", Number(1)),
    ("spec/revisionHistoryLimit", Number(10)),
    ("spec/podManagementPolicy", Text("OrderedReady")),
    ("spec/updateStrategy+/type", Text("RollingUpdate")),
    ("spec/updateStrategy/?type=RollingUpdate/rollingUpdate+/partition", Number(0)),
    ("spec/persistentVolumeClaimRetentionPolicy+/whenDeleted", Text("Retain")),
    ("spec/persistentVolumeClaimRetentionPolicy+/whenScaled", Text("Retain")),
    ("spec/volumeClaimTemplates/*/apiVersion", Text("v1")),
    ("spec/volumeClaimTemplates/*/kind", Text("PersistentVolumeClaim")),
    ("spec/volumeClaimTemplates/*/spec/volumeMode", Text("Filesystem")),
    ("spec/volumeClaimTemplates/*/status+/phase", Text("Pending")),
];
pub(crate) const DAEMON_SET: Defaults = &[
    ("metadata/annotations+/deprecated.daemonset.template.generation", Text("1")),
    ("spec/revisionHistoryLimit", Number(10)),
    ("spec/updateStrategy+/type", Text("RollingUpdate")),
    ("spec/updateStrategy/?type=RollingUpdate/rollingUpdate+/maxSurge", Number(0)),
    ("spec/updateStrategy/?type=RollingUpdate/rollingUpdate+/maxUnavailable", Number(1)),
];
pub(crate) const JOB: Defaults = &[
    ("spec/parallelism", Number(1)),
    ("spec/backoffLimit", Number(6)),
    ("spec/completionMode", Text("NonIndexed")),
    ("spec/suspend", False),
    ("spec/manualSelector", False),
    ("spec/podReplacementPolicy", Text("TerminatingOrFailed")),
];
pub(crate) const CRON_JOB: Defaults = &[
    ("spec/concurrencyPolicy", Text("Allow")),
    ("spec/suspend", False),
    ("spec/successfulJobsHistoryLimit", Number(3)),
    ("spec/failedJobsHistoryLimit", Number(1)),
];
pub(crate) const SERVICE: Defaults = &[
    ("spec/type", Text("ClusterIP")),
    ("spec/sessionAffinity", Text("None")),
    ("spec/?type=ClusterIP/internalTrafficPolicy", Text("Cluster")),
    ("spec/?type=NodePort/internalTrafficPolicy", Text("Cluster")),
    ("spec/?type=LoadBalancer/internalTrafficPolicy", Text("Cluster")),
    ("spec/?type=NodePort/externalTrafficPolicy", Text("Cluster")),
    ("spec/?type=LoadBalancer/externalTrafficPolicy", Text("Cluster")),
    ("spec/?type=LoadBalancer/allocateLoadBalancerNodePorts", True),
    ("spec/ports/*/protocol", Text("TCP")),
];
pub(crate) const SECRET: Defaults = &[("type", Text("Opaque"))];
pub(crate) const VOLUME: Defaults = &[
    ("spec/volumeMode", Text("Filesystem")),
    ("spec/persistentVolumeReclaimPolicy", Text("Retain")),
    ("spec/hostPath/type", Text("")),
    ("status+/phase", Text("Pending")),
];
pub(crate) const CLAIM: Defaults =
    &[("spec/volumeMode", Text("Filesystem")), ("status+/phase", Text("Pending"))];
pub(crate) const STORAGE_CLASS: Defaults =
    &[("reclaimPolicy", Text("Delete")), ("volumeBindingMode", Text("Immediate"))];
pub(crate) const CSI_DRIVER_OF_1_37: Defaults = &[("spec/preventPodSchedulingIfMissing", False)];
pub(crate) const CSI_DRIVER: Defaults = &[
    ("spec/attachRequired", True),
    ("spec/podInfoOnMount", False),
    ("spec/storageCapacity", False),
    ("spec/fsGroupPolicy", Text("ReadWriteOnceWithFSType")),
    ("spec/volumeLifecycleModes", Listed("Persistent")),
    ("spec/requiresRepublish", False),
    ("spec/seLinuxMount", False),
];
pub(crate) const PRIORITY_CLASS: Defaults = &[("preemptionPolicy", Text("PreemptLowerPriority"))];

pub(crate) const VALIDATING_WEBHOOKS: Defaults = &[
    ("webhooks/*/failurePolicy", Text("Fail")),
    ("webhooks/*/matchPolicy", Text("Equivalent")),
    ("webhooks/*/namespaceSelector", Empty),
    ("webhooks/*/objectSelector", Empty),
    ("webhooks/*/timeoutSeconds", Number(10)),
    ("webhooks/*/rules/*/scope", Text("*")),
    ("webhooks/*/clientConfig/service/port", Number(443)),
];
pub(crate) const MUTATING_WEBHOOKS: Defaults = &[
    ("webhooks/*/failurePolicy", Text("Fail")),
    ("webhooks/*/matchPolicy", Text("Equivalent")),
    ("webhooks/*/namespaceSelector", Empty),
    ("webhooks/*/objectSelector", Empty),
    ("webhooks/*/timeoutSeconds", Number(10)),
    ("webhooks/*/reinvocationPolicy", Text("Never")),
    ("webhooks/*/rules/*/scope", Text("*")),
    ("webhooks/*/clientConfig/service/port", Number(443)),
];
pub(crate) const ADMISSION_POLICY: Defaults = &[
    ("spec/failurePolicy", Text("Fail")),
    ("spec/matchConstraints/matchPolicy", Text("Equivalent")),
    ("spec/matchConstraints/namespaceSelector", Empty),
    ("spec/matchConstraints/objectSelector", Empty),
    ("spec/matchConstraints/resourceRules/*/scope", Text("*")),
    ("spec/matchConstraints/excludeResourceRules/*/scope", Text("*")),
];
pub(crate) const ADMISSION_BINDING: Defaults = &[
    ("spec/matchResources/matchPolicy", Text("Equivalent")),
    ("spec/matchResources/namespaceSelector", Empty),
    ("spec/matchResources/objectSelector", Empty),
    ("spec/matchResources/resourceRules/*/scope", Text("*")),
    ("spec/matchResources/excludeResourceRules/*/scope", Text("*")),
];
pub(crate) const API_SERVICE: Defaults = &[("spec/service/port", Number(443))];

/// Sets the defaults of an object, including those of its pod template.
pub(super) fn apply(table: Defaults, object: &mut Value) {
    for (path, value) in table {
        put(object, path, *value);
    }
    for template in TEMPLATES {
        if let Some(spec) = object.pointer_mut(template) {
            pod_spec(spec);
        }
    }
}

/// Sets the defaults of a pod spec.
pub fn pod_spec(spec: &mut Value) {
    for (path, value) in POD_SPEC {
        put(spec, path, *value);
    }
    default_account(spec);
    for container in CONTAINERS {
        list_mut(spec, &format!("/{container}")).iter_mut().for_each(container_of);
    }
    for volume in list_mut(spec, "/volumes") {
        if volume.as_object().is_some_and(|volume| volume.len() == 1) {
            default(volume, "emptyDir", json!({}));
        }
    }
}

fn container_of(container: &mut Value) {
    let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
    let newest = match image.rsplit_once('/').map_or(image, |(_, last)| last) {
        last if last.contains('@') => false,
        last => last.rsplit_once(':').is_none_or(|(_, tag)| tag == "latest"),
    };
    put(container, "imagePullPolicy", Text(if newest { "Always" } else { "IfNotPresent" }));
    for (path, value) in CONTAINER {
        put(container, path, *value);
    }
    for probe in PROBES {
        if let Some(probe) = container.get_mut(probe).filter(|probe| probe.is_object()) {
            PROBE.iter().for_each(|(path, value)| put(probe, path, *value));
        }
    }
}

/// Copies the account name between `serviceAccountName` and `serviceAccount`, the old name of that field.
fn default_account(spec: &mut Value) {
    for (from, to) in [("serviceAccount", "serviceAccountName"), ("serviceAccountName", "serviceAccount")] {
        if let Some(name) = spec.get(from).cloned() {
            default(spec, to, name);
        }
    }
}

fn put(value: &mut Value, path: &str, what: Default) {
    let Some((step, rest)) = path.split_once('/') else {
        return default(
            value,
            path,
            match what {
                Text(text) => json!(text),
                Number(number) => json!(number),
                True => json!(true),
                False => json!(false),
                Empty => json!({}),
                Listed(text) => json!([text]),
            },
        );
    };
    if step == "*" {
        value.as_array_mut().into_iter().flatten().for_each(|element| put(element, rest, what));
    } else if let Some((name, wanted)) = step.strip_prefix('?').and_then(|test| test.split_once('=')) {
        if value.get(name).and_then(Value::as_str) == Some(wanted) {
            put(value, rest, what);
        }
    } else if let Some(name) = step.strip_suffix('+') {
        if map(value, name).is_some() {
            put(&mut value[name], rest, what);
        }
    } else if let Some(inner) = value.get_mut(step).filter(|inner| !inner.is_null()) {
        put(inner, rest, what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_is_set_where_its_path_leads() {
        let mut object = json!({"a": {"kind": "x", "list": [{}, {"f": 2}]}});
        for (path, value) in [
            ("a/list/*/f", Number(1)),
            ("a/?kind=x/made+/deep", True),
            ("a/?kind=y/made/other", True),
            ("absent/f", Empty),
        ] {
            put(&mut object, path, value);
        }
        let expected = json!({"a": {"kind": "x", "list": [{"f": 1}, {"f": 2}], "made": {"deep": true}}});
        assert_eq!(object, expected);
    }

    #[test]
    fn containers_of_templates_have_defaults() {
        let mut object = json!({"spec": {"template": {"spec": {"containers": [
            {"image": "a/b:1", "livenessProbe": {"httpGet": {}}}, {"image": "b:latest"}, {"image": "c@sha256:0"}]}}}});
        apply(DEPLOYMENT, &mut object);
        let containers = &object["spec"]["template"]["spec"]["containers"];
        let policies = [0, 1, 2].map(|i| containers[i]["imagePullPolicy"].as_str().unwrap());
        assert_eq!(policies, ["IfNotPresent", "Always", "IfNotPresent"]);
        assert_eq!(containers[0]["livenessProbe"]["httpGet"], json!({"path": "/", "scheme": "HTTP"}));
        assert_eq!(object["spec"]["strategy"]["rollingUpdate"]["maxSurge"], json!("25%"));
    }
}
