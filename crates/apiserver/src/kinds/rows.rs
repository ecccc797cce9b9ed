//! The table of kinds.

use super::{
    ALL, DELETED_OBJECT, Flags, GENERATION, LABEL_NAME, NAMESPACED, PATH_NAME, REVIEW, Row, Rules, SCALE,
    STATUS, STATUS_AT_ONCE, VERSIONED,
};
use crate::{
    rules::defaults::{self as d, Defaults},
    table::{Column, columns as c},
};

const WORKLOAD: Flags = NAMESPACED | STATUS | GENERATION | ALL;

type Names = &'static [&'static str];
type Columns = &'static [Column];

/// A kind of the core group.
const fn core(plural: &'static str, kind: &'static str, short: Names, flags: Flags, columns: Columns) -> Row {
    of("", plural, kind, short, flags, columns)
}

/// A kind of another group.
const fn of(
    group: &'static str,
    plural: &'static str,
    kind: &'static str,
    short_names: Names,
    flags: Flags,
    columns: Columns,
) -> Row {
    let (version, defaults, rules) = ("v1", &[], Rules::None);
    Row { group, version, plural, kind, short_names, flags, fields: &[], columns, defaults, rules }
}

impl Row {
    const fn selected_by(self, fields: Names) -> Self {
        Self { fields, ..self }
    }

    const fn with_defaults(self, defaults: Defaults) -> Self {
        Self { defaults, ..self }
    }

    const fn ruled_by(self, rules: Rules) -> Self {
        Self { rules, ..self }
    }
}

const APPS: &str = "apps";
const NETWORKING: &str = "networking.k8s.io";
const STORAGE: &str = "storage.k8s.io";
const RESOURCE: &str = "resource.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";
const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";

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

