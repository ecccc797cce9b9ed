//! Columns of each kind: those that kube-apiserver returns, but without descriptions for built-in kinds.

use std::borrow::Cow;

use harbormaster_api::Release;
use serde_json::Value;

use super::{Cell, Column, cells, pods};
use crate::value;

type Text = &'static str;

const fn made(head: Text, kind: Text, format: Text, priority: i64, cell: Cell) -> Column {
    let [head, kind, format, description] =
        [Cow::Borrowed(head), Cow::Borrowed(kind), Cow::Borrowed(format), Cow::Borrowed("")];
    Column { head, kind, format, description, priority, cell }
}

const fn column(head: Text, kind: Text, cell: Cell) -> Column {
    made(head, kind, "", 0, cell)
}

const fn text(head: &'static str, cell: Cell) -> Column {
    column(head, "string", cell)
}

const fn number(head: &'static str, cell: Cell) -> Column {
    column(head, "integer", cell)
}

const fn wide(head: &'static str, cell: Cell) -> Column {
    made(head, "string", "", 1, cell)
}

const NAME: Column = made("Name", "string", "name", 0, Cell::At(".metadata.name"));
const AGE: Column = text("Age", Cell::Since(".metadata.creationTimestamp", "<unknown>"));
const CONTAINERS: Column = wide("Containers", Cell::All(".spec.template.spec.containers[*].name"));
const IMAGES: Column = wide("Images", Cell::All(".spec.template.spec.containers[*].image"));
const SELECTOR: Column = wide("Selector", Cell::Text(cells::selector));

pub(crate) const PLAIN: &[Column] = &[NAME, AGE];
pub(crate) const CREATED: &[Column] = &[NAME, text("Created At", Cell::At(".metadata.creationTimestamp"))];
pub(crate) const PODS: &[Column] = &[
    NAME,
    text("Ready", Cell::Text(pods::ready)),
    text("Status", Cell::Text(pods::status)),
    text("Restarts", Cell::Made(pods::restarts)),
    AGE,
    wide("IP", Cell::Or(".status.podIPs[0].ip", "<none>")),
    wide("Node", Cell::Or(".spec.nodeName", "<none>")),
    wide("Nominated Node", Cell::Or(".status.nominatedNodeName", "<none>")),
    wide("Readiness Gates", Cell::Text(pods::readiness_gates)),
];
pub(crate) const NODES: &[Column] = &[
    NAME,
    text("Status", Cell::Text(cells::node_status)),
    text("Roles", Cell::Text(cells::node_roles)),
    AGE,
    text("Version", Cell::At(".status.nodeInfo.kubeletVersion")),
    wide("Internal-IP", Cell::Or(".status.addresses[?(@.type=='InternalIP')].address", "<none>")),
    wide("External-IP", Cell::Or(".status.addresses[?(@.type=='ExternalIP')].address", "<none>")),
    wide("OS-Image", Cell::Or(".status.nodeInfo.osImage", "<unknown>")),
    wide("Kernel-Version", Cell::Text(cells::kernel)),
    wide("Container-Runtime", Cell::Or(".status.nodeInfo.containerRuntimeVersion", "<unknown>")),
];
pub(crate) const PHASED: &[Column] = &[NAME, text("Status", Cell::At(".status.phase")), AGE];
pub(crate) const SERVICES: &[Column] = &[
    NAME,
    text("Type", Cell::At(".spec.type")),
    text("Cluster-IP", Cell::Or(".spec.clusterIP", "<none>")),
    text("External-IP", Cell::Text(cells::external_ips)),
    text("Port(s)", Cell::Text(cells::ports)),
    AGE,
    wide("Selector", Cell::Text(|service| cells::pairs(service, "/spec/selector"))),
];
pub(crate) const ENDPOINTS: &[Column] = &[NAME, text("Endpoints", Cell::Text(cells::endpoints)), AGE];
pub(crate) const CONFIG_MAPS: &[Column] = &[NAME, text("Data", Cell::Made(cells::data)), AGE];
pub(crate) const SECRETS: &[Column] =
    &[NAME, text("Type", Cell::Or(".type", "Opaque")), text("Data", Cell::Count(".data")), AGE];
