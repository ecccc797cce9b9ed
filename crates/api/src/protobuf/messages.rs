//! The messages and fields that are read, with the field numbers of the Kubernetes API.

pub mod devices;
pub mod groups;
mod meta;
pub mod storage;

use super::{
    Kind, Message,
    fields::{Share, inline, list, map, one},
};
use crate::wire::POD_CONDITIONS;

/// `meta.ObjectMeta`.
pub static OBJECT_META: Message = Message::new(
    "meta.ObjectMeta",
    &[
        one(1, "name", Kind::Text),
        one(3, "namespace", Kind::Text),
        one(5, "uid", Kind::Text),
        one(6, "resourceVersion", Kind::Text),
        one(7, "generation", Kind::Number),
        one(8, "creationTimestamp", Kind::Time),
        one(9, "deletionTimestamp", Kind::Time),
        map(11, "labels", Kind::Text),
        map(12, "annotations", Kind::Text),
        list(13, "ownerReferences", Kind::Message(&OWNER_REFERENCE)),
    ],
)
.with(Share::ReadExcept(6));

/// `meta.OwnerReference`.
pub static OWNER_REFERENCE: Message = Message::new(
    "meta.OwnerReference",
    &[
        one(1, "kind", Kind::Text),
        one(3, "name", Kind::Text),
        one(4, "uid", Kind::Text),
        one(5, "apiVersion", Kind::Text),
        one(6, "controller", Kind::Bool),
    ],
);

/// `meta.LabelSelector`.
pub static LABEL_SELECTOR: Message = Message::new(
    "meta.LabelSelector",
    &[
        map(1, "matchLabels", Kind::Text),
        list(2, "matchExpressions", Kind::Message(&LABEL_SELECTOR_REQUIREMENT)),
    ],
);

/// `meta.LabelSelectorRequirement`.
pub static LABEL_SELECTOR_REQUIREMENT: Message = Message::new(
    "meta.LabelSelectorRequirement",
    &[one(1, "key", Kind::Text), one(2, "operator", Kind::Text), list(3, "values", Kind::Text)],
);

/// `core.Pod`.
pub static POD: Message = Message::new(
    "core.Pod",
    &[
        one(1, "metadata", Kind::Message(&OBJECT_META)),
        one(2, "spec", Kind::Message(&POD_SPEC)),
        one(3, "status", Kind::Message(&POD_STATUS)),
    ],
)
.with(Share::Read);

/// `core.Pod` without `spec`.
pub static POD_WITHOUT_SPEC: Message = Message::new(
    "core.Pod",
    &[one(1, "metadata", Kind::Message(&OBJECT_META)), one(3, "status", Kind::Message(&POD_STATUS))],
)
.with(Share::Read);

/// `core.PodSpec`.
pub static POD_SPEC: Message = Message::new(
    "core.PodSpec",
    &[
        list(1, "volumes", Kind::Message(&VOLUME)),
        list(2, "containers", Kind::Message(&CONTAINER)),
        map(7, "nodeSelector", Kind::Text),
        one(10, "nodeName", Kind::Text),
        one(11, "hostNetwork", Kind::Bool),
        one(14, "securityContext", Kind::Message(&POD_SECURITY_CONTEXT)),
        one(18, "affinity", Kind::Message(&AFFINITY)),
        one(19, "schedulerName", Kind::Text),
        list(20, "initContainers", Kind::Message(&CONTAINER)),
        list(22, "tolerations", Kind::Message(&TOLERATION)),
        one(24, "priorityClassName", Kind::Text),
        one(25, "priority", Kind::Number),
        one(31, "preemptionPolicy", Kind::Text),
        map(32, "overhead", Kind::Quantity),
        list(33, "topologySpreadConstraints", Kind::Message(&TOPOLOGY_SPREAD_CONSTRAINT)),
        list(34, "ephemeralContainers", Kind::Message(&EPHEMERAL_CONTAINER)),
        one(37, "hostUsers", Kind::Bool),
        list(38, "schedulingGates", Kind::Message(&POD_SCHEDULING_GATE)),
        list(39, "resourceClaims", Kind::Message(&POD_RESOURCE_CLAIM)),
        one(40, "resources", Kind::Message(&RESOURCE_REQUIREMENTS)),
        one(43, "schedulingGroup", Kind::Message(&POD_SCHEDULING_GROUP)),
    ],
);

