//! Pods.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    Labels, Resources, Str, Timestamp,
    selector::{LabelSelector, NodeAffinity},
    taint::Toleration,
};

/// A pod, reduced to what scheduling reads.
///
/// [`Pod::spec`] contains the part that all pods of an owner share. The engine interns it, so equal specs have the same
/// address and can be compared by pointer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pod {
    /// `metadata.uid`: the pod's identity.
    pub uid: Str,
    /// `metadata.namespace`.
    pub namespace: Str,
    /// `metadata.name`.
    pub name: Str,
    /// `metadata.resourceVersion`.
    #[serde(skip_serializing_if = "is_default")]
    pub resource_version: Str,
    /// `metadata.generation`.
    #[serde(skip_serializing_if = "is_default")]
    pub generation: i64,
    /// `metadata.labels`.
    #[serde(skip_serializing_if = "is_default")]
    pub labels: Labels,
    /// `metadata.annotations`, without kubectl's last-applied-configuration.
    #[serde(skip_serializing_if = "is_default")]
    pub annotations: Labels,
    /// `metadata.creationTimestamp`.
    #[serde(skip_serializing_if = "is_default")]
    pub created: Option<Timestamp>,
    /// `metadata.deletionTimestamp`, set while the pod is terminating.
    #[serde(skip_serializing_if = "is_default")]
    pub deleted: Option<Timestamp>,
    /// The owner reference with `controller: true`.
    #[serde(skip_serializing_if = "is_default")]
    pub controller: Option<OwnerReference>,
    /// `spec.nodeName`: the node that the pod is bound to.
    #[serde(skip_serializing_if = "is_default")]
    pub node_name: Option<Str>,
    /// `spec.schedulingGates`, in order.
    #[serde(skip_serializing_if = "is_default")]
    pub scheduling_gates: Vec<Str>,
    /// The rest of `spec`. Recordings contain each spec once, and pods without it.
    #[serde(skip_serializing_if = "is_empty")]
    pub spec: Arc<PodSpec>,
    /// `status`.
    #[serde(skip_serializing_if = "is_default")]
    pub status: PodStatus,
}

/// Returns true if a field need not be written, because a reader assumes this value.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn is_empty(spec: &PodSpec) -> bool {
    spec.scheduler_name.is_empty() && *spec == PodSpec::default()
}

impl Pod {
    /// `namespace/name`.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Returns true if `deletionTimestamp` is set.
    pub fn is_terminating(&self) -> bool {
        self.deleted.is_some()
    }

    /// Returns true if the pod has finished (`Succeeded` or `Failed`) and no longer occupies resources.
    pub fn is_terminal(&self) -> bool {
        matches!(self.status.phase, Phase::Succeeded | Phase::Failed)
    }

    /// Returns the condition of the given type.
    pub fn condition(&self, type_: &str) -> Option<&PodCondition> {
        self.status.conditions.iter().find(|c| c.type_ == type_)
    }
}

/// The owner that controls a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct OwnerReference {
    /// API version, for example `apps/v1`.
    pub api_version: Str,
    /// Kind, for example `ReplicaSet`.
    pub kind: Str,
    /// Name.
    pub name: Str,
    /// UID.
    pub uid: Str,
}

/// The part of `spec` that equal pods share. After creation only tolerations, resources (in-place resize) and a few
/// other fields change; the pod then points to another `PodSpec`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct PodSpec {
    /// `schedulerName`; the wire default is `default-scheduler`.
    pub scheduler_name: Str,
    /// `priority`, zero when absent.
    pub priority: i32,
    /// `priorityClassName`.
    pub priority_class: Option<Str>,
    /// True with `preemptionPolicy: Never`.
    pub never_preempts: bool,
    /// `nodeSelector`; `None` and empty differ (see NodeAffinity's PreFilter).
    pub node_selector: Option<Labels>,
    /// `affinity.nodeAffinity`.
    pub node_affinity: Option<NodeAffinity>,
    /// `affinity.podAffinity`; `None` and empty result in different pod signatures (opportunistic batching).
    pub pod_affinity: Option<PodAffinity>,
    /// `affinity.podAntiAffinity`.
    pub pod_anti_affinity: Option<PodAffinity>,
    /// `tolerations`, in order.
    pub tolerations: Vec<Toleration>,
    /// `topologySpreadConstraints`, in order.
    pub topology_spread: Vec<TopologySpreadConstraint>,
    /// `containers`, in order.
    pub containers: Vec<Container>,
    /// `initContainers`, in order.
    pub init_containers: Vec<Container>,
    /// `overhead`.
    pub overhead: ResourceList,
    /// `resources.requests`: pod-level requests (KEP-2837).
    pub pod_level_requests: ResourceList,
    /// `resources.limits`: pod-level limits, which are displayed but not counted.
    pub pod_level_limits: ResourceList,
    /// `volumes` that are relevant for scheduling, in order. Others, such as `configMap` and `emptyDir`, are omitted.
    pub volumes: Vec<Volume>,
    /// `resourceClaims`.
    pub resource_claims: Vec<PodClaim>,
    /// `schedulingGroup.podGroupName`.
    pub pod_group: Option<Str>,
    /// `hostNetwork`.
    pub host_network: bool,
    /// `hostUsers`.
    pub host_users: Option<bool>,
    /// `seccompProfile.localhostProfile` of the pod and of its containers, in order, without init containers.
    pub seccomp_profiles: Vec<Str>,
    /// True if some container has a `restartPolicyRules` entry with the action `RestartAllContainers`.
    pub restarts_all_containers: bool,
    /// True if some `volumeMounts` entry has `bindMountOptions`.
    pub has_mount_options: bool,
}