pub(crate) const VOLUMES: &[Column] = &[
    NAME,
    text("Capacity", Cell::At(".spec.capacity.storage")),
    text("Access Modes", Cell::Text(|volume| cells::access_modes(volume, "/spec/accessModes"))),
    text("Reclaim Policy", Cell::Or(".spec.persistentVolumeReclaimPolicy", "Retain")),
    text("Status", Cell::Text(cells::phase)),
    text("Claim", Cell::Text(cells::claim)),
    text("StorageClass", Cell::Text(cells::class_of)),
    text("VolumeAttributesClass", Cell::Or(".spec.volumeAttributesClassName", "<unset>")),
    text("Reason", Cell::At(".status.reason")),
    AGE,
    wide("VolumeMode", Cell::Or(".spec.volumeMode", "<unset>")),
];
pub(crate) const CLAIMS: &[Column] = &[
    NAME,
    text("Status", Cell::Text(cells::phase)),
    text("Volume", Cell::At(".spec.volumeName")),
    text("Capacity", Cell::Text(cells::claimed_capacity)),
    text("Access Modes", Cell::Text(cells::claimed_modes)),
    text("StorageClass", Cell::Text(cells::class_of)),
    text("VolumeAttributesClass", Cell::Or(".spec.volumeAttributesClassName", "<unset>")),
    AGE,
    wide("VolumeMode", Cell::Or(".spec.volumeMode", "<unset>")),
];
/// Columns of ReplicaSets and ReplicationControllers.
pub(crate) const REPLICAS: &[Column] = &[
    NAME,
    number("Desired", Cell::Number(".spec.replicas")),
    number("Current", Cell::Number(".status.replicas")),
    number("Ready", Cell::Number(".status.readyReplicas")),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];
pub(crate) const DEPLOYMENTS: &[Column] = &[
    NAME,
    text("Ready", Cell::Text(cells::ready_replicas)),
    text("Up-to-date", Cell::Number(".status.updatedReplicas")),
    text("Available", Cell::Number(".status.availableReplicas")),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];
pub(crate) const STATEFUL_SETS: &[Column] =
    &[NAME, text("Ready", Cell::Text(cells::ready_replicas)), AGE, CONTAINERS, IMAGES];
pub(crate) const DAEMON_SETS: &[Column] = &[
    NAME,
    number("Desired", Cell::Number(".status.desiredNumberScheduled")),
    number("Current", Cell::Number(".status.currentNumberScheduled")),
    number("Ready", Cell::Number(".status.numberReady")),
    number("Up-to-date", Cell::Number(".status.updatedNumberScheduled")),
    number("Available", Cell::Number(".status.numberAvailable")),
    text("Node Selector", Cell::Text(|set| cells::pairs(set, "/spec/template/spec/nodeSelector"))),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];
pub(crate) const REVISIONS: &[Column] = &[
    NAME,
    text("Controller", Cell::Text(cells::controller)),
    number("Revision", Cell::Number(".revision")),
    AGE,
];
pub(crate) const JOBS: &[Column] = &[
    NAME,
    text("Status", Cell::Text(cells::job_status)),
    text("Completions", Cell::Text(cells::completions)),
    text("Duration", Cell::Made(cells::job_duration)),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];
pub(crate) const CRON_JOBS: &[Column] = &[
    NAME,
    text("Schedule", Cell::At(".spec.schedule")),
    text("Timezone", Cell::Or(".spec.timeZone", "<none>")),
    column("Suspend", "boolean", Cell::Text(cells::suspended)),
    number("Active", Cell::Count(".status.active")),
    text("Last Schedule", Cell::Since(".status.lastScheduleTime", "<none>")),
    AGE,
    wide("Containers", Cell::All(".spec.jobTemplate.spec.template.spec.containers[*].name")),
    wide("Images", Cell::All(".spec.jobTemplate.spec.template.spec.containers[*].image")),
    wide("Selector", Cell::Text(|_| "<none>".to_owned())),
];
pub(crate) const INGRESSES: &[Column] = &[
    NAME,
    text("Class", Cell::Or(".spec.ingressClassName", "<none>")),
    text("Hosts", Cell::Text(cells::hosts)),
    text("Address", Cell::All(".status.loadBalancer.ingress[*].ip")),
    text("Ports", Cell::Text(cells::ingress_ports)),
    AGE,
];
pub(crate) const INGRESS_CLASSES: &[Column] = &[
    NAME,
    text("Controller", Cell::At(".spec.controller")),
    text("Parameters", Cell::Or(".spec.parameters.name", "<none>")),
    AGE,
];
pub(crate) const NETWORK_POLICIES: &[Column] =
    &[NAME, text("Pod-Selector", Cell::Text(cells::pod_selector)), AGE];