/// `core.PodSchedulingGate`.
pub static POD_SCHEDULING_GATE: Message =
    Message::new("core.PodSchedulingGate", &[one(1, "name", Kind::Text)]);

/// `core.PodResourceClaim`.
pub static POD_RESOURCE_CLAIM: Message = Message::new(
    "core.PodResourceClaim",
    &[
        one(1, "name", Kind::Text),
        one(3, "resourceClaimName", Kind::Text),
        one(4, "resourceClaimTemplateName", Kind::Text),
    ],
);

/// `core.PodSchedulingGroup`.
pub static POD_SCHEDULING_GROUP: Message =
    Message::new("core.PodSchedulingGroup", &[one(1, "podGroupName", Kind::Text)]);

/// `core.ResourceRequirements`.
pub static RESOURCE_REQUIREMENTS: Message = Message::new(
    "core.ResourceRequirements",
    &[map(1, "limits", Kind::Quantity), map(2, "requests", Kind::Quantity)],
);

/// `core.Container`.
pub static CONTAINER: Message = Message::new(
    "core.Container",
    &[
        one(1, "name", Kind::Text),
        one(2, "image", Kind::Text),
        list(6, "ports", Kind::Message(&CONTAINER_PORT)),
        one(8, "resources", Kind::Message(&RESOURCE_REQUIREMENTS)),
        list(9, "volumeMounts", Kind::Message(&VOLUME_MOUNT)),
        one(15, "securityContext", Kind::Message(&SECURITY_CONTEXT)),
        one(24, "restartPolicy", Kind::Text),
        list(25, "restartPolicyRules", Kind::Message(&CONTAINER_RESTART_RULE)),
    ],
);

/// `core.PodSecurityContext`.
pub static POD_SECURITY_CONTEXT: Message =
    Message::new("core.PodSecurityContext", &[one(10, "seccompProfile", Kind::Message(&SECCOMP_PROFILE))]);

/// `core.SecurityContext`.
pub static SECURITY_CONTEXT: Message =
    Message::new("core.SecurityContext", &[one(11, "seccompProfile", Kind::Message(&SECCOMP_PROFILE))]);

/// `core.SeccompProfile`.
pub static SECCOMP_PROFILE: Message = Message::new(
    "core.SeccompProfile",
    &[one(1, "type", Kind::Text), one(2, "localhostProfile", Kind::Text)],
);

/// `core.EphemeralContainer`.
pub static EPHEMERAL_CONTAINER: Message =
    Message::new("core.EphemeralContainer", &[inline(1, "", Kind::Message(&EPHEMERAL_CONTAINER_COMMON))]);

/// `core.EphemeralContainerCommon`.
pub static EPHEMERAL_CONTAINER_COMMON: Message =
    Message::new("core.EphemeralContainerCommon", &[list(9, "volumeMounts", Kind::Message(&VOLUME_MOUNT))]);

/// `core.VolumeMount`.
pub static VOLUME_MOUNT: Message =
    Message::new("core.VolumeMount", &[list(8, "bindMountOptions", Kind::Text)]);

/// `core.ContainerRestartRule`.
pub static CONTAINER_RESTART_RULE: Message =
    Message::new("core.ContainerRestartRule", &[one(1, "action", Kind::Text)]);

/// `core.ContainerPort`.
pub static CONTAINER_PORT: Message = Message::new(
    "core.ContainerPort",
    &[
        one(2, "hostPort", Kind::Number),
        one(3, "containerPort", Kind::Number),
        one(4, "protocol", Kind::Text),
        one(5, "hostIP", Kind::Text),
    ],
);

/// `core.Toleration`.
pub static TOLERATION: Message = Message::new(
    "core.Toleration",
    &[
        one(1, "key", Kind::Text),
        one(2, "operator", Kind::Text),
        one(3, "value", Kind::Text),
        one(4, "effect", Kind::Text),
    ],
);

/// `core.TopologySpreadConstraint`.
pub static TOPOLOGY_SPREAD_CONSTRAINT: Message = Message::new(
    "core.TopologySpreadConstraint",
    &[
        one(1, "maxSkew", Kind::Number),
        one(2, "topologyKey", Kind::Text),
        one(3, "whenUnsatisfiable", Kind::Text),
        one(4, "labelSelector", Kind::Message(&LABEL_SELECTOR)),
        one(5, "minDomains", Kind::Number),
        one(6, "nodeAffinityPolicy", Kind::Text),
        one(7, "nodeTaintsPolicy", Kind::Text),
        list(8, "matchLabelKeys", Kind::Text),
    ],
);