/// A container, reduced to what scheduling reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Container {
    /// `name`.
    pub name: Str,
    /// `image`.
    pub image: Str,
    /// `resources.requests`.
    pub requests: ResourceList,
    /// `ports` with a host port.
    pub host_ports: Vec<HostPort>,
    /// True with `restartPolicy: Always`, which makes an init container a sidecar (KEP-753).
    pub restart_always: bool,
    /// `resources.limits`. An extender's `managedResources` are compared with both requests and limits.
    pub limits: ResourceList,
}

/// Pairs of a resource name and an amount, sorted by name. Unlike [`Resources`], the list distinguishes an absent
/// resource from an amount of zero. CPU is in millicores, everything else in units, both rounded up.
pub type ResourceList = Vec<(Str, i64)>;

/// A host port of a container.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HostPort {
    /// `hostIP`; `0.0.0.0` when absent.
    pub ip: Str,
    /// `protocol`; `TCP` when absent.
    pub protocol: Str,
    /// `hostPort`, above zero.
    pub port: i32,
}

/// `podAffinity` or `podAntiAffinity`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct PodAffinity {
    /// Terms that must be satisfied.
    pub required: Vec<PodAffinityTerm>,
    /// Weighted terms for scores.
    pub preferred: Vec<(i32, PodAffinityTerm)>,
}

/// `v1.PodAffinityTerm`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct PodAffinityTerm {
    /// `labelSelector`; `None` matches nothing.
    pub label_selector: Option<LabelSelector>,
    /// `namespaces`.
    pub namespaces: Vec<Str>,
    /// `namespaceSelector`; `None` matches nothing, empty matches all namespaces.
    pub namespace_selector: Option<LabelSelector>,
    /// `topologyKey`.
    pub topology_key: Str,
    /// `matchLabelKeys`, which the API server has already merged into the selector.
    pub match_label_keys: Vec<Str>,
    /// `mismatchLabelKeys`, which the API server has already merged into the selector.
    pub mismatch_label_keys: Vec<Str>,
}

/// `v1.TopologySpreadConstraint`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct TopologySpreadConstraint {
    /// `maxSkew`.
    pub max_skew: i32,
    /// `topologyKey`.
    pub topology_key: Str,
    /// True with `whenUnsatisfiable: DoNotSchedule`, false with `ScheduleAnyway`.
    pub hard: bool,
    /// `labelSelector`; `None` matches nothing.
    pub label_selector: Option<LabelSelector>,
    /// `minDomains`.
    pub min_domains: Option<i32>,
    /// True with `nodeAffinityPolicy: Ignore`; the default is `Honor`.
    pub ignore_node_affinity: bool,
    /// True with `nodeTaintsPolicy: Honor`; the default is `Ignore`.
    pub honor_node_taints: bool,
    /// `matchLabelKeys`.
    pub match_label_keys: Vec<Str>,
}

/// A volume that is relevant for scheduling.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Volume {
    /// `name` in the pod.
    pub name: Str,
    /// Source of the volume.
    pub source: VolumeSource,
}

/// Sources of volumes that affect the choice of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum VolumeSource {
    /// `persistentVolumeClaim.claimName`.
    Claim(Str),
    /// `ephemeral`: a claim named `<pod>-<volume>`.
    Ephemeral,
    /// `image.reference`: an OCI image mounted as a volume, which ImageLocality counts.
    Image(Str),
    /// `csi.driver`: an inline CSI volume.
    InlineCsi(Str),
    /// A disk of a type that had an in-tree driver.
    InTree(InTreeDisk),
}

