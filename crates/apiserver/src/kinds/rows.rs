//! The table of kinds.

use super::{
    ALL, DELETED_OBJECT, Flags, GENERATION, LABEL_NAME, NAMESPACED, PATH_NAME, Row, Rules, SCALE, STATUS,
    STATUS_AT_ONCE, VERSIONED,
};
use crate::{rules::defaults as d, table::columns as c};

const PLAIN: Row = Row {
    group: "",
    version: "v1",
    plural: "",
    kind: "",
    short_names: &[],
    flags: 0,
    fields: &[],
    columns: c::PLAIN,
    defaults: &[],
    rules: Rules::None,
};

const WORKLOAD: Flags = NAMESPACED | STATUS | GENERATION | ALL;

const fn core(plural: &'static str, kind: &'static str, flags: Flags) -> Row {
    Row { plural, kind, flags, ..PLAIN }
}

const fn of(group: &'static str, plural: &'static str, kind: &'static str, flags: Flags) -> Row {
    Row { group, plural, kind, flags, ..PLAIN }
}

const APPS: &str = "apps";
const STORAGE: &str = "storage.k8s.io";
const RESOURCE: &str = "resource.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";

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

pub(super) const ROWS: &[Row] = &[
    Row {
        short_names: &["po"],
        fields: &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        columns: c::PODS,
        rules: Rules::Pod,
        ..core("pods", "Pod", WORKLOAD | DELETED_OBJECT)
    },
    Row {
        short_names: &["no"],
        fields: &["spec.unschedulable"],
        columns: c::NODES,
        rules: Rules::Node,
        ..core("nodes", "Node", STATUS | STATUS_AT_ONCE)
    },
    Row {
        short_names: &["ns"],
        fields: &["status.phase"],
        columns: c::PHASED,
        rules: Rules::Namespace,
        ..core("namespaces", "Namespace", STATUS | LABEL_NAME | DELETED_OBJECT)
    },
    Row {
        short_names: &["svc"],
        fields: &["spec.clusterIP", "spec.type"],
        columns: c::SERVICES,
        defaults: d::SERVICE,
        rules: Rules::Service,
        ..core(
            "services",
            "Service",
            NAMESPACED | STATUS | ALL | STATUS_AT_ONCE | LABEL_NAME | DELETED_OBJECT,
        )
    },
    Row { short_names: &["ep"], columns: c::ENDPOINTS, ..core("endpoints", "Endpoints", NAMESPACED) },
    Row { short_names: &["cm"], columns: c::CONFIG_MAPS, ..core("configmaps", "ConfigMap", NAMESPACED) },
    Row {
        fields: &["type"],
        columns: c::SECRETS,
        defaults: d::SECRET,
        rules: Rules::Secret,
        ..core("secrets", "Secret", NAMESPACED)
    },
    Row { short_names: &["sa"], ..core("serviceaccounts", "ServiceAccount", NAMESPACED | DELETED_OBJECT) },
    Row {
        short_names: &["pv"],
        columns: c::VOLUMES,
        defaults: d::VOLUME,
        rules: Rules::Volume,
        ..core("persistentvolumes", "PersistentVolume", STATUS | DELETED_OBJECT)
    },
    Row {
        short_names: &["pvc"],
        columns: c::CLAIMS,
        defaults: d::CLAIM,
        rules: Rules::Claim,
        ..core("persistentvolumeclaims", "PersistentVolumeClaim", NAMESPACED | STATUS | DELETED_OBJECT)
    },
    Row {
        short_names: &["rc"],
        fields: &["status.replicas"],
        columns: c::REPLICAS,
        defaults: d::REPLICATION_CONTROLLER,
        rules: Rules::Workload,
        ..core("replicationcontrollers", "ReplicationController", WORKLOAD | SCALE)
    },
    Row {
        short_names: &["quota"],
        columns: c::QUOTAS,
        ..core("resourcequotas", "ResourceQuota", NAMESPACED | STATUS | DELETED_OBJECT)
    },
    Row { short_names: &["limits"], columns: c::CREATED, ..core("limitranges", "LimitRange", NAMESPACED) },
    Row {
        short_names: &["ev"],
        fields: EVENT_FIELDS,
        columns: c::EVENTS,
        rules: Rules::Event,
        ..core("events", "Event", NAMESPACED)
    },
    Row {
        short_names: &["ev"],
        fields: EVENT_FIELDS,
        columns: c::EVENTS,
        rules: Rules::Event,
        ..of("events.k8s.io", "events", "Event", NAMESPACED)
    },
    Row {
        short_names: &["deploy"],
        columns: c::DEPLOYMENTS,
        defaults: d::DEPLOYMENT,
        rules: Rules::Workload,
        ..of(APPS, "deployments", "Deployment", WORKLOAD | SCALE)
    },
    Row {
        short_names: &["rs"],
        fields: &["status.replicas"],
        columns: c::REPLICAS,
        defaults: d::REPLICATION_CONTROLLER,
        rules: Rules::Workload,
        ..of(APPS, "replicasets", "ReplicaSet", WORKLOAD | SCALE)
    },
    Row {
        short_names: &["sts"],
        columns: c::STATEFUL_SETS,
        defaults: d::STATEFUL_SET,
        rules: Rules::Workload,
        ..of(APPS, "statefulsets", "StatefulSet", WORKLOAD | SCALE)
    },
    Row {
        short_names: &["ds"],
        columns: c::DAEMON_SETS,
        defaults: d::DAEMON_SET,
        rules: Rules::Workload,
        ..of(APPS, "daemonsets", "DaemonSet", WORKLOAD)
    },
    Row { columns: c::REVISIONS, ..of(APPS, "controllerrevisions", "ControllerRevision", NAMESPACED) },
    Row {
        fields: &["status.successful"],
        columns: c::JOBS,
        defaults: d::JOB,
        rules: Rules::Job,
        ..of("batch", "jobs", "Job", WORKLOAD)
    },
    Row {
        short_names: &["cj"],
        columns: c::CRON_JOBS,
        defaults: d::CRON_JOB,
        ..of("batch", "cronjobs", "CronJob", WORKLOAD)
    },
    Row {
        short_names: &["pdb"],
        columns: c::BUDGETS,
        rules: Rules::Budget,
        ..of(
            "policy",
            "poddisruptionbudgets",
            "PodDisruptionBudget",
            NAMESPACED | STATUS | GENERATION | VERSIONED,
        )
    },
    Row {
        short_names: &["pc"],
        columns: c::PRIORITY_CLASSES,
        defaults: d::PRIORITY_CLASS,
        rules: Rules::PriorityClass,
        ..of("scheduling.k8s.io", "priorityclasses", "PriorityClass", GENERATION)
    },
    Row {
        short_names: &["sc"],
        columns: c::STORAGE_CLASSES,
        defaults: d::STORAGE_CLASS,
        ..of(STORAGE, "storageclasses", "StorageClass", DELETED_OBJECT)
    },
    Row { columns: c::CSI_NODES, ..of(STORAGE, "csinodes", "CSINode", VERSIONED | DELETED_OBJECT) },
    Row {
        columns: c::CSI_DRIVERS,
        ..of(STORAGE, "csidrivers", "CSIDriver", VERSIONED | GENERATION | DELETED_OBJECT)
    },
    Row { columns: c::CAPACITIES, ..of(STORAGE, "csistoragecapacities", "CSIStorageCapacity", NAMESPACED) },
    Row {
        columns: c::ATTACHMENTS,
        ..of(STORAGE, "volumeattachments", "VolumeAttachment", STATUS | VERSIONED | DELETED_OBJECT)
    },
    Row {
        columns: c::RESOURCE_CLAIMS,
        ..of(RESOURCE, "resourceclaims", "ResourceClaim", NAMESPACED | STATUS | DELETED_OBJECT)
    },
    of(RESOURCE, "resourceclaimtemplates", "ResourceClaimTemplate", NAMESPACED | DELETED_OBJECT),
    Row {
        fields: &["spec.nodeName", "spec.driver"],
        columns: c::SLICES,
        ..of(RESOURCE, "resourceslices", "ResourceSlice", GENERATION | DELETED_OBJECT)
    },
    of(RESOURCE, "deviceclasses", "DeviceClass", GENERATION | DELETED_OBJECT),
    Row { columns: c::LEASES, ..of("coordination.k8s.io", "leases", "Lease", NAMESPACED | VERSIONED) },
    Row {
        columns: c::ENDPOINT_SLICES,
        ..of("discovery.k8s.io", "endpointslices", "EndpointSlice", NAMESPACED | GENERATION)
    },
    Row { columns: c::CREATED, ..of(RBAC, "roles", "Role", NAMESPACED | PATH_NAME) },
    Row { columns: c::ROLE_BINDINGS, ..of(RBAC, "rolebindings", "RoleBinding", NAMESPACED | PATH_NAME) },
    Row { columns: c::CREATED, ..of(RBAC, "clusterroles", "ClusterRole", PATH_NAME) },
    Row { columns: c::ROLE_BINDINGS, ..of(RBAC, "clusterrolebindings", "ClusterRoleBinding", PATH_NAME) },
    Row {
        short_names: &["crd", "crds"],
        columns: c::CREATED,
        rules: Rules::Definition,
        ..of(
            "apiextensions.k8s.io",
            "customresourcedefinitions",
            "CustomResourceDefinition",
            STATUS | GENERATION | VERSIONED | DELETED_OBJECT,
        )
    },
];