/// `core.Volume`.
pub static VOLUME: Message =
    Message::new("core.Volume", &[one(1, "name", Kind::Text), inline(2, "", Kind::Message(&VOLUME_SOURCE))]);

/// `core.VolumeSource`.
pub static VOLUME_SOURCE: Message = Message::new(
    "core.VolumeSource",
    &[
        one(3, "gcePersistentDisk", Kind::Message(&GCE_PERSISTENT_DISK_VOLUME_SOURCE)),
        one(4, "awsElasticBlockStore", Kind::Message(&AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE)),
        one(8, "iscsi", Kind::Message(&ISCSI_VOLUME_SOURCE)),
        one(10, "persistentVolumeClaim", Kind::Message(&PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE)),
        one(11, "rbd", Kind::Message(&RBD_VOLUME_SOURCE)),
        one(13, "cinder", Kind::Message(&CINDER_VOLUME_SOURCE)),
        one(18, "azureFile", Kind::Message(&AZURE_FILE_VOLUME_SOURCE)),
        one(20, "vsphereVolume", Kind::Message(&VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE)),
        one(22, "azureDisk", Kind::Message(&AZURE_DISK_VOLUME_SOURCE)),
        one(24, "portworxVolume", Kind::Message(&PORTWORX_VOLUME_SOURCE)),
        one(28, "csi", Kind::Message(&CSI_VOLUME_SOURCE)),
        one(29, "ephemeral", Kind::Message(&EPHEMERAL_VOLUME_SOURCE)),
        one(30, "image", Kind::Message(&IMAGE_VOLUME_SOURCE)),
    ],
);

/// `core.PersistentVolumeClaimVolumeSource`.
pub static PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE: Message =
    Message::new("core.PersistentVolumeClaimVolumeSource", &[one(1, "claimName", Kind::Text)]);

/// `core.ImageVolumeSource`.
pub static IMAGE_VOLUME_SOURCE: Message =
    Message::new("core.ImageVolumeSource", &[one(1, "reference", Kind::Text)]);

/// `core.CSIVolumeSource`.
pub static CSI_VOLUME_SOURCE: Message = Message::new("core.CSIVolumeSource", &[one(1, "driver", Kind::Text)]);

/// `core.GCEPersistentDiskVolumeSource`.
pub static GCE_PERSISTENT_DISK_VOLUME_SOURCE: Message = Message::new(
    "core.GCEPersistentDiskVolumeSource",
    &[one(1, "pdName", Kind::Text), one(4, "readOnly", Kind::Bool)],
);

/// `core.AWSElasticBlockStoreVolumeSource`.
pub static AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE: Message =
    Message::new("core.AWSElasticBlockStoreVolumeSource", &[one(1, "volumeID", Kind::Text)]);

/// `core.AzureDiskVolumeSource`.
pub static AZURE_DISK_VOLUME_SOURCE: Message =
    Message::new("core.AzureDiskVolumeSource", &[one(2, "diskURI", Kind::Text), one(6, "kind", Kind::Text)]);

/// `core.CinderVolumeSource`.
pub static CINDER_VOLUME_SOURCE: Message =
    Message::new("core.CinderVolumeSource", &[one(1, "volumeID", Kind::Text)]);

/// `core.ISCSIVolumeSource`.
pub static ISCSI_VOLUME_SOURCE: Message =
    Message::new("core.ISCSIVolumeSource", &[one(2, "iqn", Kind::Text), one(6, "readOnly", Kind::Bool)]);

/// `core.PortworxVolumeSource`.
pub static PORTWORX_VOLUME_SOURCE: Message =
    Message::new("core.PortworxVolumeSource", &[one(1, "volumeID", Kind::Text)]);

/// `core.RBDVolumeSource`.
pub static RBD_VOLUME_SOURCE: Message = Message::new(
    "core.RBDVolumeSource",
    &[
        list(1, "monitors", Kind::Text),
        one(2, "image", Kind::Text),
        one(4, "pool", Kind::Text),
        one(8, "readOnly", Kind::Bool),
    ],
);