pub(crate) const BUDGETS: &[Column] = &[
    NAME,
    text("Min Available", Cell::Or(".spec.minAvailable", "N/A")),
    text("Max Unavailable", Cell::Or(".spec.maxUnavailable", "N/A")),
    number("Allowed Disruptions", Cell::Number(".status.disruptionsAllowed")),
    AGE,
];
pub(crate) const EVENTS: &[Column] = &[
    text("Last Seen", Cell::Made(cells::last_seen)),
    text("Type", Cell::At(".type")),
    text("Reason", Cell::At(".reason")),
    text("Object", Cell::Text(cells::involved)),
    wide("Subobject", Cell::At(".involvedObject.fieldPath")),
    wide("Source", Cell::Text(cells::event_source)),
    text("Message", Cell::Text(|event| value::text(event, "/message").trim().to_owned())),
    wide("First Seen", Cell::Made(cells::first_seen)),
    wide("Count", Cell::Made(cells::event_count)),
    made("Name", "string", "name", 1, Cell::At(".metadata.name")),
];
/// Columns of the `scale` subresource.
pub(crate) const SCALES: &[Column] = &[
    NAME,
    number("Desired", Cell::Number(".spec.replicas")),
    number("Available", Cell::Number(".status.replicas")),
    AGE,
];
pub(crate) const POD_TEMPLATES: &[Column] = &[
    NAME,
    text("Containers", Cell::All(".template.spec.containers[*].name")),
    text("Images", Cell::All(".template.spec.containers[*].image")),
    text("Pod Labels", Cell::Text(|template| cells::pairs(template, "/template/metadata/labels"))),
];
pub(crate) const AUTOSCALERS: &[Column] = &[
    NAME,
    text("Reference", Cell::Text(cells::scaled)),
    text("Targets", Cell::Text(cells::scaling_targets)),
    text("MinPods", Cell::Or(".spec.minReplicas", "<unset>")),
    text("MaxPods", Cell::Number(".spec.maxReplicas")),
    text("Replicas", Cell::Number(".status.currentReplicas")),
    AGE,
];
pub(crate) const RUNTIME_CLASSES: &[Column] = &[NAME, text("Handler", Cell::At(".handler")), AGE];
pub(crate) const WEBHOOKS: &[Column] = &[NAME, number("Webhooks", Cell::Count(".webhooks")), AGE];
pub(crate) const MUTATING_POLICIES: &[Column] = &[
    NAME,
    number("Mutations", Cell::Count(".spec.mutations")),
    text("ParamKind", Cell::Text(cells::parameter_kind)),
    AGE,
];
pub(crate) const VALIDATING_POLICIES: &[Column] = &[
    NAME,
    number("Validations", Cell::Count(".spec.validations")),
    text("ParamKind", Cell::Text(cells::parameter_kind)),
    AGE,
];
pub(crate) const POLICY_BINDINGS: &[Column] = &[
    NAME,
    text("PolicyName", Cell::At(".spec.policyName")),
    text("ParamRef", Cell::Text(cells::parameter)),
    AGE,
];
pub(crate) const API_SERVICES: &[Column] = &[
    NAME,
    text("Service", Cell::Text(cells::api_service)),
    text("Available", Cell::Text(cells::availability)),
    AGE,
];
pub(crate) const ATTRIBUTES_CLASSES: &[Column] = &[NAME, text("DriverName", Cell::At(".driverName")), AGE];
pub(crate) const QUOTAS: &[Column] = &[
    NAME,
    text("Request", Cell::Text(|quota| cells::quota(quota, false))),
    text("Limit", Cell::Text(|quota| cells::quota(quota, true))),
    AGE,
];
pub(crate) const PRIORITY_CLASSES: &[Column] = &[
    NAME,
    number("Value", Cell::Number(".value")),
    column("Global-Default", "boolean", Cell::Truth(".globalDefault", false)),
    AGE,
    text("PreemptionPolicy", Cell::At(".preemptionPolicy")),
];
pub(crate) const POD_GROUPS: &[Column] = &[
    NAME,
    text("Policy", Cell::Text(cells::group_policy)),
    text("Workload", Cell::Or(".spec.workloadRef.workloadName", "<none>")),
    text("Status", Cell::Text(cells::group_status)),
    AGE,
];
pub(crate) const STORAGE_CLASSES: &[Column] = &[
    made("Name", "string", "name", 0, Cell::Text(cells::storage_class)),
    text("Provisioner", Cell::At(".provisioner")),
    text("ReclaimPolicy", Cell::Or(".reclaimPolicy", "Delete")),
    text("VolumeBindingMode", Cell::Or(".volumeBindingMode", "Immediate")),
    text("AllowVolumeExpansion", Cell::Truth(".allowVolumeExpansion", false)),
    AGE,
];
pub(crate) const CSI_NODES: &[Column] = &[NAME, number("Drivers", Cell::Count(".spec.drivers")), AGE];
pub(crate) const CSI_DRIVERS: &[Column] = &[
    NAME,
    column("AttachRequired", "boolean", Cell::Truth(".spec.attachRequired", true)),
    column("PodInfoOnMount", "boolean", Cell::Truth(".spec.podInfoOnMount", false)),
    column("StorageCapacity", "boolean", Cell::Truth(".spec.storageCapacity", false)),
    text("TokenRequests", Cell::Text(cells::token_audiences)),
    column("RequiresRepublish", "boolean", Cell::Truth(".spec.requiresRepublish", false)),
    text("Modes", Cell::Text(cells::lifecycle_modes)),
    AGE,
];
pub(crate) const ATTACHMENTS: &[Column] = &[
    NAME,
    made("Attacher", "string", "name", 0, Cell::At(".spec.attacher")),
    text("PV", Cell::At(".spec.source.persistentVolumeName")),
    text("Node", Cell::At(".spec.nodeName")),
    column("Attached", "boolean", Cell::Truth(".status.attached", false)),
    AGE,
];
pub(crate) const RESOURCE_CLAIMS: &[Column] =
    &[NAME, text("State", Cell::Text(cells::resource_claim_state)), AGE];
