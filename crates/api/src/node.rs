//! Nodes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Labels, Resources, Str, taint::Taint};

/// Well-known label: the node's host name.
pub const LABEL_HOSTNAME: &str = "kubernetes.io/hostname";
/// Well-known label: the zone.
pub const LABEL_ZONE: &str = "topology.kubernetes.io/zone";
/// Well-known label: the region.
pub const LABEL_REGION: &str = "topology.kubernetes.io/region";
/// The beta zone label; takes precedence over [`LABEL_ZONE`].
pub const LABEL_ZONE_BETA: &str = "failure-domain.beta.kubernetes.io/zone";
/// The beta region label; takes precedence over [`LABEL_REGION`].
pub const LABEL_REGION_BETA: &str = "failure-domain.beta.kubernetes.io/region";

/// A node, reduced to what scheduling reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Node {
    /// `metadata.name`.
    pub name: Str,
    /// `metadata.uid`.
    pub uid: Str,
    /// `metadata.resourceVersion`.
    pub resource_version: Str,
    /// `metadata.labels`.
    pub labels: Labels,
    /// `metadata.annotations`, without kubectl's last-applied-configuration.
    pub annotations: Labels,
    /// `spec.unschedulable`; true if the node is cordoned.
    pub unschedulable: bool,
    /// `spec.taints`, in order.
    pub taints: Arc<[Taint]>,
    /// `status.allocatable`, rounded up as in kube-scheduler, without resources that the scheduler does not count.
    pub allocatable: Resources,
    /// `status.capacity`, rounded up likewise. Only measurements of the whole machine relate to it.
    pub capacity: Resources,
    /// `status.images`, in order.
    pub images: Arc<[Image]>,
    /// `status.declaredFeatures`, sorted.
    pub declared_features: Arc<[Str]>,
    /// `status.conditions` as (type, status), sorted by type, without heartbeats.
    pub conditions: Labels,
}

/// One `status.images` entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// All names of the image, as the kubelet reports them.
    pub names: Vec<Str>,
    /// Size in bytes.
    pub size_bytes: i64,
}