/// `core.EphemeralVolumeSource`.
pub static EPHEMERAL_VOLUME_SOURCE: Message = Message::new("core.EphemeralVolumeSource", &[]);

/// `core.AzureFileVolumeSource`.
pub static AZURE_FILE_VOLUME_SOURCE: Message = Message::new("core.AzureFileVolumeSource", &[]);

/// `core.VsphereVirtualDiskVolumeSource`.
pub static VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE: Message =
    Message::new("core.VsphereVirtualDiskVolumeSource", &[]);

/// `core.Affinity`.
pub static AFFINITY: Message = Message::new(
    "core.Affinity",
    &[
        one(1, "nodeAffinity", Kind::Message(&NODE_AFFINITY)),
        one(2, "podAffinity", Kind::Message(&POD_AFFINITY)),
        one(3, "podAntiAffinity", Kind::Message(&POD_ANTI_AFFINITY)),
    ],
);

/// `core.NodeAffinity`.
pub static NODE_AFFINITY: Message = Message::new(
    "core.NodeAffinity",
    &[
        one(1, "requiredDuringSchedulingIgnoredDuringExecution", Kind::Message(&NODE_SELECTOR)),
        list(2, "preferredDuringSchedulingIgnoredDuringExecution", Kind::Message(&PREFERRED_SCHEDULING_TERM)),
    ],
);

/// `core.NodeSelector`.
pub static NODE_SELECTOR: Message =
    Message::new("core.NodeSelector", &[list(1, "nodeSelectorTerms", Kind::Message(&NODE_SELECTOR_TERM))]);

/// `core.NodeSelectorTerm`.
pub static NODE_SELECTOR_TERM: Message = Message::new(
    "core.NodeSelectorTerm",
    &[
        list(1, "matchExpressions", Kind::Message(&NODE_SELECTOR_REQUIREMENT)),
        list(2, "matchFields", Kind::Message(&NODE_SELECTOR_REQUIREMENT)),
    ],
);

/// `core.NodeSelectorRequirement`.
pub static NODE_SELECTOR_REQUIREMENT: Message = Message::new(
    "core.NodeSelectorRequirement",
    &[one(1, "key", Kind::Text), one(2, "operator", Kind::Text), list(3, "values", Kind::Text)],
);

/// `core.PreferredSchedulingTerm`.
pub static PREFERRED_SCHEDULING_TERM: Message = Message::new(
    "core.PreferredSchedulingTerm",
    &[one(1, "weight", Kind::Number), one(2, "preference", Kind::Message(&NODE_SELECTOR_TERM))],
);

/// `core.PodAffinity`.
pub static POD_AFFINITY: Message = Message::new(
    "core.PodAffinity",
    &[
        list(1, "requiredDuringSchedulingIgnoredDuringExecution", Kind::Message(&POD_AFFINITY_TERM)),
        list(
            2,
            "preferredDuringSchedulingIgnoredDuringExecution",
            Kind::Message(&WEIGHTED_POD_AFFINITY_TERM),
        ),
    ],
);

/// `core.PodAntiAffinity`.
pub static POD_ANTI_AFFINITY: Message = Message::new(
    "core.PodAntiAffinity",
    &[
        list(1, "requiredDuringSchedulingIgnoredDuringExecution", Kind::Message(&POD_AFFINITY_TERM)),
        list(
            2,
            "preferredDuringSchedulingIgnoredDuringExecution",
            Kind::Message(&WEIGHTED_POD_AFFINITY_TERM),
        ),
    ],
);

/// `core.WeightedPodAffinityTerm`.
pub static WEIGHTED_POD_AFFINITY_TERM: Message = Message::new(
    "core.WeightedPodAffinityTerm",
    &[one(1, "weight", Kind::Number), one(2, "podAffinityTerm", Kind::Message(&POD_AFFINITY_TERM))],
);

/// `core.PodAffinityTerm`.
pub static POD_AFFINITY_TERM: Message = Message::new(
    "core.PodAffinityTerm",
    &[
        one(1, "labelSelector", Kind::Message(&LABEL_SELECTOR)),
        list(2, "namespaces", Kind::Text),
        one(3, "topologyKey", Kind::Text),
        one(4, "namespaceSelector", Kind::Message(&LABEL_SELECTOR)),
        list(5, "matchLabelKeys", Kind::Text),
        list(6, "mismatchLabelKeys", Kind::Text),
    ],
);

