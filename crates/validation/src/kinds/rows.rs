//! The table of kinds.

use harbormaster_api::{Release, features::Feature};

use super::{
    ALL, Added, DELETED_OBJECT, Flags, GENERATION, LABEL_NAME, NAMESPACED, PATH_NAME, REVIEW, Row, Rules,
    SCALE, STATUS, STATUS_AT_ONCE, UNCHANGED_IS_0, VERSIONED,
};
use crate::admission::defaults::{self as d, Defaults};

const WORKLOAD: Flags = NAMESPACED | STATUS | GENERATION | ALL;

type Names = &'static [&'static str];

/// Returns a kind of the core group.
const fn core(plural: &'static str, kind: &'static str, short: Names, flags: Flags) -> Row {
    of("", plural, kind, short, flags)
}

/// Returns a kind of the given group.
const fn of(
    group: &'static str,
    plural: &'static str,
    kind: &'static str,
    short_names: Names,
    flags: Flags,
) -> Row {
    let (version, defaults, rules) = ("v1", &[], Rules::None);
    let (added, gate) = (None, None);
    Row { group, version, plural, kind, short_names, flags, fields: &[], defaults, added, rules, gate }
}

impl Row {
    const fn in_version(self, version: &'static str) -> Self {
        Self { version, ..self }
    }

    const fn selected_by(self, fields: Names) -> Self {
        Self { fields, ..self }
    }

    const fn with_defaults(self, defaults: Defaults) -> Self {
        Self { defaults, ..self }
    }

    /// Returns the kind with properties that it has only from the release `since` on.
    const fn adding(self, since: Release, added: Added) -> Self {
        Self { added: Some((since, added)), ..self }
    }

    const fn ruled_by(self, rules: Rules) -> Self {
        Self { rules, ..self }
    }

    /// Returns the kind as it is served by the releases from `since` on whose feature gate `gate` is on.
    const fn gated(self, since: Release, gate: Feature) -> Self {
        Self { gate: Some((since, gate)), ..self }
    }
}

const APPS: &str = "apps";
const NETWORKING: &str = "networking.k8s.io";
const STORAGE: &str = "storage.k8s.io";
const RESOURCE: &str = "resource.k8s.io";
const SCHEDULING: &str = "scheduling.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";
const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

const EVENT_FIELDS: &[&str] = &[
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source.component",
    "type",
];