pub(crate) const SLICES: &[Column] = &[
    NAME,
    text("Node", Cell::At(".spec.nodeName")),
    text("Driver", Cell::At(".spec.driver")),
    text("Pool", Cell::At(".spec.pool.name")),
    AGE,
];
pub(crate) const TAINT_RULES: &[Column] = &[
    NAME,
    text("Key", Cell::At(".spec.taint.key")),
    text("Value", Cell::At(".spec.taint.value")),
    text("Effect", Cell::At(".spec.taint.effect")),
    text("TimeAdded", Cell::Since(".spec.taint.timeAdded", "")),
    AGE,
];
pub(crate) const LEASES: &[Column] = &[NAME, text("Holder", Cell::At(".spec.holderIdentity")), AGE];
pub(crate) const ENDPOINT_SLICES: &[Column] = &[
    NAME,
    text("AddressType", Cell::At(".addressType")),
    text("Ports", Cell::Text(cells::slice_ports)),
    text("Endpoints", Cell::Text(cells::slice_endpoints)),
    AGE,
];
pub(crate) const ROLE_BINDINGS: &[Column] = &[
    NAME,
    text("Role", Cell::Text(cells::role)),
    AGE,
    wide("Users", Cell::Text(|binding| cells::subjects(binding, "User"))),
    wide("Groups", Cell::Text(|binding| cells::subjects(binding, "Group"))),
    wide("ServiceAccounts", Cell::Text(|binding| cells::subjects(binding, "ServiceAccount"))),
];

/// The columns of 1.37; earlier ones are [`CREATED`].
pub(crate) const DEFINITIONS: &[Column] = &[
    NAME,
    text("Scope", Cell::At(".spec.scope")),
    text("Versions", Cell::Text(cells::served_versions)),
    column("Created At", "date", Cell::At(".metadata.creationTimestamp")),
    wide("Group", Cell::At(".spec.group")),
    wide("Kind", Cell::At(".spec.names.kind")),
    wide("ShortNames", Cell::All(".spec.names.shortNames[*]")),
    made("Established", "boolean", "", 1, Cell::Made(cells::is_established)),
];