/// A disk in a pod's volume or in a persistent volume. Kubernetes had an in-tree driver for each of these types; CSI
/// drivers have replaced most of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum InTreeDisk {
    /// `gcePersistentDisk`
    GcePersistentDisk {
        /// `pdName`
        name: Str,
        /// `readOnly`
        read_only: bool,
    },
    /// `awsElasticBlockStore`
    AwsElasticBlockStore {
        /// `volumeID`
        volume_id: Str,
    },
    /// `azureDisk`
    AzureDisk {
        /// `diskURI`
        uri: Str,
        /// `kind`; `Shared` by default, as in the API server.
        kind: Str,
    },
    /// `azureFile`
    AzureFile,
    /// `cinder`
    Cinder {
        /// `volumeID`
        volume_id: Str,
    },
    /// `iscsi`
    Iscsi {
        /// `iqn`
        iqn: Str,
        /// `readOnly`
        read_only: bool,
    },
    /// `portworxVolume`
    PortworxVolume {
        /// `volumeID`
        volume_id: Str,
    },
    /// `rbd`
    Rbd {
        /// `monitors`
        monitors: Vec<Str>,
        /// `pool`; `rbd` by default, as in the API server.
        pool: Str,
        /// `image`
        image: Str,
        /// `readOnly`
        read_only: bool,
    },
    /// `vsphereVolume`
    VsphereVolume,
}

/// An entry of `spec.resourceClaims`: a claim that exists, or one that is created for the pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct PodClaim {
    /// `name`, unique in the pod.
    pub name: Str,
    /// `resourceClaimName`; `None` if it is not set.
    pub claim: Option<Str>,
    /// `resourceClaimTemplateName`; `None` if it is not set.
    pub template: Option<Str>,
}

/// `status`, reduced to what scheduling reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodStatus {
    /// `phase`.
    #[serde(skip_serializing_if = "is_default")]
    pub phase: Phase,
    /// `nominatedNodeName`.
    #[serde(skip_serializing_if = "is_default")]
    pub nominated_node_name: Option<Str>,
    /// `conditions` that the scheduler reads or writes: `PodScheduled`, `DisruptionTarget`, `PodResizePending`.
    #[serde(skip_serializing_if = "is_default")]
    pub conditions: Vec<PodCondition>,
    /// `startTime`.
    #[serde(skip_serializing_if = "is_default")]
    pub start_time: Option<Timestamp>,
    /// Resources in the statuses of containers and init containers (in-place resize, KEP-1287). Statuses without
    /// `resources` and `allocatedResources` are omitted.
    #[serde(skip_serializing_if = "is_default")]
    pub container_resources: Vec<ContainerResources>,
    /// Pod-level `resources.requests` and `allocatedResources` of the status; `None` without `resources`.
    #[serde(skip_serializing_if = "is_default")]
    pub pod_level: Option<ContainerResources>,
    /// `resourceClaimStatuses` and `extendedResourceClaimStatus`, as pairs of a name in the pod and the name
    /// of the claim.
    #[serde(skip_serializing_if = "is_default")]
    pub resource_claims: Labels,
}

/// Key in [`PodStatus::resource_claims`] of the claim that `extendedResourceClaimStatus` names. No entry of a pod's
/// `resourceClaims` can have this name.
pub const EXTENDED_CLAIM: &str = "extendedResourceClaimStatus";

/// `status.phase`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// `Pending`, or not set.
    #[default]
    Pending,
    /// `Running`.
    Running,
    /// `Succeeded`.
    Succeeded,
    /// `Failed`.
    Failed,
    /// `Unknown`.
    Unknown,
}

/// One `status.conditions` entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodCondition {
    /// `type`.
    pub type_: Str,
    /// `True`, `False` or `Unknown`.
    pub status: Str,
    /// `reason`.
    #[serde(skip_serializing_if = "is_default")]
    pub reason: Str,
    /// `message`.
    #[serde(skip_serializing_if = "is_default")]
    pub message: Str,
    /// `lastTransitionTime`.
    #[serde(skip_serializing_if = "is_default")]
    pub last_transition: Option<Timestamp>,
}

/// Actual and allocated resources of a running container or pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerResources {
    /// Container name; empty for pod-level resources.
    pub name: Str,
    /// `resources.requests`; `None` if there is no `resources`.
    pub requests: Option<ResourceList>,
    /// `allocatedResources`.
    pub allocated: ResourceList,
}

impl Resources {
    /// Converts a list. Resources other than cpu, memory, ephemeral-storage, pods and scalar resources are ignored.
    pub fn from_list(list: &ResourceList) -> Resources {
        let mut total = Resources::default();
        for (name, amount) in list {
            total.set_named(name, *amount);
        }
        total
    }
}