/// By group, in the order in which kube-apiserver lists its groups.
pub(super) const ROWS: &[Row] = &[
    core("pods", "Pod", &["po"], WORKLOAD | DELETED_OBJECT, c::PODS)
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
    core("nodes", "Node", &["no"], STATUS | STATUS_AT_ONCE, c::NODES)
        .selected_by(&["spec.unschedulable"])
        .ruled_by(Rules::Node),
    core("namespaces", "Namespace", &["ns"], STATUS | LABEL_NAME | DELETED_OBJECT, c::PHASED)
        .selected_by(&["status.phase"])
        .ruled_by(Rules::Namespace),
    core(
        "services",
        "Service",
        &["svc"],
        NAMESPACED | STATUS | ALL | STATUS_AT_ONCE | LABEL_NAME | DELETED_OBJECT,
        c::SERVICES,
    )
    .selected_by(&["spec.clusterIP", "spec.type"])
    .with_defaults(d::SERVICE)
    .ruled_by(Rules::Service),
    core("endpoints", "Endpoints", &["ep"], NAMESPACED, c::ENDPOINTS),
    core("configmaps", "ConfigMap", &["cm"], NAMESPACED, c::CONFIG_MAPS),
    core("secrets", "Secret", &[], NAMESPACED, c::SECRETS)
        .selected_by(&["type"])
        .with_defaults(d::SECRET)
        .ruled_by(Rules::Secret),
    core("serviceaccounts", "ServiceAccount", &["sa"], NAMESPACED | DELETED_OBJECT, c::PLAIN),
    core("persistentvolumes", "PersistentVolume", &["pv"], STATUS | DELETED_OBJECT, c::VOLUMES)
        .with_defaults(d::VOLUME)
        .ruled_by(Rules::Volume),
    core(
        "persistentvolumeclaims",
        "PersistentVolumeClaim",
        &["pvc"],
        NAMESPACED | STATUS | DELETED_OBJECT,
        c::CLAIMS,
    )
    .with_defaults(d::CLAIM)
    .ruled_by(Rules::Claim),
    core("replicationcontrollers", "ReplicationController", &["rc"], WORKLOAD | SCALE, c::REPLICAS)
        .selected_by(&["status.replicas"])
        .with_defaults(d::REPLICATION_CONTROLLER)
        .ruled_by(Rules::Workload),
    core("resourcequotas", "ResourceQuota", &["quota"], NAMESPACED | STATUS | DELETED_OBJECT, c::QUOTAS),
    core("limitranges", "LimitRange", &["limits"], NAMESPACED, c::CREATED),
    core("events", "Event", &["ev"], NAMESPACED, c::EVENTS).selected_by(EVENT_FIELDS).ruled_by(Rules::Event),
    of(APPS, "deployments", "Deployment", &["deploy"], WORKLOAD | SCALE, c::DEPLOYMENTS)
        .with_defaults(d::DEPLOYMENT)
        .ruled_by(Rules::Workload),
    of(APPS, "replicasets", "ReplicaSet", &["rs"], WORKLOAD | SCALE, c::REPLICAS)
        .selected_by(&["status.replicas"])
        .with_defaults(d::REPLICATION_CONTROLLER)
        .ruled_by(Rules::Workload),
    of(APPS, "statefulsets", "StatefulSet", &["sts"], WORKLOAD | SCALE, c::STATEFUL_SETS)
        .with_defaults(d::STATEFUL_SET)
        .ruled_by(Rules::Workload),
    of(APPS, "daemonsets", "DaemonSet", &["ds"], WORKLOAD, c::DAEMON_SETS)
        .with_defaults(d::DAEMON_SET)
        .ruled_by(Rules::Workload),
    of(APPS, "controllerrevisions", "ControllerRevision", &[], NAMESPACED, c::REVISIONS),
    of("events.k8s.io", "events", "Event", &["ev"], NAMESPACED, c::EVENTS)
        .selected_by(EVENT_FIELDS)
        .ruled_by(Rules::Event),
    of(AUTHENTICATION, "tokenreviews", "TokenReview", &[], REVIEW, c::PLAIN),
    of(AUTHENTICATION, "selfsubjectreviews", "SelfSubjectReview", &[], REVIEW, c::PLAIN),
    of(AUTHORIZATION, "subjectaccessreviews", "SubjectAccessReview", &[], REVIEW, c::PLAIN),
    of(AUTHORIZATION, "selfsubjectaccessreviews", "SelfSubjectAccessReview", &[], REVIEW, c::PLAIN),
    of(
        AUTHORIZATION,
        "localsubjectaccessreviews",
        "LocalSubjectAccessReview",
        &[],
        REVIEW | NAMESPACED,
        c::PLAIN,
    ),
    of(AUTHORIZATION, "selfsubjectrulesreviews", "SelfSubjectRulesReview", &[], REVIEW, c::PLAIN),
    of("batch", "jobs", "Job", &[], WORKLOAD, c::JOBS)
        .selected_by(&["status.successful"])
        .with_defaults(d::JOB)
        .ruled_by(Rules::Job),
    of("batch", "cronjobs", "CronJob", &["cj"], WORKLOAD, c::CRON_JOBS).with_defaults(d::CRON_JOB),
    of(NETWORKING, "ingresses", "Ingress", &["ing"], NAMESPACED | STATUS | GENERATION, c::INGRESSES),
    of(NETWORKING, "ingressclasses", "IngressClass", &[], GENERATION, c::INGRESS_CLASSES),
    of(
        NETWORKING,
        "networkpolicies",
        "NetworkPolicy",
        &["netpol"],
        NAMESPACED | GENERATION,
        c::NETWORK_POLICIES,
    ),
    of(
        "policy",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        &["pdb"],
        NAMESPACED | STATUS | GENERATION | VERSIONED,
        c::BUDGETS,
    )
    .ruled_by(Rules::Budget),
    of(RBAC, "roles", "Role", &[], NAMESPACED | PATH_NAME, c::CREATED),
    of(RBAC, "rolebindings", "RoleBinding", &[], NAMESPACED | PATH_NAME, c::ROLE_BINDINGS),
    of(RBAC, "clusterroles", "ClusterRole", &[], PATH_NAME, c::CREATED),
    of(RBAC, "clusterrolebindings", "ClusterRoleBinding", &[], PATH_NAME, c::ROLE_BINDINGS),
    of(STORAGE, "storageclasses", "StorageClass", &["sc"], DELETED_OBJECT, c::STORAGE_CLASSES)
        .with_defaults(d::STORAGE_CLASS),
    of(STORAGE, "csinodes", "CSINode", &[], VERSIONED | DELETED_OBJECT, c::CSI_NODES),
    of(STORAGE, "csidrivers", "CSIDriver", &[], VERSIONED | GENERATION | DELETED_OBJECT, c::CSI_DRIVERS),
    of(STORAGE, "csistoragecapacities", "CSIStorageCapacity", &[], NAMESPACED, c::CAPACITIES),
    of(
        STORAGE,
        "volumeattachments",
        "VolumeAttachment",
        &[],
        STATUS | VERSIONED | DELETED_OBJECT,
        c::ATTACHMENTS,
    ),
    of(
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        &["crd", "crds"],
        STATUS | GENERATION | VERSIONED | DELETED_OBJECT,
        c::CREATED,
    )
    .ruled_by(Rules::Definition),
    of("scheduling.k8s.io", "priorityclasses", "PriorityClass", &["pc"], GENERATION, c::PRIORITY_CLASSES)
        .with_defaults(d::PRIORITY_CLASS)
        .ruled_by(Rules::PriorityClass),
    of("coordination.k8s.io", "leases", "Lease", &[], NAMESPACED | VERSIONED, c::LEASES),
    of(
        "discovery.k8s.io",
        "endpointslices",
        "EndpointSlice",
        &[],
        NAMESPACED | GENERATION,
        c::ENDPOINT_SLICES,
    ),
    of(
        RESOURCE,
        "resourceclaims",
        "ResourceClaim",
        &[],
        NAMESPACED | STATUS | DELETED_OBJECT,
        c::RESOURCE_CLAIMS,
    ),
    of(
        RESOURCE,
        "resourceclaimtemplates",
        "ResourceClaimTemplate",
        &[],
        NAMESPACED | DELETED_OBJECT,
        c::PLAIN,
    ),
    of(RESOURCE, "resourceslices", "ResourceSlice", &[], GENERATION | DELETED_OBJECT, c::SLICES)
        .selected_by(&["spec.nodeName", "spec.driver"]),
    of(RESOURCE, "deviceclasses", "DeviceClass", &[], GENERATION | DELETED_OBJECT, c::PLAIN),
];