/// All kinds by group, in the order in which kube-apiserver lists its groups.
pub(super) const ROWS: &[Row] = &[
    core("pods", "Pod", &["po"], WORKLOAD | DELETED_OBJECT)
        .selected_by(&[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ])
        .ruled_by(Rules::Pod),
    core("nodes", "Node", &["no"], STATUS | STATUS_AT_ONCE)
        .selected_by(&["spec.unschedulable"])
        .ruled_by(Rules::Node),
    core("namespaces", "Namespace", &["ns"], STATUS | LABEL_NAME | DELETED_OBJECT)
        .selected_by(&["status.phase"])
        .ruled_by(Rules::Namespace),
    core(
        "services",
        "Service",
        &["svc"],
        NAMESPACED | STATUS | ALL | STATUS_AT_ONCE | LABEL_NAME | DELETED_OBJECT,
    )
    .selected_by(&["spec.clusterIP", "spec.type"])
    .with_defaults(d::SERVICE)
    .ruled_by(Rules::Service),
    core("endpoints", "Endpoints", &["ep"], NAMESPACED),
    core("configmaps", "ConfigMap", &["cm"], NAMESPACED),
    core("secrets", "Secret", &[], NAMESPACED)
        .selected_by(&["type"])
        .with_defaults(d::SECRET)
        .ruled_by(Rules::Secret),
    core("serviceaccounts", "ServiceAccount", &["sa"], NAMESPACED | DELETED_OBJECT),
    core("persistentvolumes", "PersistentVolume", &["pv"], STATUS | DELETED_OBJECT)
        .with_defaults(d::VOLUME)
        .ruled_by(Rules::Volume),
    core("persistentvolumeclaims", "PersistentVolumeClaim", &["pvc"], NAMESPACED | STATUS | DELETED_OBJECT)
        .with_defaults(d::CLAIM)
        .ruled_by(Rules::Claim),
    core("replicationcontrollers", "ReplicationController", &["rc"], WORKLOAD | SCALE)
        .selected_by(&["status.replicas"])
        .with_defaults(d::REPLICATION_CONTROLLER)
        .ruled_by(Rules::Workload),
    core("podtemplates", "PodTemplate", &[], NAMESPACED | GENERATION | DELETED_OBJECT),
    core("resourcequotas", "ResourceQuota", &["quota"], NAMESPACED | STATUS | DELETED_OBJECT),
    core("limitranges", "LimitRange", &["limits"], NAMESPACED),
    core("events", "Event", &["ev"], NAMESPACED).selected_by(EVENT_FIELDS).ruled_by(Rules::Event),
    of("apiregistration.k8s.io", "apiservices", "APIService", &[], STATUS | VERSIONED | PATH_NAME)
        .with_defaults(d::API_SERVICE),
    of(APPS, "deployments", "Deployment", &["deploy"], WORKLOAD | SCALE)
        .with_defaults(d::DEPLOYMENT)
        .ruled_by(Rules::Workload),
    of(APPS, "replicasets", "ReplicaSet", &["rs"], WORKLOAD | SCALE)
        .selected_by(&["status.replicas"])
        .with_defaults(d::REPLICATION_CONTROLLER)
        .ruled_by(Rules::Workload),
    of(APPS, "statefulsets", "StatefulSet", &["sts"], WORKLOAD | SCALE)
        .with_defaults(d::STATEFUL_SET)
        .adding(Release::V1_37, Added { defaults: d::STATEFUL_SET_OF_1_37, ..Added::NOTHING })
        .ruled_by(Rules::Workload),
    of(APPS, "daemonsets", "DaemonSet", &["ds"], WORKLOAD)
        .with_defaults(d::DAEMON_SET)
        .ruled_by(Rules::Workload),
    of(APPS, "controllerrevisions", "ControllerRevision", &[], NAMESPACED),
    of("events.k8s.io", "events", "Event", &["ev"], NAMESPACED)
        .selected_by(EVENT_FIELDS)
        .ruled_by(Rules::Event),
    of(AUTHENTICATION, "tokenreviews", "TokenReview", &[], REVIEW),
    of(AUTHENTICATION, "selfsubjectreviews", "SelfSubjectReview", &[], REVIEW),
    of(AUTHORIZATION, "subjectaccessreviews", "SubjectAccessReview", &[], REVIEW),
    of(AUTHORIZATION, "selfsubjectaccessreviews", "SelfSubjectAccessReview", &[], REVIEW),
    of(AUTHORIZATION, "localsubjectaccessreviews", "LocalSubjectAccessReview", &[], REVIEW | NAMESPACED),
    of(AUTHORIZATION, "selfsubjectrulesreviews", "SelfSubjectRulesReview", &[], REVIEW),
    of(
        "autoscaling",
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        &["hpa"],
        NAMESPACED | STATUS | ALL,
    )
    .in_version("v2")
    .adding(Release::V1_37, Added { flags: GENERATION, ..Added::NOTHING })
    .ruled_by(Rules::Autoscaler),
    of(
        "autoscaling",
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        &["hpa"],
        NAMESPACED | STATUS | ALL,
    )
    .adding(Release::V1_37, Added { flags: GENERATION, ..Added::NOTHING })
    .ruled_by(Rules::Autoscaler),
    of("batch", "jobs", "Job", &[], WORKLOAD)
        .selected_by(&["status.successful"])
        .with_defaults(d::JOB)
        .ruled_by(Rules::Job),
    of("batch", "cronjobs", "CronJob", &["cj"], WORKLOAD).with_defaults(d::CRON_JOB).ruled_by(Rules::CronJob),
    of(NETWORKING, "ingresses", "Ingress", &["ing"], NAMESPACED | STATUS | GENERATION),
    of(NETWORKING, "ingressclasses", "IngressClass", &[], GENERATION),
    of(NETWORKING, "networkpolicies", "NetworkPolicy", &["netpol"], NAMESPACED | GENERATION),
    of(
        "policy",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        &["pdb"],
        NAMESPACED | STATUS | GENERATION | VERSIONED,
    )
    .ruled_by(Rules::Budget),
    of(RBAC, "roles", "Role", &[], NAMESPACED | PATH_NAME),
    of(RBAC, "rolebindings", "RoleBinding", &[], NAMESPACED | PATH_NAME),
    of(RBAC, "clusterroles", "ClusterRole", &[], PATH_NAME),
    of(RBAC, "clusterrolebindings", "ClusterRoleBinding", &[], PATH_NAME),
    of(STORAGE, "storageclasses", "StorageClass", &["sc"], DELETED_OBJECT).with_defaults(d::STORAGE_CLASS),
    of(STORAGE, "csinodes", "CSINode", &[], VERSIONED | DELETED_OBJECT),
    of(STORAGE, "csidrivers", "CSIDriver", &[], VERSIONED | GENERATION | UNCHANGED_IS_0 | DELETED_OBJECT)
        .with_defaults(d::CSI_DRIVER)
        .adding(Release::V1_37, Added { defaults: d::CSI_DRIVER_OF_1_37, ..Added::NOTHING }),
    of(STORAGE, "csistoragecapacities", "CSIStorageCapacity", &[], NAMESPACED),
    of(STORAGE, "volumeattachments", "VolumeAttachment", &[], STATUS | VERSIONED | DELETED_OBJECT),
    of(STORAGE, "volumeattributesclasses", "VolumeAttributesClass", &["vac"], DELETED_OBJECT),
    of(ADMISSION, "mutatingadmissionpolicies", "MutatingAdmissionPolicy", &[], GENERATION | VERSIONED)
        .with_defaults(d::ADMISSION_POLICY),
    of(
        ADMISSION,
        "mutatingadmissionpolicybindings",
        "MutatingAdmissionPolicyBinding",
        &[],
        GENERATION | VERSIONED,
    )
    .with_defaults(d::ADMISSION_BINDING),
    of(
        ADMISSION,
        "mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
        &[],
        GENERATION | VERSIONED,
    )
    .with_defaults(d::MUTATING_WEBHOOKS),
    of(
        ADMISSION,
        "validatingadmissionpolicies",
        "ValidatingAdmissionPolicy",
        &[],
        STATUS | GENERATION | VERSIONED,
    )
    .with_defaults(d::ADMISSION_POLICY),
    of(
        ADMISSION,
        "validatingadmissionpolicybindings",
        "ValidatingAdmissionPolicyBinding",
        &[],
        GENERATION | VERSIONED,
    )
    .with_defaults(d::ADMISSION_BINDING),
    of(
        ADMISSION,
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        &[],
        GENERATION | VERSIONED,
    )
    .with_defaults(d::VALIDATING_WEBHOOKS),
    of(
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        &["crd", "crds"],
        STATUS | GENERATION | VERSIONED | DELETED_OBJECT,
    )
    .ruled_by(Rules::Definition),
    of(SCHEDULING, "priorityclasses", "PriorityClass", &["pc"], GENERATION)
        .with_defaults(d::PRIORITY_CLASS)
        .ruled_by(Rules::PriorityClass),
    of(SCHEDULING, "podgroups", "PodGroup", &[], NAMESPACED | STATUS | VERSIONED)
        .in_version("v1beta1")
        .ruled_by(Rules::PodGroup)
        .gated(Release::V1_37, Feature::GenericWorkload),
    of(SCHEDULING, "workloads", "Workload", &[], NAMESPACED | VERSIONED)
        .in_version("v1beta1")
        .ruled_by(Rules::GroupTemplates)
        .gated(Release::V1_37, Feature::GenericWorkload),
    of(SCHEDULING, "podgroups", "PodGroup", &[], NAMESPACED | STATUS | VERSIONED)
        .in_version("v1alpha3")
        .ruled_by(Rules::PodGroup)
        .gated(Release::V1_37, Feature::GenericWorkload),
    of(SCHEDULING, "workloads", "Workload", &[], NAMESPACED | VERSIONED)
        .in_version("v1alpha3")
        .ruled_by(Rules::GroupTemplates)
        .gated(Release::V1_37, Feature::GenericWorkload),
    of("coordination.k8s.io", "leases", "Lease", &[], NAMESPACED | VERSIONED).ruled_by(Rules::Lease),
    of("node.k8s.io", "runtimeclasses", "RuntimeClass", &[], VERSIONED).ruled_by(Rules::RuntimeClass),
    of("discovery.k8s.io", "endpointslices", "EndpointSlice", &[], NAMESPACED | GENERATION),
    of(RESOURCE, "resourceclaims", "ResourceClaim", &[], NAMESPACED | STATUS | DELETED_OBJECT)
        .ruled_by(Rules::ResourceClaim),
    of(RESOURCE, "resourceclaimtemplates", "ResourceClaimTemplate", &[], NAMESPACED | DELETED_OBJECT)
        .ruled_by(Rules::ResourceClaimTemplate),
    of(RESOURCE, "resourceslices", "ResourceSlice", &[], GENERATION | DELETED_OBJECT)
        .selected_by(&["spec.nodeName", "spec.driver"])
        .adding(Release::V1_37, Added { fields: &["spec.pool.name"], ..Added::NOTHING })
        .ruled_by(Rules::ResourceSlice),
    of(RESOURCE, "deviceclasses", "DeviceClass", &[], GENERATION | DELETED_OBJECT)
        .ruled_by(Rules::DeviceClass),
    of(
        RESOURCE,
        "devicetaintrules",
        "DeviceTaintRule",
        &[],
        STATUS | GENERATION | VERSIONED | DELETED_OBJECT,
    )
    .ruled_by(Rules::DeviceTaintRule),
];