/// `core.PodStatus`.
pub static POD_STATUS: Message = Message::new(
    "core.PodStatus",
    &[
        one(1, "phase", Kind::Text),
        list(2, "conditions", Kind::Message(&POD_CONDITION)),
        one(7, "startTime", Kind::Time),
        list(8, "containerStatuses", Kind::Message(&CONTAINER_STATUS)),
        list(10, "initContainerStatuses", Kind::Message(&CONTAINER_STATUS)),
        one(11, "nominatedNodeName", Kind::Text),
        list(15, "resourceClaimStatuses", Kind::Message(&POD_RESOURCE_CLAIM_STATUS)),
        one(18, "extendedResourceClaimStatus", Kind::Message(&POD_EXTENDED_RESOURCE_CLAIM_STATUS)),
        map(19, "allocatedResources", Kind::Quantity),
        one(20, "resources", Kind::Message(&RESOURCE_REQUIREMENTS)),
    ],
)
.with(Share::Read);

/// `core.PodCondition`.
pub static POD_CONDITION: Message = Message::new(
    "core.PodCondition",
    &[
        one(1, "type", Kind::Text),
        one(2, "status", Kind::Text),
        one(4, "lastTransitionTime", Kind::Time),
        one(5, "reason", Kind::Text),
        one(6, "message", Kind::Text),
    ],
)
.with(Share::ReadIf(&POD_CONDITIONS));

/// `core.ContainerStatus`.
pub static CONTAINER_STATUS: Message = Message::new(
    "core.ContainerStatus",
    &[
        one(1, "name", Kind::Text),
        map(10, "allocatedResources", Kind::Quantity),
        one(11, "resources", Kind::Message(&RESOURCE_REQUIREMENTS)),
    ],
)
.with(Share::Read);

/// `core.PodResourceClaimStatus`.
pub static POD_RESOURCE_CLAIM_STATUS: Message = Message::new(
    "core.PodResourceClaimStatus",
    &[one(1, "name", Kind::Text), one(2, "resourceClaimName", Kind::Text)],
);

/// `core.PodExtendedResourceClaimStatus`.
pub static POD_EXTENDED_RESOURCE_CLAIM_STATUS: Message =
    Message::new("core.PodExtendedResourceClaimStatus", &[one(2, "resourceClaimName", Kind::Text)]);

/// `core.Node`.
pub static NODE: Message = Message::new(
    "core.Node",
    &[
        one(1, "metadata", Kind::Message(&OBJECT_META)),
        one(2, "spec", Kind::Message(&NODE_SPEC)),
        one(3, "status", Kind::Message(&NODE_STATUS)),
    ],
)
.with(Share::Read);

/// `core.NodeSpec`.
pub static NODE_SPEC: Message = Message::new(
    "core.NodeSpec",
    &[one(4, "unschedulable", Kind::Bool), list(5, "taints", Kind::Message(&TAINT))],
);

/// `core.Taint`.
pub static TAINT: Message = Message::new(
    "core.Taint",
    &[one(1, "key", Kind::Text), one(2, "value", Kind::Text), one(3, "effect", Kind::Text)],
);

/// `core.NodeStatus`.
pub static NODE_STATUS: Message = Message::new(
    "core.NodeStatus",
    &[
        map(1, "capacity", Kind::Quantity),
        map(2, "allocatable", Kind::Quantity),
        list(4, "conditions", Kind::Message(&NODE_CONDITION)),
        list(8, "images", Kind::Message(&CONTAINER_IMAGE)),
        list(14, "declaredFeatures", Kind::Text),
    ],
)
.with(Share::Read);

/// `core.ContainerImage`.
pub static CONTAINER_IMAGE: Message =
    Message::new("core.ContainerImage", &[list(1, "names", Kind::Text), one(2, "sizeBytes", Kind::Number)]);

/// `core.NodeCondition`.
pub static NODE_CONDITION: Message =
    Message::new("core.NodeCondition", &[one(1, "type", Kind::Text), one(2, "status", Kind::Text)])
        .with(Share::Read);

/// `core.Namespace`.
pub static NAMESPACE: Message =
    Message::new("core.Namespace", &[one(1, "metadata", Kind::Message(&OBJECT_META))]).with(Share::Read);