/// Returns the columns of a built-in kind.
pub(crate) fn of(group: &str, plural: &str, release: Release) -> &'static [Column] {
    match (group, plural) {
        ("", "pods") => PODS,
        ("", "nodes") => NODES,
        ("", "namespaces") => PHASED,
        ("", "services") => SERVICES,
        ("", "endpoints") => ENDPOINTS,
        ("", "configmaps") => CONFIG_MAPS,
        ("", "secrets") => SECRETS,
        ("", "persistentvolumes") => VOLUMES,
        ("", "persistentvolumeclaims") => CLAIMS,
        ("", "replicationcontrollers") => REPLICAS,
        ("", "podtemplates") => POD_TEMPLATES,
        ("", "resourcequotas") => QUOTAS,
        ("", "limitranges") => CREATED,
        ("", "events") => EVENTS,
        ("apiregistration.k8s.io", "apiservices") => API_SERVICES,
        ("apps", "deployments") => DEPLOYMENTS,
        ("apps", "replicasets") => REPLICAS,
        ("apps", "statefulsets") => STATEFUL_SETS,
        ("apps", "daemonsets") => DAEMON_SETS,
        ("apps", "controllerrevisions") => REVISIONS,
        ("events.k8s.io", "events") => EVENTS,
        ("autoscaling", "horizontalpodautoscalers") => AUTOSCALERS,
        ("batch", "jobs") => JOBS,
        ("batch", "cronjobs") => CRON_JOBS,
        ("networking.k8s.io", "ingresses") => INGRESSES,
        ("networking.k8s.io", "ingressclasses") => INGRESS_CLASSES,
        ("networking.k8s.io", "networkpolicies") => NETWORK_POLICIES,
        ("policy", "poddisruptionbudgets") => BUDGETS,
        ("rbac.authorization.k8s.io", "roles") => CREATED,
        ("rbac.authorization.k8s.io", "rolebindings") => ROLE_BINDINGS,
        ("rbac.authorization.k8s.io", "clusterroles") => CREATED,
        ("rbac.authorization.k8s.io", "clusterrolebindings") => ROLE_BINDINGS,
        ("storage.k8s.io", "storageclasses") => STORAGE_CLASSES,
        ("storage.k8s.io", "csinodes") => CSI_NODES,
        ("storage.k8s.io", "csidrivers") => CSI_DRIVERS,
        ("storage.k8s.io", "csistoragecapacities") => CREATED,
        ("storage.k8s.io", "volumeattachments") => ATTACHMENTS,
        ("storage.k8s.io", "volumeattributesclasses") => ATTRIBUTES_CLASSES,
        ("admissionregistration.k8s.io", "mutatingadmissionpolicies") => MUTATING_POLICIES,
        ("admissionregistration.k8s.io", "validatingadmissionpolicies") => VALIDATING_POLICIES,
        (
            "admissionregistration.k8s.io",
            "mutatingwebhookconfigurations" | "validatingwebhookconfigurations",
        ) => WEBHOOKS,
        ("admissionregistration.k8s.io", _) => POLICY_BINDINGS,
        ("apiextensions.k8s.io", "customresourcedefinitions") => match release {
            Release::V1_36 => CREATED,
            Release::V1_37 => DEFINITIONS,
        },
        ("scheduling.k8s.io", "priorityclasses") => PRIORITY_CLASSES,
        ("scheduling.k8s.io", "podgroups") => POD_GROUPS,
        ("coordination.k8s.io", "leases") => LEASES,
        ("node.k8s.io", "runtimeclasses") => RUNTIME_CLASSES,
        ("discovery.k8s.io", "endpointslices") => ENDPOINT_SLICES,
        ("resource.k8s.io", "resourceclaims") => RESOURCE_CLAIMS,
        ("resource.k8s.io", "resourceslices") => SLICES,
        ("resource.k8s.io", "devicetaintrules") => TAINT_RULES,
        _ => PLAIN,
    }
}

/// Returns the columns of a version of a custom resource.
pub(crate) fn of_version(definition: &Value, version: &str) -> Vec<Column> {
    let mut versions = value::list(definition, "/spec/versions").iter();
    let version = versions.find(|of| value::text(of, "/name") == version);
    let more = version.map_or(&[] as &[Value], |version| value::list(version, "/additionalPrinterColumns"));
    if more.is_empty() {
        return vec![NAME, column("Age", "date", Cell::Since(".metadata.creationTimestamp", "<unknown>"))];
    }
    let named = PLAIN.iter().take(1).cloned();
    let own = more.iter().map(|column| {
        let at = |pointer: &str| Cow::Owned(value::text(column, pointer).to_owned());
        let path = value::text(column, "/jsonPath");
        let description = match value::text(column, "/description") {
            "" => format!("Custom resource definition column (in JSONPath format): {path}"),
            own => own.to_owned(),
        };
        Column {
            head: at("/name"),
            kind: at("/type"),
            format: at("/format"),
            description: Cow::Owned(description),
            priority: value::number(column, "/priority"),
            cell: Cell::Custom(path.into()),
        }
    });
    named.chain(own).collect()
}