/// `core.Service`.
pub static SERVICE: Message = Message::new(
    "core.Service",
    &[one(1, "metadata", Kind::Message(&OBJECT_META)), one(2, "spec", Kind::Message(&SERVICE_SPEC))],
)
.with(Share::Read);

/// `core.ServiceSpec`.
pub static SERVICE_SPEC: Message = Message::new("core.ServiceSpec", &[map(2, "selector", Kind::Text)]);

/// `core.ReplicationController`.
pub static REPLICATION_CONTROLLER: Message = Message::new(
    "core.ReplicationController",
    &[
        one(1, "metadata", Kind::Message(&OBJECT_META)),
        one(2, "spec", Kind::Message(&REPLICATION_CONTROLLER_SPEC)),
    ],
)
.with(Share::Read);

/// `core.ReplicationControllerSpec`.
pub static REPLICATION_CONTROLLER_SPEC: Message = Message::new(
    "core.ReplicationControllerSpec",
    &[map(2, "selector", Kind::Text), one(3, "template", Kind::Message(&POD_TEMPLATE_SPEC))],
)
.with(Share::Read);

/// `core.PodTemplateSpec`.
pub static POD_TEMPLATE_SPEC: Message =
    Message::new("core.PodTemplateSpec", &[one(1, "metadata", Kind::Message(&OBJECT_META))]);

/// `apps.ReplicaSet`.
pub static REPLICA_SET: Message = Message::new(
    "apps.ReplicaSet",
    &[one(1, "metadata", Kind::Message(&OBJECT_META)), one(2, "spec", Kind::Message(&REPLICA_SET_SPEC))],
)
.with(Share::Read);

/// `apps.ReplicaSetSpec`.
pub static REPLICA_SET_SPEC: Message = Message::new(
    "apps.ReplicaSetSpec",
    &[
        one(2, "selector", Kind::Message(&LABEL_SELECTOR)),
        one(3, "template", Kind::Message(&POD_TEMPLATE_SPEC)),
    ],
)
.with(Share::Read);

/// `apps.StatefulSet`.
pub static STATEFUL_SET: Message = Message::new(
    "apps.StatefulSet",
    &[one(1, "metadata", Kind::Message(&OBJECT_META)), one(2, "spec", Kind::Message(&STATEFUL_SET_SPEC))],
)
.with(Share::Read);

/// `apps.StatefulSetSpec`.
pub static STATEFUL_SET_SPEC: Message = Message::new(
    "apps.StatefulSetSpec",
    &[
        one(2, "selector", Kind::Message(&LABEL_SELECTOR)),
        one(3, "template", Kind::Message(&POD_TEMPLATE_SPEC)),
    ],
)
.with(Share::Read);

/// `policy.PodDisruptionBudget`.
pub static POD_DISRUPTION_BUDGET: Message = Message::new(
    "policy.PodDisruptionBudget",
    &[
        one(1, "metadata", Kind::Message(&OBJECT_META)),
        one(2, "spec", Kind::Message(&POD_DISRUPTION_BUDGET_SPEC)),
        one(3, "status", Kind::Message(&POD_DISRUPTION_BUDGET_STATUS)),
    ],
)
.with(Share::Read);

/// `policy.PodDisruptionBudgetSpec`.
pub static POD_DISRUPTION_BUDGET_SPEC: Message =
    Message::new("policy.PodDisruptionBudgetSpec", &[one(2, "selector", Kind::Message(&LABEL_SELECTOR))]);

/// `policy.PodDisruptionBudgetStatus`.
pub static POD_DISRUPTION_BUDGET_STATUS: Message = Message::new(
    "policy.PodDisruptionBudgetStatus",
    &[map(2, "disruptedPods", Kind::Time), one(3, "disruptionsAllowed", Kind::Number)],
)
.with(Share::Read);

/// `meta.Status`.
pub static STATUS: Message = Message::new(
    "meta.Status",
    &[
        one(3, "message", Kind::Text),
        one(4, "reason", Kind::Text),
        one(5, "details", Kind::Message(&STATUS_DETAILS)),
        one(6, "code", Kind::Number),
    ],
);

/// `meta.StatusDetails`.
pub static STATUS_DETAILS: Message =
    Message::new("meta.StatusDetails", &[one(5, "retryAfterSeconds", Kind::Number)]);
